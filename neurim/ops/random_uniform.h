// Uniform random numbers as a pure function of key, ordinal and place.
#pragma once
#include <array>

#include "neurim/core/random.h"
#include "neurim/graph/op.h"

namespace neurim {

/// Uniform numbers in [low, high), 24 random bits each; rounding to the dtype may give `high` itself. Fresh
/// ones at every call, and at every replay of a trace.
Tensor random_uniform(const Shape& shape, double low = 0, double high = 1, DType dtype = DType::f32);

/// The numbers 4*block … 4*block+3 of a random op, 24 bits each: number i times 2^-24 is uniform in [0, 1).
inline std::array<std::uint32_t, 4> random_block(std::uint64_t seed, std::uint64_t step, std::int64_t ordinal,
                                                 std::uint64_t block) {
  auto words = philox({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                       static_cast<std::uint32_t>(ordinal), static_cast<std::uint32_t>(step)},
                      {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  for (auto& word : words) word >>= 8;
  return words;
}

/// Input (key i64(2) = {seed, step}) -> numbers.
class RandomUniform final : public Op {
 public:
  Shape shape;               ///< of the result
  DType dtype = DType::f32;  ///< of the result, floating
  double low = 0,            ///< the least number
      high = 1;              ///< what all numbers are below, before rounding
  std::int64_t ordinal = 0;  ///< of the random op in its trace
  std::string_view name() const override { return "random_uniform"; }
  void fields(Fields& f) override;
  Types infer(std::span<const Type> in) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
