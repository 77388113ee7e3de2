#include "neurim/ops/one_hot.h"

#include "neurim/graph/onnx.h"
#include "neurim/graph/trace.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/iota.h"

namespace neurim {

Types OneHot::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  require(in[0].dtype == DType::i64 || in[0].dtype == DType::i32, "one_hot: the indices are ", in[0].dtype,
          ", not i64 or i32");
  require(classes > 0, "one_hot: ", classes, " classes; at least 1 is needed");
  Shape out = in[0].shape;
  out.push_back(classes);
  return {{dtype, out}};
}

std::string OneHot::data_fault(std::span<const Tensor> in) const { return outside("the index", in[0], 0, classes); }

std::vector<Sample> OneHot::samples() const {
  return {{std::make_shared<OneHot>(5, DType::f32), {{DType::i64, {7}}}, {{0, 5}}},
          {std::make_shared<OneHot>(3, DType::u8), {{DType::i32, {2, 4}}}, {{0, 3}}},
          {std::make_shared<OneHot>(1, DType::f64), {{DType::i64, {}}}, {{0, 1}}}};
}

Tensor one_hot(const Tensor& indices, std::int64_t classes, DType dtype) {
  return apply1(std::make_shared<OneHot>(classes, dtype), {indices});
}

/// Not ONNX's OneHot, which lets indices count from the back and which few runtimes have in every dtype.
void OneHot::write_onnx(OnnxNode& node) const {
  const Tensor numbers = [&] {
    const Untraced untraced;
    return iota(classes, node.types[0].dtype);
  }();
  const std::vector<std::int64_t> last{-1};
  const std::string column = node.add("Unsqueeze", {node.in[0], node.list(last, "axis")});
  const std::string hit = node.add("Equal", {column, node.file.constant(numbers, text(node.name, "/classes"))});
  node.add("Cast", {hit}, {{"to", onnx_type(dtype)}});
}

void define_one_hot() { define<OneHot>(); }

}  // namespace neurim
