#include "neurim/ops/iota.h"

#include "neurim/graph/onnx.h"
#include "neurim/graph/trace.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

Types Iota::infer(std::span<const Type> in) const {
  check_count(*this, in, 0, 0);
  require(n >= 0, "iota: the count ", n, " is negative");
  require(dtype != DType::boolean, "iota: counts in numbers, not in bool");
  return {{dtype, {n}}};
}

std::vector<Sample> Iota::samples() const {
  return {{std::make_shared<Iota>(7, DType::i64), {}},
          {std::make_shared<Iota>(5, DType::f32), {}},
          {std::make_shared<Iota>(0, DType::i32), {}}};
}

Tensor iota(Dim n, DType dtype) { return apply1(std::make_shared<Iota>(n, dtype), {}); }

void Iota::write_onnx(OnnxNode& node) const {
  const Untraced untraced;
  if (n.symbolic()) {
    const auto number = [&](std::int64_t value) {
      return node.file.constant(Tensor::scalar(static_cast<double>(value), DType::i64), text(node.name, "/value"));
    };
    const std::string count = node.add(
        "Reshape", {node.list(std::vector<Dim>{n}, "count"), node.list(std::vector<Dim>{}, "shape")});
    const std::string counted = node.add("Range", {number(0), count, number(1)});
    node.add("Cast", {counted}, {{"to", onnx_type(dtype)}});
    return;
  }
  node.add("Identity", {node.file.constant(apply1(shared_from_this(), {}), text(node.name, "/values"))});
}

void define_iota() { define<Iota>(); }

}  // namespace neurim
