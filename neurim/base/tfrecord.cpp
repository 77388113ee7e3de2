#include "neurim/base/tfrecord.h"

#include <array>
#include <bit>

#include "neurim/base/bytes.h"

namespace neurim {
namespace {

constexpr auto kCrcTable = [] {
  std::array<std::array<std::uint32_t, 256>, 8> table{};  // table[k]: of a byte that k bytes follow
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    table[0][i] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k)
    for (std::size_t i = 0; i < 256; ++i) table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 0xFF];
  return table;
}();

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  std::uint32_t crc = ~0u;
  const auto at = [&](std::size_t i) { return std::to_integer<std::uint32_t>(bytes[i]); };
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    crc ^= at(0) | at(1) << 8 | at(2) << 16 | at(3) << 24;
    crc = kCrcTable[7][crc & 0xFF] ^ kCrcTable[6][crc >> 8 & 0xFF] ^ kCrcTable[5][crc >> 16 & 0xFF] ^
          kCrcTable[4][crc >> 24] ^ kCrcTable[3][at(4)] ^ kCrcTable[2][at(5)] ^ kCrcTable[1][at(6)] ^
          kCrcTable[0][at(7)];
  }
  for (const std::byte byte : bytes) crc = crc >> 8 ^ kCrcTable[0][(crc ^ std::to_integer<std::uint32_t>(byte)) & 0xFF];
  return ~crc;
}

std::uint32_t masked_crc32c(std::span<const std::byte> bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u; }

std::string framed(std::string_view message) {
  std::string record;
  put_little_endian(record, message.size(), 8);
  put_little_endian(record, masked_crc32c(std::as_bytes(std::span(record))), 4);
  record += message;
  put_little_endian(record, masked_crc32c(std::as_bytes(std::span(message))), 4);
  return record;
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void put_int(std::string& out, unsigned field, std::int64_t value) {
  put_varint(out, field << 3);
  put_varint(out, static_cast<std::uint64_t>(value));
}

void put_double(std::string& out, unsigned field, double value) {
  put_varint(out, field << 3 | 1);
  put_little_endian(out, std::bit_cast<std::uint64_t>(value), 8);
}

void put_bytes(std::string& out, unsigned field, std::string_view value) {
  put_varint(out, field << 3 | 2);
  put_varint(out, value.size());
  out += value;
}

void put_float(std::string& out, unsigned field, float value) {
  put_varint(out, field << 3 | 5);
  put_little_endian(out, std::bit_cast<std::uint32_t>(value), 4);
}

}  // namespace neurim
