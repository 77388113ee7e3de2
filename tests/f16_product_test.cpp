// Products of f16 by short sums, as AVX512-FP16 makes them, whose instructions are imitated: any machine with AVX-512
// runs this.
#include "tests/f16_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "neurim/base/text.h"
#include "neurim/core/float16.h"
#include "neurim/core/random.h"
#include "neurim/hardware/isa.h"

namespace neurim::cpu {
namespace {

constexpr std::int64_t kLanes = 16;

bool runs() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

/// Numbers that f16 has: whole ones of -1, 0, 1, of which all sums here are exact, or any.
std::vector<float> numbers(std::int64_t count, bool whole, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> all(static_cast<std::size_t>(count));
  for (float& number : all) {
    const double drawn = random.uniform(-1.5, 1.5);
    number = whole ? static_cast<float>(std::nearbyint(drawn)) : from_f16(to_f16(static_cast<float>(drawn)));
  }
  return all;
}

/// Rows of 16 as pairs: [rows][8 pairs].
std::vector<float> halves(const std::vector<float>& values) {
  std::vector<std::uint16_t> bits;
  for (const float value : values) bits.push_back(to_f16(value));
  std::vector<float> words(bits.size() / 2);
  if (!words.empty()) std::memcpy(words.data(), bits.data(), bits.size() * 2);
  return words;
}

/// Two rows each of 16 lanes as one of pairs.
std::vector<float> paired(const std::vector<float>& values) {
  std::vector<float> mixed(values.size());
  for (std::size_t row = 0; row < values.size() / 16; ++row)
    for (std::size_t lane = 0; lane < 16; ++lane) mixed[row / 2 * 32 + 2 * lane + row % 2] = values[row * 16 + lane];
  return halves(mixed);
}

double error_of(const std::vector<double>& expected, const std::vector<float>& got) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    error += std::pow(expected[i] - double{got[i]}, 2), size += expected[i] * expected[i];
  return std::sqrt(error / size);
}

void expect_near(const std::vector<double>& expected, const std::vector<float>& got, bool whole, std::int64_t terms,
                 double most) {
  if (whole) {
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(expected[i], double{got[i]}) << i;
    return;
  }
  EXPECT_LT(error_of(expected, got), most);
  if (terms >= 32) {
    EXPECT_GT(error_of(expected, got), 1e-4) << "no sum was one of f16";
  }
}

TEST(F16Product, ShortSumsAddUpToLongOnes) {
  if (!runs()) GTEST_SKIP() << "this machine has no AVX-512";
  struct Size {
    std::int64_t rows, channels, blocks, taps;
  };
  for (const Size& s : {Size{28, 16, 1, 1},
                        {31, 48, 2, 1},
                        {9, 288, 3, 1},
                        {14, 304, 2, 1},
                        {7, 1024, 5, 1},
                        {30, 33, 2, 9},
                        {14, 96, 3, 9},
                        {5, 64, 1, 25},
                        {3, 40, 2, 49},
                        {1, 2, 1, 1},
                        {5, 48, 2, 0}})  // the last reads nothing
    for (const bool whole : {true, false}) {
      SCOPED_TRACE(text(s.rows, ' ', s.channels, ' ', s.blocks, ' ', s.taps));
      const std::int64_t in_blocks = (s.channels + 15) / 16, span = s.rows + s.taps;  // tap t reads rows from t on
      const std::vector<float> x = numbers(in_blocks * span * kLanes, whole, 1),
                               weight = numbers(s.blocks * in_blocks * s.taps * kLanes * kLanes, whole, 2),
                               bias = numbers(s.blocks * kLanes, whole, 3);
      std::vector<std::int64_t> taps;
      for (std::int64_t t = 0; t < s.taps; ++t) taps.push_back(t * kLanes / 2);
      std::vector<double> expected;
      for (std::int64_t b = 0; b < s.blocks; ++b)
        for (std::int64_t r = 0; r < s.rows; ++r)
          for (std::int64_t o = 0; o < kLanes; ++o) {
            double sum = bias[b * kLanes + o];
            for (std::int64_t c = 0; c < s.channels; ++c)
              for (std::int64_t t = 0; t < s.taps; ++t)
                sum += double{x[(c / 16 * span + r + t) * kLanes + c % 16]} *
                       weight[(((b * in_blocks + c / 16) * s.taps + t) * kLanes + c % 16) * kLanes + o];
            expected.push_back(sum);
          }
      // The last channel of an odd number has a zero beside it.
      std::vector<float> cut = x, cut_weight = weight;
      if (s.channels % 2)
        for (std::int64_t r = 0; r < span; ++r) cut[(s.channels / 16 * span + r) * kLanes + s.channels % 16] = 0;
      const BlockProduct shape{
          s.rows,          s.channels,        span * kLanes / 2, in_blocks * s.taps * kLanes * kLanes / 2,
          s.rows * kLanes, StorageDtype::f16, taps.data(),       s.taps};
      std::vector<float> y(expected.size());
      imitated::f16_product(shape, 0, s.blocks, halves(cut).data(), paired(cut_weight).data(), {.bias = bias.data()},
                            y.data());
      expect_near(expected, y, whole, s.channels * s.taps, s.taps > 18 ? 3e-3 : 2e-3);  // a sum takes whole kernels
      // The same rounded, with something that stands so added, and limited.
      const std::vector<float> added = numbers(std::ssize(y), whole, 4);
      std::vector<float> rounded(y.size() / 2);
      const std::vector<float> words = halves(added);
      imitated::f16_product(shape, 0, s.blocks, halves(cut).data(), paired(cut_weight).data(),
                            {.bias = bias.data(),
                             .add = words.data(),
                             .relu = {true, 6},
                             .rounds = StorageDtype::f16,
                             .add_rounded = StorageDtype::f16},
                            rounded.data());
      for (std::size_t i = 0; i < y.size(); ++i) {
        std::uint16_t bits;
        std::memcpy(&bits, reinterpret_cast<const char*>(rounded.data()) + 2 * i, 2);
        ASSERT_EQ(bits, to_f16(std::clamp(y[i] + added[i], 0.0f, 6.0f))) << i;
      }
    }
}

TEST(F16Product, WeightGradients) {
  if (!runs()) GTEST_SKIP() << "this machine has no AVX-512";
  struct Size {
    std::int64_t in_blocks, blocks, rows, runs, images;
  };
  for (const Size& s : {Size{1, 1, 4, 1, 1},
                        {2, 3, 7, 5, 2},
                        {1, 2, 400, 1, 1},
                        {2, 1, 30, 9, 3},
                        {1, 4, 25, 1, 20},
                        {3, 2, 150, 4, 2}})
    for (const bool whole : {true, false})
      for (const bool add : {false, true}) {
        SCOPED_TRACE(text(s.in_blocks, ' ', s.blocks, ' ', s.rows, ' ', s.runs, ' ', s.images));
        // Of two rows each in a pair; runs of x begin every rows + 2 pairs.
        const std::int64_t x_run = s.rows + 2, x_image = s.runs * x_run + 1, all = s.images * s.runs * s.rows;
        const std::vector<float> x = numbers(s.in_blocks * s.images * x_image * 2 * kLanes, whole, 1),
                                 dy = numbers(s.blocks * all * 2 * kLanes, whole, 2);
        std::vector<float> dw = numbers(s.blocks * s.in_blocks * kLanes * kLanes, true, 3);
        std::vector<double> expected;
        for (std::int64_t b = 0; b < s.blocks; ++b)
          for (std::int64_t i = 0; i < s.in_blocks * kLanes; ++i)
            for (std::int64_t o = 0; o < kLanes; ++o) {
              double sum = add ? double{dw[expected.size()]} : 0;
              for (std::int64_t image = 0; image < s.images; ++image)
                for (std::int64_t run = 0; run < s.runs; ++run)
                  for (std::int64_t row = 0; row < 2 * s.rows; ++row)
                    sum += double{x[((i / 16 * s.images + image) * x_image + run * x_run) * 2 * kLanes + row * kLanes +
                                    i % 16]} *
                           dy[((b * s.images + image) * s.runs + run) * s.rows * 2 * kLanes + row * kLanes + o];
              expected.push_back(sum);
            }
        const BlockWeightGrad shape{.in_blocks = s.in_blocks,
                                    .rows = s.rows,
                                    .x_block = s.images * x_image * kLanes,
                                    .dy_block = all * kLanes,
                                    .weight_block = kLanes * kLanes,
                                    .runs = s.runs,
                                    .x_run = x_run * kLanes,
                                    .images = s.images,
                                    .x_image = x_image * kLanes,
                                    .pairs = StorageDtype::f16};
        imitated::f16_weight_grad(shape, s.blocks, paired(x).data(), paired(dy).data(), add, dw.data());
        expect_near(expected, dw, whole, 2 * all, 2e-3);
      }
}

}  // namespace
}  // namespace neurim::cpu
