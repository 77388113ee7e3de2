// SHA-256 (FIPS 180-4).
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace neurim {

/// The digest of bytes that come in pieces.
class Sha256 {
 public:
  void add(std::span<const std::byte> bytes);
  /// The digest of all that was added, as 64 hexadecimal digits. Nothing can be added afterwards.
  std::string hex();

 private:
  void digest_block(const std::byte* block);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::byte, 64> rest_{};  // of the bytes added, what is no whole block yet
  std::uint64_t size_ = 0;
};

/// HMAC-SHA-256 (RFC 2104): what only those who know the key can make of a message, as 64 hexadecimal digits.
std::string hmac_sha256(std::string_view key, std::string_view message);

}  // namespace neurim
