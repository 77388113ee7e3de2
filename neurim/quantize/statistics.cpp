#include "neurim/quantize/statistics.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "neurim/base/error.h"
#include "neurim/graph/value.h"
#include "neurim/ops/conv.h"

namespace neurim {

namespace {

/// Adds up what one value is over batches.
class Collector {
 public:
  void add(const Tensor& tensor, ValueStatistics& to) {
    const std::vector<float> values = tensor.values<float>();
    to.numbers.add(values);
    const int axis = tensor.rank() == 4 ? 1 : tensor.rank() - 1;
    const auto channels = static_cast<std::size_t>(std::int64_t{tensor.size(axis)});
    std::size_t inner = 1;
    for (int i = axis + 1; i < tensor.rank(); ++i) inner *= static_cast<std::size_t>(std::int64_t{tensor.size(i)});
    to.channel_most.resize(channels), sums_.resize(channels);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t channel = i / inner % channels;
      to.channel_most[channel] = std::max(to.channel_most[channel], std::abs(values[i]));
      sums_[channel] += values[i];
    }
    count_ += static_cast<std::int64_t>(values.size() / channels);
  }
  void finish(ValueStatistics& to) const {
    for (const double sum : sums_) to.channel_mean.push_back(sum / static_cast<double>(count_));
  }

 private:
  std::vector<double> sums_;
  std::int64_t count_ = 0;
};

/// The steps between the ends of a range.
int levels_of(DType dtype) { return dtype == DType::i8 ? 254 : 255; }

/// A constant like another one.
Tensor constant_like(const Tensor& like, const std::vector<float>& values) {
  const Tensor tensor = Tensor::from(like.shape(), values);
  tensor.set_name(std::string(like.name()));
  tensor.value()->constant = true;
  return tensor;
}

/// What makes the channels that some layers read, and can be divided by a number for each.
struct Maker {
  int weight = -1, bias = -1;  // values of the graph whose first axis is the channels
};

class Equalizer {
 public:
  Equalizer(const FloatModel& model, const Statistics& statistics)
      : out_(model), statistics_(statistics), readers_(count_readers(model.function.graph)) {
    for (const QuantLayer& layer : model.layers) layers_of_[layer.x].push_back(&layer);
  }

  FloatModel run(std::size_t* count) {
    for (const auto& [value, layers] : layers_of_) {
      const std::optional<Maker> maker = maker_of(value);
      // All that read it are layers whose weights nothing else reads.
      const bool all = readers_[value] == std::ssize(layers) &&
                       std::all_of(layers.begin(), layers.end(), [&](const QuantLayer* layer) {
                         return readers_[layer->weight] == 1 && axis_of(*layer) >= 0;
                       });
      if (!maker || !all) continue;
      equalize(*maker, layers, statistics_.at(value));
      if (count) ++*count;
    }
    return std::move(out_);
  }

 private:
  const Graph& graph() const { return out_.function.graph; }
  const Graph::Node* node_of(int value) const {
    const int node = graph().values[value].node;
    return node < 0 ? nullptr : &graph().nodes[node];
  }

  std::optional<Maker> maker_of(int value) const {
    static const std::set<std::string_view> kPassing{"relu", "leaky_relu", "max_pool2d"};
    const Graph::Node* node = node_of(value);
    while (node && kPassing.count(node->op->name()) > 0) {
      value = node->in[0];
      if (readers_[value] != 1) return {};
      node = node_of(value);
    }
    if (!node) return {};
    const std::string_view op = node->op->name();
    const bool product = op == "conv2d" || op == "linear";
    if ((!product && op != "layer_norm") || node->in.size() < 2) return {};
    for (std::size_t i = 1; i < node->in.size(); ++i) {
      const Tensor& stored = graph().values[node->in[i]].captured;
      if (!stored || !stored.value()->constant || readers_[node->in[i]] != 1) return {};
    }
    return Maker{node->in[1], node->in.size() > 2 ? node->in[2] : -1};
  }

  /// The axis of a layer's weight along which its input's channels lie: 0 where each has one filter, -1 where several
  /// groups share filters.
  int axis_of(const QuantLayer& layer) const {
    const auto* conv = dynamic_cast<const Conv2d*>(graph().nodes[layer.node].op.get());
    if (!conv || conv->options.groups == 1) return 1;
    const Shape& weight = graph().values[layer.weight].type.shape;
    return weight[1] == 1 && weight[0] == conv->options.groups ? 0 : -1;
  }

  void equalize(const Maker& maker, const std::vector<const QuantLayer*>& layers, const ValueStatistics& known) {
    const std::size_t channels = known.channel_most.size();
    std::vector<float> weights(channels);  // the largest of each channel
    for (const QuantLayer* layer : layers)
      each(layer->weight, axis_of(*layer),
           [&](float& weight, std::size_t c) { weights[c] = std::max(weights[c], std::abs(weight)); });
    std::vector<float> scales(channels, 1);
    for (std::size_t c = 0; c < channels; ++c)
      if (known.channel_most[c] > 0 && weights[c] > 0)
        scales[c] = std::clamp(std::sqrt(known.channel_most[c] / weights[c]), 1e-6f, 1e6f);
    for (const QuantLayer* layer : layers)
      each(layer->weight, axis_of(*layer), [&](float& weight, std::size_t c) { weight *= scales[c]; });
    for (const int value : {maker.weight, maker.bias})
      if (value >= 0) each(value, 0, [&](float& number, std::size_t c) { number /= scales[c]; });
  }

  /// Changes the numbers of a stored tensor, with their channel.
  template <class Change>
  void each(int value, int axis, const Change& change) {
    Tensor& stored = out_.function.graph.values[value].captured;
    std::vector<float> values = stored.values<float>();
    std::size_t inner = 1;
    for (int i = axis + 1; i < stored.rank(); ++i) inner *= static_cast<std::size_t>(std::int64_t{stored.size(i)});
    const auto channels = static_cast<std::size_t>(std::int64_t{stored.size(axis)});
    for (std::size_t i = 0; i < values.size(); ++i) change(values[i], i / inner % channels);
    stored = constant_like(stored, values);
  }

  FloatModel out_;
  const Statistics& statistics_;
  const std::vector<int> readers_;
  std::map<int, std::vector<const QuantLayer*>> layers_of_;  // by what they read
};

}  // namespace

Statistics statistics_of(const FloatModel& model, const Tensors& batches) {
  Statistics out;
  std::map<int, Collector> collectors;
  std::map<int, std::string> readers;
  for (const QuantLayer& layer : model.layers)
    for (const int value : {layer.beside, layer.x})
      if (value >= 0) readers[value] = layer.name;
  const auto see = [&](int value, const Tensor& tensor) {
    const auto reader = readers.find(value);
    if (reader == readers.end()) return;
    try {
      collectors[value].add(tensor, out[value]);
    } catch (const Error& error) {
      fail(Fault::failure, "what ", reader->second, " reads is not finite: ", error.what(),
           "; the weights are damaged, or training has diverged");
    }
  };
  const Graph& graph = model.function.graph;
  for (const Tensor& batch : batches) {
    see(graph.inputs[0], batch);
    call(graph, {batch}, see);
  }
  for (auto& [value, collector] : collectors) collector.finish(out[value]);
  return out;
}

Range byte_range(const Observer& numbers, RangeMethod method, DType dtype) {
  return numbers.range(method, levels_of(dtype), dtype == DType::i8);
}

ByteScale byte_scale(const Range& range, DType dtype) {
  if (range.low == range.high) return {};
  const double scale = (range.high - range.low) / levels_of(dtype);
  // As f32, which graphs hold; the zero point by that one.
  const auto stored = static_cast<float>(std::max<double>(scale, std::numeric_limits<float>::min()));
  return {stored, dtype == DType::i8 ? 0 : std::clamp<std::int64_t>(std::llround(-range.low / stored), 0, 255)};
}

FloatModel equalized(const FloatModel& model, const Statistics& statistics, std::size_t* count) {
  return Equalizer(model, statistics).run(count);
}

}  // namespace neurim
