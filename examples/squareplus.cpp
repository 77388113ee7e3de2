// An op and a layer of one's own, as a plug-in: squareplus(x) = (x + sqrt(x^2 + b)) / 2, a smooth ReLU
// (Barron, "Squareplus: a softplus-like algebraic rectifier", 2021). Commands take it with
// plugins=libsquareplus.so, programs with load_library.
#include <algorithm>
#include <cmath>

#include "neurim/backend/reference/view.h"
#include "neurim/neurim.h"

using namespace neurim;

namespace {

/// Element by element; floating x of any shape.
class Squareplus final : public UnaryOp {
 public:
  double b;

  explicit Squareplus(double b_ = 4) : b(b_) {}
  std::string_view name() const override { return "squareplus"; }
  void fields(Fields& f) override { f("b", b); }
  Types infer(std::span<const Type> in) const override {
    require(b >= 0, "squareplus: b is ", b, ", but has to be 0 or more");
    return UnaryOp::infer(in);
  }
  Tensors grad(const Gradient& g) const override { return {g.dout[0] * g.out[0] / root(g.in[0])}; }
  /// In ops that ONNX has: it is exported so.
  Tensors decompose(std::span<const Tensor> in) const override { return {(in[0] + root(in[0])) * 0.5}; }
  std::vector<Sample> samples() const override {
    const Type x{DType::f32, {2, 3, 17}};
    return {{std::make_shared<Squareplus>(), {x}, {{-6, 6}}}, {std::make_shared<Squareplus>(0.5), {x}, {{-6, 6}}}};
  }

 private:
  Tensor root(const Tensor& x) const { return sqrt(x * x + b); }
};

/// The specification, in every dtype.
void body(const Op& op, std::span<const reference::View> in, std::span<const reference::View> out, std::uint32_t&) {
  const double b = static_cast<const Squareplus&>(op).b;
  for (std::int64_t i = 0; i < out[0].numel(); ++i) out[0].set(i, (in[0][i] + std::sqrt(in[0][i] * in[0][i] + b)) / 2);
}

/// A fast kernel for f32, cut into tasks that run on any thread.
struct Work {
  std::int64_t count;
  float b;
  int tasks;
};

void run(const void* self, const Args& args, int task) noexcept {
  const auto& work = *static_cast<const Work*>(self);
  const auto* x = static_cast<const float*>(args.in[0]);
  auto* y = static_cast<float*>(args.out[0]);
  const std::int64_t end = work.count * (task + 1) / work.tasks;
  for (std::int64_t i = work.count * task / work.tasks; i < end; ++i)
    y[i] = (x[i] + std::sqrt(x[i] * x[i] + work.b)) / 2;
}

Launch prepare(KernelRequest& request) {
  const Type& x = request.input(0).type;
  if (request.steps.size() != 1 || x.dtype != DType::f32) return decline(request, "takes one squareplus in f32");
  const int tasks = static_cast<int>(std::clamp<std::int64_t>(x.shape.numel() >> 14, 1, 64));
  const auto b = static_cast<float>(static_cast<const Squareplus&>(request.op()).b);
  return {run, std::make_shared<Work>(Work{x.shape.numel(), b, tasks}), tasks};
}

/// What model files call Squareplus.
struct SquareplusLayer {
  double b = 4;
  void fields(Fields& f) { f("b", b); }
  Tensor operator()(const Tensor& x) const { return apply1(std::make_shared<Squareplus>(b), {x}); }
};

void define_all() {
  define<Squareplus>();
  reference::define_reference("squareplus", body);
  add({.op = "squareplus", .name = "squareplus", .rank = 10, .prepare = prepare});
  nn::define_layer<SquareplusLayer>("Squareplus");
}

}  // namespace

NEURIM_PLUGIN(define_all);
