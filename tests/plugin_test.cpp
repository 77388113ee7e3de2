// Shared libraries with ops and layers of one's own.
#include "neurim/model/plugin.h"

#include <gtest/gtest.h>

#include <cmath>

#include "neurim/compile/check_op.h"
#include "neurim/compile/plan.h"
#include "neurim/model/model_file.h"
#include "neurim/nn/named_layers.h"
#include "tests/errors.h"

namespace neurim {
namespace {

std::string refused(const fs::path& path) {
  return error_of([&] { load_library(path); }, Fault::usage);
}

TEST(Plugin, WhatIsNoneIsRefusedInOneLine) {
  expect_words(refused("none.so"), {"none.so", "no such plug-in"});
  expect_words(refused(fs::path(EXAMPLES) / "squareplus.toml"), {"squareplus.toml", "cannot be loaded"});
  expect_words(refused(NEURIM_LIBRARY), {"no plug-in of Neurim", "neurim_plugin_abi", "NEURIM_PLUGIN"});
  expect_words(refused(OTHER_PLUGIN), {"was built for neurim 0.0.1, headers 0", kPluginAbi, "build it again"});
}

TEST(Plugin, BringsAnOpAKernelAndALayer) {
  const fs::path example = fs::path(EXAMPLES) / "squareplus.toml";
  expect_words(error_of([&] { create_model_file(example); }),
               {"squareplus.toml:10: layer 1 (Squareplus): there is no layer 'Squareplus'", "plugins=FILE"});
  load_library(SQUAREPLUS);
  load_library(SQUAREPLUS);  // is there: nothing is defined twice
  EXPECT_EQ(check_op("squareplus"), std::vector<std::string>());

  const Model model = create_model_file(example);
  const Plan planned = plan([&](const Tensors& in) { return Tensors{model(in[0])}; }, {{DType::f32, {2, 1, 28, 28}}});
  EXPECT_EQ(planned.outputs()[0].shape(), (Shape{2, 10}));
  int own_kernels = 0;
  for (const PlanRow& row : planned.rows()) own_kernels += row.kernel == "squareplus";
  EXPECT_EQ(own_kernels, 3);

  const std::vector<double> y = nn::make_layer("Squareplus")
                                    ->build({DType::f32, {3}})(Tensor::from(Shape{3}, std::vector<float>{0, 3, -3}))
                                    .values<double>();
  EXPECT_NEAR(y[0], 1, 1e-6);  // b is 4
  EXPECT_NEAR(y[1], (3 + std::sqrt(13.)) / 2, 1e-6);
  EXPECT_NEAR(y[2], (-3 + std::sqrt(13.)) / 2, 1e-6);
}

}  // namespace
}  // namespace neurim
