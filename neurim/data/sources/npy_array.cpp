#include "neurim/data/sources/npy_array.h"

#include <bit>

#include "neurim/base/error.h"
#include "neurim/base/npy.h"
#include "neurim/base/zip.h"

namespace neurim {
namespace {

[[noreturn]] void refuse(std::string_view type) {
  fail(Fault::data, "holds elements of type '", type,
       "'; little-endian integers are read: images as uint8, such as (x * 255).astype(\"uint8\"), labels "
       "as int64 (of regression, where target names them, also float32 and float64)");
}

/// An array without its elements, which begin where the head says.
NpyArray array_of(const NpyHead& head, std::uint64_t file_size) {
  const std::string& type = head.descr;  // "<i8"
  const bool is_float = type == "<f4" || type == "<f8";
  if (!is_float && (type.size() != 3 || (type[1] != 'u' && type[1] != 'i') || (type[2] != '1' && type[0] != '<') ||
                    std::string_view("1248").find(type[2]) == std::string_view::npos))
    refuse(type);
  NpyArray array{.is_signed = type[1] == 'i',
                 .is_float = is_float,
                 .item_size = static_cast<std::size_t>(type[2] - '0'),
                 .shape = head.shape};
  const std::uint64_t have = file_size - head.begin, need = head.elements * array.item_size;
  if (need != have) {
    std::vector<std::string> sizes;
    for (const std::int64_t size : array.shape) sizes.push_back(text(size));
    fail(Fault::data, "holds ", have, " bytes of data where its shape (", join(sizes, ", "), ") needs ", need,
         "; it is cut off or damaged: save it again");
  }
  return array;
}

/// What `parse` makes of the members that `wanted` accepts.
std::map<std::string, NpyArray> members_of(const Bytes& file, const std::function<bool(const std::string&)>& wanted,
                                           NpyArray (*parse)(const Bytes& file, const ZipMember& member)) {
  std::map<std::string, NpyArray> arrays;
  for (const ZipMember& member : zip_members(file)) {
    const std::string name = member.name.substr(0, member.name.rfind(".npy"));
    if (wanted(name)) arrays[name] = naming([&] { return name; }, [&] { return parse(file, member); });
  }
  return arrays;
}

}  // namespace

std::size_t NpyArray::count() const {
  std::size_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

std::int64_t NpyArray::at(std::size_t index) const {
  NEURIM_ASSERT(item_size >= 1 && item_size <= 8);
  std::uint64_t value = little(as_text(bytes), index * item_size, item_size);
  const std::size_t unused = 64 - 8 * item_size;
  if (is_signed) return static_cast<std::int64_t>(value << unused) >> unused;
  return static_cast<std::int64_t>(value);
}

double NpyArray::number(std::size_t index) const {
  if (!is_float) return static_cast<double>(at(index));
  const std::uint64_t bits = little(as_text(bytes), index * item_size, item_size);
  return item_size == 4 ? std::bit_cast<float>(static_cast<std::uint32_t>(bits)) : std::bit_cast<double>(bits);
}

void NpyArray::check_integers() const {
  if (is_float) refuse(item_size == 4 ? "<f4" : "<f8");
}

NpyArray parse_npy_head(const Bytes& file) { return array_of(npy_head(file), file.size); }

NpyArray parse_npy(const Bytes& file) {
  const NpyHead head = npy_head(file);
  NpyArray array = array_of(head, file.size);
  array.bytes = bytes_at(file, head.begin, file.size - head.begin);
  return array;
}

std::map<std::string, NpyArray> parse_npz(const Bytes& file, const std::function<bool(const std::string&)>& wanted) {
  return members_of(file, wanted, [](const Bytes& all, const ZipMember& member) {
    const std::vector<std::byte> bytes = unzipped(all, member);
    return parse_npy(bytes_in_memory(bytes));
  });
}

std::map<std::string, NpyArray> parse_npz_heads(const Bytes& file,
                                                const std::function<bool(const std::string&)>& wanted) {
  return members_of(file, wanted, [](const Bytes& all, const ZipMember& member) {
    return parse_npy_head(unzipped_as_read(all, member));
  });
}

}  // namespace neurim
