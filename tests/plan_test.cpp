// How plans and compiled functions may be called.
#include "neurim/compile/plan.h"

#include <gtest/gtest.h>

#include <functional>

#include "neurim/base/error.h"
#include "neurim/nn/linear.h"
#include "neurim/ops/add.h"
#include "neurim/ops/mul.h"
#include "tests/ask_group.h"
#include "tests/errors.h"

namespace neurim {
namespace {

const Type kIn{DType::f32, {3, 4}};

class Plans : public testing::Test {
 protected:
  const nn::Linear layer{4, 2};
  const Tensor x = op_table::uniform({3, 4}, -1, 1, 1);
  const Plan planned = plan([this](const Tensors& in) -> Tensors { return {layer(in[0])}; }, {kIn});

  Plan outer(const std::function<Tensors(Tensors)>& function) const { return plan(function, {kIn}); }
};

TEST_F(Plans, ValuesOfATraceHaveNoData) {
  const std::string why = "is a value of a trace";
  const auto says = [&](const std::function<void()>& body) { return usage_error(body).find(why) != std::string::npos; };
  EXPECT_TRUE(says([&] { outer([&](const Tensors& in) { return planned(in); }); }));
  Tensor kept;
  outer([&](const Tensors& in) -> Tensors { return {kept = in[0] + in[0]}; });
  EXPECT_TRUE(says([&] { planned({kept}); })) << "after its trace";
  const Tensor y = Tensor::empty({DType::f32, {3, 2}});
  outer([&](const Tensors& in) -> Tensors {
    EXPECT_TRUE(says([&] { planned.run({&in[0], 1}, {&y, 1}); }));
    const Tensor traced = layer(in[0]);
    EXPECT_TRUE(says([&] { planned.run({&x, 1}, {&traced, 1}); })) << "as a result";
    return {traced};
  });
  for (const auto& use :
       std::vector<std::function<void()>>{[&] { kept.values<float>(); }, [&] { kept.clone(); }, [&] { kept.place({}); },
                                          [&] { kept.write(nullptr); }, [&] { x.assign(kept); }, [&] { kept + x; }})
    EXPECT_NE(usage_error(use).find("trace"), std::string::npos);
}

TEST_F(Plans, APlanOfStoredTensorsRunsInsideATrace) {
  const Plan both = outer([&](const Tensors& in) -> Tensors {
    const Tensor constant = planned({x})[0];
    return {constant + plan([this](const Tensors& again) -> Tensors { return {layer(again[0])}; }, {kIn})({x})[0] +
            layer(in[0])};
  });
  const Tensor y = planned({x})[0];
  EXPECT_EQ(op_table::difference({y + y + y}, both({x}), 1e-6), "");
}

TEST_F(Plans, ACompiledFunctionJoinsTheTraceOfItsCaller) {
  Compiled twice([this](const Tensors& in) -> Tensors { return {layer(in[0]) + layer(in[0])}; }, {});
  const Plan joined = outer([&](const Tensors& in) -> Tensors { return {twice(in)[0] * twice({x})[0]}; });
  const Tensor y = twice({x})[0];
  EXPECT_EQ(op_table::difference({y * y}, joined({x}), 1e-6), "");
  Tensor kept;
  outer([&](const Tensors& in) -> Tensors { return {kept = in[0] + in[0]}; });
  EXPECT_NE(usage_error([&] { twice({kept}); }).find("trace"), std::string::npos);
}

/// However many inputs and states there are, as a plan's lists grow while it is made.
TEST(Compiled, StatesTakeConstants) {
  const Type type{DType::f32, {2}};
  for (int count = 1; count <= 40; ++count) {
    Tensors states, in;
    for (int i = 0; i <= count % 10; ++i) in.push_back(Tensor::full(type, 1));
    for (int i = 0; i <= count / 10; ++i) states.push_back(Tensor::full(type, -1));
    const Plan set = plan(
        [&](const Tensors& x) -> Tensors {
          for (std::size_t i = 0; i < states.size(); ++i) states[i].assign(Tensor::full(type, static_cast<double>(i)));
          return {x[0] + x[0]};
        },
        Types(in.size(), type));
    set(in);
    for (std::size_t i = 0; i < states.size(); ++i)
      EXPECT_EQ(states[i].values<float>(), std::vector<float>(2, static_cast<float>(i)));
  }
}

/// Inputs that cannot be planned do not push out plans of others.
TEST(Compiled, WhatFailsKeepsNoPlace) {
  int traced = 0;
  Compiled twice(
      [&](const Tensors& in) -> Tensors {
        ++traced;
        return {in[0] + Tensor::full({DType::f32, {3}}, 1)};
      },
      {}, 2);
  const Tensor one = Tensor::full({DType::f32, {3}}, 1), two = Tensor::full({DType::f32, {2, 3}}, 1);
  twice({one}), twice({two});
  const int before = traced;
  for (std::int64_t wrong = 4; wrong < 8; ++wrong) EXPECT_THROW(twice({Tensor::full({DType::f32, {wrong}}, 1)}), Error);
  EXPECT_EQ(twice.size(), 2u);
  EXPECT_EQ(traced, before + 4);
  twice({one}), twice({two});
  EXPECT_EQ(traced, before + 4);
  twice({Tensor::full({DType::f32, {5, 3}}, 1)});  // which takes the place of the one used longest ago
  EXPECT_EQ(twice.size(), 2u);
  twice({two});
  EXPECT_EQ(traced, before + 5);
}

}  // namespace
}  // namespace neurim
