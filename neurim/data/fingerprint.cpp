#include "neurim/data/fingerprint.h"

#include <sys/stat.h>

#include <algorithm>
#include <optional>

#include "neurim/base/sha256.h"

namespace neurim {
namespace {

/// The length of the folders that all names of the set begin with: they say where it lies.
std::size_t common_root(const Dataset& dataset) {
  std::optional<std::string> common;
  for (const Split split : kSplits)
    for (std::int64_t i = 0; i < dataset.size(split); ++i) {
      const std::string name = dataset.name(split, i);
      if (!common) common = name;
      common->resize(std::mismatch(common->begin(), common->end(), name.begin(), name.end()).first - common->begin());
    }
  return common ? common->rfind('/') + 1 : 0;
}

constexpr std::uint64_t kMostRead = std::uint64_t{256} << 20;

void add_line(Sha256& sha, const std::string& line) { sha.add(std::as_bytes(std::span(line))); }

struct Stamp {
  std::uint64_t bytes = 0;
  std::int64_t seconds = 0, nanoseconds = 0;
};
void append(std::string& out, const Stamp& stamp) {
  out += text(stamp.bytes, ' ', stamp.seconds, ' ', stamp.nanoseconds);
}

/// Looks at the files that hold samples.
class Holders {
 public:
  /// Of the file that a sample of this name lies in: the file itself, or one before "[", as in shards and
  /// arrays, or before ": ", as in packed files. Zeros where there is none any more.
  Stamp stamp(const std::string& name) {
    is_new_ = false;
    if (!last_.empty() && name.starts_with(last_) && name.size() > last_.size() && ends(name, last_.size()))
      return stamp_;
    is_new_ = true;
    last_.clear();
    stamp_ = {};
    if (look_at(name)) return stamp_;
    for (std::size_t end = 1; end < name.size(); ++end)
      if (ends(name, end) && look_at(name.substr(0, end))) {
        last_ = name.substr(0, end);
        break;
      }
    return stamp_;
  }
  /// Whether the last sample lay in another file than the one before.
  bool is_new() const { return is_new_; }

 private:
  static bool ends(const std::string& name, std::size_t end) {
    return name[end] == '[' || name.compare(end, 2, ": ") == 0;
  }
  bool look_at(const std::string& file) {
    struct stat status {};
    if (::stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
    stamp_ = {static_cast<std::uint64_t>(status.st_size), status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
    return true;
  }

  std::string last_;  // the file of several samples that was looked at last
  Stamp stamp_;
  bool is_new_ = false;
};

/// What a split's samples are, by their names, classes, and where wanted files.
std::string listed_fingerprint(const Dataset& dataset, Split split, bool files) {
  const std::size_t root = common_root(dataset);
  Holders holders;
  Sha256 sha;
  for (std::int64_t i = 0; i < dataset.size(split); ++i) {
    const std::string name = dataset.name(split, i);
    add_line(sha, text(name.substr(root), '\t', dataset.label_name(split, i),
                       files ? text('\t', holders.stamp(name)) : "", '\n'));
  }
  return sha.hex();
}

std::string bytes_fingerprint(const Dataset& dataset, Split split) {
  Sha256 sha;
  std::vector<std::byte> buffer;
  for (std::int64_t i = 0; i < dataset.size(split); ++i) {
    try {
      const StoredImage stored = dataset.read(split, i, buffer);
      add_line(sha, text(stored.bytes.size(), '\n'));
      sha.add(stored.bytes);
    } catch (const Error& error) {
      if (error.fault() != Fault::data) throw;
      add_line(sha, "cannot be read\n");
    }
  }
  return sha.hex();
}

}  // namespace

std::string fingerprint(const Dataset& dataset, Split split) { return listed_fingerprint(dataset, split, false); }

std::string file_fingerprint(const Dataset& dataset, Split split) { return listed_fingerprint(dataset, split, true); }

ContentPrint content_fingerprint(const Dataset& dataset) {
  Holders holders;
  std::uint64_t bytes = 0;
  for (const Split split : kSplits)
    for (std::int64_t i = 0; i < dataset.size(split); ++i) {
      const Stamp stamp = holders.stamp(dataset.name(split, i));
      if (holders.is_new()) bytes += stamp.bytes;
    }
  ContentPrint print{.whole = bytes <= kMostRead, .splits = {}};
  for (const Split split : kSplits)
    print.splits[static_cast<std::size_t>(split)] = print.whole ? bytes_fingerprint(dataset, split)
                                                                : file_fingerprint(dataset, split);
  return print;
}

}  // namespace neurim
