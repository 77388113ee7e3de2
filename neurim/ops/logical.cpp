#include "neurim/ops/logical.h"

#include "neurim/base/error.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

/// Base: bool inputs that broadcast, bool output.
class LogicalOp : public Op {
 public:
  Types infer(std::span<const Type> in) const override {
    check_count(*this, in, inputs(), inputs());
    Shape shape;
    for (const Type& type : in) {
      require(type.dtype == DType::boolean, name(), ": an input is ", type, ", but has to be bool: compare it first");
      shape = broadcast(shape, type.shape, name());
    }
    return {{DType::boolean, shape}};
  }
  FusionTraits fusion() const override { return kPointwise; }
  Alias alias(int, int) const override { return Alias::overwrite; }
  std::vector<Sample> samples() const override {
    const Type a{DType::boolean, {3, 5}}, b{DType::boolean, {5}}, c{DType::boolean, {2, 1, 5}};
    if (inputs() == 1) return {{shared_from_this(), {a}, {{0, 2}}}};
    return {{shared_from_this(), {a, a}, {{0, 2}, {0, 2}}},
            {shared_from_this(), {a, b}, {{0, 2}, {0, 2}}},
            {shared_from_this(), {a, c}, {{0, 2}, {0, 2}}}};
  }

 protected:
  virtual std::size_t inputs() const { return 2; }
};

class LogicalAnd final : public LogicalOp {
 public:
  std::string_view name() const override { return "logical_and"; }
  Onnx onnx() const override { return {"And", 7}; }
};

class LogicalOr final : public LogicalOp {
 public:
  std::string_view name() const override { return "logical_or"; }
  Onnx onnx() const override { return {"Or", 7}; }
};

class LogicalNot final : public LogicalOp {
 public:
  std::string_view name() const override { return "logical_not"; }
  Onnx onnx() const override { return {"Not", 1}; }

 protected:
  std::size_t inputs() const override { return 1; }
};

}  // namespace

Tensor logical_and(const Tensor& a, const Tensor& b) { return apply1(std::make_shared<LogicalAnd>(), {a, b}); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return apply1(std::make_shared<LogicalOr>(), {a, b}); }
Tensor logical_not(const Tensor& x) { return apply1(std::make_shared<LogicalNot>(), {x}); }

void define_logical() {
  define<LogicalAnd>();
  define<LogicalOr>();
  define<LogicalNot>();
}

}  // namespace neurim
