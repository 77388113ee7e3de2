// Functions with a gradient of their own.
#include "neurim/ops/custom_gradient.h"

#include <gtest/gtest.h>

#include "neurim/compile/plan.h"
#include "neurim/graph/trace.h"
#include "neurim/ops/add.h"
#include "neurim/ops/detach.h"
#include "neurim/ops/exp.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/sum.h"
#include "tests/errors.h"

namespace neurim {
namespace {

using Doubles = std::vector<double>;

Tensor vector(const std::vector<float>& values) { return Tensor::from({std::ssize(values)}, values); }

Tensor reversed(const Tensor& x) {
  return custom_gradient(
      {x}, [](const Tensors& in) { return in; }, [](const Gradient& g) -> Tensors { return {g.dout[0] * -1}; },
      "reversed")[0];
}

/// x * 3 with a gradient of 5.
Tensor odd_slope(const Tensor& x) {
  return custom_gradient(
      {x}, [](const Tensors& in) -> Tensors { return {in[0] * 3}; },
      [](const Gradient& g) -> Tensors { return {g.dout[0] * 5}; })[0];
}

/// The gradients of the sum of what a function gives.
std::vector<Doubles> slopes(const std::function<Tensor(const Tensors&)>& function, const Tensors& at,
                            const PlanOptions& options = {}) {
  Types types;
  for (const Tensor& tensor : at) types.push_back(tensor.type());
  const Plan planned = plan(
      [&](const Tensors& in) {
        const Tensor total = sum(function(in));
        Tensors all = gradients({&total, 1}, in);
        for (std::size_t i = 0; i < all.size(); ++i)
          if (!all[i]) all[i] = Tensor::full(in[i].type(), 0);
        return all;
      },
      types, options);
  std::vector<Doubles> all;
  for (const Tensor& one : planned(at)) all.push_back(one.values<double>());
  return all;
}

TEST(CustomGradient, TakesThePlaceOfThatOfTheOps) {
  const Tensor x = vector({1, 2});
  EXPECT_EQ(odd_slope(x).values<double>(), (Doubles{3, 6}));
  for (const bool interpret : {false, true}) {
    const PlanOptions options{.interpret = interpret};
    EXPECT_EQ(slopes([](const Tensors& in) { return odd_slope(in[0]); }, {x}, options)[0], (Doubles{5, 5}));
    EXPECT_EQ(slopes([](const Tensors& in) { return reversed(in[0] * in[0]); }, {x}, options)[0], (Doubles{-2, -4}));
    EXPECT_EQ(slopes([](const Tensors& in) { return odd_slope(odd_slope(in[0])) + in[0]; }, {x}, options)[0],
              (Doubles{26, 26}));
  }
}

TEST(CustomGradient, OfSeveralInputsAndResults) {
  const auto both = [](const Tensors& in) {
    const Tensors out = custom_gradient(
        in, [](const Tensors& x) -> Tensors { return {x[0] * x[1], x[0], x[0] * x[1]}; },
        [](const Gradient& g) -> Tensors {
          EXPECT_FALSE(g.dout[2]);
          return {g.dout[0] * 7 + g.dout[1] * 11, {}};
        });
    return out[0] + out[1];
  };
  EXPECT_EQ(slopes(both, {vector({1, 2}), vector({3, 4})}), (std::vector<Doubles>{{18, 18}, {0, 0}}));
}

TEST(CustomGradient, GradientsOfGradients) {
  const auto cube = [](const Tensors& in) {
    const Tensor y = custom_gradient(
        in, [](const Tensors& x) -> Tensors { return {detach(x[0] * x[0] * x[0])}; },
        [](const Gradient& g) -> Tensors { return {g.dout[0] * g.in[0] * g.in[0] * 3}; })[0];
    const Tensor total = sum(y);
    return gradients({&total, 1}, in)[0];
  };
  EXPECT_EQ(slopes(cube, {vector({1, 2})})[0], (Doubles{6, 12}));
}

TEST(CustomGradient, PlansHoldTheOpsAlone) {
  const auto nodes = [](const std::function<Tensor(const Tensor&)>& function) {
    return plan([&](const Tensors& in) -> Tensors { return {function(in[0])}; }, {{DType::f32, {4}}}).graph().text();
  };
  EXPECT_EQ(nodes(odd_slope), nodes([](const Tensor& x) { return x * 3; }));
}

TEST(CustomGradient, GraphsThatAreCalledKeepIt) {
  Trace trace({});
  const Tensor x = trace.input({DType::f32, {2}}, "x");
  const Graph graph = trace.finish({odd_slope(x)});
  EXPECT_EQ(slopes([&](const Tensors& in) { return call(graph, in)[0]; }, {vector({1, 2})})[0], (Doubles{5, 5}));
  // Files keep what is computed, and say what they lack.
  const ParsedGraph read = parse_graph(graph.text(), [&](const std::string& name, const Type&) {
    for (const auto& [known, tensor] : stored_tensors(graph))
      if (known == name) return tensor;
    return Tensor();
  });
  EXPECT_EQ(call(read.graph, {vector({1, 2})})[0].values<double>(), (Doubles{3, 6}));
  EXPECT_NE(usage_error([&] {
              slopes([&](const Tensors& in) { return call(read.graph, in)[0]; }, {vector({1, 2})});
            }).find("which files do not have"),
            std::string::npos);
}

TEST(CustomGradient, MistakesAreSaid) {
  const Tensor w = vector({3, 4});
  w.set_name("fc.weight");
  const auto through = [&](const Tensor& x, const GradientFunction& backward) {
    return custom_gradient({x}, [&](const Tensors& in) -> Tensors { return {in[0] * w}; }, backward, "Scale")[0];
  };
  const GradientFunction good = [](const Gradient& g) -> Tensors { return {g.dout[0]}; };
  const auto said = [&](const GradientFunction& backward) {
    return usage_error([&] { slopes([&](const Tensors& in) { return through(in[0], backward); }, {w}); });
  };
  EXPECT_EQ(said([](const Gradient&) { return Tensors(); }),
            "Scale: the backward function gives 0 gradients; there are 1 inputs");
  EXPECT_EQ(said([](const Gradient& g) -> Tensors { return {sum(g.dout[0])}; }),
            "Scale: the backward function gives the gradient f32() for input 0, which is f32(2); a gradient has the "
            "shape and dtype of its input");
  // A weight or a value that is read from outside is no fault until its gradient is wanted.
  EXPECT_EQ(slopes([&](const Tensors& in) { return through(in[0], good); }, {w})[0], (Doubles{1, 1}));
  const auto wrt = [&](const std::function<Tensor(const Tensor&)>& function) {
    return message_of([&] {
      plan([&](const Tensors& in) { return gradients(Tensors{sum(function(in[0]))}, Tensors{w}); }, {w.type()});
    });
  };
  const std::string weight = "Scale: the forward function reads fc.weight from outside";
  expect_words(wrt([&](const Tensor& x) { return through(x, good); }), {weight});
  expect_words(wrt([&](const Tensor& x) { return through(x * w, good); }), {weight});
  const auto of_made = [&](const Tensor& x) {
    const Tensor made = w + x;
    const auto forward = [&](const Tensors& in) -> Tensors { return {in[0] * made}; };
    return custom_gradient({x}, forward, good, "Scale")[0];
  };
  expect_words(wrt(of_made), {"Scale: the forward function reads a tensor f32(2) from outside"});
  const auto allowed = [&](const Tensor& x) {
    const auto forward = [&](const Tensors& in) -> Tensors { return {in[0] * in[1] * detach(exp(w))}; };
    return custom_gradient({x, w}, forward, [](const Gradient& g) -> Tensors { return {{}, g.dout[0]}; })[0];
  };
  EXPECT_EQ(wrt(allowed), "nothing was thrown");
}

}  // namespace
}  // namespace neurim
