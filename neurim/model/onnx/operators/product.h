// Products that several operators are made of. Internal to the operators.
#pragma once
#include <string>

#include "neurim/graph/tensor.h"

namespace neurim {

/// MatMul in the form for which there are kernels: as a fully connected layer where b is stored.
Tensor onnx_product(const Tensor& a, const Tensor& b, bool transpose_a = false, bool transpose_b = false);

/// Einsum, in all forms of NumPy's.
Tensor onnx_einsum(const std::string& equation, const Tensors& operands);

}  // namespace neurim
