// Batches from a CPU pipeline of NVIDIA DALI. Which samples, which part of each and whether it is mirrored
// are chosen here, as Loader chooses them; DALI decodes, scales and normalises.
#include <algorithm>
#include <deque>
#include <future>
#include <mutex>
#include <optional>

#include "neurim/base/error.h"
#include "neurim/data/dali/pipeline.h"
#include "neurim/data/dali/plugin.h"

namespace neurim::dali {
namespace {

/// Whether DALI decodes such an image as we do: it drops alpha, and knows fewer kinds of the other formats.
bool decodes(const ImageHeader& header) {
  const bool known = header.format == "JPEG" || header.format == "WebP" || header.format == "PNG";
  return known && header.bits <= 8 && (header.channels == 1 || header.channels == 3);
}

/// Adds a decoded image as a PNM file (netpbm.sourceforge.net/doc/ppm.html), which DALI decodes by copying.
std::int64_t add_pnm(const Image& image, std::vector<std::byte>& files) {
  const std::string header = text(image.channels() == 1 ? "P5 " : "P6 ", image.width(), ' ', image.height(), " 255\n");
  const auto* text_bytes = reinterpret_cast<const std::byte*>(header.data());
  const auto* pixels = reinterpret_cast<const std::byte*>(image.data());
  files.insert(files.end(), text_bytes, text_bytes + header.size());
  files.insert(files.end(), pixels, pixels + image.size().bytes());
  return static_cast<std::int64_t>(header.size() + image.size().bytes());
}

class DaliLoader : public BatchSource {
 public:
  DaliLoader(const Dataset& dataset, Split split, const Preprocess& preprocess, const Augment& augment,
             const LoaderOptions& options);
  ~DaliLoader() override { halt(); }

  bool next(Batch& batch) override;

 private:
  /// A batch, and what it is made from.
  struct Slot : Filling {
    Inputs inputs;
    Decoder decoder;
    Image image;
    std::vector<std::byte> stored;
  };

  void halt() override { slots_.clear(); }
  void begin(std::int64_t first_batch) override;
  void make_next(std::unique_ptr<Slot> slot);
  void fill(std::int64_t batch, Slot& slot);
  void prepare(std::int64_t batch, Slot& slot, bool all_decoded);
  void add(std::int64_t index, Random random, Slot& slot, bool decoded);

  const bool pads_;
  std::mutex mutex_;  // guards the pipeline
  std::optional<Pipeline> pipeline_;
  bool started_ = false;
  std::int64_t next_batch_ = 0;    // to begin with
  std::unique_ptr<Slot> current_;  // what next has handed out
  std::deque<std::future<std::unique_ptr<Slot>>> slots_;
};

DaliLoader::DaliLoader(const Dataset& dataset, Split split, const Preprocess& preprocess, const Augment& augment,
                       const LoaderOptions& options)
    : BatchSource(dataset, split, preprocess, augment, options),
      pads_(preprocess.resize == ResizeMode::letterbox || augment.crop_padding > 0) {
  require(augment.augmentations.empty(), "loader=dali: DALI has no equal of ",
          augment.augmentations.empty() ? "" : augment.augmentations[0]->text(),
          "; leave it out, or use loader=neurim");
  require((preprocess.channels == 1 || preprocess.channels == 3) && preprocess.bits == 8,
          "loader=dali: it makes gray and RGB images of 8 bits, not ", preprocess.channels, " channels of ",
          preprocess.bits, "; use loader=neurim");
  require(preprocess.interpolation == Interpolation::bilinear && augment.crop_at == CropAt::center,
          "loader=dali: it resizes bilinearly and cuts the centre; leave out interpolation and crops, or use "
          "loader=neurim");
  require(!preprocess.decode.scaled,
          "loader=dali: it decodes JPEGs at their full size; use decode=exact, or loader=neurim with decode=scaled");
  require(options.cache == Cache::automatic || options.cache == Cache::none,
          "loader=dali: it keeps no resized images; leave out cache, or use loader=neurim");
  pipeline_.emplace(preprocess, pads_, static_cast<int>(size_of(0)), std::max(options.workers, 1));
}

void DaliLoader::begin(std::int64_t first_batch) {
  next_batch_ = first_batch;
  started_ = true;
  for (int i = 0; i < options_.prefetch; ++i) make_next(std::make_unique<Slot>());
}

/// Begins the next batch in the background, in the memory of an old one.
void DaliLoader::make_next(std::unique_ptr<Slot> slot) {
  if (next_batch_ == batches()) return;
  const auto policy = options_.workers == 0 ? std::launch::deferred : std::launch::async;
  slots_.push_back(std::async(policy, [this, batch = next_batch_++, slot = std::move(slot)]() mutable {
    fill(batch, *slot);
    return std::move(slot);
  }));
}

bool DaliLoader::next(Batch& batch) {
  require(started_, "loader: call start(epoch) before next");
  if (slots_.empty()) return false;
  auto front = std::move(slots_.front());
  slots_.pop_front();  // a second call after an error gets the batch after it
  std::unique_ptr<Slot> made = front.get();
  make_next(current_ ? std::move(current_) : std::make_unique<Slot>());
  current_ = std::move(made);
  batch = view(*current_, std::ssize(current_->indices));
  return true;
}

void DaliLoader::fill(std::int64_t batch, Slot& slot) {
  prepare(batch, slot, false);
  const std::lock_guard lock(mutex_);
  try {
    pipeline_->run(slot.inputs, slot.images.data());
  } catch (const Error&) {
    // DALI does not say which sample it cannot decode. Our decoder can, or decodes all of them.
    pipeline_.emplace(preprocess_, pads_, static_cast<int>(size_of(0)), std::max(options_.workers, 1));
    prepare(batch, slot, true);
    pipeline_->run(slot.inputs, slot.images.data());
  }
}

void DaliLoader::prepare(std::int64_t batch, Slot& slot, bool all_decoded) {
  const auto size = static_cast<std::size_t>(size_of(batch));
  slot.inputs.clear();
  make_room(slot, size_of(batch));
  for (std::size_t i = 0; i < size; ++i) {
    const auto place = static_cast<std::int64_t>(i);
    slot.indices[i] = first_good(sample_at(batch, place), [&](std::int64_t index) {
      add(index, random_of(index, batch, place), slot, all_decoded);
    });
    put_labels(slot, i);
  }
}

void DaliLoader::add(std::int64_t index, Random random, Slot& slot, bool decoded) {
  const StoredImage stored = dataset_.read(split_, index, slot.stored);
  const ImageHeader& header = slot.decoder.open(stored, preprocess_.decoding());
  decoded = decoded || !decodes(header);
  // DALI makes something of most damaged files, and says nothing: the first time our decoder looks at all of
  // it.
  if (decoded || !known_whole(index)) slot.decoder.read(slot.image);
  found_whole(index, header);

  std::vector<std::byte>& files = slot.inputs.files;
  std::int64_t bytes = static_cast<std::int64_t>(stored.bytes.size());
  if (decoded)
    bytes = add_pnm(slot.image, files);
  else
    files.insert(files.end(), stored.bytes.begin(), stored.bytes.end());
  const Box whole{0, 0, header.height, header.width};
  const int height = preprocess_.height, width = preprocess_.width;
  const bool cuts = augment_.random_resized_crop;
  const Box part = cuts ? random_part(augment_, header.height, header.width, random) : whole;
  const Placement placement = cuts ? Placement{height, width, {0, 0, height, width}}
                                   : placement_of(preprocess_, header.height, header.width);
  slot.inputs.add(bytes, part, placement, random_pose(augment_, random));
}

}  // namespace
}  // namespace neurim::dali

extern "C" const char* neurim_plugin_version() {
  static const std::string version = neurim::plugin_version();
  return version.c_str();
}

extern "C" neurim::BatchSource* neurim_plugin_loader(const neurim::Dataset& dataset, neurim::Split split,
                                                     const neurim::Preprocess& preprocess,
                                                     const neurim::Augment& augment,
                                                     const neurim::LoaderOptions& options) {
  return new neurim::dali::DaliLoader(dataset, split, preprocess, augment, options);
}
