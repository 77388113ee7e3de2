// Files: reading whole, mapping, and replacing a file so that a reader sees the old or the new one, never half.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace neurim {

namespace fs = std::filesystem;

/// The whole file. Throws Error(data) naming the path when it cannot be read.
std::string read_file(const fs::path& path);

/// Replaces `path` by `bytes`: writes a temporary file in the same folder, fsyncs it, renames it, fsyncs the folder.
/// Whatever fails, the previous file stays whole; throws Error(resource) with path, bytes needed and the system's reason.
void write_file(const fs::path& path, std::string_view bytes);

/// A file mapped read-only.
class MappedFile {
 public:
  explicit MappedFile(const fs::path& path);  ///< throws Error(data)
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace neurim
