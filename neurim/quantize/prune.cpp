#include "neurim/quantize/prune.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "neurim/base/error.h"
#include "neurim/graph/value.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/reshape.h"

namespace neurim {

namespace {

/// A weight one of whose axes goes along with a group's channels.
struct ChannelAxis {
  int value;  ///< of the graph: a stored tensor
  int axis;
  std::int64_t repeat = 1;  ///< neighbouring elements of a channel, as where pixels were flattened
};

/// The channels of a graph's values as sets that are joined.
class Channels {
 public:
  explicit Channels(const FloatModel& model) : graph_(model.function.graph) {
    for (const int input : graph_.inputs) fix(input);
    for (const Graph::Node& node : graph_.nodes) visit(node);
    for (const int output : graph_.outputs) fix(output);
  }

  /// A set of channels that may lose some.
  struct Set {
    std::int64_t count = 0;
    std::vector<ChannelAxis> axes;
    std::vector<std::string> makers;
  };
  std::map<int, Set> free_sets() {
    std::map<int, Set> sets;
    for (const auto& [set, axis] : axes_) {
      const int root = root_of(set);
      if (fixed_[static_cast<std::size_t>(root)]) continue;
      Set& all = sets[root];
      all.count = counts_[static_cast<std::size_t>(root)];
      all.axes.push_back(axis);
    }
    for (const auto& [set, name] : makers_)
      if (const auto found = sets.find(root_of(set)); found != sets.end()) found->second.makers.push_back(name);
    return sets;
  }
  /// The set of a value's channels; -1: it has none.
  int set_of(int value) {
    const auto found = sets_.find(value);
    return found == sets_.end() ? -1 : root_of(found->second);
  }
  std::int64_t repeat_of(int value) const {
    const auto found = repeats_.find(value);
    return found == repeats_.end() ? 1 : found->second;
  }

  /// Whether a reshape makes (N,C*H*W) of (N,C,H,W).
  bool flattens(const Graph::Node& node) const {
    const Shape &from = value(node.in[0]).type.shape, &to = value(node.out[0]).type.shape;
    return !stored(node.in[0]) && from.rank() == 4 && to.rank() == 2 && from[0] == to[0] && !from[1].symbolic() &&
           !to[1].symbolic() && repeat_of(node.in[0]) == 1;
  }

 private:
  const Graph::Value& value(int number) const { return graph_.values[static_cast<std::size_t>(number)]; }
  bool stored(int number) const { return bool(value(number).captured); }

  int make_set(std::int64_t count) {
    parents_.push_back(static_cast<int>(parents_.size()));
    counts_.push_back(count), fixed_.push_back(count <= 1);
    return parents_.back();
  }
  int root_of(int set) {
    while (parents_[static_cast<std::size_t>(set)] != set) set = parents_[static_cast<std::size_t>(set)];
    return set;
  }
  /// The set of a value's axis 1, made when first asked for.
  int at(int number) {
    const auto [found, fresh] = sets_.emplace(number, -1);
    if (fresh) {
      const Shape& shape = value(number).type.shape;
      const bool counted = shape.rank() >= 2 && !shape[1].symbolic();
      found->second = make_set(counted ? std::int64_t{shape[1]} : 1);
    }
    return root_of(found->second);
  }
  void fix(int number) { fixed_[static_cast<std::size_t>(at(number))] = true; }
  void fix_all(const Graph::Node& node) {
    for (const int in : node.in)
      if (!stored(in)) fix(in);
    for (const int out : node.out) fix(out);
  }
  void join(int first, int second) { unite(at(first), at(second)); }
  void unite(int first, int second) {
    const int a = root_of(first), b = root_of(second);
    if (counts_[static_cast<std::size_t>(a)] != counts_[static_cast<std::size_t>(b)]) {
      fixed_[static_cast<std::size_t>(a)] = fixed_[static_cast<std::size_t>(b)] = true;
      return;
    }
    fixed_[static_cast<std::size_t>(a)] = fixed_[static_cast<std::size_t>(a)] || fixed_[static_cast<std::size_t>(b)];
    parents_[static_cast<std::size_t>(b)] = a;
  }

  void visit(const Graph::Node& node) {
    if (node.out.size() != 1) return fix_all(node);
    const std::string_view op = node.op->name();
    if (op == "conv2d" || op == "linear") return visit_product(node);
    if (op == "reshape") return visit_reshape(node);
    const bool pools = op.find("pool2d") != std::string_view::npos || op == "interpolate";
    if (pools || node.op->fusion().pointwise) return visit_elementwise(node, pools);
    fix_all(node);
  }

  void visit_product(const Graph::Node& node) {
    const auto* conv = dynamic_cast<const Conv2d*>(node.op.get());
    const int x = node.in[0], weight = node.in[1], y = node.out[0];
    if (stored(x) || !stored(weight) || (!conv && value(x).type.shape.rank() != 2)) return fix_all(node);
    const std::int64_t channels = value(x).type.shape[1], outs = value(weight).type.shape[0];
    if (conv && conv->options.groups == channels && outs == channels) {
      join(x, y);
    } else if (conv && conv->options.groups != 1) {
      return fix_all(node);
    } else {
      add_axis(at(x), {weight, 1, repeat_of(x)});
      makers_.emplace_back(at(y), std::string(value(weight).captured.name()));
    }
    add_axis(at(y), {weight, 0});
    if (node.in.size() > 2 && stored(node.in[2])) add_axis(at(y), {node.in[2], 0});
    if (node.in.size() > 2 && !stored(node.in[2])) fix(y);
  }

  void visit_reshape(const Graph::Node& node) {
    if (!flattens(node)) return fix_all(node);
    const Shape &from = value(node.in[0]).type.shape, &to = value(node.out[0]).type.shape;
    repeats_[node.out[0]] = std::int64_t{to[1]} / std::int64_t{from[1]};
    sets_[node.out[0]] = at(node.in[0]);
  }

  void visit_elementwise(const Graph::Node& node, bool pools) {
    const int y = node.out[0];
    const Shape& shape = value(y).type.shape;
    if (shape.rank() < 2) return fix_all(node);
    std::vector<int> alike;  // inputs with the channels of y
    for (const int in : node.in) {
      const Shape& own = value(in).type.shape;
      if (stored(in)) continue;
      if (own.rank() != shape.rank() || (own[1] != shape[1] && !(own[1] == 1)) || (pools && in != node.in[0]))
        return fix_all(node);
      if (own[1] == shape[1]) alike.push_back(in);
    }
    const auto other = [&](int in) { return repeat_of(in) != repeat_of(alike[0]); };
    if (alike.empty() || std::any_of(alike.begin(), alike.end(), other)) return fix_all(node);
    if (repeat_of(alike[0]) != 1) repeats_[y] = repeat_of(alike[0]);
    sets_[y] = at(alike[0]);
    for (const int in : alike) join(in, y);
    for (const int in : node.in) {
      if (!stored(in)) continue;
      const Shape& own = value(in).type.shape;
      const int axis = own.rank() - shape.rank() + 1;  // of channels, as shapes are broadcast from behind
      if (axis >= 0 && own.rank() > axis && own[axis] == shape[1] && shape[1] != 1)
        add_axis(at(y), {in, axis, repeat_of(y)});
      else if (own.numel() != 1 && !(axis >= 0 && own.rank() > axis && own[axis] == 1))
        return fix_all(node);
    }
  }

  /// A tensor that several layers read along the same axis joins their channels.
  void add_axis(int set, const ChannelAxis& axis) {
    const auto [known, fresh] = owners_.try_emplace({axis.value, axis.axis}, set, axis.repeat);
    if (fresh) return axes_.emplace_back(set, axis), void();
    const auto [owner, repeat] = known->second;
    if (repeat != axis.repeat) fixed_[root(owner)] = fixed_[root(set)] = true;
    unite(owner, set);
  }
  std::size_t root(int set) { return static_cast<std::size_t>(root_of(set)); }

  const Graph& graph_;
  std::vector<int> parents_;
  std::vector<std::int64_t> counts_;
  std::vector<bool> fixed_;
  std::map<int, int> sets_;              // by values
  std::map<int, std::int64_t> repeats_;  // the same, where it is not 1
  std::vector<std::pair<int, ChannelAxis>> axes_;
  std::map<std::pair<int, int>, std::pair<int, std::int64_t>> owners_;  // set and repeat of a tensor's axis
  std::vector<std::pair<int, std::string>> makers_;
};

/// How many neighbouring elements belong to a channel.
std::int64_t elements_of_channel(const Tensor& weight, const ChannelAxis& of) {
  std::int64_t count = of.repeat;
  for (int axis = of.axis + 1; axis < weight.rank(); ++axis) count *= std::int64_t{weight.size(axis)};
  return count;
}

/// The sum of squares of each channel of a weight.
std::vector<double> squares(const Tensor& weight, const ChannelAxis& of, std::int64_t channels) {
  const std::vector<float> values = weight.values<float>();
  const std::int64_t behind = elements_of_channel(weight, of);
  std::vector<double> sums(static_cast<std::size_t>(channels));
  for (std::size_t i = 0; i < values.size(); ++i)
    sums[i / static_cast<std::size_t>(behind) % sums.size()] += static_cast<double>(values[i]) * values[i];
  return sums;
}

/// The elements of a stored tensor whose channels stay.
Tensor taken(const Tensor& weight, const ChannelAxis& of, const std::vector<std::int64_t>& kept) {
  const std::vector<float> values = weight.values<float>();
  const std::int64_t behind = elements_of_channel(weight, of),
                     row = std::int64_t{weight.size(of.axis)} / of.repeat * behind;
  std::vector<float> out;
  for (std::int64_t first = 0; first < std::ssize(values); first += row)
    for (const std::int64_t channel : kept) {
      const auto from = values.begin() + first + channel * behind;
      out.insert(out.end(), from, from + behind);
    }
  Shape shape = weight.shape();
  shape[of.axis] = std::ssize(kept) * of.repeat;
  Tensor result = Tensor::from(shape, out);
  result.set_name(std::string(weight.name()));
  result.value()->constant = true;
  return result;
}

class Pruner {
 public:
  Pruner(const FloatModel& model, const PruneOptions& options) : model_(model), o_(options), channels_(model) {
    for (auto& [set, all] : channels_.free_sets()) {
      if (all.makers.empty() || all.count < 2 * o_.multiple) continue;
      sets_.push_back(set), found_.push_back(std::move(all));
      groups_.push_back({.importance = importance(found_.back()), .layers = found_.back().makers});
    }
  }

  PrunedModel run() {
    PrunedModel result{.before = macs({})};
    const auto target = static_cast<std::int64_t>(o_.macs * static_cast<double>(result.before));
    double low = 0, high = 0;
    for (const ChannelGroup& group : groups_)
      for (const double one : group.importance) high = std::max(high, 2 * one);
    if (macs(counts(high)) > target)
      fail(Fault::usage, "macs: at least ",
           significant(static_cast<double>(macs(counts(high))) / static_cast<double>(result.before)),
           " of the multiply-adds stay, and ", o_.macs, " is asked for");
    for (int step = 0; step < 60; ++step) {
      const double middle = (low + high) / 2;
      (macs(counts(middle)) > target ? low : high) = middle;
    }
    const std::vector<std::int64_t> kept = counts(high);
    for (std::size_t i = 0; i < groups_.size(); ++i) groups_[i].kept = kept[i];
    result.model = rebuilt();
    result.groups = groups_;
    for (const QuantLayer& layer : result.model.layers) result.after += layer.multiply_adds;
    return result;
  }

 private:
  std::vector<double> importance(const Channels::Set& set) const {
    std::vector<double> made(static_cast<std::size_t>(set.count)), read = made;
    for (const ChannelAxis& axis : set.axes) {
      const Tensor& weight = model_.function.graph.values[static_cast<std::size_t>(axis.value)].captured;
      if (weight.rank() < 2) continue;  // biases say nothing of what a channel does
      const std::vector<double> own = squares(weight, axis, set.count);
      const double sum = std::accumulate(own.begin(), own.end(), 0.0);
      std::vector<double>& sums = axis.axis == 0 ? made : read;
      for (std::size_t c = 0; sum > 0 && c < own.size(); ++c) sums[c] += own[c] / sum;
    }
    double sum = 0;
    for (std::size_t c = 0; c < made.size(); ++c) sum += made[c] = std::sqrt(made[c] * read[c]);
    for (double& one : made) one *= sum > 0 ? static_cast<double>(set.count) / sum : 0;
    return made;
  }

  /// How many channels of each group stay where those below `threshold` go.
  std::vector<std::int64_t> counts(double threshold) const {
    std::vector<std::int64_t> all;
    for (const ChannelGroup& group : groups_) {
      const std::int64_t channels = std::ssize(group.importance);
      std::int64_t kept = std::count_if(group.importance.begin(), group.importance.end(),
                                        [&](double one) { return one >= threshold; });
      kept = std::max(
          {kept, static_cast<std::int64_t>(std::ceil(o_.least * static_cast<double>(channels))), std::int64_t{1}});
      all.push_back(std::min(channels, (kept + o_.multiple - 1) / o_.multiple * o_.multiple));
    }
    return all;
  }

  /// The multiply-adds of a sample with so many channels; {}: all.
  std::int64_t macs(const std::vector<std::int64_t>& kept) {
    double sum = 0;
    const Graph& graph = model_.function.graph;
    const auto share = [&](int value) {
      const auto found = std::find(sets_.begin(), sets_.end(), channels_.set_of(value));
      if (found == sets_.end() || kept.empty()) return 1.0;
      const auto group = static_cast<std::size_t>(found - sets_.begin());
      return static_cast<double>(kept[group]) / static_cast<double>(groups_[group].importance.size());
    };
    for (const QuantLayer& layer : model_.layers) {
      const Graph::Node& node = graph.nodes[layer.node];
      const auto* conv = dynamic_cast<const Conv2d*>(node.op.get());
      const bool grouped = conv && conv->options.groups != 1;
      sum += static_cast<double>(layer.multiply_adds) * share(node.out[0]) * (grouped ? 1 : share(node.in[0]));
    }
    return std::llround(sum);
  }

  FloatModel rebuilt() {
    const Graph& graph = model_.function.graph;
    std::map<int, Tensor> smaller;  // stored tensors, by values
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      const std::vector<double>& importance = groups_[i].importance;
      std::vector<std::int64_t> order(importance.size());
      std::iota(order.begin(), order.end(), std::int64_t{0});
      std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
        return importance[static_cast<std::size_t>(a)] > importance[static_cast<std::size_t>(b)];
      });
      order.resize(static_cast<std::size_t>(groups_[i].kept));
      std::sort(order.begin(), order.end());
      for (const ChannelAxis& axis : found_[i].axes) {
        Tensor& now = smaller[axis.value];
        if (!now) now = graph.values[static_cast<std::size_t>(axis.value)].captured;
        if (now.size(axis.axis) == std::ssize(importance) * axis.repeat) now = taken(now, axis, order);
      }
    }
    const auto traced = [&](const Tensors& inputs) {
      std::map<int, Tensor> values;
      for (std::size_t i = 0; i < inputs.size(); ++i) values[graph.inputs[i]] = inputs[i];
      const auto read = [&](int value) {
        if (const auto found = smaller.find(value); found != smaller.end()) return found->second;
        const Tensor& stored = graph.values[static_cast<std::size_t>(value)].captured;
        return stored ? stored : values.at(value);
      };
      for (const Graph::Node& node : graph.nodes) {
        Tensors in;
        for (const int value : node.in) in.push_back(read(value));
        const Tensors out = applied(node, in);
        for (std::size_t i = 0; i < out.size(); ++i) values[node.out[i]] = out[i];
      }
      Tensors outputs;
      for (const int value : graph.outputs) outputs.push_back(read(value));
      return outputs;
    };
    const Function& old = model_.function;
    return float_model(trace_function(traced, old.input_ports(), old.outputs, old.metadata, graph.device));
  }

  /// The node of inputs with fewer channels.
  Tensors applied(const Graph::Node& node, const Tensors& in) {
    if (const auto* conv = dynamic_cast<const Conv2d*>(node.op.get()); conv && conv->options.groups > 1) {
      ConvOptions<2> options = conv->options;
      if (in[1].size(1) == 1) options.groups = in[0].size(1);
      return {conv2d(in[0], in[1], in.size() > 2 ? in[2] : Tensor{}, options)};
    }
    if (node.op->name() == "reshape" && channels_.flattens(node))
      return {reshape(in[0], {in[0].size(0), channels_.repeat_of(node.out[0]) * std::int64_t{in[0].size(1)}})};
    return neurim::apply(node.op, in);
  }

  const FloatModel& model_;
  const PruneOptions o_;
  Channels channels_;
  std::vector<int> sets_;
  std::vector<Channels::Set> found_;
  std::vector<ChannelGroup> groups_;
};

}  // namespace

void PruneOptions::check() const {
  require(macs > 0 && macs < 1, "macs is ", macs, "; it is a share between 0 and 1");
  require(multiple >= 1, "multiple is ", multiple, "; it is at least 1");
  require(least >= 0 && least <= 1, "least is ", least, "; it is a share of 0 to 1");
}

PrunedModel prune_channels(const FloatModel& model, const PruneOptions& options) {
  options.check();
  return Pruner(model, options).run();
}

}  // namespace neurim
