// NumPy's .npy files: one array each. https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once
#include "neurim/base/file.h"
#include "neurim/graph/tensor.h"

namespace neurim {

/// Reads a row-major little-endian array of f2 f4 f8 i1 i4 i8 u1 or bool. Throws Error(data) naming the file
/// and what is wrong with it.
Tensor read_npy(const fs::path& path);

/// Writes atomically (see write_file); bf16, which NumPy lacks, is written as f4.
void write_npy(const fs::path& path, const Tensor& tensor);

}  // namespace neurim
