#include "neurim/base/xxh64.h"

#include <bit>
#include <cstdio>
#include <cstring>

namespace neurim {

namespace {

constexpr std::uint64_t kPrimes[] = {0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
                                     0x27D4EB2F165667C5};

template <class Word>
std::uint64_t word_at(const std::byte* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

std::uint64_t round(std::uint64_t lane, std::uint64_t word) {
  return std::rotl(lane + word * kPrimes[1], 31) * kPrimes[0];
}

}  // namespace

std::uint64_t xxh64(std::span<const std::byte> bytes) {
  static_assert(std::endian::native == std::endian::little);
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size();
  std::uint64_t sum = kPrimes[4];
  if (bytes.size() >= 32) {
    std::uint64_t a = kPrimes[0] + kPrimes[1], b = kPrimes[1], c = 0, d = 0 - kPrimes[0];
    for (; end - at >= 32; at += 32) {
      a = round(a, word_at<std::uint64_t>(at));
      b = round(b, word_at<std::uint64_t>(at + 8));
      c = round(c, word_at<std::uint64_t>(at + 16));
      d = round(d, word_at<std::uint64_t>(at + 24));
    }
    sum = std::rotl(a, 1) + std::rotl(b, 7) + std::rotl(c, 12) + std::rotl(d, 18);
    for (const std::uint64_t lane : {a, b, c, d}) sum = (sum ^ round(0, lane)) * kPrimes[0] + kPrimes[3];
  }
  sum += bytes.size();
  for (; end - at >= 8; at += 8)
    sum = std::rotl(sum ^ round(0, word_at<std::uint64_t>(at)), 27) * kPrimes[0] + kPrimes[3];
  if (end - at >= 4) {
    sum = std::rotl(sum ^ word_at<std::uint32_t>(at) * kPrimes[0], 23) * kPrimes[1] + kPrimes[2];
    at += 4;
  }
  for (; at < end; ++at) sum = std::rotl(sum ^ word_at<std::uint8_t>(at) * kPrimes[4], 11) * kPrimes[0];
  sum = (sum ^ sum >> 33) * kPrimes[1];
  sum = (sum ^ sum >> 29) * kPrimes[2];
  return sum ^ sum >> 32;
}

std::string xxh64_hex(std::span<const std::byte> bytes) {
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(xxh64(bytes)));
  return digits;
}

}  // namespace neurim
