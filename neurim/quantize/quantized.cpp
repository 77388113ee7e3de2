#include "neurim/quantize/quantized.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "neurim/base/error.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/integer.h"
#include "neurim/ops/quantize.h"
#include "neurim/ops/reshape.h"

namespace neurim {

namespace {

Tensor named(Tensor tensor, const std::string& name) {
  tensor.set_name(name);
  return tensor;
}

/// Weights in rows, one an output channel.
struct Rows {
  std::vector<float> values;
  std::size_t count, length;

  explicit Rows(const Tensor& weight)
      : values(weight.values<float>()),
        count(static_cast<std::size_t>(std::int64_t{weight.size(0)})),
        length(values.size() / count) {}
  std::span<const float> row(std::size_t i) const { return std::span(values).subspan(i * length, length); }
};

double largest(std::span<const float> values) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::abs(value));
  return most;
}

std::int64_t rounded(double value, double scale, double most) {
  return std::llround(std::clamp(std::nearbyint(value / scale), -most, most));
}

/// The scale of weights of -most to most that cuts none off.
float whole_scale(std::span<const float> values, double most) {
  const double scale = largest(values) / most;
  return scale > 0 ? static_cast<float>(scale) : 1.0f;
}

/// The scale of weights of -most to most that errs least on them.
float least_error_scale(std::span<const float> values, double most) {
  const double whole = largest(values) / most;
  double best = whole, least = std::numeric_limits<double>::infinity();
  for (int part = 100; whole > 0 && part >= 60; part -= 2) {
    const double scale = whole * part / 100;
    double error = 0;
    for (const float value : values) {
      const double off = value - static_cast<double>(rounded(value, scale, most)) * scale;
      error += off * off;
    }
    if (error < least) least = error, best = scale;
  }
  return best > 0 ? static_cast<float>(best) : 1.0f;
}

/// The weight of a layer in bytes, and what that changes.
struct ByteWeight {
  std::vector<std::int8_t> bytes;
  std::vector<float> scales;  // of each row
  Rows rows;

  /// Of a layer that reads numbers of this scale. Others add the bias, which may be empty, as i32 in units of both
  /// scales, so that of weights is large enough for it, as where a channel has hardly any weights.
  ByteWeight(const Tensor& weight, float input_scale, const std::vector<float>& bias) : rows(weight) {
    constexpr float kMostBias = 1 << 30;
    for (std::size_t i = 0; i < rows.count; ++i) {
      const float least = bias.empty() ? 0 : std::abs(bias[i]) / kMostBias / input_scale;
      scales.push_back(std::max(whole_scale(rows.row(i), 127), least));
      for (const float value : rows.row(i))
        bytes.push_back(static_cast<std::int8_t>(rounded(value, scales.back(), 127)));
    }
  }

  /// By how much the mean of each row's results grows, for inputs of these means.
  std::vector<float> shift(const std::vector<double>& mean, std::int64_t groups, bool pixels) const {
    std::vector<float> out;
    const std::size_t inputs = mean.size() / static_cast<std::size_t>(groups), taps = pixels ? rows.length / inputs : 1;
    for (std::size_t i = 0; i < rows.count; ++i) {
      const std::size_t first = i / (rows.count / static_cast<std::size_t>(groups)) * inputs;
      double sum = 0;
      for (std::size_t k = 0; k < rows.length; ++k)
        sum += (static_cast<double>(bytes[i * rows.length + k]) * scales[i] - rows.row(i)[k]) * mean[first + k / taps];
      out.push_back(static_cast<float>(sum));
    }
    return out;
  }
};

Shape scale_shape(const Shape& weight) {
  Shape shape = weight;
  for (int axis = 1; axis < shape.rank(); ++axis) shape[axis] = 1;
  return shape;
}

class ByteWriter {
 public:
  ByteWriter(const FloatModel& model, const Statistics& statistics, const std::vector<bool>& bytes,
             const ByteOptions& options)
      : model_(model), statistics_(statistics), options_(options) {
    NEURIM_ASSERT(bytes.size() == model.layers.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const QuantLayer& layer = model.layers[i];
      if (!bytes[i] && options.others != DType::f32) others_.insert(layer.node);
      if (!bytes[i]) continue;
      layers_[layer.node] = &layer;
      if (layer.beside >= 0) adds_[layer.add] = &layer;
    }
  }

  Tensors visit(const Graph::Node& node, const Tensors& in) {
    const auto number = static_cast<std::size_t>(&node - model_.function.graph.nodes.data());
    Tensors read = in;
    if (const auto layer = layers_.find(number); layer != layers_.end()) {
      const QuantLayer& one = *layer->second;
      read[0] = through(one.x, in[0], one.name + ".input");
      const ByteWeight weight(in[1], scale_of(one.x).scale,
                              in.size() > 2 ? in[2].values<float>() : std::vector<float>());
      Tensor bytes = Tensor::from({DType::i8, in[1].shape()}, weight.bytes.data());
      const Tensor scales = Tensor::from(scale_shape(in[1].shape()), weight.scales);
      read[1] = dequantize(named(bytes, one.name + ".weight"), named(scales, one.name + ".weight_scale"));
      correct(one, node, weight, read);
    } else if (const auto add = adds_.find(number); add != adds_.end()) {
      for (std::size_t i = 0; i < read.size(); ++i)
        if (node.in[i] == add->second->beside) {
          read[i] = through(add->second->beside, in[i], add->second->name + ".beside");
          break;
        }
    } else if (others_.count(number) > 0) {
      read[0] = cast(in[0], options_.others);
      for (std::size_t i = 1; i < read.size(); ++i) read[i] = narrowed(in[i]);
      return {cast(neurim::apply(node.op, read)[0], DType::f32)};
    } else {
      return {};
    }
    return neurim::apply(node.op, read);
  }

 private:
  /// A stored tensor in the type of the other layers.
  Tensor narrowed(const Tensor& stored) const {
    const Untraced untraced;
    return named(cast(stored, options_.others), std::string(stored.name()));
  }

  const ByteScale& scale_of(int value) {
    const auto [known, fresh] = scales_.try_emplace(value);
    if (fresh)
      known->second = byte_scale(byte_range(statistics_.at(value).numbers, options_.method, options_.activations),
                                 options_.activations);
    return known->second;
  }

  /// What bytes keep of a value; all its readers share it.
  Tensor through(int value, const Tensor& tensor, const std::string& name) {
    Tensor& known = restored_[value];
    if (known) return known;
    const ByteScale to = scale_of(value);
    const Tensor scale = named(Tensor::full({DType::f32, {}}, to.scale), name + "_scale");
    return known = dequantize(quantize(tensor, scale, to.zero_point, options_.activations), scale, to.zero_point);
  }

  /// Gives the layer the bias that bytes need: whole numbers of both scales, as runtimes add it in i32.
  void correct(const QuantLayer& layer, const Graph::Node& node, const ByteWeight& weight, Tensors& read) {
    if (read.size() <= 2 && !options_.correct_bias) return;
    const auto* conv = dynamic_cast<const Conv2d*>(node.op.get());
    std::vector<float> bias = read.size() > 2 ? read[2].values<float>() : std::vector<float>(weight.rows.count, 0);
    const std::vector<float> shift = weight.shift(statistics_.at(layer.x).channel_mean, conv ? conv->options.groups : 1,
                                                  conv != nullptr);
    const double scale = scale_of(layer.x).scale;
    for (std::size_t i = 0; i < bias.size(); ++i) {
      const double unit = scale * weight.scales[i], wanted = bias[i] - (options_.correct_bias ? shift[i] : 0);
      bias[i] = static_cast<float>(std::nearbyint(wanted / unit) * unit);
    }
    const Tensor corrected = named(Tensor::from({std::ssize(bias)}, bias), layer.name + ".bias");
    if (read.size() > 2)
      read[2] = corrected;
    else
      read.push_back(corrected);
  }

  const FloatModel& model_;
  const Statistics& statistics_;
  const ByteOptions options_;
  std::map<std::size_t, const QuantLayer*> layers_, adds_;  // by nodes
  std::set<std::size_t> others_;                            // nodes of the other layers, where these are not f32
  std::map<int, ByteScale> scales_;                         // by values of the graph
  std::map<int, Tensor> restored_;                          // the same
};

/// A weight written in groups, and read again as f32.
Tensor in_groups(const Tensor& weight, int bits, std::int64_t group, bool whole, const std::string& name) {
  const Rows rows(weight);
  const auto length = static_cast<std::int64_t>(rows.length), count = static_cast<std::int64_t>(rows.count);
  const auto [size, most] = weight_groups(weight.shape(), bits, group);
  std::vector<std::int64_t> wholes;
  std::vector<float> scales;
  for (std::size_t first = 0; first < rows.values.size(); first += static_cast<std::size_t>(size)) {
    const auto values = std::span(rows.values).subspan(first, static_cast<std::size_t>(size));
    scales.push_back(whole ? whole_scale(values, most) : least_error_scale(values, most));
    for (const float value : values) wholes.push_back(rounded(value, scales.back(), most));
  }
  const Tensor scale = named(Tensor::from({count, length / size, 1}, scales), name + ".weight_scale");
  const Shape grouped{count, length / size, size};
  if (most == 127) {
    const std::vector<std::int8_t> bytes(wholes.begin(), wholes.end());
    const Tensor stored = named(Tensor::from({DType::i8, grouped}, bytes.data()), name + ".weight");
    return reshape(dequantize(stored, scale), weight.shape());
  }
  constexpr std::int64_t kZero = 8;
  std::vector<std::uint8_t> pairs;
  for (std::size_t i = 0; i < wholes.size(); i += 2)
    pairs.push_back(static_cast<std::uint8_t>((wholes[i] + kZero) | (wholes[i + 1] + kZero) << 4));
  const Tensor stored = named(Tensor::from({DType::u8, {count, length / 2, 1}}, pairs.data()), name + ".weight");
  const auto number = [](double value) { return Tensor::full({DType::u8, {}}, value); };
  const Tensor both = concat({integer("and", {stored, number(15)}), integer("shift_right", {stored, number(4)})}, 2);
  return reshape(dequantize(reshape(both, grouped), scale, kZero), weight.shape());
}

}  // namespace

Function quantized(const FloatModel& model, const Statistics& statistics, const std::vector<bool>& bytes,
                   const ByteOptions& options) {
  Function out = model.function;
  ByteWriter writer(model, statistics, bytes, options);
  out.graph = rewrite(model.function.graph,
                      [&](const Graph::Node& node, const Tensors& in) { return writer.visit(node, in); });
  return out;
}

WeightGroups weight_groups(const Shape& weight, int bits, std::int64_t group) {
  const std::int64_t length = std::int64_t{weight.numel()} / std::int64_t{weight[0]};
  return {group > 0 && length % group == 0 ? group : length, bits == 4 && length % 2 == 0 ? 7.0 : 127.0};
}

Function weights_quantized(const FloatModel& model, int bits, std::int64_t group, const std::vector<bool>& chosen,
                           bool whole) {
  require(bits == 8 || bits == 4, "weights of ", bits, " bits: known are 8 and 4");
  require(group >= 0, "group is ", group, "; it is a number of weights, or 0");
  std::map<std::size_t, std::string> names;
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    if (chosen[i]) names[model.layers[i].node] = model.layers[i].name;
  Function out = model.function;
  out.graph = rewrite(model.function.graph, [&](const Graph::Node& node, const Tensors& in) -> Tensors {
    const auto name = names.find(static_cast<std::size_t>(&node - model.function.graph.nodes.data()));
    if (name == names.end()) return {};
    Tensors read = in;
    read[1] = in_groups(in[1], bits, group, whole, name->second);
    return neurim::apply(node.op, read);
  });
  return out;
}

}  // namespace neurim
