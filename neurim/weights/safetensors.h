// The safetensors file format: a JSON header of names, types and offsets, then plain row-major data. No code,
// no pickles. https://github.com/huggingface/safetensors#format
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "neurim/base/file.h"
#include "neurim/graph/tensor.h"

namespace neurim {

/// The strings of `__metadata__`.
using Metadata = std::map<std::string, std::string>;

/// A safetensors file, mapped read-only. Opening checks all of it: header length (at most 100 MB) and JSON,
/// dtypes, shapes, sizes, unique names, and that the tensors cover the data exactly, without overlap or gap.
/// Anything else throws Error(data) naming the file and the tensor, also dtypes that Neurim has none of
/// (F8…), and a file of another kind (other_kind). A header with a checksum is compared with it.
class SafeTensors {
 public:
  explicit SafeTensors(const fs::path& path);  ///< throws Error(data)
  /// The bytes of such a file, which live as long as this; `name` stands for the path in messages.
  SafeTensors(std::span<const std::byte> bytes, const fs::path& name);

  const fs::path& path() const { return path_; }             ///< as constructed
  const Metadata& metadata() const { return metadata_; }     ///< without the checksums
  bool has_checksums() const { return !data_sum_.empty(); }  ///< as write_safetensors writes them
  /// Reads all data; throws Error(data) where they are not those of the checksum.
  void check_data() const;
  std::vector<std::string> names() const;  ///< sorted
  /// Whether there is a tensor of this name.
  bool has(std::string_view name) const { return entries_.find(name) != entries_.end(); }
  const Type& type(std::string_view name) const { return entry(name).type; }  ///< throws Error(data) when there is none
  std::span<const std::byte> bytes(std::string_view name) const;  ///< in the file, not aligned; lives as long as this
  Tensor load(std::string_view name, Device device = {}) const;   ///< a copy; throws Error(data) when there is none

 private:
  struct Entry {
    Type type;
    std::size_t begin, end;  // in the file
  };
  const Entry& entry(std::string_view name) const;
  void read_header();
  void check_header(std::string_view header);

  fs::path path_;
  std::optional<MappedFile> file_;  // none: the bytes are the caller's
  std::span<const std::byte> all_;  // of the file
  Metadata metadata_;
  std::string data_sum_;
  std::map<std::string, Entry, std::less<>> entries_;
};

/// Writes name -> tensor, atomically (see write_file). `checksums`: with the XXH64 of the data as the metadata
/// "xxh64_data" and that of the header, in which its own digits are zeros, as "xxh64_header". Throws Error(usage) when
/// a name is there twice.
void write_safetensors(const fs::path& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                       const Metadata& metadata = {}, bool checksums = false);

}  // namespace neurim
