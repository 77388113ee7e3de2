// Checks of an op by its samples: what the tests ask of every op here, for ops of one's own.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/graph/op.h"

namespace neurim {

/// What is wrong with the op of that name (see define), a line each that names sample, attributes and types;
/// nothing where
///  - it has samples, of itself,
///  - an op made by name with the attributes that fields() visits does the same,
///  - infer() refuses missing inputs with Error(usage) that begins with the name,
///  - decompose(), where it gives something, gives what the reference kernel gives (f64, 1e-9 of the
///  largest),
///  - the gradient, where it has one, is that of central finite differences (f64, 1e-6),
///  - plans with all kernels and passes give what plans of reference kernels alone give: results and gradients in every
///  floating dtype (Sample::tolerance and 4 roundings of the dtype, of the largest), gradients in 16 bits, which round
///  between the ops that they are made of, what f64 gives (16 roundings of the largest of all).
std::vector<std::string> check_op(std::string_view name);

// Each alone, of one sample whose inputs are a function of the seed.

/// The differences, one a line; none if the gradient is right.
std::vector<std::string> check_gradient(const Sample& sample, std::uint64_t seed);
/// With floating inputs of this dtype.
std::vector<std::string> check_plans(const Sample& sample, DType dtype, std::uint64_t seed);

}  // namespace neurim
