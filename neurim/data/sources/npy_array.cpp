#include "neurim/data/sources/npy_array.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "neurim/base/error.h"

namespace neurim {
namespace {

constexpr std::uint64_t kMostHeader = 1 << 16;
constexpr std::uint64_t kMostExpansion = 1040;  // deflate packs 1032 bytes into one at most
constexpr std::uint64_t kMostMembers = 1 << 16;
constexpr const char* kFix = "; it is cut off or damaged: save it again";

/// What stands behind 'key': in the dictionary of the header.
std::string_view value_of(std::string_view header, std::string_view key) {
  const std::string quoted = text('\'', key, "':");
  const std::size_t at = header.find(quoted);
  if (at == std::string_view::npos) fail(Fault::data, "its header has no ", key, kFix);
  header.remove_prefix(at + quoted.size());
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

std::vector<std::byte> part_of(const Bytes& file, std::uint64_t offset, std::uint64_t size) {
  if (offset > file.size || size > file.size - offset)
    fail(Fault::data, "ends before byte ", offset + size, kFix);
  std::vector<std::byte> bytes(size);
  file.read(offset, bytes);
  return bytes;
}

/// An entry of a zip file's central directory.
struct Member {
  std::string name;
  std::uint64_t method = 0, crc = 0, packed = 0, size = 0, header = 0;
};

std::vector<Member> members_of(const Bytes& file) {
  const std::uint64_t tail_size =
      std::min<std::uint64_t>(file.size, 65557);  // the end and its longest comment
  const std::vector<std::byte> tail_bytes = part_of(file, file.size - tail_size, tail_size);
  const std::string_view tail = as_text(tail_bytes);
  const std::size_t end = tail.rfind("PK\x05\x06");
  if (end == std::string_view::npos || tail.size() - end < 22)
    fail(Fault::data, "has no zip directory at its end", kFix);
  std::uint64_t count = little(tail, end + 10, 2), size = little(tail, end + 12, 4),
                offset = little(tail, end + 16, 4);
  if (end >= 20 && tail.substr(end - 20, 4) == "PK\x06\x07") {
    const std::vector<std::byte> wide = part_of(file, little(tail, end - 12, 8), 56);
    if (as_text(wide).substr(0, 4) != "PK\x06\x06") fail(Fault::data, "its zip64 directory is damaged", kFix);
    count = little(as_text(wide), 32, 8), size = little(as_text(wide), 40, 8),
    offset = little(as_text(wide), 48, 8);
  }
  if (count > kMostMembers) fail(Fault::data, "has ", count, " members, which no data set has", kFix);
  const std::vector<std::byte> directory_bytes = part_of(file, offset, size);
  std::string_view directory = as_text(directory_bytes);
  std::vector<Member> members;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (directory.size() < 46 || directory.substr(0, 4) != "PK\x01\x02")
      fail(Fault::data, "entry ", i, " of its zip directory is damaged", kFix);
    const std::size_t name = little(directory, 28, 2), extra = little(directory, 30, 2),
                      comment = little(directory, 32, 2);
    if (directory.size() < 46 + name + extra + comment)
      fail(Fault::data, "entry ", i, " of its zip directory is damaged", kFix);
    Member member{std::string(directory.substr(46, name)),
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

std::vector<std::byte> inflated(std::vector<std::byte> packed, std::uint64_t size) {
  std::vector<std::byte> out(size);
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) fail(Fault::resource, "zlib has no memory");
  std::size_t taken = 0, given = 0;
  int code = Z_OK;
  constexpr std::size_t most = 1 << 30;  // zlib counts in 32 bits
  while (code == Z_OK) {
    stream.next_in = reinterpret_cast<Bytef*>(packed.data() + taken);
    stream.avail_in = static_cast<uInt>(std::min(most, packed.size() - taken));
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + given);
    stream.avail_out = static_cast<uInt>(std::min(most, out.size() - given));
    const uInt in = stream.avail_in, room = stream.avail_out;
    code = inflate(&stream, Z_NO_FLUSH);
    taken += in - stream.avail_in, given += room - stream.avail_out;
    if (in == stream.avail_in && room == stream.avail_out && code == Z_OK) break;
  }
  inflateEnd(&stream);
  if (code != Z_STREAM_END || given != size) fail(Fault::data, "does not unpack", kFix);
  return out;
}

std::vector<std::byte> unpacked(const Bytes& file, const Member& member) {
  const std::vector<std::byte> header = part_of(file, member.header, 30);
  if (as_text(header).substr(0, 4) != "PK\x03\x04") fail(Fault::data, "its header is damaged", kFix);
  const std::uint64_t begin =
      member.header + 30 + little(as_text(header), 26, 2) + little(as_text(header), 28, 2);
  if (member.method != 0 && member.method != 8)
    fail(Fault::data, "is packed by method ", member.method, "; numpy.savez and savez_compressed are read");
  if (member.packed > file.size || member.size > member.packed * kMostExpansion ||
      (member.method == 0 && member.size != member.packed))
    fail(Fault::data, "its size is damaged", kFix);
  std::vector<std::byte> bytes = part_of(file, begin, member.packed);
  if (member.method == 8) bytes = inflated(std::move(bytes), member.size);
  if (crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()) != member.crc)
    fail(Fault::data, "its checksum does not hold", kFix);
  return bytes;
}

}  // namespace

std::int64_t NpyArray::at(std::size_t index) const {
  std::uint64_t value = little(as_text(bytes), index * item_size, item_size);
  const std::size_t unused = 64 - 8 * item_size;
  if (is_signed) return static_cast<std::int64_t>(value << unused) >> unused;
  return static_cast<std::int64_t>(value);
}

NpyArray parse_npy(const Bytes& file) {
  const std::vector<std::byte> start = part_of(file, 0, std::min<std::uint64_t>(file.size, 12));
  if (start.size() < 12 || as_text(start).substr(0, 6) != "\x93NUMPY")
    fail(Fault::data, "is no .npy file", kFix);
  const bool wide = std::to_integer<int>(start[6]) >= 2;  // version 2 has a header length of four bytes
  const std::uint64_t begin = wide ? 12 : 10, length = little(as_text(start), 8, wide ? 4 : 2);
  if (length > kMostHeader) fail(Fault::data, "its header is damaged", kFix);
  const std::vector<std::byte> header_bytes = part_of(file, begin, length);
  const std::string_view header = as_text(header_bytes);
  if (value_of(header, "fortran_order").starts_with("True"))
    fail(Fault::data, "is in column-major order; save numpy.ascontiguousarray of it");
  NpyArray array;
  const std::string_view descr = value_of(header, "descr");
  const std::string_view type = descr.substr(0, descr.find(','));
  if (type.size() != 5 || (type[2] != 'u' && type[2] != 'i') || (type[3] != '1' && type[1] != '<') ||
      std::string_view("1248").find(type[3]) == std::string_view::npos)
    fail(Fault::data, "holds elements of type ", type,
         "; little-endian integers are read: pictures as uint8, such as (x * 255).astype(\"uint8\"), labels "
         "as int64");
  array.is_signed = type[2] == 'i';
  array.item_size = static_cast<std::size_t>(type[3] - '0');
  std::string_view shape = value_of(header, "shape");
  const std::size_t close = shape.find(')');
  if (!shape.starts_with('(') || close == std::string_view::npos)
    fail(Fault::data, "its shape is damaged", kFix);
  shape = shape.substr(1, close - 1);
  const std::uint64_t have = file.size - begin - length;
  std::uint64_t need = array.item_size;
  for (std::string part : split(shape, ',')) {
    part.erase(0, part.find_first_not_of(' '));
    if (part.empty()) continue;
    std::uint64_t size = 0;
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), size);
    if (error != std::errc() || stop != part.data() + part.size() || array.shape.size() == 8 ||
        (size > 0 && need > have / size))
      fail(Fault::data, "its shape (", shape, ") needs more than the ", have, " bytes that follow", kFix);
    need *= size;
    array.shape.push_back(static_cast<std::int64_t>(size));
  }
  if (need != have)
    fail(Fault::data, "holds ", have, " bytes of data where its shape (", shape, ") needs ", need, kFix);
  array.bytes = part_of(file, begin + length, need);
  return array;
}

std::map<std::string, NpyArray> parse_npz(const Bytes& file,
                                          const std::function<bool(const std::string&)>& wanted) {
  std::map<std::string, NpyArray> arrays;
  for (const Member& member : members_of(file)) {
    const std::string name = member.name.substr(0, member.name.rfind(".npy"));
    if (!wanted(name)) continue;
    arrays[name] = naming([&] { return name; },
                          [&] {
                            const std::vector<std::byte> bytes = unpacked(file, member);
                            return parse_npy(bytes_in_memory(bytes));
                          });
  }
  return arrays;
}

}  // namespace neurim
