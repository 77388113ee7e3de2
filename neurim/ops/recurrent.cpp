#include "neurim/ops/recurrent.h"

#include <numeric>

#include "neurim/base/error.h"
#include "neurim/graph/onnx.h"
#include "neurim/ops/add.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/embedding.h"
#include "neurim/ops/linear.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/recurrence.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/sum.h"
#include "neurim/ops/tanh.h"

namespace neurim {

namespace {

/// The inputs of a Recurrent by name; undefined where there is none.
RecurrentInputs named(const Recurrent& op, std::span<const Tensor> in) {
  const RecurrentOptions& o = op.options;
  RecurrentInputs all{in[0], in[1], in[2]};
  std::size_t next = 3;
  if (o.bias) all.bias_ih = in[next++], all.bias_hh = in[next++];
  if (o.projection) all.weight_hr = in[next++];
  if (o.peephole) all.peephole = in[next++];
  if (o.state) all.h0 = in[next++];
  if (o.state && op.cell == Cell::lstm) all.c0 = in[next++];
  if (o.lengths) all.lengths = in[next];
  return all;
}

/// The same in the order that the op takes.
Tensors listed(const RecurrentInputs& in) {
  Tensors all;
  for (const Tensor* tensor : {&in.x, &in.weight_ih, &in.weight_hh, &in.bias_ih, &in.bias_hh, &in.weight_hr,
                               &in.peephole, &in.h0, &in.c0, &in.lengths})
    if (*tensor) all.push_back(*tensor);
  return all;
}

/// The recurrence after the product with the inputs: its own inputs and outputs.
struct Unrolled {
  Tensors in, out;
};

Unrolled unroll(const Recurrent& op, const RecurrentInputs& in) {
  const bool apart = op.cell == Cell::gru;  // r multiplies one of the biases
  const Tensor bias = !in.bias_ih || apart ? in.bias_ih : in.bias_ih + in.bias_hh;
  Tensors recurrence_in;
  for (const Tensor& tensor : {linear(in.x, in.weight_ih, bias), in.weight_hh, apart ? in.bias_hh : Tensor(),
                               in.weight_hr, in.peephole, in.h0, in.c0, in.lengths})
    if (tensor) recurrence_in.push_back(tensor);
  const Tensors out = neurim::apply(make_recurrence(op.cell, op.options), recurrence_in);
  return {recurrence_in, out};
}

/// All steps of all sequences as the rows of a matrix.
Tensor rows(const Tensor& t) { return reshape(t, Shape{t.size(0) * t.size(1), t.size(2)}); }

/// The part of the last axis that gates [first, last) of `hidden` units take.
Tensor gates_of(const Tensor& t, std::int64_t hidden, std::int64_t first, std::int64_t last) {
  return slice(t, {first * hidden}, {last * hidden}, {-1});
}

Tensors apply_recurrent(Cell cell, const RecurrentInputs& in, RecurrentOptions options) {
  auto op = std::make_shared<Recurrent>(cell);
  require(static_cast<bool>(in.bias_ih) == static_cast<bool>(in.bias_hh), op->name(),
          ": bias_ih and bias_hh are given together or not at all");
  require(cell != Cell::lstm || static_cast<bool>(in.h0) == static_cast<bool>(in.c0), op->name(),
          ": h0 and c0 are given together or not at all");
  require(cell == Cell::lstm || (!in.c0 && !in.weight_hr && !in.peephole), op->name(),
          ": takes no c0, weight_hr or peephole, which are the LSTM's");
  options.bias = static_cast<bool>(in.bias_ih);
  options.projection = static_cast<bool>(in.weight_hr);
  options.peephole = static_cast<bool>(in.peephole);
  options.state = static_cast<bool>(in.h0);
  options.lengths = static_cast<bool>(in.lengths);
  op->options = options;
  return neurim::apply(op, listed(in));
}

}  // namespace

int gate_count(Cell cell) { return cell == Cell::lstm ? 4 : cell == Cell::gru ? 3 : 1; }

void RecurrentOp::fields(Fields& f) {
  f("reverse", options.reverse);
  if (cell == Cell::gru) f("reset_after", options.reset_after);
  if (cell == Cell::rnn) f("nonlinearity", options.nonlinearity);
  f("bias", options.bias)("state", options.state)("lengths", options.lengths);
  if (cell == Cell::lstm) f("projection", options.projection)("peephole", options.peephole);
}

std::string_view Recurrent::name() const { return cell == Cell::lstm ? "lstm" : cell == Cell::gru ? "gru" : "rnn"; }

Onnx Recurrent::onnx() const { return {cell == Cell::lstm ? "LSTM" : cell == Cell::gru ? "GRU" : "RNN", 7}; }

Types Recurrent::infer(std::span<const Type> in) const {
  const bool c0 = options.state && cell == Cell::lstm;
  const std::size_t count = 3u + 2u * options.bias + options.projection + options.peephole + options.state + c0 +
                            options.lengths;
  check_count(*this, in, count, count);
  check_floating(*this, in[0], "x");
  const Shape &x = in[0].shape, &weight = in[1].shape;
  require(x.rank() == 3, name(), ": takes x (steps,batch,features), got ", x);
  require(weight.rank() == 2 && weight[0] > 0 && weight[0] % gate_count(cell) == 0, name(), ": weight_ih ", weight,
          " is not (", gate_count(cell), "*hidden,features)");
  require(weight[1] == x[2], name(), ": x ", x, " has ", x[2], " features, weight_ih ", weight, " expects ", weight[1]);
  require(in[2].shape.rank() == 2 && in[2].shape[0] == weight[0], name(), ": weight_hh is ", in[2].shape,
          ", weight_ih ", weight, " expects (", weight[0], ",outputs)");
  check_same_dtype(*this, in[0], in[1]);
  for (std::size_t i = 3; i < 3u + 2u * options.bias; ++i)
    require(in[i] == Type{in[0].dtype, {weight[0]}}, name(), i == 3 ? ": bias_ih is " : ": bias_hh is ", in[i],
            ", weight_ih ", weight, " expects ", Type{in[0].dtype, {weight[0]}});
  // The rest is the recurrence's, after a linear layer.
  Types inner{{in[0].dtype, {x[0], x[1], weight[0]}}, in[2]};
  if (options.bias && cell == Cell::gru) inner.push_back(in[4]);
  inner.insert(inner.end(), in.begin() + 3 + 2 * options.bias, in.end());
  Types out = make_recurrence(cell, options)->infer_for(*this, inner);
  out.resize(cell == Cell::lstm ? 3 : 2);
  return out;
}

Tensors Recurrent::decompose(std::span<const Tensor> in) const {
  Tensors out = unroll(*this, named(*this, in)).out;
  out.resize(cell == Cell::lstm ? 3 : 2);
  return out;
}

/// The gradient of what multiplies the state, by the gradient of the products, `dgates` (T,N,G*H): each step's with the
/// output before it.
Tensor weight_gradient(const RecurrentInputs& in, bool reverse, const Tensor& dgates, const Tensor& y) {
  const Dim steps = y.size(0);
  const auto without = [&](const Tensor& t, bool first) {  // the first or the last step
    return rows(slice(t, {first}, {first ? steps : steps - 1}, {0}));
  };
  Tensor sum;
  if (steps > 1) sum = matmul(without(dgates, !reverse), without(y, reverse), true);
  if (!in.h0) return sum ? sum : Tensor::full({y.dtype(), {dgates.size(2), y.size(2)}}, 0, y.device());
  // The first step has h0 before it; of a sequence that is walked backwards it is the last one that counts.
  Tensor first = rows(slice(dgates, {reverse ? steps - 1 : Dim(0)}, {reverse ? steps : Dim(1)}, {0}));
  if (reverse && in.lengths) {
    const std::int64_t batch = y.size(1);
    std::vector<std::int64_t> sequences(batch);
    std::iota(sequences.begin(), sequences.end(), 0);
    const Tensor number = Tensor::from({batch}, sequences, y.device());
    first = embedding((in.lengths - 1) * static_cast<double>(batch) + number, rows(dgates));
  }
  const Tensor of_h0 = matmul(first, in.h0, true);
  return sum ? sum + of_h0 : of_h0;
}

/// Through time by the recurrence's gradient; then the weights, whose gradients are products over all steps.
/// The forward nodes recorded here are those that decompose() gives, and a plan keeps one of each.
Tensors Recurrent::grad(const Gradient& g) const {
  const RecurrentInputs in = named(*this, g.in);
  const Unrolled forward = unroll(*this, in);
  const Recurrence::Places from = make_recurrence(cell, options)->places();
  const auto at = [](const Tensors& list, int i) { return i < 0 ? Tensor() : list[i]; };

  Tensors back_in;
  const auto gradient_of = [&](std::size_t i) {
    return g.dout[i] ? g.dout[i] : Tensor::full(g.out[i].type(), 0, g.out[i].device());
  };
  for (const Tensor& tensor : {in.weight_hh, in.weight_hr, in.peephole, in.h0, in.c0, in.lengths,
                               at(forward.out, from.y), at(forward.out, from.out_gates), at(forward.out, from.saved)})
    if (tensor) back_in.push_back(tensor);
  for (std::size_t i = 0; i < g.dout.size(); ++i) back_in.push_back(gradient_of(i));
  const auto back = make_recurrence_grad(cell, options);
  const RecurrenceGrad::Places to = back->places();
  const Tensors out = neurim::apply(back, back_in);

  const Tensor dgates = rows(at(out, to.dgates)), dhidden = at(out, cell == Cell::gru ? to.dhidden : to.dgates);
  const auto of_state = [&](const Tensor& gates) {
    return weight_gradient(in, options.reverse, gates, at(forward.out, from.y));
  };
  const std::int64_t hidden = in.weight_hh.size(0) / gate_count(cell);
  RecurrentInputs d;
  d.x = reshape(matmul(dgates, in.weight_ih), in.x.shape());
  d.weight_ih = matmul(dgates, rows(in.x), true);
  if (cell == Cell::gru && !options.reset_after)
    d.weight_hh = concat({of_state(gates_of(dhidden, hidden, 0, 2)),
                          matmul(rows(gates_of(dhidden, hidden, 2, 3)), rows(at(forward.out, from.saved)), true)},
                         0);
  else
    d.weight_hh = of_state(dhidden);
  if (options.bias) {
    d.bias_ih = d.bias_hh = sum(at(out, to.dbias), {0});
    if (cell == Cell::gru) {
      const Tensor all = d.bias_ih;
      d.bias_ih = gates_of(all, hidden, 0, 3);
      d.bias_hh = concat({gates_of(all, hidden, 0, 2), gates_of(all, hidden, 3, 4)}, 0);
    }
  }
  if (options.projection) {
    const Tensor output = gates_of(at(forward.out, from.out_gates), hidden, 3, 4) * tanh(at(forward.out, from.saved));
    d.weight_hr = matmul(rows(at(out, to.dprojected)), rows(output), true);
  }
  if (options.peephole) d.peephole = sum(at(out, to.dpeephole), {0});
  if (options.state) d.h0 = at(out, to.dh0), d.c0 = at(out, to.dc0);
  Tensors all = listed(d);
  all.resize(g.in.size());  // lengths have none
  return all;
}

std::int64_t Recurrent::multiply_adds(std::span<const Type> in) const {
  const Shape &x = in[0].shape, &weight_ih = in[1].shape, &weight_hh = in[2].shape;
  const int gates = gate_count(cell);
  return x[0] * x[1] * weight_ih.numel() +
         step_multiply_adds({x[0], x[1], weight_hh[0] / gates, weight_hh[1], gates}, options.projection);
}

std::vector<Sample> Recurrent::samples() const {
  std::vector<Sample> all;
  for (const RecurrentRow& row : recurrent_rows(cell)) {
    const auto& [steps, batch, inputs, hidden, outputs, o] = row;
    auto op = std::make_shared<Recurrent>(cell);
    op->options = o;
    const std::int64_t gates = gate_count(cell) * hidden;
    Types in;
    for (const Shape& shape : {Shape{steps, batch, inputs}, Shape{gates, inputs}, Shape{gates, outputs}})
      in.push_back({DType::f32, shape});
    for (int i = 0; i < 2 * o.bias; ++i) in.push_back({DType::f32, {gates}});
    if (o.projection) in.push_back({DType::f32, {outputs, hidden}});
    if (o.peephole) in.push_back({DType::f32, {3 * hidden}});
    if (o.state) in.push_back({DType::f32, {batch, outputs}});
    if (o.state && cell == Cell::lstm) in.push_back({DType::f32, {batch, hidden}});
    Sample sample{op, in};
    if (o.lengths) {
      sample.in.push_back({DType::i64, {batch}});
      sample.fill.resize(sample.in.size());
      sample.fill.back() = {1, static_cast<double>(steps + 1)};
    }
    all.push_back(sample);
  }
  return all;
}

Tensors lstm(const RecurrentInputs& in, bool reverse) { return apply_recurrent(Cell::lstm, in, {.reverse = reverse}); }

Tensors gru(const RecurrentInputs& in, bool reverse, bool reset_after) {
  return apply_recurrent(Cell::gru, in, {.reverse = reverse, .reset_after = reset_after});
}

Tensors rnn(const RecurrentInputs& in, bool reverse, const std::string& nonlinearity) {
  return apply_recurrent(Cell::rnn, in, {.reverse = reverse, .nonlinearity = nonlinearity});
}

/// One direction of one layer. ONNX stacks directions along an axis of their own, which every operand has
/// here with size 1, and orders the gates i, o, f, g and z, r, n.
void Recurrent::write_onnx(OnnxNode& node) const {
  using List = std::vector<std::int64_t>;
  const RecurrentOptions& o = options;
  require(!o.projection || !o.state, name(),
          ": ONNX has no form of a projection that begins with given states; leave the states or the "
          "projection out");
  const std::int64_t gates = gate_count(cell), hidden = node.types[1].shape[0] / gates;
  const auto sorted = [&](const std::string& stack, const List& order, const List& columns) {
    List split{static_cast<std::int64_t>(order.size()), hidden}, joined{1, split[0] * hidden};
    split.insert(split.end(), columns.begin(), columns.end());
    joined.insert(joined.end(), columns.begin(), columns.end());
    const std::string parts = node.add("Reshape", {stack, node.list(split, "split")});
    const std::string moved = node.add("Gather", {parts, node.list(order, "order")}, {{"axis", std::int64_t{0}}});
    return node.add("Reshape", {moved, node.list(joined, "joined")});
  };
  const List order = cell == Cell::lstm ? List{0, 3, 1, 2} : cell == Cell::gru ? List{1, 0, 2} : List{0};
  const auto with_direction = [&](const std::string& x) {
    return node.add("Unsqueeze", {x, node.list(List{0}, "direction")});
  };
  const auto without_direction = [&](const std::string& y, std::int64_t axis) {
    return node.add("Squeeze", {y, node.list(List{axis}, "direction")});
  };

  std::size_t next = 3;
  std::string bias, hr, peephole, lengths, h0, c0, weight_hh = node.in[2];
  if (o.bias) {
    List both = order;
    for (const std::int64_t gate : order) both.push_back(gates + gate);
    bias = sorted(node.add("Concat", {node.in[next], node.in[next + 1]}, {{"axis", std::int64_t{0}}}), both, {});
    next += 2;
  }
  if (o.projection) {  // without it the same network hears its inner outputs through both matrices at once
    weight_hh = node.add("MatMul", {weight_hh, node.in[next]});
    hr = node.transposed(node.in[next++], 2);
  }
  if (o.peephole) peephole = sorted(node.in[next++], {0, 2, 1}, {});
  if (o.state) h0 = with_direction(node.in[next++]);
  if (o.state && cell == Cell::lstm) c0 = with_direction(node.in[next++]);
  if (o.lengths) lengths = node.add("Cast", {node.in[next]}, {{"to", onnx_type(DType::i32)}});

  OnnxAttributes attributes{{"hidden_size", hidden}, {"direction", std::string(o.reverse ? "reverse" : "forward")}};
  if (cell == Cell::gru) attributes.emplace_back("linear_before_reset", std::int64_t{o.reset_after});
  if (cell == Cell::rnn)
    attributes.emplace_back("activations", std::vector<std::string>{o.nonlinearity == "relu" ? "Relu" : "Tanh"});
  std::vector<std::string> in{node.in[0],
                              sorted(node.in[1], order, {node.types[1].shape[1]}),
                              sorted(weight_hh, order, {o.projection ? hidden : std::int64_t{node.types[2].shape[1]}}),
                              bias,
                              lengths,
                              h0};
  if (cell == Cell::lstm) in.insert(in.end(), {c0, peephole});
  const std::vector<std::string> out = node.file.node(onnx_operator(*this, node.file), in, attributes,
                                                      text(node.name, '/', onnx().name), cell == Cell::lstm ? 3 : 2);
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::string result = without_direction(out[i], i == 0);
    if (o.projection && i < 2) result = node.add("MatMul", {result, hr});
    node.results.push_back(result);
  }
}

void define_recurrent() {
  define([]() -> std::shared_ptr<Op> { return std::make_shared<Recurrent>(Cell::lstm); });
  define([]() -> std::shared_ptr<Op> { return std::make_shared<Recurrent>(Cell::gru); });
  define([]() -> std::shared_ptr<Op> { return std::make_shared<Recurrent>(Cell::rnn); });
}

}  // namespace neurim
