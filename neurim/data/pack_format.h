// The structures of a packed file (pack.h), shared by its writer and its reader.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace neurim {

static_assert(std::endian::native == std::endian::little, "packed files are mapped as they are");

struct PackHead {
  char magic[8] = {'N', 'E', 'U', 'R', 'P', 'A', 'C', 'K'};
  std::uint32_t version = 1, zero = 0;
  char fingerprint[192] = {};  // of train, val and test: 64 hexadecimal digits each; in .part of their files
};

/// Before a sample's name, row index and bytes, each but the last filled up to a multiple of 8.
struct RecordHead {
  std::uint32_t magic = 0x4B43504E;  // "NPCK"
  std::uint32_t crc = 0;             // of what follows in the head, and of the body
  std::uint64_t ordinal = 0;         // among all samples that were to be packed
  std::int32_t label = 0;
  std::uint32_t split = 0;
  std::uint32_t name_bytes = 0, rows = 0, block_height = 0, bytes = 0;
  std::uint32_t height = 0, width = 0, channels = 0;  // of values that are no file; else 0
  std::uint32_t bits = 0;                             // of a value: 16, or 0 for 8
};

struct PackEntry {
  std::uint64_t offset = 0;  // of the record
  std::int32_t label = 0;
  std::uint32_t split = 0;
};

struct PackTail {
  std::uint64_t table = 0, records = 0, json_bytes = 0;
  std::uint32_t crc = 0;  // of the table and the JSON
  std::uint32_t zero = 0;
  char magic[8] = {'K', 'C', 'A', 'P', 'R', 'U', 'E', 'N'};
};

constexpr std::uint32_t kMostPackedSide = 1u << 14;  // of values, pixels

constexpr std::size_t aligned(std::size_t size) { return (size + 7) / 8 * 8; }

std::uint32_t crc_of(std::span<const std::byte> bytes, std::uint32_t before = 0);
std::uint32_t record_crc(const RecordHead& head, std::span<const std::byte> body);

struct Record {
  RecordHead head;
  std::span<const std::byte> body;
};

/// The record at `offset`, when one that ends before `end` begins there. Its CRC is not looked at.
std::optional<Record> record_at(std::span<const std::byte> file, std::uint64_t offset, std::uint64_t end);

}  // namespace neurim
