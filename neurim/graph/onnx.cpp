#include "neurim/graph/onnx.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "neurim/base/error.h"

namespace neurim {

namespace {

class Translate final : public Fields {
 public:
  OnnxAttributes out;
  Fields& operator()(std::string_view name, std::int64_t& value) override { return add(name, value); }
  Fields& operator()(std::string_view name, double& value) override { return add(name, value); }
  Fields& operator()(std::string_view name, bool& value) override {
    return add(name, static_cast<std::int64_t>(value));
  }
  Fields& operator()(std::string_view name, std::string& value) override { return add(name, value); }
  Fields& operator()(std::string_view name, DType& value) override { return add(name, onnx_type(value)); }
  Fields& operator()(std::string_view name, std::vector<std::int64_t>& value) override { return add(name, value); }
  Fields& operator()(std::string_view, std::vector<double>&) override {
    NEURIM_ASSERT(!"no ONNX operator that an op maps to has such an attribute");
    return *this;
  }

 private:
  template <class T>
  Fields& add(std::string_view name, const T& value) {
    static const auto& others = *new std::map<std::string_view, std::string_view>{
        {"stride", "strides"}, {"dilation", "dilations"},  {"pad", "pads"}, {"groups", "group"},
        {"eps", "epsilon"},    {"kernel", "kernel_shape"}, {"k", "bias"}};
    const auto at = others.find(name);
    out.emplace_back(at == others.end() ? name : at->second, value);
    return *this;
  }
};

}  // namespace

std::int64_t onnx_type(DType dtype) {
  switch (dtype) {  // TensorProto.DataType of onnx.proto3
    case DType::f32: return 1;
    case DType::u8: return 2;
    case DType::i8: return 3;
    case DType::u16: return 4;
    case DType::i16: return 5;
    case DType::i32: return 6;
    case DType::i64: return 7;
    case DType::boolean: return 9;
    case DType::f16: return 10;
    case DType::f64: return 11;
    case DType::u32: return 12;
    case DType::u64: return 13;
    case DType::bf16: return 16;
  }
  return 0;
}

std::vector<std::string> OnnxNode::in_one_dtype() {
  std::vector<std::string> all = in;
  for (std::size_t i = 1; i < all.size(); ++i)
    if (types[i].dtype != types[0].dtype) all[i] = add("Cast", {all[i]}, {{"to", onnx_type(types[0].dtype)}});
  return all;
}

std::string OnnxNode::transposed(const std::string& matrix, int rank) {
  std::vector<std::int64_t> perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm.end()[-1], perm.end()[-2]);
  return add("Transpose", {matrix}, {{"perm", perm}});
}

OnnxAttributes onnx_attributes(const Op& op) {
  Translate translate;
  fields(op, translate);
  return std::move(translate.out);
}

void check_opset(const Op& op, const OnnxFile& file) {
  const Onnx onnx = op.onnx();
  require(onnx.since <= file.opset(), op.name(), ' ', attributes(op), ": ONNX has it since opset ", onnx.since,
          ", not in ", file.opset(), "; export with that opset");
}

std::string_view onnx_operator(const Op& op, const OnnxFile& file) {
  check_opset(op, file);
  return op.onnx().name;
}

void Op::write_onnx(OnnxNode& node) const {
  node.add(onnx_operator(*this, node.file), node.in, onnx_attributes(*this));
}

}  // namespace neurim
