// Bytes that are read by position, wherever they lie.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace neurim {

/// Bytes of a file or of memory. `read` fills the whole span or throws Error(data).
struct Bytes {
  std::uint64_t size = 0;
  std::function<void(std::uint64_t offset, std::span<std::byte> to)> read;
};

/// Of memory that outlives them.
Bytes bytes_in_memory(std::span<const std::byte> memory);

/// `size` bytes from `offset` on. Throws Error(data), before anything is allocated, where there are fewer.
std::vector<std::byte> bytes_at(const Bytes& file, std::uint64_t offset, std::uint64_t size);

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The little-endian number of `count` bytes at `at`, which the caller has checked.
inline std::uint64_t little(std::string_view bytes, std::size_t at, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = count; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

/// Appends the number as so many bytes, the lowest first.
void put_little_endian(std::string& out, std::uint64_t value, int bytes);

}  // namespace neurim
