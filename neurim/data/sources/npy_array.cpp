#include "neurim/data/sources/npy_array.h"

#include <utility>

#include "neurim/base/error.h"
#include "neurim/base/npy.h"
#include "neurim/base/zip.h"

namespace neurim {

std::int64_t NpyArray::at(std::size_t index) const {
  std::uint64_t value = little(as_text(bytes), index * item_size, item_size);
  const std::size_t unused = 64 - 8 * item_size;
  if (is_signed) return static_cast<std::int64_t>(value << unused) >> unused;
  return static_cast<std::int64_t>(value);
}

NpyArray parse_npy(const Bytes& file) {
  NpyHead head = npy_head(file);
  const std::string& type = head.descr;  // "<i8"
  if (type.size() != 3 || (type[1] != 'u' && type[1] != 'i') || (type[2] != '1' && type[0] != '<') ||
      std::string_view("1248").find(type[2]) == std::string_view::npos)
    fail(Fault::data, "holds elements of type '", type,
         "'; little-endian integers are read: pictures as uint8, such as (x * 255).astype(\"uint8\"), labels "
         "as int64");
  NpyArray array{.is_signed = type[1] == 'i', .item_size = static_cast<std::size_t>(type[2] - '0'), .shape = std::move(head.shape)};
  const std::uint64_t have = file.size - head.begin, need = head.elements * array.item_size;
  if (need != have) {
    std::vector<std::string> sizes;
    for (const std::int64_t size : array.shape) sizes.push_back(text(size));
    fail(Fault::data, "holds ", have, " bytes of data where its shape (", join(sizes, ", "), ") needs ", need,
         "; it is cut off or damaged: save it again");
  }
  array.bytes = bytes_at(file, head.begin, need);
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
