// The head of NumPy's array files: numpy.org/doc/stable/reference/generated/numpy.lib.format.html.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/base/bytes.h"

namespace neurim {

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

/// What an .npy file says of its array, which is row-major.
struct NpyHead {
  std::string descr;  ///< of an element: "<f4", "|u1"
  std::vector<std::int64_t> shape;
  std::uint64_t elements = 1;
  std::uint64_t begin = 0;  ///< of the data, in the file
};

/// Of versions 1 to 3. Throws Error(data), without the name of the file, where it is damaged, column-major, of more
/// than 8 axes or of more elements than the file has bytes.
NpyHead npy_head(const Bytes& file);

}  // namespace neurim
