#include "neurim/quantize/quantize_model.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "neurim/base/error.h"
#include "neurim/core/device.h"
#include "neurim/data/transform.h"
#include "neurim/evaluate/csv.h"
#include "neurim/model/function_model.h"
#include "neurim/quantize/aware_training.h"
#include "neurim/quantize/statistics_file.h"
#include "neurim/train/export_checkpoint.h"

namespace neurim {

namespace {

constexpr std::int64_t kBatchOfImages = 32;
constexpr std::size_t kMostCompared = 4;  // batches on which logits are compared

/// Images spread evenly over a split, as the model takes them.
Tensors images_of(const Checkpoint& checkpoint, const Dataset& dataset, Split split, std::int64_t most) {
  const Preprocess& preprocess = checkpoint.config.preprocess;
  const std::int64_t all = dataset.size(split), count = std::min(most, all);
  const auto pixels = static_cast<std::size_t>(preprocess.size().values());
  Transform transform(preprocess);
  Decoder decoder;
  std::vector<std::byte> buffer;
  std::vector<float> images;
  std::int64_t unreadable = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t sample = i * all / count;
    images.resize(images.size() + pixels);
    try {
      naming([&] { return dataset.name(split, sample); },
             [&] {
               decoder.open(dataset.read(split, sample, buffer), preprocess.decoding());
               transform(decoder, images.data() + images.size() - pixels);
             });
    } catch (const Error& error) {
      if (error.fault() != Fault::data || ++unreadable > most_bad(LoaderOptions().max_bad, count)) throw;
      images.resize(images.size() - pixels);
    }
  }
  Tensors batches;
  const auto read = static_cast<std::int64_t>(images.size() / pixels);
  for (std::int64_t first = 0; first < read; first += kBatchOfImages)
    batches.push_back(Tensor::from(image_type(preprocess, std::min(kBatchOfImages, read - first)),
                                   images.data() + static_cast<std::size_t>(first) * pixels));
  return batches;
}

/// What a function answers.
std::vector<float> answers_of(const Function& function, std::span<const Tensor> batches) {
  Compiled plans(function.graph, {.freeze = true});
  std::vector<float> out;
  for (const Tensor& batch : batches) {
    const std::vector<float> some = plans({batch})[0].values<float>();
    out.insert(out.end(), some.begin(), some.end());
  }
  return out;
}

/// The squared differences as a share of those from the mean.
double relative_error(const std::vector<float>& exact, const std::vector<float>& other) {
  const double mean = std::accumulate(exact.begin(), exact.end(), 0.0) / static_cast<double>(exact.size());
  double error = 0, spread = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += std::pow(static_cast<double>(other[i]) - exact[i], 2);
    spread += std::pow(exact[i] - mean, 2);
  }
  return error / std::max(spread, 1e-30);
}

/// A model of f32 whose layers are put into fewer bits.
struct Source {
  FloatModel model;
  Statistics statistics;
};

class Quantizer {
 public:
  Quantizer(const Checkpoint& checkpoint, const Dataset& dataset, const QuantizeOptions& options,
            const std::function<void(const std::string&)>& tell, const TrainControl& control)
      : checkpoint_(checkpoint), dataset_(dataset), o_(options), tell_(tell), control_(control) {
    plain_.model = float_model(function_of(checkpoint));
    for (const std::string& name : o_.keep)
      require(std::any_of(layers().begin(), layers().end(), [&](const QuantLayer& one) { return one.name == name; }),
              "keep: there is no layer '", name, "'; known are ", names());
  }

  QuantizedModel run() {
    result_.before = accuracy(checkpoint_.model);
    result_.others = o_.others;
    if (o_.weights_only != 0) result_.bits = o_.weights_only;
    observe();
    if (o_.weights_only == 0) choose();
    if (o_.qat_epochs > 0 && !train_aware()) {
      result_.stopped = true;
      return std::move(result_);
    }
    measure_layers();
    search();
    result_.stopped = control_.stop && *control_.stop != 0;
    for (std::size_t i = 0; i < layers().size(); ++i) {
      QuantizedLayer& layer = result_.layers[i];
      layer.bytes = bytes_[i];
      if (o_.weights_only != 0) continue;
      const Observer& read = source().statistics.at(layers()[i].x).numbers;
      layer.range = byte_range(read, result_.method, o_.activations);
      layer.scale = byte_scale(layer.range, o_.activations);
    }
    return std::move(result_);
  }

 private:
  const Source& source() const { return result_.equalized ? equal_ : plain_; }
  ByteOptions byte_options(RangeMethod method) const {
    return {.method = method, .activations = o_.activations, .others = o_.others};
  }
  const std::vector<QuantLayer>& layers() const { return plain_.model.layers; }

  std::string names() const {
    std::vector<std::string> all;
    for (const QuantLayer& layer : layers()) all.push_back(layer.name);
    return join(all, ", ");
  }

  void tell(const std::string& line) const {
    if (tell_) tell_(line);
  }

  double accuracy(const Model& model) const {
    return accuracy_of(model, dataset_, o_.split, checkpoint_.config.preprocess, o_.options);
  }

  double accuracy(const std::vector<bool>& bytes) {
    const auto [known, fresh] = accuracies_.emplace(bytes, 0);
    if (fresh) known->second = accuracy(model_of(built(source(), bytes, result_.method), checkpoint_.config.model));
    return known->second;
  }

  bool holds(const std::vector<bool>& bytes) {
    const bool any = std::find(bytes.begin(), bytes.end(), true) != bytes.end();
    return any && 100 * (result_.before - accuracy(bytes)) <= o_.max_drop + 1e-9;
  }

  /// `others`: unset: as asked for.
  Function built(const Source& from, const std::vector<bool>& bytes, RangeMethod method,
                 std::optional<DType> others = {}) const {
    if (o_.weights_only != 0) return weights_quantized(from.model, o_.weights_only, o_.group, bytes, o_.qat_epochs > 0);
    ByteOptions how = byte_options(method);
    how.others = others.value_or(how.others);
    return quantized(from.model, from.statistics, bytes, how);
  }

  /// Reads images, and finds or measures what layers read.
  void observe() {
    const Split split = dataset_.size(Split::train) > 0 ? Split::train : o_.split;
    images_ = images_of(checkpoint_, dataset_, split, o_.images);
    require(!images_.empty(), "quantize: no image of the ", split, " split can be read");
    for (const Tensor& batch : images_) result_.images += batch.size(0);
    if (o_.weights_only != 0) return;
    if (!o_.statistics.empty() && is_there(o_.statistics)) {
      const KeptStatistics kept = read_statistics(plain_.model, o_.statistics);
      plain_.statistics = kept.values;
      tell(text("ranges of ", kept.images, " images from ", o_.statistics.string()));
    } else {
      plain_.statistics = statistics_of(plain_.model, images_);
      if (!o_.statistics.empty()) write_statistics(plain_.model, {plain_.statistics, result_.images}, o_.statistics);
      tell(text("ranges of ", plural(result_.images, "image"), " of the ", split, " split"));
    }
    for (const QuantLayer& layer : layers())
      if (const Observer& read = plain_.statistics.at(layer.x).numbers; read.least() == read.most())
        tell(text("note: ", layer.name, " reads nothing but zeros in these images"));
    std::size_t count = 0;
    equal_.model = equalized(plain_.model, plain_.statistics, &count);
    can_equalize_ = count > 0;
    if (can_equalize_ && o_.equalize != false) equal_.statistics = statistics_of(equal_.model, images_);
  }

  std::span<const Tensor> compared() const { return std::span(images_).first(std::min(kMostCompared, images_.size())); }

  /// The way of finding ranges, of those that are open, whose logits differ least.
  void choose() {
    const std::vector<float> exact = answers_of(plain_.model.function, compared());
    const std::vector<bool> all = open_layers();
    double least = std::numeric_limits<double>::infinity();
    for (const bool equal : {false, true}) {
      if ((equal && (!can_equalize_ || o_.equalize == false)) || (!equal && can_equalize_ && o_.equalize == true))
        continue;
      for (const RangeMethod method : kRangeMethods) {
        if (o_.method && method != *o_.method) continue;
        const double error = relative_error(exact, answers_of(built(equal ? equal_ : plain_, all, method), compared()));
        tell(text("  ", name(method), equal ? ", equalized" : "", ": logits differ by ",
                  significant(100 * std::sqrt(error)), " %"));
        if (error < least) least = error, result_.method = method, result_.equalized = equal;
      }
    }
  }

  std::vector<bool> open_layers() const {
    std::vector<bool> open;
    for (const QuantLayer& layer : layers())
      open.push_back(std::find(o_.keep.begin(), o_.keep.end(), layer.name) == o_.keep.end());
    return open;
  }

  /// Trains the open layers with their rounding; what they learn takes the place of the model's weights. False where it
  /// was stopped.
  bool train_aware() {
    const AwareModel aware = o_.weights_only != 0 ? AwareModel(plain_.model, o_.weights_only, o_.group, open_layers())
                                                  : AwareModel(source().model, source().statistics, open_layers(),
                                                               byte_options(result_.method));
    const FineTuning how{o_.qat_epochs, o_.qat_lr.value_or(*o_.options.lr / 100), o_.qat_run};
    if (!fine_tune(aware, checkpoint_, dataset_, o_.options, how, control_)) return false;
    Source& chosen = result_.equalized ? equal_ : plain_;
    chosen.model = aware.trained();
    if (o_.weights_only == 0) chosen.statistics = statistics_of(chosen.model, images_);
    return true;
  }

  /// How much each layer alone changes the logits.
  void measure_layers() {
    const auto few = std::span(images_).first(1);
    const std::vector<float> exact = answers_of(source().model.function, few);
    const std::vector<bool> open = open_layers();
    for (std::size_t i = 0; i < layers().size(); ++i) {
      std::vector<bool> one(layers().size());
      one[i] = true;
      const double error = open[i] ? relative_error(exact,
                                                    answers_of(built(source(), one, result_.method, DType::f32), few))
                                   : 0;
      result_.layers.push_back({layers()[i].name, false, layers()[i].multiply_adds, error, {}, {}});
    }
  }

  std::string points(double accuracy) const { return text(fixed(100 * accuracy, 2), " %"); }

  void search() {
    bytes_ = open_layers();
    const std::vector<bool> open = bytes_;
    result_.held = holds(bytes_);
    tell(text("all layers: ", points(result_.before), " -> ", points(accuracy(bytes_))));
    if (!result_.held) return_layers(open);
    if (!result_.held) bytes_ = open;
    result_.after = accuracy(bytes_);
    result_.function = built(source(), bytes_, result_.method);
  }

  /// Takes as few layers out of 8 bits as hold the accuracy.
  void return_layers(const std::vector<bool>& open) {
    std::vector<std::size_t> order;  // the layers that change the logits most come first
    for (std::size_t i = 0; i < open.size(); ++i)
      if (open[i]) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return result_.layers[a].error > result_.layers[b].error; });
    const auto without = [&](std::size_t count) {
      std::vector<bool> bytes = open;
      for (std::size_t i = 0; i < count; ++i) bytes[order[i]] = false;
      return bytes;
    };
    std::size_t fails = 0, enough = order.size();
    while (fails + 1 < enough) {
      const std::size_t middle = (fails + enough) / 2;
      const bool held = holds(without(middle));
      tell(text("  ", middle, " of ", order.size(), " layers in ", o_.others, ": ", points(accuracy(without(middle)))));
      (held ? enough : fails) = middle;
    }
    bytes_ = without(enough);
    result_.held = holds(bytes_);
    for (std::size_t i = enough; result_.held && i-- > 0;) {  // those that change least first
      std::vector<bool> more = bytes_;
      more[order[i]] = true;
      if (holds(more)) bytes_ = std::move(more);
    }
  }

  const Checkpoint& checkpoint_;
  const Dataset& dataset_;
  const QuantizeOptions& o_;
  const std::function<void(const std::string&)>& tell_;
  const TrainControl& control_;
  Source plain_, equal_;
  bool can_equalize_ = false;
  Tensors images_;
  std::vector<bool> bytes_;  // which layers are in fewer bits
  std::map<std::vector<bool>, double> accuracies_;
  QuantizedModel result_;
};

}  // namespace

QuantizedModel quantize_model(const Checkpoint& checkpoint, const Dataset& dataset, const QuantizeOptions& options,
                              const std::function<void(const std::string&)>& tell, const TrainControl& control) {
  require(!checkpoint.config.sequence, "quantize: ", checkpoint.path.string(), " is a model of ",
          checkpoint.config.task().data, "; only classifiers of images are quantized");
  require(options.images >= 1, "images is ", options.images, "; it is at least 1");
  require(options.max_drop >= 0, "max_drop is ", options.max_drop, "; it is at least 0 points");
  require(options.qat_epochs >= 0 && options.qat_lr.value_or(1) > 0, "qat_epochs is ", options.qat_epochs,
          "; it is at least 0, and qat_lr is above 0");
  require(options.qat_epochs == 0 || dataset.size(Split::train) > 0, "qat: there is no train split to train on");
  return Quantizer(checkpoint, dataset, options, tell, control).run();
}

std::string layers_csv(const QuantizedModel& model) {
  std::string out = "layer,precision,multiply_adds,logit_error,low,high,scale,zero_point\n";
  for (const QuantizedLayer& one : model.layers)
    out += text(csv_field(one.name), ',', one.bytes ? text("int", model.bits) : text(model.others), ',',
                one.multiply_adds, ',', one.error, ',', one.range.low, ',', one.range.high, ',', one.scale.scale, ',',
                one.scale.zero_point, '\n');
  return out;
}

}  // namespace neurim
