#include "neurim/ops/integer.h"

#include <algorithm>
#include <array>
#include <map>

#include "neurim/graph/onnx.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

constexpr std::array<std::string_view, 3> kOfOne{"not", "negative", "absolute"};
constexpr std::array<std::string_view, 14> kOfTwo{"add",       "subtract", "multiply",   "divide",     "modulo",
                                                  "remainder", "power",    "minimum",    "maximum",    "and",
                                                  "or",        "xor",      "shift_left", "shift_right"};

constexpr int kBitwise = 18;  // the opset since which ONNX has them

}  // namespace

int integer_inputs(std::string_view function) {
  if (std::find(kOfOne.begin(), kOfOne.end(), function) != kOfOne.end()) return 1;
  return std::find(kOfTwo.begin(), kOfTwo.end(), function) != kOfTwo.end() ? 2 : 0;
}

Types Integer::infer(std::span<const Type> in) const {
  const int wanted = integer_inputs(function);
  require(wanted > 0, name(), ": there is no function '", function, "'");
  check_count(*this, in, static_cast<std::size_t>(wanted), static_cast<std::size_t>(wanted));
  for (const Type& type : in) {
    check_same_dtype(*this, in[0], type);
    require(!is_floating(type.dtype) && type.dtype != DType::boolean, name(), ": takes whole numbers, got ", type);
  }
  return {{in[0].dtype, in.size() == 1 ? in[0].shape : broadcast(in[0].shape, in[1].shape, name())}};
}

std::vector<Sample> Integer::samples() const {
  std::vector<Sample> rows;
  const auto add = [&](std::string_view function, const Types& in) {
    const bool small = function == "power" || starts_with(function, "shift");
    std::vector<Fill> fill{{-20, 20}, small ? Fill{0, 5} : Fill{1, 9}};
    fill.resize(in.size());
    rows.push_back({std::make_shared<Integer>(std::string(function)), in, fill});
  };
  for (const std::string_view function : kOfOne) add(function, {{DType::i64, {3, 7}}});
  for (const std::string_view function : kOfTwo) add(function, {{DType::i32, {3, 1}}, {DType::i32, {2, 1, 4}}});
  for (const DType dtype : {DType::i8, DType::i16, DType::i64}) add("add", {{dtype, {5}}, {dtype, {}}});
  return rows;
}

Onnx Integer::onnx() const {
  if (starts_with(function, "shift")) return {};  // ONNX shifts numbers without a sign alone
  const bool of_bits = function == "not" || function == "and" || function == "or" || function == "xor";
  return {.since = of_bits ? kBitwise : 0, .composed = true};
}

void Integer::write_onnx(OnnxNode& node) const {
  static const std::map<std::string_view, std::string_view> operators{
      {"not", "BitwiseNot"}, {"negative", "Neg"}, {"absolute", "Abs"},   {"add", "Add"},       {"subtract", "Sub"},
      {"multiply", "Mul"},   {"divide", "Div"},   {"modulo", "Mod"},     {"remainder", "Mod"}, {"power", "Pow"},
      {"minimum", "Min"},    {"maximum", "Max"},  {"and", "BitwiseAnd"}, {"or", "BitwiseOr"},  {"xor", "BitwiseXor"}};
  const DType dtype = node.out.dtype;
  const bool small = bits(dtype) < 32;  // runtimes compute in 32 and 64 bits
  const DType computed = small ? DType::i64 : dtype;
  const auto scalar = [&](double value) {
    return node.file.constant(Tensor::scalar(value, computed), text(node.name, "/value"));
  };
  std::vector<std::string> in = node.in;
  if (small)
    for (std::string& each : in) each = node.add("Cast", {each}, {{"to", onnx_type(computed)}});
  const bool divides = function == "divide" || function == "modulo" || function == "remainder";
  std::string is_zero;
  if (divides) {
    is_zero = node.add("Equal", {in[1], scalar(0)});
    in[1] = node.add("Where", {is_zero, scalar(1), in[1]});
  }
  OnnxAttributes attributes;
  if (function == "remainder") attributes = {{"fmod", std::int64_t{1}}};
  std::string result = node.add(operators.at(function), in, attributes);
  if (divides) result = node.add("Where", {is_zero, scalar(0), result});
  if (small) node.add("Cast", {result}, {{"to", onnx_type(dtype)}});
}

Tensor integer(const std::string& function, const Tensors& in) {
  return apply1(std::make_shared<Integer>(function), in);
}

void define_integer() { define<Integer>(); }

}  // namespace neurim
