// Zip archives, as NumPy's .npz and PyTorch's checkpoints are (PKWARE's APPNOTE 6.3.10), zip64 too. Errors
// are Error(data) without the file's name.
#pragma once
#include <string>

#include "neurim/base/bytes.h"

namespace neurim {

/// An entry of the central directory.
struct ZipMember {
  enum Method : std::uint64_t { stored = 0, deflated = 8 };

  std::string name;
  std::uint64_t method = stored;
  std::uint64_t crc = 0;               ///< CRC-32 of the unpacked data
  std::uint64_t packed = 0, size = 0;  ///< bytes in the archive, and unpacked
  std::uint64_t header = 0;            ///< where its local header begins
};

/// The entries of the central directory, at most 65,536.
std::vector<ZipMember> zip_members(const Bytes& file);

/// Where the data of a member begin: `packed` bytes that lie within the file.
std::uint64_t zip_data(const Bytes& file, const ZipMember& member);

/// Compares a member's unpacked data with its checksum.
void check_zip_sum(const ZipMember& member, std::span<const std::byte> data);

/// A member's data, stored or deflated, whose checksum holds.
std::vector<std::byte> unzipped(const Bytes& file, const ZipMember& member);

/// Builds an archive of stored members, without zip64: at most 4 GiB.
class ZipWriter {
 public:
  /// Adds a member whose data begin at a multiple of `alignment`. Throws Error(usage) where the archive grows too
  /// large.
  void add(std::string_view name, std::string_view data, std::size_t alignment = 1);
  /// The bytes of the archive.
  std::string finish() &&;

 private:
  std::string bytes_, directory_;
  std::uint64_t members_ = 0;
};

/// The same data without their checksum, for a look at their beginning: each reading unpacks all up to its own end.
Bytes unzipped_as_read(const Bytes& file, const ZipMember& member);

}  // namespace neurim
