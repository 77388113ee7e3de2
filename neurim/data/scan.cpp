#include "neurim/data/scan.h"

#include <algorithm>
#include <filesystem>

#include "neurim/base/file.h"
#include "neurim/base/thread_pool.h"
#include "neurim/data/picture_files.h"

namespace neurim {
namespace {

constexpr std::size_t kFilesATime = 256;  // between two calls of `found` for all of them

/// What a thread needs.
struct Scanner {
  Decoder decoder;
  Image image;
  std::vector<std::byte> buffer;

  void look(const fs::path& root, ScannedFile& file) {
    const std::string path = (root / file.file).string();
    try {
      const std::span<const std::byte> bytes = read_into(path, buffer);
      file.bytes = bytes.size();
      file.header = decoder.open({bytes, {}});
      file.status = ScannedFile::Status::partial;
      decoder.read(image);
      file.status = ScannedFile::Status::ok;
      const std::string_view meant = format_of_extension(path);
      if (!meant.empty() && meant != file.header.format)
        file.reason = text("its extension says ", meant, ", its content is ", file.header.format);
    } catch (const Error& error) {
      file.reason = error.what();
    }
  }
};

/// The files below `root` that are or claim to be pictures, in order; counts the others.
std::vector<std::string> candidates(const fs::path& root, std::int64_t& others) {
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator at(root, error);
  for (const fs::recursive_directory_iterator end; !error && at != end; at.increment(error)) {
    if (is_hidden(at->path())) {
      at.disable_recursion_pending();
      continue;
    }
    std::error_code ignored;  // a link that leads nowhere is no folder
    if (at->is_directory(ignored)) continue;
    if (is_picture(at->path()) || has_picture_content(at->path()))
      files.push_back(fs::relative(at->path(), root, ignored).string());
    else
      ++others;
  }
  if (error)
    fail(Fault::data, root.string(), ": cannot list: ", error.message(),
         "; check that it and the folders below it are readable");
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::string_view name(ScannedFile::Status status) {
  constexpr std::string_view names[] = {"ok", "partial", "error"};
  return names[static_cast<std::size_t>(status)];
}

std::int64_t scan(const std::string& root, int threads, const std::function<void(const ScannedFile&)>& found) {
  std::int64_t others = 0;
  const std::vector<std::string> files = candidates(root, others);
  ThreadPool pool(threads);
  std::vector<Scanner> scanners(static_cast<std::size_t>(threads));
  std::vector<ScannedFile> some;
  for (std::size_t begin = 0; begin < files.size(); begin += some.size()) {
    some.assign(std::min(kFilesATime, files.size() - begin), {});
    for (std::size_t i = 0; i < some.size(); ++i) some[i].file = files[begin + i];
    std::atomic<std::size_t> next{0};
    pool.each(threads, [&](int thread) {
      for (std::size_t i; (i = next++) < some.size();)
        scanners[static_cast<std::size_t>(thread)].look(root, some[i]);
    });
    for (const ScannedFile& file : some) found(file);
  }
  return others;
}

}  // namespace neurim
