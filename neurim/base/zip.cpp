#include "neurim/base/zip.h"

#include <zlib.h>

#include <algorithm>
#include <memory>

#include "neurim/base/error.h"

namespace neurim {
namespace {

constexpr std::uint64_t kMostExpansion = 1040;  // deflate packs 1032 bytes into one at most
constexpr std::uint64_t kUsualExpansion = 16;   // and seldom more than these
constexpr std::uint64_t kMostMembers = 1 << 16;
constexpr const char* kFix = "; it is cut off or damaged: save it again";

/// Unpacks deflated data of a file from their beginning on.
class Inflation {
 public:
  Inflation(const Bytes& file, std::uint64_t begin, std::uint64_t packed) : file_(file), at_(begin), left_(packed) {
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) fail(Fault::resource, "zlib has no memory");
  }
  ~Inflation() { inflateEnd(&stream_); }
  Inflation(const Inflation&) = delete;

  /// The next bytes, at most 2^32 - 1; returns how many there are.
  std::size_t read(std::span<std::byte> to) {
    stream_.next_out = reinterpret_cast<Bytef*>(to.data());
    stream_.avail_out = static_cast<uInt>(to.size());
    while (stream_.avail_out > 0 && code_ == Z_OK) {
      if (stream_.avail_in == 0) next_piece();
      code_ = inflate(&stream_, Z_NO_FLUSH);  // an error where nothing is left to go on with
    }
    return to.size() - stream_.avail_out;
  }
  /// Whether the end of the data was reached.
  bool ended() const { return code_ == Z_STREAM_END; }

 private:
  void next_piece() {
    constexpr std::uint64_t kPiece = 1 << 20;
    piece_ = bytes_at(file_, at_, std::min(left_, kPiece));
    at_ += piece_.size(), left_ -= piece_.size();
    stream_.next_in = reinterpret_cast<Bytef*>(piece_.data());
    stream_.avail_in = static_cast<uInt>(piece_.size());
  }

  const Bytes& file_;
  std::uint64_t at_, left_;  // of the packed data
  std::vector<std::byte> piece_;
  z_stream stream_{};
  int code_ = Z_OK;
};

/// What the packed data unpack to, which are `size` bytes. A damaged directory may say any size, so memory is
/// taken for what comes out.
std::vector<std::byte> inflated(const Bytes& file, std::uint64_t begin, std::uint64_t packed, std::uint64_t size) {
  constexpr std::size_t most_given = 64 << 20;  // at once
  Inflation inflation(file, begin, packed);
  std::vector<std::byte> out;
  out.reserve(std::min<std::uint64_t>(size, kUsualExpansion * packed) + 1);
  std::size_t given = 0, room = 0;
  do {
    given = out.size();
    // Room for one byte more than there should be shows whether there are more.
    room = std::min<std::uint64_t>(most_given, size + 1 - given);
    out.resize(given + room);
    out.resize(given + inflation.read(std::span(out).subspan(given)));
  } while (out.size() == given + room && out.size() <= size);
  if (out.size() > size) fail(Fault::data, "unpacks to more than the ", size, " bytes that it says", kFix);
  if (!inflation.ended()) fail(Fault::data, "does not unpack", kFix);
  if (out.size() < size) fail(Fault::data, "unpacks to ", out.size(), " of ", size, " bytes", kFix);
  return out;
}

/// zip_data of a member that is stored or deflated.
std::uint64_t unpackable_data(const Bytes& file, const ZipMember& member) {
  if (member.method != ZipMember::stored && member.method != ZipMember::deflated)
    fail(Fault::data, "is packed by method ", member.method, "; stored and deflated members are read");
  const std::uint64_t begin = zip_data(file, member);
  if (member.size / kMostExpansion > member.packed) fail(Fault::data, "its size is damaged", kFix);
  return begin;
}

}  // namespace

std::vector<ZipMember> zip_members(const Bytes& file) {
  const std::uint64_t tail_size = std::min<std::uint64_t>(file.size, 65557);  // the end and its longest comment
  const std::vector<std::byte> tail_bytes = bytes_at(file, file.size - tail_size, tail_size);
  const std::string_view tail = as_text(tail_bytes);
  const std::size_t end = tail.rfind("PK\x05\x06");
  if (end == std::string_view::npos || tail.size() - end < 22)
    fail(Fault::data, "has no zip directory at its end", kFix);
  std::uint64_t count = little(tail, end + 10, 2), size = little(tail, end + 12, 4), offset = little(tail, end + 16, 4);
  if (end >= 20 && tail.substr(end - 20, 4) == "PK\x06\x07") {
    const std::vector<std::byte> wide = bytes_at(file, little(tail, end - 12, 8), 56);
    if (as_text(wide).substr(0, 4) != "PK\x06\x06") fail(Fault::data, "its zip64 directory is damaged", kFix);
    count = little(as_text(wide), 32, 8), size = little(as_text(wide), 40, 8), offset = little(as_text(wide), 48, 8);
  }
  if (count > kMostMembers) fail(Fault::data, "has ", count, " members; at most ", kMostMembers, " are read");
  const std::vector<std::byte> directory_bytes = bytes_at(file, offset, size);
  std::string_view directory = as_text(directory_bytes);
  std::vector<ZipMember> members;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (directory.size() < 46 || directory.substr(0, 4) != "PK\x01\x02")
      fail(Fault::data, "entry ", i, " of its zip directory is damaged", kFix);
    const std::size_t name = little(directory, 28, 2), extra = little(directory, 30, 2),
                      comment = little(directory, 32, 2);
    if (directory.size() < 46 + name + extra + comment)
      fail(Fault::data, "entry ", i, " of its zip directory is damaged", kFix);
    ZipMember member{std::string(directory.substr(46, name)),
                     little(directory, 10, 2),
                     little(directory, 16, 4),
                     little(directory, 20, 4),
                     little(directory, 24, 4),
                     little(directory, 42, 4)};
    std::string_view fields = directory.substr(46 + name, extra);
    while (fields.size() >= 4) {
      const std::size_t length = little(fields, 2, 2);
      if (fields.size() < 4 + length) break;
      std::size_t at = 4;
      if (little(fields, 0, 2) == 1)  // zip64: those of the numbers that did not fit
        for (std::uint64_t* number : {&member.size, &member.packed, &member.header})
          if (*number == 0xFFFFFFFF && at + 8 <= 4 + length) *number = little(fields, at, 8), at += 8;
      fields.remove_prefix(4 + length);
    }
    directory.remove_prefix(46 + name + extra + comment);
    members.push_back(std::move(member));
  }
  return members;
}

std::uint64_t zip_data(const Bytes& file, const ZipMember& member) {
  const std::vector<std::byte> header = bytes_at(file, member.header, 30);
  if (as_text(header).substr(0, 4) != "PK\x03\x04") fail(Fault::data, "its header is damaged", kFix);
  const std::uint64_t begin = member.header + 30 + little(as_text(header), 26, 2) + little(as_text(header), 28, 2);
  if (begin > file.size || member.packed > file.size - begin ||
      (member.method == ZipMember::stored && member.size != member.packed))
    fail(Fault::data, "its size is damaged", kFix);
  return begin;
}

void check_zip_sum(const ZipMember& member, std::span<const std::byte> data) {
  if (crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size()) != member.crc)
    fail(Fault::data, "its checksum does not hold", kFix);
}

std::vector<std::byte> unzipped(const Bytes& file, const ZipMember& member) {
  const std::uint64_t begin = unpackable_data(file, member);
  const std::vector<std::byte> bytes = member.method == ZipMember::deflated
                                           ? inflated(file, begin, member.packed, member.size)
                                           : bytes_at(file, begin, member.packed);
  check_zip_sum(member, bytes);
  return bytes;
}

Bytes unzipped_as_read(const Bytes& file, const ZipMember& member) {
  const std::uint64_t begin = unpackable_data(file, member);
  return {member.size, [=](std::uint64_t offset, std::span<std::byte> to) {
            if (member.method == ZipMember::stored) return file.read(begin + offset, to);
            std::vector<std::byte> all(offset + to.size());
            if (Inflation(file, begin, member.packed).read(all) < all.size())
              fail(Fault::data, "does not unpack", kFix);
            std::copy(all.begin() + static_cast<std::ptrdiff_t>(offset), all.end(), to.begin());
          }};
}

void ZipWriter::add(std::string_view name, std::string_view data, std::size_t alignment) {
  constexpr std::uint64_t kLocal = 30, kMost = (std::uint64_t{1} << 32) - (1 << 20);
  constexpr std::uint16_t kPadding = 0x4246;  // the extra field that PyTorch pads with, "FB"
  const std::uint64_t at = bytes_.size();
  require(data.size() < kMost && at + directory_.size() + data.size() < kMost && members_ + 2 < kMostMembers,
          "zip: the archive would be larger than 4 GiB or have more than 65,534 members");
  // An extra field has 4 bytes at least.
  const std::uint64_t plain = at + kLocal + name.size();
  const std::uint64_t extra = plain % alignment == 0 ? 0 : 4 + (2 * alignment - (plain + 4) % alignment) % alignment;
  const std::uint64_t crc = crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size());
  const auto common = [&](std::string& to, std::uint64_t extra_bytes) {
    for (const auto& [value, count] : std::initializer_list<std::pair<std::uint64_t, int>>{
             {10, 2},
             {0, 2},
             {0, 2},
             {0, 2},
             {0x21, 2},  // version 1.0, no flags, stored, 1 January 1980
             {crc, 4},
             {data.size(), 4},
             {data.size(), 4},
             {name.size(), 2},
             {extra_bytes, 2}})
      put_little_endian(to, value, count);
  };
  put_little_endian(bytes_, 0x04034b50, 4);
  common(bytes_, extra);
  bytes_ += name;
  if (extra > 0) {
    put_little_endian(bytes_, kPadding, 2);
    put_little_endian(bytes_, extra - 4, 2);
    bytes_.append(extra - 4, 'Z');
  }
  bytes_ += data;
  put_little_endian(directory_, 0x02014b50, 4);
  put_little_endian(directory_, 10, 2);  // made by version 1.0
  common(directory_, 0);
  for (const auto& [value, count] : std::initializer_list<std::pair<std::uint64_t, int>>{
           {0, 2}, {0, 2}, {0, 2}, {0, 4}, {at, 4}})  // no comment, disk 0, no attributes
    put_little_endian(directory_, value, count);
  directory_ += name;
  ++members_;
}

std::string ZipWriter::finish() && {
  const std::uint64_t begin = bytes_.size();
  bytes_ += directory_;
  put_little_endian(bytes_, 0x06054b50, 4);
  for (const auto& [value, count] : std::initializer_list<std::pair<std::uint64_t, int>>{
           {0, 2}, {0, 2}, {members_, 2}, {members_, 2}, {directory_.size(), 4}, {begin, 4}, {0, 2}})
    put_little_endian(bytes_, value, count);
  return std::move(bytes_);
}

}  // namespace neurim
