#include "neurim/ops/control_flow.h"

#include <atomic>
#include <limits>

#include "neurim/graph/value.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/reshape.h"

namespace neurim {

namespace {

const Type kFlag{DType::boolean, {}};

Types outputs_of(const Graph& body, const Types& in) {
  const Graph graph = bound(body, in);
  Types out;
  for (const int value : graph.outputs) out.push_back(graph.values[value].type);
  return out;
}

/// Whether what decides is known: it is no value of a trace, and no state that a replay may find changed.
bool known(const Tensor& tensor) { return !tensor.traced() && (tensor.value()->constant || !tracing()); }

void check_known(const Op& op, const Tensor& tensor, std::string_view what) {
  require(tensor.numel() == 1, op.name(), ": ", what, " is ", tensor.type(), ", not a scalar");
  require(known(tensor), op.name(), ": ", what,
          " is known only when it runs, so it is no part of a plan; run the function eagerly");
}

}  // namespace

std::string unknown_symbol() {
  static std::atomic<int> count{0};
  return text("unknown.", ++count);
}

Types If::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, std::numeric_limits<std::size_t>::max());
  require(in[0] == kFlag, name(), ": the condition is ", in[0], ", not ", kFlag);
  const Types captures(in.begin() + 1, in.end());
  Types out = outputs_of(*bodies_[0], captures);
  const Types other = outputs_of(*bodies_[1], captures);
  require(out.size() == other.size(), name(), ": one body gives ", out.size(), " values, the other ", other.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    require(out[i].dtype == other[i].dtype && out[i].shape.rank() == other[i].shape.rank(), name(),
            ": the bodies give ", out[i], " and ", other[i]);
    for (int axis = 0; axis < out[i].shape.rank(); ++axis)
      if (out[i].shape[axis] != other[i].shape[axis]) out[i].shape[axis] = Dim::symbol(text(symbol, '.', i, '.', axis));
  }
  return out;
}

bool If::decided(std::span<const Tensor> in) const { return !in.empty() && in[0].numel() == 1 && known(in[0]); }

Tensors If::decompose(std::span<const Tensor> in) const {
  check_count(*this, Types(in.size()), 1, std::numeric_limits<std::size_t>::max());
  check_known(*this, in[0], "the condition");
  return call(*bodies_[in[0].item() != 0 ? 0 : 1], Tensors(in.begin() + 1, in.end()));
}

void Loop::check_counts(std::size_t inputs) const {
  require(inputs >= 2 && carried >= 0 && carried <= static_cast<std::int64_t>(inputs) - 2, name(),
          ": takes a count, a condition and ", carried, " carried values, got ", inputs, " inputs");
}

Types Loop::infer(std::span<const Type> in) const {
  check_counts(in.size());
  const auto least = static_cast<std::size_t>(2 + carried);
  require(in[0] == Type{DType::i64, {}}, name(), ": the count is ", in[0], ", not i64()");
  require(in[1] == kFlag, name(), ": the condition is ", in[1], ", not ", kFlag);
  const Types out = outputs_of(*bodies_[0], Types(in.begin(), in.end()));
  require(out.size() >= least - 1 && out[0] == kFlag, name(), ": the body gives ", out.size(),
          " values; it has to give a condition and ", carried, " carried values first");
  for (std::size_t i = 1; i + 1 < least; ++i)
    require(out[i] == in[i + 1], name(), ": carried value ", i - 1, " is ", in[i + 1], ", and the body makes it ",
            out[i]);
  Types all(out.begin() + 1, out.end());
  const Dim turns = Dim::symbol(symbol);
  for (std::size_t i = static_cast<std::size_t>(carried); i < all.size(); ++i) {
    Shape rows{turns};
    for (const Dim size : all[i].shape) rows.push_back(size);
    all[i].shape = rows;
  }
  return all;
}

bool Loop::decided(std::span<const Tensor> in) const {
  check_counts(in.size());
  const Graph& body = *bodies_[0];
  if (!known(in[0]) || !known(in[1]) || in[0].numel() != 1 || body.outputs.empty() || body.inputs.size() < 2)
    return false;
  const int condition = body.outputs[0];
  const Tensor& captured = body.values[condition].captured;
  return (condition == body.inputs[1] || (captured && captured.value()->constant)) &&
         in[0].values<std::int64_t>()[0] <= kMostTurns;
}

Tensors Loop::decompose(std::span<const Tensor> in) const {
  check_counts(in.size());
  check_known(*this, in[0], "the count");
  const auto count = in[0].values<std::int64_t>()[0];
  const auto first_capture = in.begin() + 2 + carried;
  Tensor condition = in[1];
  const Device device = in.size() > 2 ? in[2].device() : in[0].device();
  Tensors values(in.begin() + 2, first_capture);
  std::vector<Tensors> scanned;
  for (std::int64_t turn = 0; turn < count; ++turn) {
    check_known(*this, condition, "the condition");
    if (condition.item() == 0) break;
    Tensors all{Tensor::from(Shape{}, std::vector<std::int64_t>{turn}, device), condition};
    all.insert(all.end(), values.begin(), values.end());
    all.insert(all.end(), first_capture, in.end());
    const Tensors out = call(*bodies_[0], all);
    require(std::ssize(out) > carried, name(), ": the body gives ", out.size(),
            " values; it has to give a condition and ", carried, " carried values first");
    for (std::int64_t i = 0; i < carried; ++i)
      require(out[i + 1].dtype() == values[i].dtype(), name(), ": carried value ", i, " is ", values[i].type(),
              ", and the body makes it ", out[i + 1].type());
    condition = out[0];
    values.assign(out.begin() + 1, out.begin() + 1 + carried);
    scanned.resize(out.size() - 1 - static_cast<std::size_t>(carried));
    for (std::size_t i = 0; i < scanned.size(); ++i) {
      const Tensor& row = out[1 + static_cast<std::size_t>(carried) + i];
      Shape shape{1};
      for (const Dim size : row.shape()) shape.push_back(size);
      scanned[i].push_back(reshape(row, shape));
    }
  }
  if (scanned.empty()) {  // no turn: scanned values of no rows
    const Graph& body = *bodies_[0];
    for (std::size_t i = 1 + static_cast<std::size_t>(carried); i < body.outputs.size(); ++i) {
      const Type& type = body.values[body.outputs[i]].type;
      Shape shape{0};
      for (const Dim size : type.shape) shape.push_back(size.symbolic() ? Dim(0) : size);
      values.push_back(Tensor::empty({type.dtype, shape}, device));
    }
  }
  for (const Tensors& rows : scanned) values.push_back(concat(rows, 0));
  return values;
}

Tensors if_else(const Tensor& condition, const Body& then_body, const Body& else_body, const Tensors& captures) {
  Tensors in{condition};
  in.insert(in.end(), captures.begin(), captures.end());
  return neurim::apply(std::make_shared<If>(then_body, else_body), in);
}

Tensors loop(const Tensor& count, const Tensor& condition, const Tensors& carried, const Body& body,
             const Tensors& captures) {
  Tensors in{count, condition};
  in.insert(in.end(), carried.begin(), carried.end());
  in.insert(in.end(), captures.begin(), captures.end());
  return neurim::apply(std::make_shared<Loop>(body, std::ssize(carried)), in);
}

void define_control_flow() {
  define<If>();
  define<Loop>();
}

}  // namespace neurim
