#include "neurim/infer/parity.h"

#include <algorithm>
#include <cmath>

#include "neurim/base/error.h"
#include "neurim/base/json.h"
#include "neurim/core/random.h"
#include "neurim/data/loader.h"
#include "neurim/data/transform.h"
#include "neurim/train/train_options.h"

namespace neurim {

namespace {

/// The probabilities of each sample, a row each; of a forecast its values. `known`: the numbers are probabilities.
std::vector<std::vector<double>> answers(const Tensor& out, const ModelConfig& config, bool known) {
  const std::vector<double> all = out.values<double>();
  const std::int64_t rows = out.size(0);
  const std::size_t width = rows == 0 ? 0 : all.size() / static_cast<std::size_t>(rows);
  std::vector<std::vector<double>> answers;
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    std::vector<double> one(all.begin() + static_cast<std::ptrdiff_t>(row * width),
                            all.begin() + static_cast<std::ptrdiff_t>((row + 1) * width));
    if (known) {
    } else if (config.task().answer == Answer::one_class || config.task().answer == Answer::characters) {
      const double top = *std::max_element(one.begin(), one.end());
      double sum = 0;
      for (double& value : one) sum += value = std::exp(value - top);
      for (double& value : one) value /= sum;
    } else if (config.multi_label()) {
      for (double& value : one) value = 1 / (1 + std::exp(-value));
    }
    answers.push_back(std::move(one));
  }
  return answers;
}

std::size_t top(const std::vector<double>& row) {
  return static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

/// Adds up what two models answer.
class Comparison {
 public:
  /// `embedded`: the export gives probabilities.
  Comparison(const ModelConfig& config, bool embedded) : config_(config), embedded_(embedded) {}

  /// Compares the answers to one batch; `labels` may be empty.
  void add(const Tensor& model, const Tensor& exported, std::span<const std::int64_t> labels, std::int64_t count) {
    const auto a = answers(model, config_, false), b = answers(exported, config_, embedded_);
    require(a.size() == b.size() && (a.empty() || a[0].size() == b[0].size()), "the model gives ", model.type(),
            ", and its export ", exported.type());
    for (std::size_t row = 0; row < static_cast<std::size_t>(count); ++row) {
      double scale = 1;
      if (config_.task().answer == Answer::values)
        for (const double value : a[row]) scale = std::max(scale, std::abs(value));
      for (std::size_t i = 0; i < a[row].size(); ++i) {
        const double difference = std::abs(a[row][i] - b[row][i]) / scale;
        if (!(difference <= result.largest_difference)) result.largest_difference = difference;  // NaN too
      }
      same_ += top(a[row]) == top(b[row]);
      if (!labels.empty()) {
        right_ += static_cast<std::int64_t>(top(a[row])) == labels[row];
        exported_right_ += static_cast<std::int64_t>(top(b[row])) == labels[row];
      }
      ++result.samples;
    }
    labelled_ |= !labels.empty();
  }

  Parity finish(std::string source) {
    const auto samples = static_cast<double>(std::max<std::int64_t>(1, result.samples));
    result.source = std::move(source);
    if (config_.task().answer == Answer::one_class || config_.task().answer == Answer::characters)
      result.top1_agreement = same_ / samples;
    if (labelled_) result.accuracy = right_ / samples, result.exported_accuracy = exported_right_ / samples;
    return result;
  }

  Parity result;

 private:
  const ModelConfig& config_;
  const bool embedded_;
  double same_ = 0, right_ = 0, exported_right_ = 0;
  bool labelled_ = false;
};

std::string of_images(std::int64_t count, const ParityImages& images) {
  return text(plural(count, "image"), " of the split ", images.split, " of ", images.name);
}

/// Numbers as a model may meet them: pixels in [0, 1] scaled by its mean and std, values near 0 of series, characters
/// of texts.
Tensor drawn(const ModelConfig& config, Random& random) {
  const Type type = input_type(config, 1);
  const auto count = static_cast<std::size_t>(type.shape.numel());
  if (type.dtype == DType::i64) {
    std::vector<std::int64_t> values(count);
    for (std::int64_t& value : values) value = random.below(static_cast<std::uint32_t>(config.class_names.size()));
    return Tensor::from(type.shape, values);
  }
  std::vector<float> values(count);
  const Preprocess& p = config.preprocess;
  const std::size_t plane = config.sequence ? count : count / static_cast<std::size_t>(p.channels);
  for (std::size_t i = 0; i < count; ++i) {
    const auto of_channel = [&](const std::vector<double>& all) { return all.size() == 1 ? all[0] : all[i / plane]; };
    values[i] = static_cast<float>(config.sequence ? random.normal()
                                                   : (random.uniform() - of_channel(p.mean)) / of_channel(p.std));
  }
  return Tensor::from(type.shape, values);
}

/// Images as a model takes them, and as an export does that has the preprocessing in it.
class Images {
 public:
  explicit Images(const Preprocess& preprocess) : preprocess_(preprocess), transform_(preprocess) {}

  /// f32(1,C,H,W) and u8(1,height,width,C).
  std::pair<Tensor, Tensor> operator()(const StoredImage& stored) {
    std::vector<float> pixels(preprocess_.size().values());
    decoder_.open(stored, preprocess_.decoding());
    transform_(decoder_, pixels.data());
    decoder_.open(stored, preprocess_.decoding());
    const Image& image = transform_.upright(decoder_);
    Tensor whole = Tensor::empty({DType::u8, {1, image.height(), image.width(), image.channels()}});
    whole.write(image.data());
    return {Tensor::from(image_type(preprocess_, 1), pixels.data()), whole};
  }

  /// The same of a drawn image: 8 x 8 fields of one colour, from half the size that the network takes to twice it.
  std::pair<Tensor, Tensor> drawn(Random& random) {
    const auto side = [&](int taken) { return std::max(1, static_cast<int>(taken * random.uniform(0.5, 2))); };
    Image image;
    image.reshape({side(preprocess_.height), side(preprocess_.width), preprocess_.channels});
    constexpr std::size_t fields = 8;
    const auto channels = static_cast<std::size_t>(preprocess_.channels),
               height = static_cast<std::size_t>(image.height()), width = static_cast<std::size_t>(image.width());
    std::vector<std::uint8_t> colours(fields * fields * channels);
    for (std::uint8_t& colour : colours) colour = static_cast<std::uint8_t>(random.below(256));
    for (std::size_t y = 0; y < height; ++y)
      for (std::size_t x = 0; x < width; ++x)
        std::copy_n(&colours[(y * fields / height * fields + x * fields / width) * channels], channels,
                    image.row(static_cast<int>(y)) + x * channels);
    return (*this)({.bytes = std::as_bytes(std::span(image.data(), image.size().bytes())), .pixels = image.size()});
  }

 private:
  const Preprocess preprocess_;
  Transform transform_;
  Decoder decoder_;
};

/// Compares an export that has the preprocessing in it.
Parity embedded_parity(const Checkpoint& checkpoint, const InferenceSession& exported,
                       const std::optional<ParityImages>& images) {
  const InferenceSession model(checkpoint);
  Comparison comparison(checkpoint.config, true);
  Images both(checkpoint.config.preprocess);
  const auto add = [&](const std::pair<Tensor, Tensor>& in, std::span<const std::int64_t> labels) {
    comparison.add(model.run(Tensors{in.first})[0], exported.run(Tensors{in.second})[0], labels, 1);
  };
  if (!images) {
    Random random(0);
    for (std::int64_t i = 0; i < kDrawnParityInputs; ++i) add(both.drawn(random), {});
    return comparison.finish(text(kDrawnParityInputs, " images of several sizes, drawn with seed 0"));
  }
  const std::int64_t count = std::min(kMostParityImages, images->dataset.size(images->split));
  std::vector<std::byte> buffer;
  std::int64_t unreadable = 0;
  const auto read = [&](std::int64_t i) -> std::optional<std::pair<Tensor, Tensor>> {
    try {
      return naming([&] { return images->dataset.name(images->split, i); },
                    [&] { return both(images->dataset.read(images->split, i, buffer)); });
    } catch (const Error& error) {
      if (error.fault() != Fault::data || ++unreadable > most_bad(LoaderOptions().max_bad, count)) throw;
      return std::nullopt;
    }
  };
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t label = images->dataset.label(images->split, i);
    if (const auto in = read(i)) checkpoint.config.task() == classify_task() ? add(*in, {&label, 1}) : add(*in, {});
  }
  return comparison.finish(of_images(comparison.result.samples, *images));
}

}  // namespace

std::string Parity::json(double agreement, double tolerance) const {
  JsonObject json{{"samples", samples},
                  {"inputs", source},
                  {"top1_agreement", top1_agreement},
                  {"least_agreement", agreement},
                  {"largest_difference", largest_difference},
                  {"tolerance", tolerance},
                  {"within", within(agreement, tolerance)}};
  if (!std::isnan(accuracy)) json.add("accuracy", accuracy), json.add("exported_accuracy", exported_accuracy);
  return json.indented();
}

std::optional<ParityImages> parity_images(const Checkpoint& checkpoint, const std::string& data, std::string& note) {
  const ModelConfig& config = checkpoint.config;
  if (config.sequence) return std::nullopt;
  TrainOptions training;
  Options named;
  training.visit(named);
  if (!config.options.empty()) named.read_yaml(config.options, text(checkpoint.path.string(), " (options)"));
  const std::string& path = data.empty() ? training.data : data;
  if (path.empty()) return std::nullopt;
  try {
    DatasetOptions options = dataset_of(training, config);
    options.for_training = false;
    Dataset dataset = Dataset::open(path, options);
    for (const Split split : {Split::val, Split::test, Split::train})
      if (dataset.size(split) > 0) return ParityImages{std::move(dataset), split, path};
    fail(Fault::data, path, ": has no images");
  } catch (const Error& error) {
    if (!data.empty()) throw;
    note = error.what();
    return std::nullopt;
  }
}

Parity parity_of(const Checkpoint& checkpoint, const InferenceSession& exported,
                 const std::optional<ParityImages>& images, InputLayout layout) {
  if (exported.inputs()[0].element == OnnxElement::u8) return embedded_parity(checkpoint, exported, images);
  const ModelConfig& config = checkpoint.config;
  const InferenceSession model(checkpoint);
  Comparison comparison(config, false);
  const auto add = [&](const Tensor& in, std::span<const std::int64_t> labels) {
    const Tensor given = layout == InputLayout::nhwc ? channels_last(in) : in;
    comparison.add(model.run(Tensors{in})[0], exported.run(Tensors{given})[0], labels, 1);
  };
  if (!images) {
    Random random(0);
    for (std::int64_t i = 0; i < kDrawnParityInputs; ++i) add(drawn(config, random), {});
    return comparison.finish(text(kDrawnParityInputs, config.sequence ? " inputs" : " images", " drawn with seed 0"));
  }
  Loader loader(images->dataset, images->split, config.preprocess, {}, {.batch = 1});
  loader.start(0);
  Batch batch;
  while (comparison.result.samples < kMostParityImages && loader.next(batch))
    add(Tensor::from(image_type(config.preprocess, 1), batch.images.data()), batch.labels);
  return comparison.finish(of_images(comparison.result.samples, *images));
}

}  // namespace neurim
