#include "neurim/data/sources/npy_array.h"

#include <algorithm>
#include <charconv>

#include "neurim/base/error.h"
#include "neurim/base/zip.h"

namespace neurim {
namespace {

constexpr std::uint64_t kMostHeader = 1 << 16;
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

}  // namespace

std::int64_t NpyArray::at(std::size_t index) const {
  std::uint64_t value = little(as_text(bytes), index * item_size, item_size);
  const std::size_t unused = 64 - 8 * item_size;
  if (is_signed) return static_cast<std::int64_t>(value << unused) >> unused;
  return static_cast<std::int64_t>(value);
}

NpyArray parse_npy(const Bytes& file) {
  const std::vector<std::byte> start = bytes_at(file, 0, std::min<std::uint64_t>(file.size, 12));
  if (start.size() < 12 || as_text(start).substr(0, 6) != "\x93NUMPY")
    fail(Fault::data, "is no .npy file", kFix);
  const bool wide = std::to_integer<int>(start[6]) >= 2;  // version 2 has a header length of four bytes
  const std::uint64_t begin = wide ? 12 : 10, length = little(as_text(start), 8, wide ? 4 : 2);
  if (length > kMostHeader) fail(Fault::data, "its header is damaged", kFix);
  const std::vector<std::byte> header_bytes = bytes_at(file, begin, length);
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
  array.bytes = bytes_at(file, begin + length, need);
  return array;
}

std::map<std::string, NpyArray> parse_npz(const Bytes& file,
                                          const std::function<bool(const std::string&)>& wanted) {
  std::map<std::string, NpyArray> arrays;
  for (const ZipMember& member : zip_members(file)) {
    const std::string name = member.name.substr(0, member.name.rfind(".npy"));
    if (!wanted(name)) continue;
    arrays[name] = naming([&] { return name; },
                          [&] {
                            const std::vector<std::byte> bytes = unzipped(file, member);
                            return parse_npy(bytes_in_memory(bytes));
                          });
  }
  return arrays;
}

}  // namespace neurim
