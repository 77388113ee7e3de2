// Files: reading whole, mapping, and replacing a file so that a reader sees the old or the new one, never half.
#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace neurim {

namespace fs = std::filesystem;

/// The whole file. Throws Error(data) naming the path when it cannot be read.
std::string read_file(const fs::path& path);

/// The same of a text file that people may have edited, on Windows too: without the byte order mark, with "\n" for
/// "\r\n". Throws Error(data) also where it is UTF-16.
std::string read_text(const fs::path& path);

/// Whether there is something at the end of the path's symbolic links. Throws Error(data) where that cannot be told:
/// links in a circle, a folder above that may not be entered.
bool is_there(const fs::path& path);

/// Replaces `path` by `bytes`: writes a temporary file in the same folder, fsyncs it, renames it, fsyncs the folder.
/// Whatever fails, the previous file stays whole; throws Error(resource) with path, bytes needed and the system's
/// reason. Of a symbolic link the file that it leads to is replaced; what writes_in_place() is written into.
void write_file(const fs::path& path, std::string_view bytes);

/// New content of a file, written and synced beside it as by write_file, for several files that change together: each
/// takes its place by replace(), and what has not when this ends is gone. For what writes_in_place() it is not.
class FileReplacement {
 public:
  FileReplacement(const fs::path& path, std::string_view bytes);  ///< throws Error(resource)
  ~FileReplacement();
  FileReplacement(const FileReplacement&) = delete;
  FileReplacement& operator=(const FileReplacement&) = delete;

  const fs::path& target() const { return target_; }  ///< what is replaced: after symbolic links
  void replace();                                     ///< throws Error(resource)

 private:
  [[noreturn]] void give_up(const char* step, int reason) const;

  fs::path path_, target_, temporary_;
  std::size_t size_;
};

/// Whether the path leads to what cannot be replaced: a device, a pipe, or this process's own output.
bool writes_in_place(const fs::path& path);

/// Calls the file by another name, in place of what has that name. Throws Error(resource).
void move_file(const fs::path& from, const fs::path& to);

/// Makes the folder with the missing ones above it; returns whether it was missing. Throws Error(resource).
bool make_folder(const fs::path& folder);

/// A new folder for files that nobody keeps, removed with the last copy of the pointer. Throws Error(resource).
std::shared_ptr<const fs::path> temporary_folder();

/// Removes the temporary files that write_file left in the folder where its process was killed. For a folder in which
/// this process writes nothing yet.
void remove_leftovers(const fs::path& folder);

/// The folder for what can be made again: neurim in $XDG_CACHE_HOME, or in ~/.cache; it may not exist yet. Throws
/// Error(resource) where neither is known.
fs::path cache_folder();

/// A file for one process alone, until this ends or the process dies. Where the file system has no locks, everybody
/// gets it.
class FileLock {
 public:
  /// Throws Error(resource), which names `whole`, at once where another process has it. `make`: whether a file that is
  /// missing is made; else nobody has it.
  FileLock(const fs::path& path, const fs::path& whole, bool make = true);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int file_ = -1;
};

/// A file mapped read-only.
class MappedFile {
 public:
  explicit MappedFile(const fs::path& path);  ///< throws Error(data)
  /// A file that another file names, below the folder. Throws Error(data) for a name that leads out of the folder or is
  /// empty, for links, symbolic ones and hard ones, and for what is no regular file.
  MappedFile(const fs::path& folder, std::string_view name);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }  ///< the whole file; lives as long as this

 private:
  void map(int file, const fs::path& path);

  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace neurim
