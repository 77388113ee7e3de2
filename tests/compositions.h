// Functions of ops/ that are no op of their own, for the tests of gradients and for parity with PyTorch.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "neurim/ops/add.h"
#include "neurim/ops/common/bilinear.h"
#include "neurim/ops/common/positions.h"
#include "neurim/ops/embedding.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/glu.h"
#include "neurim/ops/log_sigmoid.h"
#include "neurim/ops/pixel_shuffle.h"
#include "neurim/ops/prelu.h"
#include "neurim/ops/shrink.h"
#include "neurim/ops/threshold.h"

namespace neurim {

/// One call: `arguments` is how the parity test calls PyTorch's function of that name, as JSON.
struct Composition {
  std::string name, arguments;
  std::function<Tensor(const Tensors&)> function;
  Types in;
  std::vector<Fill> fill = {};
};

inline std::vector<Composition> compositions() {
  const auto f32 = [](const Shape& shape) { return Type{DType::f32, shape}; };
  const Fill wide{-6, 6}, rows{0, 5};
  return {
      {"logsigmoid", "{}", [](const Tensors& x) { return log_sigmoid(x[0]); }, {f32({3, 17})}, {wide}},
      {"tanhshrink", "{}", [](const Tensors& x) { return tanhshrink(x[0]); }, {f32({3, 17})}, {wide}},
      {"threshold",
       R"({"threshold": 0.25, "value": -2})",
       [](const Tensors& x) { return threshold(x[0], 0.25, -2); },
       {f32({3, 17})}},
      {"glu", R"({"dim": 1})", [](const Tensors& x) { return glu(x[0], 1); }, {f32({2, 6, 5})}, {wide}},
      {"glu", R"({"dim": -1})", [](const Tensors& x) { return glu(x[0]); }, {f32({3, 8})}, {wide}},
      {"prelu", "{}", [](const Tensors& x) { return prelu(x[0], x[1]); }, {f32({2, 3, 4, 5}), f32({3})}},
      {"prelu", "{}", [](const Tensors& x) { return prelu(x[0], x[1]); }, {f32({2, 3, 7}), f32({1})}},
      {"pixel_shuffle",
       R"({"upscale_factor": 2})",
       [](const Tensors& x) { return pixel_shuffle(x[0], 2); },
       {f32({2, 8, 3, 5})}},
      {"pixel_unshuffle",
       R"({"downscale_factor": 3})",
       [](const Tensors& x) { return pixel_unshuffle(x[0], 3); },
       {f32({2, 2, 6, 9})}},
      {"channel_shuffle",
       R"({"groups": 3})",
       [](const Tensors& x) { return channel_shuffle(x[0], 3); },
       {f32({2, 6, 2, 3})}},
      {"flatten",
       R"({"start_dim": 1, "end_dim": 2})",
       [](const Tensors& x) { return flatten(x[0], 1, 2); },
       {f32({2, 3, 4, 5})}},
      {"unflatten",
       R"({"dim": 1, "sizes": [2, -1, 3]})",
       [](const Tensors& x) { return unflatten(x[0], 1, {2, -1, 3}); },
       {f32({4, 12, 5})}},
      {"bilinear",
       "{}",
       [](const Tensors& x) { return bilinear(x[0], x[1], x[2], x[3]); },
       {f32({2, 3, 4}), f32({2, 3, 5}), f32({6, 4, 5}), f32({6})}},
      {"embedding",
       "{}",
       [](const Tensors& x) { return embedding(x[0], x[1]); },
       {{DType::i64, {2, 9}}, f32({5, 3})},
       {rows}},
      {"embedding",
       R"({"padding_idx": 2})",
       [](const Tensors& x) { return embedding(x[0], x[1], 2); },
       {{DType::i64, {2, 9}}, f32({5, 3})},
       {rows}},
      {"embedding",
       R"({"padding_idx": -1})",
       [](const Tensors& x) { return embedding(x[0], x[1], -1); },
       {{DType::i64, {19}}, f32({5, 3})},
       {rows}},
      {"with_sinusoidal_positions",
       "{}",
       [](const Tensors& x) { return x[0] + sinusoidal_positions(9, 7, x[0].dtype()); },
       {f32({2, 9, 7})}},
      {"rotary_positions",
       R"({"base": 100, "interleaved": true, "first": 3})",
       [](const Tensors& x) { return rotary_positions(x[0], {.base = 100, .interleaved = true, .first = 3}); },
       {f32({2, 3, 5, 8})}},
      {"rotary_positions",
       R"({"base": 10000, "interleaved": false, "first": 0})",
       [](const Tensors& x) { return rotary_positions(x[0]); },
       {f32({7, 6})}},
  };
}

}  // namespace neurim
