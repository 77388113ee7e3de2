// The checks of ops of one's own find what is wrong with an op.
#include "neurim/compile/check_op.h"

#include <gtest/gtest.h>

#include "neurim/backend/reference/view.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/mul.h"
#include "tests/errors.h"

namespace neurim {
namespace {

/// y = scale * x, right in everything.
class Scaled : public UnaryOp {
 public:
  double scale = 3;
  std::string_view name() const override { return "scaled"; }
  void fields(Fields& f) override { f("scale", scale); }
  Tensors grad(const Gradient& g) const override { return {g.dout[0] * scale}; }
  Tensors decompose(std::span<const Tensor> in) const override { return {in[0] * scale}; }
};

class WrongGradient final : public Scaled {
 public:
  std::string_view name() const override { return "wrong_gradient"; }
  Tensors grad(const Gradient& g) const override { return {g.dout[0] * (scale + 0.01)}; }
};

class ForgottenField final : public Scaled {
 public:
  explicit ForgottenField(double with = 3) { scale = with; }
  std::string_view name() const override { return "forgotten_field"; }
  void fields(Fields&) override {}
  std::vector<Sample> samples() const override {
    return {{std::make_shared<ForgottenField>(4), {{DType::f32, {2, 3}}}}};
  }
};

class NoSamples final : public Scaled {
 public:
  std::string_view name() const override { return "no_samples"; }
  std::vector<Sample> samples() const override { return {}; }
};

class SamplesOfAnother final : public Scaled {
 public:
  std::string_view name() const override { return "samples_of_another"; }
  std::vector<Sample> samples() const override { return {{std::make_shared<Scaled>(), {{DType::f32, {2}}}}}; }
};

class TakesNothing final : public Scaled {
 public:
  std::string_view name() const override { return "takes_nothing"; }
  Types infer(std::span<const Type> in) const override { return in.empty() ? Types{{}} : Scaled::infer(in); }
};

class WrongKernel final : public Scaled {
 public:
  std::string_view name() const override { return "wrong_kernel"; }
};

class WrongDecomposition final : public Scaled {
 public:
  std::string_view name() const override { return "wrong_decomposition"; }
  Tensors decompose(std::span<const Tensor> in) const override { return {in[0] * (scale + 1e-6)}; }
};

void threefold(const Op&, std::span<const reference::View> in, std::span<const reference::View> out, std::uint32_t&) {
  for (std::int64_t i = 0; i < out[0].numel(); ++i) out[0].set(i, 3 * in[0][i]);
}

/// Leaves the last element as it was made: 0.
Launch all_but_one(KernelRequest& request) {
  if (request.input(0).type.dtype != DType::f32) return decline(request, "takes f32 only");
  const auto run = [](const void* self, const Args& args, int) noexcept {
    const auto count = *static_cast<const std::int64_t*>(self);
    const auto* x = static_cast<const float*>(args.in[0]);
    auto* y = static_cast<float*>(args.out[0]);
    for (std::int64_t i = 0; i < count; ++i) y[i] = i + 1 < count ? 3 * x[i] : 0;
  };
  return {run, std::make_shared<std::int64_t>(request.input(0).type.shape.numel())};
}

class CheckOp : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    define<Scaled>();
    define<WrongGradient>();
    define<ForgottenField>();
    define<NoSamples>();
    define<SamplesOfAnother>();
    define<TakesNothing>();
    define<WrongKernel>();
    define<WrongDecomposition>();
    for (const char* op :
         {"scaled", "wrong_gradient", "no_samples", "takes_nothing", "wrong_kernel", "wrong_decomposition"})
      reference::define_reference(op, threefold);
    add({.op = "wrong_kernel", .name = "fast", .rank = 10, .prepare = all_but_one});
  }

  /// All that is found is of this kind, and something is.
  void finds(std::string_view op, const std::string& fault) {
    const std::vector<std::string> faults = check_op(op);
    EXPECT_FALSE(faults.empty()) << op;
    for (const std::string& each : faults) expect_words(each, {std::string(op), fault});
  }
};

TEST_F(CheckOp, SaysNothingOfSoundOps) {
  for (const char* op : {"scaled", "conv2d", "max_pool2d", "gelu", "softmax", "dropout", "argmax", "where", "concat"})
    EXPECT_EQ(check_op(op), std::vector<std::string>()) << op;
}

TEST_F(CheckOp, FindsEachFault) {
  finds("wrong_gradient", "the gradient of input 0 element");
  finds("forgotten_field", "an attribute is missing in fields()");
  finds("no_samples", "has no samples");
  finds("samples_of_another", "is no sample of samples_of_another");
  finds("takes_nothing", "infer() takes no inputs");
  finds("wrong_kernel", "a plan with all kernels, result 0: output 0 element");
  finds("wrong_decomposition", "decompose(): output 0 element");
  finds("undefined_op", "there is no such op");
}

TEST_F(CheckOp, NamesAreTakenOnce) {
  expect_words(error_of([] { define<Scaled>(); }, Fault::usage), {"there is an op 'scaled' already"});
  expect_words(error_of([] { reference::define_reference("relu", threefold); }, Fault::usage),
               {"reference kernel of 'relu'"});
}

}  // namespace
}  // namespace neurim
