#include "neurim/base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace neurim {
namespace {

// The first 32 bits of the fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2).
constexpr std::array<std::uint32_t, 64> kRounds{
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t big_endian(const std::byte* bytes) {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(bytes[i]);
  return value;
}

}  // namespace

void Sha256::digest_block(const std::byte* block) {
  std::array<std::uint32_t, 64> w;
  for (std::size_t i = 0; i < 16; ++i) w[i] = big_endian(block + 4 * i);
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ a >> 3) + w[i - 7] +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ b >> 10);
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (std::size_t i = 0; i < 64; ++i) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRounds[i] + w[i];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const std::array<std::uint32_t, 8> mixed{a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state_[i] += mixed[i];
}

void Sha256::add(std::span<const std::byte> bytes) {
  const std::size_t kept = size_ % rest_.size();
  size_ += bytes.size();
  if (kept > 0) {
    const std::size_t taken = std::min(rest_.size() - kept, bytes.size());
    std::copy_n(bytes.data(), taken, rest_.data() + kept);
    bytes = bytes.subspan(taken);
    if (kept + taken < rest_.size()) return;
    digest_block(rest_.data());
  }
  for (; bytes.size() >= rest_.size(); bytes = bytes.subspan(rest_.size())) digest_block(bytes.data());
  std::copy(bytes.begin(), bytes.end(), rest_.begin());
}

std::string Sha256::hex() {
  std::array<std::byte, 72> end{std::byte{0x80}};  // one bit, zeros up to 8 bytes before a border, the length
  const std::uint64_t bits = size_ * 8;
  const std::size_t zeros = (119 - size_ % 64) % 64 + 1;
  for (std::size_t i = 0; i < 8; ++i) end[zeros + i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  add(std::span(end).first(zeros + 8));
  std::string digits;
  for (const std::uint32_t word : state_)
    for (int shift = 28; shift >= 0; shift -= 4) digits += "0123456789abcdef"[word >> shift & 15];
  return digits;
}

std::string hmac_sha256(std::string_view key, std::string_view message) {
  constexpr std::size_t kBlock = 64;
  const auto digest = [](std::initializer_list<std::string_view> parts) {
    Sha256 sum;
    for (const std::string_view part : parts) sum.add(std::as_bytes(std::span(part)));
    const std::string digits = sum.hex();
    std::string bytes;
    for (std::size_t i = 0; i < digits.size(); i += 2)
      bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
    return std::pair(bytes, digits);
  };
  std::string padded(key.size() > kBlock ? digest({key}).first : std::string(key));
  padded.resize(kBlock);
  std::string inner = padded, outer = padded;
  for (char& byte : inner) byte ^= 0x36;
  for (char& byte : outer) byte ^= 0x5c;
  return digest({outer, digest({inner, message}).first}).second;
}

}  // namespace neurim
