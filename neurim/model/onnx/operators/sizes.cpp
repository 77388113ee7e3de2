#include "neurim/model/onnx/operators/sizes.h"

#include <algorithm>
#include <map>
#include <set>

#include "neurim/base/error.h"
#include "neurim/graph/trace.h"

namespace neurim {

namespace {

/// Sizes, or bools beside them, in a vector or alone.
struct SizeList {
  Shape shape;
  std::vector<Dim> values;

  explicit SizeList(const OnnxValue& value) : shape(value.shape()), values(sizes_of(value)) {}
  Dim at(std::size_t i) const { return values[values.size() == 1 ? 0 : i]; }
};

/// The operators that only move elements.
bool moves(const std::string& op) {
  static const std::set<std::string_view> known{"Gather",  "Slice",   "Concat",   "Squeeze", "Unsqueeze",
                                                "Reshape", "Flatten", "Identity", "Split",   "GatherElements"};
  return known.count(op) > 0;
}

/// Combines two lists of as many sizes, or one of them with each of the other.
template <class Function>
std::optional<std::vector<Dim>> combined(const SizeList& a, const SizeList& b, const Function& function) {
  if (a.values.size() != b.values.size() && a.values.size() != 1 && b.values.size() != 1) return std::nullopt;
  std::vector<Dim> out;
  const std::size_t count = std::max(a.values.size(), b.values.size());
  for (std::size_t i = 0; i < count; ++i) out.push_back(function(a.at(i), b.at(i)));
  return out;
}

const Shape& longer(const SizeList& a, const SizeList& b) {
  const auto before = [](const SizeList& one, const SizeList& other) {
    return std::pair(one.values.size(), one.shape.rank()) < std::pair(other.values.size(), other.shape.rank());
  };
  return before(a, b) ? b.shape : a.shape;
}

using OfTwo = Dim (*)(Dim, Dim);

OfTwo function_of(const std::string& op) {
  static const std::map<std::string_view, OfTwo> known{
      {"Add", [](Dim a, Dim b) { return a + b; }},        {"Sub", [](Dim a, Dim b) { return a - b; }},
      {"Mul", [](Dim a, Dim b) { return a * b; }},        {"Div", [](Dim a, Dim b) { return a / b; }},
      {"Mod", [](Dim a, Dim b) { return a % b; }},        {"Max", [](Dim a, Dim b) { return a < b ? b : a; }},
      {"Min", [](Dim a, Dim b) { return b < a ? b : a; }}};
  const auto found = known.find(op);
  return found == known.end() ? nullptr : found->second;
}

using Compare = bool (*)(Dim, Dim);

Compare comparison_of(const std::string& op) {
  static const std::map<std::string_view, Compare> known{{"Equal", [](Dim a, Dim b) { return a == b; }},
                                                         {"Less", [](Dim a, Dim b) { return a < b; }},
                                                         {"LessOrEqual", [](Dim a, Dim b) { return a <= b; }},
                                                         {"Greater", [](Dim a, Dim b) { return a > b; }},
                                                         {"GreaterOrEqual", [](Dim a, Dim b) { return a >= b; }}};
  const auto found = known.find(op);
  return found == known.end() ? nullptr : found->second;
}

/// Whether the value has sizes or known whole numbers.
bool readable(const OnnxValue& value) {
  return is_sizes(value) || (value.is_tensor() && !value.tensor().traced() && !is_floating(value.tensor().dtype()));
}

std::optional<OnnxValues> computed(const OnnxCall& call) {
  const std::string& op = call.op();
  for (int i = 0; i < call.inputs(); ++i)
    if (!readable(call.in(i))) return std::nullopt;
  const SizeList a(call.in(0));
  if (op == "Cast") {
    const auto to = static_cast<OnnxElement>(call.integer("to", std::int64_t{0}));
    const bool whole = to == OnnxElement::i64 || to == OnnxElement::i32;
    return whole ? std::optional(OnnxValues{call.in(0)}) : std::nullopt;
  }
  if (op == "ReduceProd" && call.inputs() == 1 && a.shape.rank() == 1) {
    Dim product = 1;
    for (const Dim size : a.values) product *= size;
    return OnnxValues{onnx_sizes(call.integer("keepdims", std::int64_t{1}) != 0 ? Shape{1} : Shape{}, {product})};
  }
  if (call.inputs() == 3 && op == "Where") {
    const SizeList b(call.in(1)), c(call.in(2));
    const std::size_t count = std::max({a.values.size(), b.values.size(), c.values.size()});
    std::vector<Dim> out;
    for (const SizeList* list : {&a, &b, &c})
      if (list->values.size() != count && list->values.size() != 1) return std::nullopt;
    for (std::size_t i = 0; i < count; ++i) out.push_back(a.at(i) != 0 ? b.at(i) : c.at(i));
    return OnnxValues{onnx_sizes(a.values.size() == count ? a.shape : longer(b, c), out)};
  }
  if (call.inputs() != 2) return std::nullopt;
  const SizeList b(call.in(1));
  if (const OfTwo function = function_of(op)) {
    const auto out = combined(a, b, function);
    return out ? std::optional(OnnxValues{onnx_sizes(longer(a, b), *out)}) : std::nullopt;
  }
  if (const Compare compare = comparison_of(op)) {
    const auto out = combined(a, b, [&](Dim x, Dim y) { return Dim(compare(x, y) ? 1 : 0); });
    if (!out) return std::nullopt;
    const std::vector<std::uint8_t> bools(out->begin(), out->end());
    return OnnxValues{Tensor::from({DType::boolean, longer(a, b)}, bools.data())};
  }
  return std::nullopt;
}

}  // namespace

std::optional<OnnxValues> onnx_of_sizes(const OnnxOperator& op, const OnnxCall& call) {
  const bool moved = moves(call.op());
  bool any = false;
  for (int i = 0; i < call.inputs() && !any; ++i)
    any = is_sizes(call.in(i)) && (!moved || i == 0 || call.op() == "Concat");
  if (!any) return std::nullopt;
  const Untraced untraced;
  if (!moved) return computed(call);
  for (int i = 0; i < call.inputs(); ++i)
    if (call.has(i) && !readable(call.in(i))) return std::nullopt;
  OnnxValues out = op.rule(call);
  for (OnnxValue& value : out)
    if (is_sizes(value)) value = onnx_sizes(value.shape(), sizes_of(value));
  return out;
}

}  // namespace neurim
