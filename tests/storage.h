// What the tests of plans whose products round both factors to 16 bits share: all of them are run of bf16 and of f16.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>

#include "neurim/backend/cpu/common/tiles.h"
#include "neurim/compile/plan.h"
#include "neurim/core/device.h"
#include "neurim/core/float16.h"
#include "neurim/hardware/isa.h"
#include "neurim/ops/conv.h"
#include "tests/ask_group.h"
#include "tests/f16_sums.h"

namespace neurim {

using Net = std::function<Tensors(Tensors)>;

inline Tensor made(const Shape& shape, const std::vector<float>& values) { return Tensor::from(shape, values); }

using op_table::rounded;

/// Of one of the types of 16 bits, which plans, rounded() and the rest here are about then.
class Halves : public testing::TestWithParam<DType> {
 protected:
  Halves() { op_table::tested_half() = GetParam(); }
  ~Halves() override { op_table::tested_half() = DType::bf16; }
};
#define NEURIM_OF_BOTH_HALVES()                                                  \
  INSTANTIATE_TEST_SUITE_P(Of, Halves, testing::Values(DType::bf16, DType::f16), \
                           [](const auto& of) { return std::string(name(of.param)); })
using op_table::tested_half;

/// Numbers of any digits, and such that it has.
inline Tensor any(const Shape& shape, std::uint64_t seed, double low = -1.5) {
  return op_table::uniform(shape, low, 1.5, seed);
}
inline Tensor exact(const Shape& shape, std::uint64_t seed) { return rounded(any(shape, seed)); }

inline Tensors interpreted(const Net& net, const Tensors& in) {
  return plan(net, op_table::types_of(in), {.interpret = true})(in);
}

inline Plan planned(const Net& net, const Tensors& in, bool deterministic = false, DType products = tested_half()) {
  return plan(net, op_table::types_of(in), {.freeze = true, .deterministic = deterministic, .compute_dtype = products});
}

/// Where sums are short ones of f16, which lose some digits themselves, what more may differ, as a share of the usual;
/// single numbers by more.
inline double of_short_sums(DType products = tested_half()) {
  return products == DType::f16 && sums_of_f16() ? 3e-3 : 0;
}

/// What rounding to it loses, as a share of what rounding to bf16 does.
inline double loss() { return tested_half() == DType::f16 ? 0.125 : 1; }

/// Products of exact numbers do not depend on the rounding; without AVX-512 kernels of these tests take f32 too.
inline std::array<DType, 2> products_tested() { return {tested_half(), DType::f32}; }
inline bool takes(DType products) { return products != DType::f32 || isa() != Isa::avx512; }

/// The root mean square of the error, relative to that of what is expected.
inline double error_of(const Tensor& expected, const Tensor& got) {
  const std::vector<float> a = expected.values<float>(), b = got.values<float>();
  double error = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    error += std::pow(double{a[i]} - b[i], 2), size += std::pow(double{a[i]}, 2);
  return std::sqrt(error / size);
}

/// The plan in one thread, two and three; a deterministic one gives the same bits in each. `most`: the error of the
/// first output, 0 where the difference is to be as of f32. `of_sums`: what short sums of f16 may add to it, where it
/// is not the usual.
inline Plan checked(const Net& net, const Tensors& in, const Tensors& expected, const std::string& where,
                    double most = 0, DType products = tested_half(), std::optional<double> of_sums = {}) {
  const int before = threads();
  Tensors first;
  for (const int count : {1, 3, 2}) {
    set_threads(count);
    const Tensors got = planned(net, in, false, products)(in), fixed = planned(net, in, true, products)(in);
    for (const Tensors& each : {got, fixed})
      if (most > 0)
        EXPECT_LE(error_of(expected[0], each[0]), most + of_sums.value_or(of_short_sums(products)))
            << where << ", threads " << count;
      else
        EXPECT_EQ(op_table::difference(expected, each, 2e-5 + 16 * of_short_sums(products)), "")
            << where << ", threads " << count;
    if (first.empty()) first = fixed;
    EXPECT_EQ(op_table::difference(first, fixed, 0), "") << where << ", deterministic, threads " << count;
  }
  set_threads(2);
  const Plan last = planned(net, in, false, products);
  set_threads(before);
  return last;
}

inline std::int64_t count(const Plan& planned, std::string_view op, std::string_view kernel) {
  const auto rows = planned.rows();
  return std::count_if(rows.begin(), rows.end(),
                       [&](const PlanRow& row) { return row.op.find(op) != row.op.npos && row.kernel == kernel; });
}
/// Whether one such op of the plan has this kernel, or in its place one of matrix tiles.
inline bool made_by(const Plan& planned, std::string_view op, std::string_view kernel) {
  const std::int64_t tiles = cpu::uses_tiles()
                                 ? count(planned, op, "cpu tiles") + count(planned, op, "cpu tiles direct")
                                 : 0;
  return count(planned, op, kernel) + tiles == 1;
}

struct Case {
  Shape x, weight;
  Conv2dOptions options;
  const char* kernel;
};

inline Shape result_of(const Case& c) {
  Conv2d conv;
  conv.options = c.options;
  return conv.infer(Types{{DType::f32, c.x}, {DType::f32, c.weight}})[0].shape;
}

inline const Conv2dOptions kSame{.pad = {1, 1, 1, 1}};

/// How the results of the tasks stand, in order, of those whose ops have this in their names.
inline std::vector<std::string> layouts(const Plan& planned, std::string_view op = "") {
  std::vector<std::string> all;
  for (const PlanRow& row : planned.rows())
    if (row.op.find(op) != row.op.npos) all.push_back(text(row.layout));
  return all;
}
inline constexpr const char* kFloats = "blocked16";
inline std::string halves() { return text("blocked16 ", tested_half()); }

}  // namespace neurim
