#include "neurim/infer/explain.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "neurim/base/error.h"
#include "neurim/compile/plan.h"
#include "neurim/data/transform.h"
#include "neurim/evaluate/canvas.h"
#include "neurim/evaluate/multi_label.h"
#include "neurim/graph/trace.h"
#include "neurim/graph/value.h"
#include "neurim/infer/behind.h"
#include "neurim/model/state.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/softmax.h"
#include "neurim/ops/sum.h"
#include "neurim/train/batch_image.h"

namespace neurim {

namespace {

constexpr const char* kWays[] = {"gradcam", "layercam", "integrated_gradients", "occlusion"};

bool is_map(const Tensor& value) { return value.rank() == 4 && value.size(2) * value.size(3) > 1; }

/// What the answer is read from: tokens (N,L,E) before the last attention, else the last maps (N,C,H,W).
std::optional<Tensor> features_of(const Tensor& logits) {
  const std::vector<const Graph::Node*> nodes = nodes_behind(logits);
  for (const Graph::Node* node : nodes)
    if (node->op->name().find("attention") != std::string_view::npos) {
      const Graph::Node* before = node;
      while (before && before->op->name() != "layer_norm" && !before->in.empty())
        before = producer(traced_value(before->in[0]));
      if (before && before->op->name() == "layer_norm" && traced_value(before->out[0]).rank() == 3)
        return traced_value(before->out[0]);
    }
  for (const Graph::Node* node : nodes)
    for (const int id : node->out)
      if (const Tensor value = traced_value(id); is_map(value)) return value;
  return std::nullopt;
}

/// Maps of places as one map (height, width) of the input's size, between whose places it is linear.
std::vector<float> enlarged(const std::vector<double>& map, std::int64_t rows, std::int64_t columns, int height,
                            int width) {
  std::vector<float> out;
  const auto at = [&](std::int64_t y, std::int64_t x) {
    return map[static_cast<std::size_t>(std::clamp<std::int64_t>(y, 0, rows - 1) * columns +
                                        std::clamp<std::int64_t>(x, 0, columns - 1))];
  };
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const double down = (y + 0.5) * static_cast<double>(rows) / height - 0.5,
                   right = (x + 0.5) * static_cast<double>(columns) / width - 0.5;
      const auto row = static_cast<std::int64_t>(std::floor(down)),
                 column = static_cast<std::int64_t>(std::floor(right));
      const double low = down - std::floor(down), far = right - std::floor(right);
      out.push_back(static_cast<float>(std::lerp(std::lerp(at(row, column), at(row, column + 1), far),
                                                 std::lerp(at(row + 1, column), at(row + 1, column + 1), far), low)));
    }
  return out;
}

/// Leaves what speaks for the class, with 1 for the most.
void normalise(std::vector<float>& heat) {
  const float most = *std::max_element(heat.begin(), heat.end());
  for (float& value : heat) value = most > 0 ? std::max(0.0f, value) / most : 0;
}

/// Blue over green and yellow to red.
Color heat_color(double t) {
  constexpr Color kScale[] = {
      {0.19, 0.07, 0.23}, {0.27, 0.52, 0.97}, {0.25, 0.95, 0.55}, {0.98, 0.75, 0.20}, {0.60, 0.05, 0.02}};
  const double place = std::clamp(t, 0.0, 1.0) * 4;
  const auto i = std::min(static_cast<std::size_t>(place), std::size_t{3});
  return mix(kScale[i], kScale[i + 1], place - static_cast<double>(i));
}

}  // namespace

Explaining explaining_named(std::string_view word) {
  for (std::size_t i = 0; i < std::size(kWays); ++i)
    if (word == kWays[i]) return static_cast<Explaining>(i);
  fail(Fault::usage, "method: there is no '", word, "'; known are gradcam, layercam, integrated_gradients, occlusion");
}

std::string_view name(Explaining way) { return kWays[static_cast<std::size_t>(way)]; }

struct Explainer::State {
  explicit State(const Checkpoint& checkpoint)
      : model(checkpoint.model),
        config(checkpoint.config),
        transform(config.preprocess),
        answer([this](const Tensors& in) { return Tensors{shares_of(model(in[0]))}; }, {.device = device_of(model)}),
        features([this](const Tensors& in) { return of_features(in); }, {.device = device_of(model)}),
        pixels([this](const Tensors& in) { return of_pixels(in); }, {.device = device_of(model)}) {}

  Model model;
  ModelConfig config;
  Transform transform;
  Decoder decoder;
  Compiled answer, features, pixels;
  std::vector<float> image;  // the last one, as the model sees it

  int height() const { return config.preprocess.height; }
  int width() const { return config.preprocess.width; }
  int channels() const { return config.preprocess.channels; }
  std::size_t plane() const { return static_cast<std::size_t>(height()) * static_cast<std::size_t>(width()); }

  Tensor shares_of(const Tensor& logits) const { return config.multi_label() ? logits : softmax(logits); }

  /// x and which class (N,classes) -> the features and the gradient of the logit by them.
  Tensors of_features(const Tensors& in) {
    const Tensor logits = model(in[0]);
    const std::optional<Tensor> maps = features_of(logits);
    require(maps.has_value(), config.model, " has no feature maps; use method=occlusion or integrated_gradients");
    const Tensor score = sum(logits * in[1]);
    const Tensor gradient = gradients({&score, 1}, {&*maps, 1})[0];
    return {*maps, gradient};
  }

  /// x and which class -> the gradient of the logit by the pixels.
  Tensors of_pixels(const Tensors& in) {
    const Tensor score = sum(model(in[0]) * in[1]);
    return {gradients({&score, 1}, {in.data(), 1})[0]};
  }

  Tensor batch(const std::vector<float>& values, std::int64_t images) const {
    return Tensor::from(image_type(config.preprocess, images), values.data());
  }

  Tensor which(std::int64_t label, std::int64_t images) const {
    const std::int64_t classes = std::ssize(config.class_names);
    std::vector<float> values(static_cast<std::size_t>(images * classes));
    for (std::int64_t i = 0; i < images; ++i) values[static_cast<std::size_t>(i * classes + label)] = 1;
    return Tensor::from({images, classes}, values);
  }

  /// The probabilities of the classes for each of some inputs.
  std::vector<double> ask(const std::vector<float>& values, std::int64_t images) {
    std::vector<double> shares = answer({batch(values, images)})[0].values<double>();
    if (config.multi_label())
      for (double& share : shares) share = probability_of(static_cast<float>(share));
    return shares;
  }

  std::vector<float> cam(Explaining way, std::int64_t label) {
    const Tensors found = features({batch(image, 1), which(label, 1)});
    const Shape& shape = found[0].shape();
    const std::vector<double> value = found[0].values<double>(), gradient = found[1].values<double>();
    const bool tokens = shape.rank() == 3;  // rows of tokens, of which the first may be no place of the image
    const std::int64_t depth = tokens ? shape[2] : shape[1], count = tokens ? shape[1] : shape[2] * shape[3];
    std::int64_t rows = tokens ? 0 : std::int64_t{shape[2]}, first = 0;
    if (tokens) {
      const double ratio = static_cast<double>(height()) / width();
      rows = std::llround(std::sqrt(static_cast<double>(count) * ratio));
      while (rows > 1 && (count - first) % rows != 0 && first < 3) ++first;
    }
    const std::int64_t places = count - first, columns = places / rows;
    const auto at = [&](std::int64_t c, std::int64_t place) {
      return static_cast<std::size_t>(tokens ? (place + first) * depth + c : c * count + place);
    };
    std::vector<double> map(static_cast<std::size_t>(rows * columns));
    for (std::int64_t c = 0; c < depth; ++c) {
      double mean = 0;
      for (std::int64_t place = 0; place < places; ++place)
        mean += gradient[at(c, place)] / static_cast<double>(places);
      for (std::int64_t place = 0; place < std::ssize(map); ++place) {
        const double weight = way == Explaining::grad_cam ? mean : std::max(0.0, gradient[at(c, place)]);
        map[static_cast<std::size_t>(place)] += weight * value[at(c, place)];
      }
    }
    for (double& one : map) one = std::max(0.0, one);
    return enlarged(map, rows, columns, height(), width());
  }

  /// The values of a gray pixel as the model sees it.
  float gray(std::size_t channel) const {
    const auto of = [&](const std::vector<double>& list) { return list.size() == 1 ? list[0] : list[channel]; };
    return static_cast<float>((0.5 - of(config.preprocess.mean)) / of(config.preprocess.std));
  }

  std::vector<float> integrated(std::int64_t label) {
    constexpr int kSteps = 32, kBatch = 8;
    std::vector<double> sums(image.size());
    for (int step = 0; step < kSteps; step += kBatch) {
      std::vector<float> between;
      for (int i = step; i < step + kBatch; ++i)
        for (std::size_t p = 0; p < image.size(); ++p)
          between.push_back(std::lerp(gray(p / plane()), image[p], (static_cast<float>(i) + 0.5f) / kSteps));
      const std::vector<double> gradient = pixels({batch(between, kBatch), which(label, kBatch)})[0].values<double>();
      for (std::size_t p = 0; p < gradient.size(); ++p) sums[p % image.size()] += gradient[p] / kSteps;
    }
    std::vector<float> heat(plane());
    for (std::size_t p = 0; p < image.size(); ++p)
      heat[p % plane()] += static_cast<float>(sums[p] * (image[p] - gray(p / plane())));
    return heat;
  }

  std::vector<float> occluded(std::int64_t label, double probability) {
    const int side = std::max(1, std::max(height(), width()) / 7), step = std::max(1, side / 2);
    constexpr std::int64_t kBatch = 16;
    std::vector<float> falls(plane()), hidden(image.size() * kBatch);
    std::vector<int> counts(plane());
    std::vector<std::pair<int, int>> waiting;
    const auto run = [&] {
      const std::vector<double> shares = ask(hidden, kBatch);
      const std::size_t classes = config.class_names.size();
      for (std::size_t i = 0; i < waiting.size(); ++i)
        for (int y = std::max(0, waiting[i].first); y < std::min(height(), waiting[i].first + side); ++y)
          for (int x = std::max(0, waiting[i].second); x < std::min(width(), waiting[i].second + side); ++x) {
            const auto p = static_cast<std::size_t>(y * width() + x);
            falls[p] += static_cast<float>(probability - shares[i * classes + static_cast<std::size_t>(label)]);
            ++counts[p];
          }
      waiting.clear();
    };
    for (int top = step - side; top < height(); top += step)
      for (int left = step - side; left < width(); left += step) {
        const auto one = hidden.begin() + static_cast<std::ptrdiff_t>(waiting.size() * image.size());
        std::copy(image.begin(), image.end(), one);
        for (int c = 0; c < channels(); ++c)
          for (int y = std::max(0, top); y < std::min(height(), top + side); ++y)
            for (int x = std::max(0, left); x < std::min(width(), left + side); ++x)
              one[static_cast<std::ptrdiff_t>(static_cast<std::size_t>(c) * plane()) + y * width() + x] = gray(
                  static_cast<std::size_t>(c));
        waiting.emplace_back(top, left);
        if (std::ssize(waiting) == kBatch) run();
      }
    if (!waiting.empty()) run();
    for (std::size_t p = 0; p < falls.size(); ++p) falls[p] /= static_cast<float>(std::max(1, counts[p]));
    return falls;
  }
};

Explainer::Explainer(const Checkpoint& checkpoint) {
  require(!checkpoint.config.sequence, checkpoint.path.string(), ": is a model of series or texts, not of images");
  state_ = std::make_unique<State>(checkpoint);
}
Explainer::~Explainer() = default;

Explanation Explainer::explain(const fs::path& image, Explaining way, std::optional<std::int64_t> label) {
  State& s = *state_;
  s.image.resize(s.config.preprocess.size().values());
  naming([&] { return image.string(); },
         [&] {
           s.decoder.open_file(image.string(), s.config.preprocess.decoding());
           s.transform(s.decoder, s.image.data());
         });
  const std::vector<double> shares = s.ask(s.image, 1);
  const std::int64_t likeliest = std::max_element(shares.begin(), shares.end()) - shares.begin();
  Explanation out{.label = label.value_or(likeliest), .height = s.height(), .width = s.width()};
  require(out.label >= 0 && out.label < std::ssize(shares), "explain: there is no class ", out.label);
  out.probability = shares[static_cast<std::size_t>(out.label)];
  switch (way) {
    case Explaining::grad_cam:
    case Explaining::layer_cam: out.heat = s.cam(way, out.label); break;
    case Explaining::integrated_gradients: out.heat = s.integrated(out.label); break;
    case Explaining::occlusion: out.heat = s.occluded(out.label, out.probability); break;
  }
  normalise(out.heat);
  return out;
}

Thumbnail Explainer::input(std::vector<std::string> caption) const {
  const State& s = *state_;
  return {.rgb = shown_pixels(s.image, s.config.preprocess),
          .height = s.height(),
          .width = s.width(),
          .caption = std::move(caption)};
}

Thumbnail Explainer::overlay(const Explanation& explanation, std::vector<std::string> caption) const {
  Thumbnail out = input(std::move(caption));
  for (std::size_t p = 0; p < explanation.heat.size(); ++p) {
    const Color color = heat_color(explanation.heat[p]);
    const double share = 0.15 + 0.5 * explanation.heat[p];
    const double values[] = {color.red, color.green, color.blue};
    for (std::size_t c = 0; c < 3; ++c)
      out.rgb[p * 3 + c] = static_cast<std::uint8_t>(
          std::lround(std::lerp(static_cast<double>(out.rgb[p * 3 + c]), values[c] * 255, share)));
  }
  return out;
}

}  // namespace neurim
