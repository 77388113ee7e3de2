#include "neurim/infer/classifier.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <numeric>

#include "neurim/base/error.h"
#include "neurim/core/device.h"
#include "neurim/data/transform.h"
#include "neurim/evaluate/multi_label.h"
#include "neurim/model/state.h"
#include "neurim/ops/softmax.h"

namespace neurim {

namespace {

/// The classes by falling probability.
std::vector<std::size_t> ranking(const std::vector<double>& shares) {
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
  return order;
}

/// Where images come from.
struct ImageList {
  std::size_t count;
  std::function<std::string(std::size_t)> name;
  std::function<void(std::size_t, Decoder&, const DecodeOptions&)> open;  ///< throws Error(data) without the name
};

/// What a thread needs to read images.
struct ImageWorker {
  Decoder decoder;
  std::vector<Transform> views;
};

/// Images that run at once.
struct Group {
  std::size_t first = 0, count = 0;
  std::vector<float> pixels;            ///< of each image all views
  std::vector<std::string> unreadable;  ///< of each
};

Compiled network(const Checkpoint& checkpoint, const PlanOptions& chosen) {
  PlanOptions options = chosen;
  options.freeze = true;
  options.device = device_of(checkpoint.model);
  const bool one_class = checkpoint.config.task() == classify_task();
  const auto shares = [model = checkpoint.model, one_class](const Tensors& in) {
    const Tensor logits = model(in[0]);
    return Tensors{one_class ? softmax(logits) : logits};
  };
  return Compiled(shares, options);
}

}  // namespace

struct ImageClassifier::State {
  State(const Checkpoint& checkpoint, const ClassifierOptions& chosen)
      : options(chosen), config(checkpoint.config), compiled(network(checkpoint, chosen.plan)) {}

  ClassifierOptions options;
  ModelConfig config;
  Compiled compiled;

  /// Reads the images of a batch, shared out among the readers.
  void read(Group& batch, const ImageList& images, std::vector<ImageWorker>& readers) const {
    const std::size_t values = config.preprocess.size().values();
    batch.unreadable.assign(batch.count, "");
    std::atomic<std::size_t> next = 0;
    const auto work = [&](ImageWorker& reader) {
      for (std::size_t i = next++; i < batch.count; i = next++) try {
          naming([&] { return images.name(batch.first + i); },
                 [&] {
                   for (std::size_t view = 0; view < reader.views.size(); ++view) {
                     images.open(batch.first + i, reader.decoder, config.preprocess.decoding());
                     Random unused(0);  // as every choice is certain
                     Transform& transform = reader.views[view];
                     const Image& fitted = transform.fit(reader.decoder, unused);
                     transform.finish(fitted.data(), unused,
                                      batch.pixels.data() + (i * reader.views.size() + view) * values);
                   }
                 });
        } catch (const Error& error) {
          if (error.fault() != Fault::data) throw;
          batch.unreadable[i] = error.what();
        }
    };
    std::vector<std::future<void>> others;
    for (std::size_t i = 1; i < std::min(readers.size(), batch.count); ++i)
      others.push_back(std::async(std::launch::async, work, std::ref(readers[i])));
    work(readers[0]);
    for (std::future<void>& other : others) other.get();
  }

  /// `rows`: what the network says of each view.
  Classification classified(std::span<const double> rows, const std::string& name) const {
    const std::size_t views = options.views.size(), classes = rows.size() / views;
    std::vector<double> shares(classes);
    for (std::size_t i = 0; i < rows.size(); ++i)
      shares[i % classes] += config.multi_label() ? probability_of(static_cast<float>(rows[i])) : rows[i];
    for (double& share : shares) share /= static_cast<double>(views);
    if (std::any_of(shares.begin(), shares.end(), [](double share) { return std::isnan(share); }))
      fail(Fault::data, name,
           ": the model gives NaN for it, as numbers in between outgrow f32, or with precision=fp16 65,504: try "
           "precision=bf16, or weights of an earlier epoch");
    if (config.regression()) return {.probabilities = std::move(shares)};
    Classification result{.classes = ranking(shares)};
    if (config.multi_label())
      std::erase_if(result.classes, [&](std::size_t c) { return shares[c] < config.thresholds[c]; });
    else
      result.rejected = shares[result.classes[0]] < options.reject_below;
    result.probabilities = std::move(shares);
    return result;
  }

  void predict(const ImageList& images, const std::function<void(std::size_t, const Classification&)>& answer) {
    if (images.count == 0) return;
    // As few batches as hold all, of one size, so that one plan serves them; the last may run some rows for nothing.
    const auto most = static_cast<std::size_t>(options.batch);
    const std::size_t batches = (images.count + most - 1) / most, size = (images.count + batches - 1) / batches;
    std::vector<ImageWorker> readers;
    const std::int64_t workers = options.workers > 0 ? options.workers : threads();
    const std::size_t views = options.views.size();
    for (std::size_t i = 0; i < std::min(static_cast<std::size_t>(workers), size); ++i) {
      ImageWorker& reader = readers.emplace_back();
      for (const Augment& view : options.views) reader.views.emplace_back(config.preprocess, view);
    }
    const Type type = image_type(config.preprocess, static_cast<std::int64_t>(size * views));
    const auto begin = [&](std::size_t first) {
      Group batch{.first = first, .count = std::min(size, images.count - std::min(first, images.count))};
      if (batch.count == 0) return batch;
      batch.pixels.resize(static_cast<std::size_t>(type.shape.numel()));
      read(batch, images, readers);
      return batch;
    };
    Group batch = begin(0);
    while (batch.count > 0) {
      std::future<Group> next = std::async(std::launch::async, begin, batch.first + size);
      const Tensor out = compiled({Tensor::from(type, batch.pixels.data())})[0];
      const std::vector<double> all = out.values<double>();
      const std::size_t classes = all.size() / (size * views);
      for (std::size_t i = 0; i < batch.count; ++i) {
        const auto rows = std::span(all).subspan(i * views * classes, views * classes);
        answer(batch.first + i, batch.unreadable[i].empty() ? classified(rows, images.name(batch.first + i))
                                                            : Classification{.unreadable = batch.unreadable[i]});
      }
      batch = next.get();
    }
  }
};

ImageClassifier::ImageClassifier(const Checkpoint& checkpoint, const ClassifierOptions& options) {
  require(!checkpoint.config.sequence, checkpoint.path.string(), ": is a model of series or texts, not of images");
  require(options.batch >= 1, "batch is ", options.batch, "; it is at least 1");
  require(!options.views.empty(), "views are none; there is at least one");
  require(options.workers >= 0, "workers is ", options.workers, "; it is at least 0");
  state_ = std::make_shared<State>(checkpoint, options);
}

ImageClassifier ImageClassifier::open(const fs::path& path, const ClassifierOptions& options) {
  return ImageClassifier(load_checkpoint(path), options);
}

const std::vector<std::string>& ImageClassifier::class_names() const { return state_->config.class_names; }
const ModelConfig& ImageClassifier::config() const { return state_->config; }

void ImageClassifier::predict(std::span<const fs::path> images,
                              const std::function<void(std::size_t, const Classification&)>& answer) const {
  state_->predict({images.size(), [&](std::size_t i) { return images[i].string(); },
                   [&](std::size_t i, Decoder& decoder, const DecodeOptions& options) {
                     decoder.open_file(images[i].string(), options);
                   }},
                  answer);
}

std::vector<Classification> ImageClassifier::predict(std::span<const fs::path> images) const {
  std::vector<Classification> all;
  predict(images, [&](std::size_t, const Classification& one) { all.push_back(one); });
  return all;
}

std::vector<Classification> ImageClassifier::predict(std::span<const StoredImage> images) const {
  std::vector<Classification> all;
  state_->predict(
      {images.size(), [&](std::size_t i) { return text("image ", i); },
       [&](std::size_t i, Decoder& decoder, const DecodeOptions& options) { decoder.open(images[i], options); }},
      [&](std::size_t, const Classification& one) { all.push_back(one); });
  return all;
}

}  // namespace neurim
