#include "neurim/backend/reference/view.h"
#include "neurim/ops/dropout.h"
#include "neurim/ops/random_uniform.h"

namespace neurim {

namespace {

using reference::View;

/// Number i of a random op, uniform in [0, 1).
double uniform(const View& key, std::int64_t ordinal, std::int64_t i) {
  const auto* words = static_cast<const std::int64_t*>(key.data);
  const auto block = random_block(static_cast<std::uint64_t>(words[0]), static_cast<std::uint64_t>(words[1]), ordinal,
                                  static_cast<std::uint64_t>(i / 4));
  return block[i % 4] * 0x1p-24;
}

void dropout_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const auto& dropout = static_cast<const Dropout&>(op);
  for (std::int64_t i = 0; i < out[0].numel(); ++i)
    out[0].set(i, uniform(in[1], dropout.ordinal, i) >= dropout.p ? in[0][i] / (1 - dropout.p) : 0);
}

void random_uniform_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const auto& random = static_cast<const RandomUniform&>(op);
  for (std::int64_t i = 0; i < out[0].numel(); ++i)
    out[0].set(i, random.low + (random.high - random.low) * uniform(in[0], random.ordinal, i));
}

}  // namespace

void reference_random() {
  reference::define_reference("dropout", dropout_body);
  reference::define_reference("random_uniform", random_uniform_body);
}

}  // namespace neurim
