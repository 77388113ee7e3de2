// The vectorised batch normalization: layouts, what runs in the same pass behind it, and its numerics.
#include "neurim/ops/batch_norm.h"
#include "tests/ask_group.h"

namespace neurim {
namespace {

using namespace op_table;

const Shape kShapes[] = {{4, 16, 32, 32}, {4, 64, 14, 14}, {3, 17, 9, 7}, {2, 3, 33, 31},
                         {70, 40, 1, 1},  {1, 5, 40, 40},  {5, 48, 7, 7}, {16, 1, 28, 28}};

/// The values of a normalization in a fusion group.
struct Normalized {
  int x, residual;
  std::vector<int> out;
};

Normalized normalize(FusionGroup& group, const Shape& shape, bool training, bool residual, double mean = 0.3) {
  const Shape channels{shape[1]};
  Normalized made{group.input(uniform(shape, mean - 1, mean + 1, 1)), -1, {}};
  std::vector<int> in{made.x, group.input(uniform(channels, -1, 1, 2)), group.input(uniform(channels, -1, 1, 3))};
  if (!training) {
    in.push_back(group.input(uniform(channels, -1, 1, 4)));
    in.push_back(group.input(uniform(channels, 0.5, 2, 5)));
  }
  if (residual) made.residual = group.input(uniform(shape, -1, 1, 6));
  made.out = group.then(make_op(training ? "batch_norm_train" : "batch_norm"), in);
  return made;
}

TEST(BatchNormKernels, AgreeInEveryPattern) {
  for (const Shape& shape : kShapes)
    for (const bool training : {true, false})
      for (const bool adds : {false, true})
        for (const bool rectifies : {false, true}) {
          FusionGroup group;
          const Normalized made = normalize(group, shape, training, adds);
          std::vector<int> all = made.out;
          int last = made.out[0];
          // The addition's operands stand in either order.
          if (adds)
            last = group.then(make_op("add"),
                              rectifies ? std::vector{made.residual, last} : std::vector{last, made.residual})[0];
          if (adds) all.push_back(last);
          if (rectifies) all.push_back(group.then(make_op("relu"), {last})[0]);
          group.check({all.back()}, 1e-5);
          group.check(all, 1e-5);
        }
}

TEST(BatchNormKernels, AddTheirOwnInput) {
  FusionGroup group;
  const Normalized made = normalize(group, {2, 20, 5, 5}, true, false);
  group.check(group.then(make_op("add"), {made.out[0], made.x}), 1e-5);
}

TEST(BatchNormKernels, OtherStepsBehind) {
  for (const Shape& shape : {kShapes[1], kShapes[2], kShapes[4]})
    for (const bool training : {true, false}) {
      const auto check = [&](auto continued) {
        FusionGroup group;
        const Normalized made = normalize(group, shape, training, true);
        std::vector<int> all = made.out;
        for (const int value : continued(group, made)) all.push_back(value);
        group.check({all.back()}, 1e-5);
        group.check(all, 1e-5);
      };
      check([](FusionGroup& group, const Normalized& made) { return group.then(make_op("sigmoid"), {made.out[0]}); });
      check([](FusionGroup& group, const Normalized& made) {
        return group.then(make_op("add"), {made.out[0], made.out[0]});
      });
      check([](FusionGroup& group, const Normalized& made) {
        const int rectified = group.then(make_op("relu"), {made.out[0]})[0],
                  sum = group.then(make_op("add"), {rectified, made.residual})[0];
        return std::vector<int>{rectified, sum,
                                group.then(make_op("mul"), {sum, group.then(make_op("sigmoid"), {sum})[0]})[0]};
      });
    }
}

TEST(BatchNormKernels, DeclineStepsThatReadWhatTheyPassed) {
  FusionGroup group;
  const Normalized made = normalize(group, {2, 16, 5, 5}, true, false);
  const int rectified = group.then(make_op("relu"), {made.out[0]})[0];
  std::string why;
  EXPECT_TRUE(group.run({}, 1, group.then(make_op("mul"), {rectified, made.out[0]}), &why).empty());
  EXPECT_EQ(why, "takes steps that read what they begin with and the request's inputs");
}

TEST(BatchNormKernels, GradientAgrees) {
  for (const Shape& shape : kShapes) {
    const Shape channels{shape[1]};
    FusionGroup group;
    const std::vector<int> in{group.input(uniform(shape, -1, 1, 1)), group.input(uniform(shape, -1, 1, 2)),
                              group.input(uniform(channels, -1, 1, 3)), group.input(uniform(channels, -1, 1, 4)),
                              group.input(uniform(channels, 0.5, 2, 5))};
    group.check(group.then(make_op("batch_norm_grad"), in), 1e-5);
  }
}

TEST(BatchNormKernels, TakeTwoAxes) {
  for (const Shape& shape : {Shape{33, 37}, {2000, 16}, {5, 3}}) {
    FusionGroup group;
    group.check(normalize(group, shape, true, false).out, 1e-5);
  }
}

/// A mean of 10000 stds, and an image border that is none of it: a variance from sums of squares would
/// be noise.
TEST(BatchNormKernels, KeepTheVarianceBesideALargeMean) {
  const Shape shape{4, 18, 30, 30}, channels{18};
  std::vector<float> values = uniform(shape, 9999, 10001, 1).values<float>();
  for (std::size_t i = 0; i < values.size(); i += 900) values[i] = 0;
  for (const bool outliers : {false, true}) {
    FusionGroup group;
    const Tensor x = outliers ? Tensor::from(shape, values) : uniform(shape, 9999, 10001, 1);
    const std::vector<int> in{group.input(x), group.input(uniform(channels, 1, 1, 2)),
                              group.input(uniform(channels, 0, 0, 3))};
    const std::vector<int> out = group.then(make_op("batch_norm_train"), in);
    group.check({out[2]}, 3e-6);
    group.check({out[1]}, 1e-7);
    group.check({out[0]}, 1e-3);  // the mean itself is rounded to 1/2048 of a std
  }
}

TEST(BatchNormKernels, ConstantChannelsHaveNoVariance) {
  FusionGroup group;
  const Shape shape{3, 20, 8, 8}, channels{20};
  const std::vector<int> in{group.input(uniform(shape, 0.1, 0.1, 1)), group.input(uniform(channels, 1, 1, 2)),
                            group.input(uniform(channels, 2, 2, 3))};
  const std::vector<int> out = group.then(make_op("batch_norm_train"), in);
  for (const Layout& layout : {Layout{}, Layout{Layout::blocked, 16}}) {
    const Tensors made = group.run(layout, 2, out);
    for (const double variance : made[2].values<double>()) EXPECT_EQ(variance, 0);
    for (const double y : made[0].values<double>()) EXPECT_EQ(y, 2);
  }
}

TEST(BatchNormKernels, ReluKeepsNan) {
  FusionGroup group;
  std::vector<float> values(2 * 16 * 4, 1.f);
  values[5] = std::numeric_limits<float>::quiet_NaN();
  const Shape channels{16};
  std::vector<int> in{group.input(Tensor::from(Shape{2, 16, 2, 2}, values))};
  for (std::uint64_t i = 2; i < 6; ++i) in.push_back(group.input(uniform(channels, 1, 2, i)));
  group.check(group.then(make_op("relu"), group.then(make_op("batch_norm"), in)), 1e-5);
}

}  // namespace
}  // namespace neurim
