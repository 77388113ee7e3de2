// The vectorised batch normalization: layouts, what runs in the same pass behind it, and its numerics.
#include "neurim/ops/batch_norm.h"
#include "tests/ask_chain.h"

namespace neurim {
namespace {

using namespace op_table;

const Shape kShapes[] = {{4, 16, 32, 32}, {4, 64, 14, 14}, {3, 17, 9, 7}, {2, 3, 33, 31},
                         {70, 40, 1, 1},  {1, 5, 40, 40},  {5, 48, 7, 7}, {16, 1, 28, 28}};

/// The values of a normalization in a chain.
struct Normalized {
  int x, residual;
  std::vector<int> out;
};

Normalized normalize(Chain& chain, const Shape& shape, bool training, bool residual, double mean = 0.3) {
  const Shape channels{shape[1]};
  Normalized made{chain.input(uniform(shape, mean - 1, mean + 1, 1)), -1, {}};
  std::vector<int> in{made.x, chain.input(uniform(channels, -1, 1, 2)),
                      chain.input(uniform(channels, -1, 1, 3))};
  if (!training) {
    in.push_back(chain.input(uniform(channels, -1, 1, 4)));
    in.push_back(chain.input(uniform(channels, 0.5, 2, 5)));
  }
  if (residual) made.residual = chain.input(uniform(shape, -1, 1, 6));
  made.out = chain.then(make_op(training ? "batch_norm_train" : "batch_norm"), in);
  return made;
}

TEST(BatchNormKernels, AgreeInEveryPattern) {
  for (const Shape& shape : kShapes)
    for (const bool training : {true, false})
      for (const bool adds : {false, true})
        for (const bool rectifies : {false, true}) {
          Chain chain;
          const Normalized made = normalize(chain, shape, training, adds);
          std::vector<int> all = made.out;
          int last = made.out[0];
          // The addition's operands stand in either order.
          if (adds)
            last = chain.then(make_op("add"), rectifies ? std::vector{made.residual, last}
                                                        : std::vector{last, made.residual})[0];
          if (adds) all.push_back(last);
          if (rectifies) all.push_back(chain.then(make_op("relu"), {last})[0]);
          chain.check({all.back()}, 1e-5);
          chain.check(all, 1e-5);
        }
}

TEST(BatchNormKernels, AddTheirOwnInput) {
  Chain chain;
  const Normalized made = normalize(chain, {2, 20, 5, 5}, true, false);
  chain.check(chain.then(make_op("add"), {made.out[0], made.x}), 1e-5);
}

TEST(BatchNormKernels, OtherStepsBehind) {
  for (const Shape& shape : {kShapes[1], kShapes[2], kShapes[4]})
    for (const bool training : {true, false}) {
      const auto check = [&](auto continued) {
        Chain chain;
        const Normalized made = normalize(chain, shape, training, true);
        std::vector<int> all = made.out;
        for (const int value : continued(chain, made)) all.push_back(value);
        chain.check({all.back()}, 1e-5);
        chain.check(all, 1e-5);
      };
      check([](Chain& chain, const Normalized& made) { return chain.then(make_op("sigmoid"), {made.out[0]}); });
      check([](Chain& chain, const Normalized& made) { return chain.then(make_op("add"), {made.out[0], made.out[0]}); });
      check([](Chain& chain, const Normalized& made) {
        const int rectified = chain.then(make_op("relu"), {made.out[0]})[0], sum = chain.then(make_op("add"), {rectified, made.residual})[0];
        return std::vector<int>{rectified, sum, chain.then(make_op("mul"), {sum, chain.then(make_op("sigmoid"), {sum})[0]})[0]};
      });
    }
}

TEST(BatchNormKernels, DeclineStepsThatReadWhatTheyPassed) {
  Chain chain;
  const Normalized made = normalize(chain, {2, 16, 5, 5}, true, false);
  const int rectified = chain.then(make_op("relu"), {made.out[0]})[0];
  std::string why;
  EXPECT_TRUE(chain.run({}, 1, chain.then(make_op("mul"), {rectified, made.out[0]}), &why).empty());
  EXPECT_EQ(why, "takes steps that read what they begin with and the site's inputs");
}

TEST(BatchNormKernels, GradientAgrees) {
  for (const Shape& shape : kShapes) {
    const Shape channels{shape[1]};
    Chain chain;
    const std::vector<int> in{chain.input(uniform(shape, -1, 1, 1)), chain.input(uniform(shape, -1, 1, 2)),
                              chain.input(uniform(channels, -1, 1, 3)),
                              chain.input(uniform(channels, -1, 1, 4)),
                              chain.input(uniform(channels, 0.5, 2, 5))};
    chain.check(chain.then(make_op("batch_norm_grad"), in), 1e-5);
  }
}

TEST(BatchNormKernels, TakeTwoAxes) {
  for (const Shape& shape : {Shape{33, 37}, {2000, 16}, {5, 3}}) {
    Chain chain;
    chain.check(normalize(chain, shape, true, false).out, 1e-5);
  }
}

/// A mean of 10000 deviations, and an image border that is none of it: a variance from sums of squares would
/// be noise.
TEST(BatchNormKernels, KeepTheVarianceBesideALargeMean) {
  const Shape shape{4, 18, 30, 30}, channels{18};
  std::vector<float> values = uniform(shape, 9999, 10001, 1).values<float>();
  for (std::size_t i = 0; i < values.size(); i += 900) values[i] = 0;
  for (const bool outliers : {false, true}) {
    Chain chain;
    const Tensor x = outliers ? Tensor::from(shape, values) : uniform(shape, 9999, 10001, 1);
    const std::vector<int> in{chain.input(x), chain.input(uniform(channels, 1, 1, 2)),
                              chain.input(uniform(channels, 0, 0, 3))};
    const std::vector<int> out = chain.then(make_op("batch_norm_train"), in);
    chain.check({out[2]}, 3e-6);
    chain.check({out[1]}, 1e-7);
    chain.check({out[0]}, 1e-3);  // the mean itself is rounded to 1/2048 of a deviation
  }
}

TEST(BatchNormKernels, ConstantChannelsHaveNoVariance) {
  Chain chain;
  const Shape shape{3, 20, 8, 8}, channels{20};
  const std::vector<int> in{chain.input(uniform(shape, 0.1, 0.1, 1)), chain.input(uniform(channels, 1, 1, 2)),
                            chain.input(uniform(channels, 2, 2, 3))};
  const std::vector<int> out = chain.then(make_op("batch_norm_train"), in);
  for (const Layout& layout : {Layout{}, Layout{Layout::blocked, 16}}) {
    const Tensors made = chain.run(layout, 2, out);
    for (const double variance : made[2].values<double>()) EXPECT_EQ(variance, 0);
    for (const double y : made[0].values<double>()) EXPECT_EQ(y, 2);
  }
}

TEST(BatchNormKernels, ReluKeepsNan) {
  Chain chain;
  std::vector<float> values(2 * 16 * 4, 1.f);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  const Shape channels{16};
  std::vector<int> in{chain.input(Tensor::from(Shape{2, 16, 2, 2}, values))};
  for (std::uint64_t i = 2; i < 6; ++i) in.push_back(chain.input(uniform(channels, 1, 2, i)));
  chain.check(chain.then(make_op("relu"), chain.then(make_op("batch_norm"), in)), 1e-5);
}

}  // namespace
}  // namespace neurim
