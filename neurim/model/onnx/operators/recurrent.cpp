// Recurrent layers: by the ops of such layers where these compute what is wanted, else step by step.
#include "neurim/ops/recurrent.h"

#include <array>
#include <functional>
#include <map>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/model/onnx/operators/operators.h"
#include "neurim/ops/add.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/clamp.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/elu.h"
#include "neurim/ops/leaky_relu.h"
#include "neurim/ops/linear.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/maximum.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/relu.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/sigmoid.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/softplus.h"
#include "neurim/ops/softsign.h"
#include "neurim/ops/split.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/tanh.h"
#include "neurim/ops/transpose.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

/// An activation function with its numbers.
struct RecurrentActivation {
  std::string name;  ///< in small letters
  double alpha = 0, beta = 0;

  Tensor operator()(const Tensor& x) const {
    if (name == "tanh") return tanh(x);
    if (name == "sigmoid") return sigmoid(x);
    if (name == "relu") return relu(x);
    if (name == "affine") return x * alpha + beta;
    if (name == "leakyrelu") return leaky_relu(x, alpha);
    if (name == "thresholdedrelu") return where(greater_equal(x, scalar_like(x, alpha)), x, scalar_like(x, 0));
    if (name == "scaledtanh") return tanh(x * beta) * alpha;
    if (name == "hardsigmoid") return clamp(x * alpha + beta, 0, 1);
    if (name == "elu") return elu(x, alpha);
    if (name == "softsign") return softsign(x);
    return softplus(x);
  }
};

/// The numbers that an activation has where the node says none; those that it does not take are nothing.
struct ActivationDefaults {
  std::optional<double> alpha, beta;
};

const std::map<std::string, ActivationDefaults>& known_activations() {
  static const auto& all = *new std::map<std::string, ActivationDefaults>{{"tanh", {}},
                                                                          {"sigmoid", {}},
                                                                          {"relu", {}},
                                                                          {"softsign", {}},
                                                                          {"softplus", {}},
                                                                          {"affine", {1.0, 0.0}},
                                                                          {"leakyrelu", {0.01, {}}},
                                                                          {"thresholdedrelu", {1.0, {}}},
                                                                          {"scaledtanh", {1.0, 1.0}},
                                                                          {"hardsigmoid", {0.2, 0.5}},
                                                                          {"elu", {1.0, {}}}};
  return all;
}

/// The activations of a node, those of each direction after each other. A list of numbers has one for each activation,
/// or one for each that takes such a number.
std::vector<RecurrentActivation> activations_of(const OnnxCall& call, const std::vector<std::string>& defaults,
                                                std::size_t directions) {
  std::vector<std::string> names = call.words("activations");
  if (names.empty())
    for (std::size_t i = 0; i < directions; ++i) names.insert(names.end(), defaults.begin(), defaults.end());
  const std::size_t count = directions * defaults.size();
  // RNN's default has one for each of two directions, whatever the direction is.
  if (defaults.size() == 1 && names.size() == 2 && count == 1) names.resize(1);
  require(names.size() == count, "there are ", names.size(), " activations, where ", count, " are wanted");
  const std::vector<double> alphas = call.numbers("activation_alpha"), betas = call.numbers("activation_beta");
  std::size_t alpha = 0, beta = 0;
  std::vector<RecurrentActivation> all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    RecurrentActivation activation{lower(names[i])};
    const auto known = known_activations().find(activation.name);
    require(known != known_activations().end(), "the activation '", names[i], "' is not supported");
    const auto number = [&](const std::optional<double>& otherwise, const std::vector<double>& given,
                            std::size_t& next) {
      if (!otherwise) return 0.0;
      const std::size_t place = given.size() == count ? i : next++;
      return place < given.size() ? given[place] : *otherwise;
    };
    activation.alpha = number(known->second.alpha, alphas, alpha);
    activation.beta = number(known->second.beta, betas, beta);
    all.push_back(activation);
  }
  return all;
}

/// One direction of a layer: its operands without their axis of directions.
struct RecurrentDirection {
  Cell cell = Cell::rnn;
  bool reverse = false;
  std::int64_t hidden = 0;
  std::vector<RecurrentActivation> activations;
  double clip = 0;  // 0: none
  bool input_forget = false, linear_before_reset = false;
  Tensor x, w, r, b, p, h0, c0, lengths;  // x: (T,N,I), in ONNX's order of gates; lengths: i64

  /// The parts of the first axis in another order.
  Tensor sorted(const Tensor& stack, const std::vector<std::size_t>& order) const {
    if (order.size() == 1 || !stack) return stack;
    const Tensors parts = split(stack, std::vector<std::int64_t>(order.size(), hidden), 0);
    Tensors moved;
    for (const std::size_t part : order) moved.push_back(parts[part]);
    return concat(moved, 0);
  }
  /// Half of the biases: of the inputs, or of the states.
  Tensor half(std::int64_t which) const {
    const std::int64_t size = gate_count(cell) * hidden;
    return b ? slice(b, {which * size}, {(which + 1) * size}, {0}) : Tensor();
  }
  bool is(const std::vector<std::string_view>& names) const {
    for (std::size_t i = 0; i < names.size(); ++i)
      if (activations[i].name != names[i]) return false;
    return true;
  }
  Tensor zeros() const { return broadcast_to(Tensor::scalar(0, x.dtype(), x.device()), {x.size(1), hidden}); }
};

/// Whether lengths are known of which one is 0, for which the ops have no meaning.
bool has_empty(const Tensor& lengths) {
  if (!lengths || lengths.traced()) return false;
  const std::vector<std::int64_t> all = lengths.values<std::int64_t>();
  return std::any_of(all.begin(), all.end(), [](std::int64_t length) { return length < 1; });
}

/// By the op of the layer; nothing where it has none for what is wanted.
Tensors by_recurrent_op(const RecurrentDirection& d) {
  if (d.clip > 0 || has_empty(d.lengths)) return {};
  const std::vector<std::size_t> order = d.cell == Cell::lstm  ? std::vector<std::size_t>{0, 2, 3, 1}
                                         : d.cell == Cell::gru ? std::vector<std::size_t>{1, 0, 2}
                                                               : std::vector<std::size_t>{0};
  RecurrentInputs in{.x = d.x,
                     .weight_ih = d.sorted(d.w, order),
                     .weight_hh = d.sorted(d.r, order),
                     .bias_ih = d.sorted(d.half(0), order),
                     .bias_hh = d.sorted(d.half(1), order),
                     .h0 = d.h0,
                     .lengths = d.lengths};
  if (d.cell == Cell::gru) return d.is({"sigmoid", "tanh"}) ? gru(in, d.reverse, d.linear_before_reset) : Tensors();
  if (d.cell == Cell::rnn) {
    const std::string& name = d.activations[0].name;
    return name == "tanh" || name == "relu" ? rnn(in, d.reverse, name) : Tensors();
  }
  if (d.input_forget || !d.is({"sigmoid", "tanh", "tanh"})) return {};
  in.peephole = d.sorted(d.p, {0, 2, 1});
  if (d.h0 || d.c0) in.h0 = d.h0 ? d.h0 : d.zeros(), in.c0 = d.c0 ? d.c0 : d.zeros();
  return lstm(in, d.reverse);
}

/// The states of a cell.
struct RecurrentState {
  Tensor h, c;
};

/// One step: `gates` (N,G*H) are the products with the inputs and the biases that are added to them.
RecurrentState recurrent_step(const RecurrentDirection& d, const Tensor& gates, const RecurrentState& s) {
  const auto activated = [&](std::size_t which, const Tensor& t) {
    return d.activations[which](d.clip > 0 ? clamp(t, -d.clip, d.clip) : t);
  };
  const auto parts = [&](const Tensor& t, int axis) {
    return split(t, std::vector<std::int64_t>(static_cast<std::size_t>(gate_count(d.cell)), d.hidden), axis);
  };
  if (d.cell == Cell::rnn) return {activated(0, gates + matmul(s.h, d.r, false, true)), {}};
  if (d.cell == Cell::gru) {
    const Tensors in = parts(gates, 1), weights = parts(d.r, 0);
    const Tensor bias = d.b ? slice(d.b, {5 * d.hidden}, {6 * d.hidden}, {0})
                            : Tensor();  // of the hidden gate's states
    const auto heard = [&](std::size_t gate, const Tensor& h) { return matmul(h, weights[gate], false, true); };
    const auto with_bias = [&](const Tensor& t) { return bias ? t + bias : t; };
    const Tensor z = activated(0, in[0] + heard(0, s.h)), r = activated(0, in[1] + heard(1, s.h));
    const Tensor more = d.linear_before_reset ? r * with_bias(heard(2, s.h)) : with_bias(heard(2, r * s.h));
    return {(1.0 - z) * activated(1, in[2] + more) + z * s.h, {}};
  }
  const Tensors g = parts(gates + matmul(s.h, d.r, false, true), 1);
  const Tensors peep = d.p ? split(d.p, std::vector<std::int64_t>(3, d.hidden), 0) : Tensors();
  const auto seen = [&](const Tensor& t, std::size_t gate, const Tensor& c) { return d.p ? t + peep[gate] * c : t; };
  const Tensor i = activated(0, seen(g[0], 0, s.c)), f = d.input_forget ? 1.0 - i : activated(0, seen(g[2], 2, s.c)),
               c = f * s.c + i * activated(1, g[3]), o = activated(0, seen(g[1], 1, c));
  // ONNX Runtime limits what the gates take, not what the cell does.
  return {o * d.activations[2](c), c};
}

/// Step by step: outputs (T,N,H), last h and c.
Tensors by_steps(const RecurrentDirection& d) {
  const std::int64_t steps = d.x.size(0), hidden = d.hidden;
  Tensor bias = d.half(0);
  if (bias && d.cell != Cell::gru) bias = bias + d.half(1);
  // Of a GRU's hidden gate the bias of the states may be multiplied.
  if (bias && d.cell == Cell::gru)
    bias = concat({slice(bias, {0}, {2 * hidden}, {0}) + slice(d.half(1), {0}, {2 * hidden}, {0}),
                   slice(bias, {2 * hidden}, {3 * hidden}, {0})},
                  0);
  const Tensor all = linear(d.x, d.w, bias);
  RecurrentState state{d.h0 ? d.h0 : d.zeros(), {}};
  if (d.cell == Cell::lstm) state.c = d.c0 ? d.c0 : d.zeros();
  const Tensor zero = scalar_like(d.x, 0);
  Tensors outputs(static_cast<std::size_t>(steps));
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t t = d.reverse ? steps - 1 - step : step;
    const Tensor gates = reshape(slice(all, {t}, {t + 1}, {0}), {d.x.size(1), all.size(2)});
    RecurrentState next = recurrent_step(d, gates, state);
    Tensor output = next.h;
    if (d.lengths) {
      const Tensor alive = reshape(greater(d.lengths, scalar_like(d.lengths, static_cast<double>(t))),
                                   {d.x.size(1), 1});
      output = where(alive, next.h, zero);
      next.h = where(alive, next.h, state.h);
      if (next.c) next.c = where(alive, next.c, state.c);
    }
    state = next;
    outputs[static_cast<std::size_t>(t)] = reshape(output, {1, d.x.size(1), hidden});
  }
  require(steps > 0, "there are no steps");
  return {concat(outputs, 0), state.h, state.c};
}

/// One of an operand's directions, without that axis.
Tensor direction_of(const Tensor& t, std::int64_t direction) {
  if (!t) return t;
  Shape shape;
  for (int axis = 1; axis < t.rank(); ++axis) shape.push_back(t.size(axis));
  return reshape(t.size(0) == 1 ? t : slice(t, {direction}, {direction + 1}, {0}), shape);
}

/// The results of directions beside each other along a new axis.
Tensor with_directions(const Tensors& all, int axis) {
  Shape shape = all[0].shape();
  shape.push_back(0);
  for (int i = shape.rank() - 1; i > axis; --i) shape[i] = shape[i - 1];
  shape[axis] = 1;
  Tensors parts;
  for (const Tensor& each : all) parts.push_back(reshape(each, shape));
  return parts.size() == 1 ? parts[0] : concat(parts, axis);
}

/// What the attributes and inputs of a node say, but for what is one direction's own.
RecurrentDirection common_direction(const OnnxCall& call, Cell cell, bool batch_first) {
  const Tensor &x = call.tensor(0), &r = call.tensor(2);
  require(x.rank() == 3 && call.tensor(1).rank() == 3 && r.rank() == 3, "X, W and R are ", x.shape(), ", ",
          call.tensor(1).shape(), " and ", r.shape(), ", where three axes each are wanted");
  RecurrentDirection d{.cell = cell, .hidden = r.size(2)};
  require(call.integer("hidden_size", d.hidden) == d.hidden, "hidden_size is ", call.integer("hidden_size", d.hidden),
          ", and R is ", r.shape());
  d.x = batch_first ? transpose(x, {1, 0, 2}) : x;
  d.clip = call.number("clip", 0.0);
  d.input_forget = call.integer("input_forget", std::int64_t{0}) != 0;
  d.linear_before_reset = call.integer("linear_before_reset", std::int64_t{0}) != 0;
  if (call.has(4) && call.known(4))
    d.lengths = Tensor::from(call.tensor(4).shape(), call.integers(4), x.device());
  else if (call.has(4))
    d.lengths = cast(call.tensor(4), DType::i64);
  return d;
}

OnnxValues recurrent_rule(const OnnxCall& call, Cell cell, const std::vector<std::string>& defaults) {
  const std::string way = call.word("direction", "forward");
  // "foward" was the default of GRU's first version.
  require(way == "forward" || way == "foward" || way == "reverse" || way == "bidirectional", "direction is '", way,
          "', which is not supported");
  const bool batch_first = call.integer("layout", std::int64_t{0}) != 0;
  const std::int64_t directions = way == "bidirectional" ? 2 : 1;
  const std::vector<RecurrentActivation> activations = activations_of(call, defaults,
                                                                      static_cast<std::size_t>(directions));
  const auto state = [&](int input) {
    if (!call.has(input)) return Tensor();
    return batch_first ? transpose(call.tensor(input), {1, 0, 2}) : call.tensor(input);
  };
  const bool lstm = cell == Cell::lstm;
  const Tensor h0 = state(5), c0 = lstm ? state(6) : Tensor(), p = lstm ? call.optional(7) : Tensor();
  RecurrentDirection d = common_direction(call, cell, batch_first);
  require(call.tensor(1).size(0) == directions, "W is ", call.tensor(1).shape(), ", and there are ", directions,
          " directions");
  std::array<Tensors, 3> results;
  for (std::int64_t i = 0; i < directions; ++i) {
    const auto first = activations.begin() + i * std::ssize(defaults);
    d.activations.assign(first, first + std::ssize(defaults));
    d.reverse = way == "reverse" || i == 1;
    d.w = direction_of(call.tensor(1), i), d.r = direction_of(call.tensor(2), i);
    d.b = direction_of(call.optional(3), i), d.p = direction_of(p, i);
    d.h0 = direction_of(h0, i), d.c0 = direction_of(c0, i);
    Tensors out = by_recurrent_op(d);
    if (out.empty()) out = by_steps(d);
    for (std::size_t k = 0; k < (lstm ? 3u : 2u); ++k) results[k].push_back(out[k]);
  }
  OnnxValues out;
  const Tensor y = with_directions(results[0], 1);
  out.push_back(batch_first ? transpose(y, {2, 0, 1, 3}) : y);
  for (std::size_t k = 1; k < (lstm ? 3u : 2u); ++k) {
    const Tensor last = with_directions(results[k], 0);
    out.push_back(batch_first ? transpose(last, {1, 0, 2}) : last);
  }
  return out;
}

}  // namespace

void add_recurrent_operators(OnnxOperators& to) {
  to.add("LSTM", 1, [](const OnnxCall& call) { return recurrent_rule(call, Cell::lstm, {"Sigmoid", "Tanh", "Tanh"}); });
  to.add("GRU", 1, [](const OnnxCall& call) { return recurrent_rule(call, Cell::gru, {"Sigmoid", "Tanh"}); });
  to.add("RNN", 1, [](const OnnxCall& call) { return recurrent_rule(call, Cell::rnn, {"Tanh"}); });
}

}  // namespace neurim
