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
///  - plans with all kernels and passes give what plans of reference kernels alone give (Sample::tolerance,
///  and the rounding
///    of the dtype): results in every floating dtype, gradients in f32 and f64.
std::vector<std::string> check_op(std::string_view name);

/// The gradient alone, of one sample whose inputs are a function of the seed.
std::vector<std::string> check_gradient(const Sample& sample, std::uint64_t seed);

}  // namespace neurim
