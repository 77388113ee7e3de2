#include "neurim/ops/compare.h"

#include "neurim/graph/onnx.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

struct Relation {
  std::string_view name;
  Onnx onnx;
};

constexpr Relation kLess{"less", {"Less", 13}};
constexpr Relation kLessEqual{"less_equal", {"LessOrEqual", 16}};
constexpr Relation kGreater{"greater", {"Greater", 13}};
constexpr Relation kGreaterEqual{"greater_equal", {"GreaterOrEqual", 16}};
constexpr Relation kEqual{"equal", {"Equal", 13}};
constexpr Relation kNotEqual{"not_equal", {.composed = true}};

template <const Relation& relation>
class Compare final : public Op {
 public:
  std::string_view name() const override { return relation.name; }
  Types infer(std::span<const Type> in) const override {
    check_count(*this, in, 2, 2);
    check_same_dtype(*this, in[0], in[1]);
    return {{DType::boolean, broadcast(in[0].shape, in[1].shape, name())}};
  }
  FusionTraits fusion() const override {
    FusionTraits traits = kPointwise;
    traits.exact = &relation == &kEqual || &relation == &kNotEqual;
    return traits;
  }
  Onnx onnx() const override { return relation.onnx; }
  void write_onnx(OnnxNode& node) const override {
    if (&relation != &kNotEqual) return Op::write_onnx(node);
    node.add("Not", {node.add("Equal", node.in)});
  }
  std::vector<Sample> samples() const override {
    const Fill few{0, 3};  // so that integers tie
    return {{shared_from_this(), {{DType::f32, {2, 3, 17}}, {DType::f32, {2, 3, 17}}}},
            {shared_from_this(), {{DType::f32, {2, 1, 4}}, {DType::f32, {3, 1}}}},
            {shared_from_this(), {{DType::f32, {5}}, {DType::f32, {}}}},
            {shared_from_this(), {{DType::i64, {4, 5}}, {DType::i64, {5}}}, {few, few}},
            {shared_from_this(), {{DType::u8, {17}}, {DType::u8, {17}}}, {few, few}}};
  }
};

}  // namespace

Tensor less(const Tensor& a, const Tensor& b) { return apply1(std::make_shared<Compare<kLess>>(), {a, b}); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return apply1(std::make_shared<Compare<kLessEqual>>(), {a, b}); }
Tensor greater(const Tensor& a, const Tensor& b) { return apply1(std::make_shared<Compare<kGreater>>(), {a, b}); }
Tensor greater_equal(const Tensor& a, const Tensor& b) {
  return apply1(std::make_shared<Compare<kGreaterEqual>>(), {a, b});
}
Tensor equal(const Tensor& a, const Tensor& b) { return apply1(std::make_shared<Compare<kEqual>>(), {a, b}); }
Tensor not_equal(const Tensor& a, const Tensor& b) { return apply1(std::make_shared<Compare<kNotEqual>>(), {a, b}); }

void define_compare() {
  define<Compare<kLess>>();
  define<Compare<kLessEqual>>();
  define<Compare<kGreater>>();
  define<Compare<kGreaterEqual>>();
  define<Compare<kEqual>>();
  define<Compare<kNotEqual>>();
}

}  // namespace neurim
