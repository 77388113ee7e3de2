#include "neurim/data/scan.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "neurim/base/file.h"
#include "neurim/base/thread_pool.h"
#include "neurim/data/image_files.h"
#include "neurim/data/sources/parts.h"

namespace neurim {
namespace {

constexpr std::size_t kFilesATime = 256;  // between two calls of `found` for all of them

/// What a thread needs.
struct Scanner {
  Decoder decoder;
  Image image;
  std::vector<std::byte> buffer;

  /// `read` gives what is stored of it, in `buffer` or elsewhere.
  template <class Read>
  void look(ScannedFile& file, const Read& read) {
    try {
      const StoredImage stored = read(buffer);
      file.bytes = stored.bytes.size();
      file.header = decoder.open(stored);
      file.status = ScannedFile::Status::partial;
      decoder.read(image);
      file.status = ScannedFile::Status::ok;
      const std::string_view meant = format_of_extension(file.file);
      // A packed image bears the name of its file, and may be values.
      if (!meant.empty() && !file.header.format.empty() && meant != file.header.format)
        file.reason = text("its extension says ", meant, ", its content is ", file.header.format);
    } catch (const Error& error) {
      file.reason = error.what();
    }
  }
};

/// Finds the files below a folder that are or claim to be images.
class Search {
 public:
  explicit Search(const fs::path& root) : root_(root) {
    entries(root_);  // an error where it cannot be listed
    walk(root_);
    // What lies below the root itself is called by its own path, whatever links lead to it.
    while (!links_.empty()) {
      const std::vector<fs::path> links = std::move(links_);
      links_.clear();
      for (const fs::path& link : links) walk(link);
    }
    std::sort(files_.begin(), files_.end(), [](const ScannedFile& a, const ScannedFile& b) { return a.file < b.file; });
  }
  std::vector<ScannedFile> files() && { return std::move(files_); }
  std::int64_t others() const { return others_; }

 private:
  void walk(const fs::path& folder) {
    std::error_code error;
    const fs::path place = fs::canonical(folder, error);
    if (!seen_.insert(error ? folder : place).second) return;
    if (const fs::directory_iterator at(folder, error); error) {
      ScannedFile& unlisted = files_.emplace_back();
      unlisted.file = (folder / "").lexically_relative(root_).string();
      unlisted.reason = text("cannot list: ", error.message(), "; check that the folder is readable");
      return;
    }
    const std::size_t files_before = files_.size(), links_before = links_.size();
    for (const fs::directory_entry& entry : entries(folder)) {
      if (entry.is_directory(error)) {  // a link that leads nowhere is no folder
        if (holds_run(entry.path())) continue;
        if (entry.is_symlink(error)) {
          links_.push_back(entry.path());
        } else {
          walk(entry.path());
        }
      } else if (is_image_file(entry.path())) {
        files_.emplace_back().file = entry.path().lexically_relative(root_).string();
      } else {
        ++others_;
      }
    }
    if (folder != root_ && is_image(folder) && files_.size() == files_before && links_.size() == links_before) {
      ScannedFile& lost = files_.emplace_back();
      lost.file = (folder / "").lexically_relative(root_).string();
      lost.reason = "a folder that is called as an image is and holds none; put the image there or remove it";
    }
  }

  fs::path root_;
  std::set<fs::path> seen_;      // folders, without links
  std::vector<fs::path> links_;  // to folders, not yet followed
  std::vector<ScannedFile> files_;
  std::int64_t others_ = 0;
};

/// Has `look` fill in each of the files that `file_at` gives, unless its reason is known already, on so many
/// threads, and hands them to `found` in their order.
template <class FileAt, class Look>
void look_at_all(std::size_t count, int threads, const FileAt& file_at, const Look& look,
                 const std::function<void(const ScannedFile&)>& found) {
  ThreadPool pool(threads);
  std::vector<Scanner> scanners(threads);
  std::vector<ScannedFile> some;
  for (std::size_t begin = 0; begin < count; begin += some.size()) {
    some.assign(std::min(kFilesATime, count - begin), {});
    for (std::size_t i = 0; i < some.size(); ++i) some[i] = file_at(begin + i);
    std::atomic<std::size_t> next{0};
    pool.each(threads, [&](int thread) {
      for (std::size_t i; (i = next++) < some.size();)
        if (some[i].reason.empty()) look(scanners[thread], begin + i, some[i]);
    });
    for (const ScannedFile& file : some) found(file);
  }
}

}  // namespace

std::string_view name(ScannedFile::Status status) {
  constexpr std::string_view names[] = {"ok", "partial", "error"};
  return names[static_cast<std::size_t>(status)];
}

std::int64_t scan(const std::string& root, int threads, const std::function<void(const ScannedFile&)>& found) {
  Search search(root);
  const std::int64_t others = search.others();
  const std::vector<ScannedFile> files = std::move(search).files();
  look_at_all(
      files.size(), threads, [&](std::size_t i) { return files[i]; },
      [&](Scanner& scanner, std::size_t, ScannedFile& file) {
        scanner.look(file, [&](std::vector<std::byte>& buffer) {
          return StoredImage{read_into((fs::path(root) / file.file).string(), buffer), {}};
        });
      },
      found);
  return others;
}

void scan(const Dataset& dataset, int threads, const std::function<void(const ScannedFile&)>& found) {
  for (const Split split : kSplits)
    look_at_all(
        static_cast<std::size_t>(dataset.size(split)), threads,
        [&](std::size_t i) {
          ScannedFile file;
          file.file = dataset.name(split, static_cast<std::int64_t>(i));
          return file;
        },
        [&](Scanner& scanner, std::size_t i, ScannedFile& file) {
          scanner.look(file, [&](std::vector<std::byte>& buffer) {
            return dataset.read(split, static_cast<std::int64_t>(i), buffer);
          });
        },
        found);
}

}  // namespace neurim
