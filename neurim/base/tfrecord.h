// What TFRecord files and TensorBoard's event files are written with: their framing
// (tensorflow.org/tutorials/load_data/tfrecord, "TFRecords format details") and the wire format of the Protocol Buffers
// in them (protobuf.dev/programming-guides/encoding).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace neurim {

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4).
std::uint32_t crc32c(std::span<const std::byte> bytes);
/// TFRecord's masked form: a checksum over data that contains its own checksum would be weak.
std::uint32_t masked_crc32c(std::span<const std::byte> bytes);

/// A record: the message's length, the length's checksum, the message, its checksum.
std::string framed(std::string_view message);

// Each appends a field to a message: its number and wire type, then the value.
void put_varint(std::string& out, std::uint64_t value);  ///< without a field
void put_int(std::string& out, unsigned field, std::int64_t value);
void put_double(std::string& out, unsigned field, double value);
void put_float(std::string& out, unsigned field, float value);
void put_bytes(std::string& out, unsigned field, std::string_view value);

}  // namespace neurim
