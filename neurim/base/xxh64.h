// XXH64, a checksum at the speed of memory (github.com/Cyan4973/xxHash, doc/xxhash_spec.md). It finds damage, not
// forgery.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace neurim {

/// The checksum of the bytes, with seed 0.
std::uint64_t xxh64(std::span<const std::byte> bytes);

/// The same as 16 hexadecimal digits.
std::string xxh64_hex(std::span<const std::byte> bytes);

}  // namespace neurim
