// What torch.save writes, made by hand.
#pragma once
#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace neurim {

inline std::string little_endian(std::uint64_t value, int size) {
  std::string out;
  for (int i = 0; i < size; ++i, value >>= 8) out += static_cast<char>(value);
  return out;
}

/// Pieces of pickles, each of which leaves one value on the stack.
namespace pickled {

inline std::string string(std::string_view value) { return "X" + little_endian(value.size(), 4) + std::string(value); }
inline std::string integer(std::int64_t value) {
  return "\x8a\x08" + little_endian(static_cast<std::uint64_t>(value), 8);
}
inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string tuple(const std::vector<std::string>& items) {
  std::string out = "(";
  for (const std::string& item : items) out += item;
  return out + "t";
}
inline std::string integers(const std::vector<std::int64_t>& values) {
  std::vector<std::string> items;
  for (const std::int64_t value : values) items.push_back(integer(value));
  return tuple(items);
}
inline std::string ordered_dict() { return global("collections", "OrderedDict") + ")R"; }
inline std::string dict(const std::vector<std::pair<std::string, std::string>>& items, const std::string& begin = "}") {
  std::string out = begin + "(";
  for (const auto& [key, value] : items) out += string(key) + value;
  return out + "u";
}

struct Tensor {
  std::string storage = "FloatStorage", key = "0";
  std::int64_t count = 0, offset = 0;
  std::vector<std::int64_t> sizes, strides;
  std::vector<std::string> more = {};  ///< arguments behind those that all tensors have
};
inline std::string tensor(const Tensor& t) {
  const std::string identity = tuple({string("storage"), global("torch", t.storage), string(t.key), string("cpu"),
                                      integer(t.count), "N"}) +
                               "Q";
  std::vector<std::string> arguments{identity, integer(t.offset), integers(t.sizes), integers(t.strides),
                                     "\x89",   ordered_dict()};
  arguments.insert(arguments.end(), t.more.begin(), t.more.end());
  return global("torch._utils", "_rebuild_tensor_v2") + tuple(arguments) + "R";
}

inline std::string whole(const std::string& value) { return "\x80\x02" + value + "."; }

}  // namespace pickled

using Members = std::vector<std::pair<std::string, std::string>>;

/// A zip archive of stored members; `wide`: its sizes stand in zip64's fields.
inline std::string zip_archive(const Members& members, bool wide = false, int method = 0) {
  std::string file, directory;
  for (const auto& [name, data] : members) {
    const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size());
    const std::string size = little_endian(wide ? 0xFFFFFFFF : data.size(), 4);
    const std::string extra = wide ? little_endian(1, 2) + little_endian(24, 2) + little_endian(data.size(), 8) +
                                         little_endian(data.size(), 8) + little_endian(file.size(), 8)
                                   : "";
    const std::string common = little_endian(static_cast<std::uint64_t>(method), 2) + little_endian(0, 4) +
                               little_endian(crc, 4) + size + size + little_endian(name.size(), 2);
    directory += "PK\x01\x02" + little_endian(45, 4) + little_endian(0, 2) + common + little_endian(extra.size(), 2) +
                 little_endian(0, 10) + little_endian(wide ? 0xFFFFFFFF : file.size(), 4) + name + extra;
    file += "PK\x03\x04" + little_endian(45, 2) + little_endian(0, 2) + common + little_endian(0, 2) + name + data;
  }
  const std::size_t begin = file.size(), end = begin + directory.size();
  file += directory;
  if (wide)
    file += "PK\x06\x06" + little_endian(44, 8) + little_endian(45, 2) + little_endian(45, 2) + little_endian(0, 8) +
            little_endian(members.size(), 8) + little_endian(members.size(), 8) + little_endian(directory.size(), 8) +
            little_endian(begin, 8) + "PK\x06\x07" + little_endian(0, 4) + little_endian(end, 8) + little_endian(1, 4);
  const std::string few = little_endian(members.size(), 2);
  return file + "PK\x05\x06" + little_endian(0, 4) + few + few + little_endian(directory.size(), 4) +
         little_endian(wide ? 0xFFFFFFFF : begin, 4) + little_endian(0, 2);
}

/// The forms of PyTorch 1.6 and later, and before. `storages`: data by key.
inline std::string pytorch_zip(const std::string& object, const Members& storages, bool wide = false, int method = 0) {
  Members members{{"archive/data.pkl", pickled::whole(object)}, {"archive/byteorder", "little"}};
  for (const auto& [key, data] : storages) members.emplace_back("archive/data/" + key, data);
  return zip_archive(members, wide, method);
}
inline std::string pytorch_legacy(const std::string& object, const Members& storages, std::size_t element = 4,
                                  const std::string& little = "\x88") {
  std::string file = pickled::whole("\x8a\x0a" + std::string("l\xfc\x9c\x46\xf9 j\xa8P\x19")) +
                     pickled::whole(std::string("M\xe9\x03")) +
                     pickled::whole(pickled::dict({{"little_endian", little}})) + pickled::whole(object);
  std::string keys = "](";
  for (const auto& [key, data] : storages) keys += pickled::string(key);
  file += pickled::whole(keys + "e");
  for (const auto& [key, data] : storages) file += little_endian(data.size() / element, 8) + data;
  return file;
}

}  // namespace neurim
