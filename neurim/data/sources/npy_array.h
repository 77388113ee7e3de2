// NumPy arrays as data sets hold them: of bytes and integers, and numbers as targets.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "neurim/data/sources/parts.h"

namespace neurim {

/// A row-major array of integers of 1 to 8 bytes, or f32 or f64, little-endian.
struct NpyArray {
  bool is_signed = false, is_float = false;
  std::size_t item_size = 1;  ///< bytes
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  std::size_t count() const;                 ///< elements that the shape has
  std::int64_t at(std::size_t index) const;  ///< of integers
  double number(std::size_t index) const;    ///< of either
  /// Throws Error(data) where it holds floating numbers.
  void check_integers() const;
};

/// Parses an .npy file. numpy.org/doc/stable/reference/generated/numpy.lib.format.html. Throws Error(data).
NpyArray parse_npy(const Bytes& file);

/// The same without the elements, of which no more than their number is looked at.
NpyArray parse_npy_head(const Bytes& file);

/// The members of an .npz file (PKWARE's APPNOTE 6.3.10), stored or deflated, zip64 too, by name without
/// .npy. Only those that `wanted` accepts are read; their checksums are. Throws Error(data).
std::map<std::string, NpyArray> parse_npz(const Bytes& file, const std::function<bool(const std::string&)>& wanted);

/// The same without the elements and their checksums: a small file may unpack to anything.
std::map<std::string, NpyArray> parse_npz_heads(const Bytes& file,
                                                const std::function<bool(const std::string&)>& wanted);

}  // namespace neurim
