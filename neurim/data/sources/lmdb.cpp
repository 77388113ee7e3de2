#include "neurim/data/sources/lmdb.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <unordered_map>

#include "neurim/base/canonical_form.h"
#include "neurim/base/error.h"
#include "neurim/data/sources/proto.h"
#include "neurim/data/sources/table.h"

namespace neurim {
namespace {

constexpr std::size_t kPageHeader = 16, kNodeHeader = 8;
constexpr std::uint64_t kMagic = 0xBEEFC0DE, kNoPage = ~0ull;
constexpr std::uint64_t kBranch = 1, kLeaf = 2, kOverflow = 4;     // flags of a page
constexpr std::uint64_t kBigData = 1, kSubData = 2, kDupData = 4;  // flags of a node
constexpr int kMostDepth = 32;                                     // MDB's CURSOR_STACK
constexpr const char* kFix = "; it is damaged or of another system: copy or make it again";

[[noreturn]] void damaged(std::string_view what, std::uint64_t page) {
  fail(Fault::data, what, " at page ", page, kFix);
}

class Tree {
 public:
  explicit Tree(const Bytes& file) : file_(file) {
    std::array<std::byte, 160> first{};
    if (file.size < first.size()) fail(Fault::data, "is too short for LMDB", kFix);
    file.read(0, first);
    // The size of pages stands in the first meta page, in a field of the list of free ones.
    page_size_ = little(as_text(first), kPageHeader + 24, 4);
    if (little(as_text(first), kPageHeader, 4) != kMagic || page_size_ < 256 || page_size_ > 65536 ||
        (page_size_ & (page_size_ - 1)) != 0)
      fail(Fault::data, "is no LMDB file", kFix);
    std::uint64_t newest = 0, last = 0;
    bool found = false;
    for (std::uint64_t number = 0; number < 2; ++number) {  // two, of which the newer transaction counts
      std::array<std::byte, 160> page{};
      if ((number + 1) * page_size_ > file.size) break;
      file.read(number * page_size_, page);
      const std::string_view meta = as_text(page).substr(kPageHeader);
      if (little(meta, 0, 4) != kMagic || little(meta, 4, 4) != 1) continue;
      const std::uint64_t transaction = little(meta, 128, 8);
      if (found && transaction <= newest) continue;
      found = true, newest = transaction, last = little(meta, 120, 8);
      flags_ = little(meta, 72 + 4, 2), entries_ = little(meta, 72 + 32, 8), root_ = little(meta, 72 + 40, 8);
    }
    if (!found) fail(Fault::data, "has no meta page of version 1", kFix);
    if (last >= file.size / page_size_)
      fail(Fault::data, "ends at ", file.size, " bytes, but its last page is ", last, " of ", page_size_,
           " bytes; it is cut off: copy it again");
    if (flags_ & 4) fail(Fault::data, "has several values for a key (dupsort), which is not read; write one a key");
    visited_.resize(file.size / page_size_);
  }

  std::vector<LmdbRecord> records() {
    std::vector<LmdbRecord> found;
    if (root_ != kNoPage) walk(root_, 0, found);
    if (found.size() != entries_)
      fail(Fault::data, "holds ", found.size(), " records where its meta page says ", entries_, kFix);
    return found;
  }

 private:
  void walk(std::uint64_t number, int depth, std::vector<LmdbRecord>& found) {
    if (number >= visited_.size() || visited_[number] || depth > kMostDepth) damaged("a damaged tree", number);
    visited_[number] = true;
    std::vector<std::byte> bytes(page_size_);
    file_.read(number * page_size_, bytes);
    const std::string_view page = as_text(bytes);
    const std::uint64_t flags = little(page, 10, 2), lower = little(page, 12, 2);
    if (little(page, 0, 8) != number || lower < kPageHeader || lower > page_size_ || lower % 2 != 0)
      damaged("a damaged header", number);
    for (std::size_t at = kPageHeader; at < lower; at += 2) {
      const std::uint64_t node = little(page, at, 2);
      if (node < lower || node + kNodeHeader > page_size_) damaged("a damaged node", number);
      const std::uint64_t low = little(page, node, 4), node_flags = little(page, node + 4, 2),
                          key_size = little(page, node + 6, 2), data = node + kNodeHeader + key_size;
      if (data > page_size_) damaged("a damaged key", number);
      if (flags & kBranch) {
        walk(low | node_flags << 32, depth + 1, found);
      } else if (flags & kLeaf) {
        if (node_flags & (kSubData | kDupData))
          fail(Fault::data,
               "has named databases or several values for a key, which are not read; write the "
               "records into the unnamed one");
        found.push_back({std::string(page.substr(node + kNodeHeader, key_size)), number * page_size_ + data, low});
        if (node_flags & kBigData) {
          if (data + 8 > page_size_) damaged("a damaged node", number);
          found.back().offset = overflow(little(page, data, 8), low);
        } else if (low > page_size_ - data) {
          damaged("a damaged value", number);
        }
      } else {
        damaged("a page of no known kind", number);
      }
    }
  }

  /// Where a value of `size` bytes in pages of its own begins.
  std::uint64_t overflow(std::uint64_t number, std::uint64_t size) {
    if (number >= visited_.size() || visited_[number]) damaged("a damaged reference", number);
    visited_[number] = true;
    std::array<std::byte, kPageHeader> header{};
    file_.read(number * page_size_, header);
    const std::uint64_t pages = little(as_text(header), 12, 4);
    if (little(as_text(header), 0, 8) != number || !(little(as_text(header), 10, 2) & kOverflow) || pages == 0 ||
        pages > visited_.size() - number || size > pages * page_size_ - kPageHeader)
      damaged("a damaged long value", number);
    return number * page_size_ + kPageHeader;
  }

  const Bytes& file_;
  std::uint64_t page_size_ = 0, root_ = kNoPage, entries_ = 0, flags_ = 0;
  std::vector<bool> visited_;  // of each page, so that no damaged tree is walked twice
};

/// Caffe's Datum: channels = 1, height = 2, width = 3, data = 4, label = 5, encoded = 7.
struct Datum {
  std::uint64_t channels = 0, height = 0, width = 0, offset = 0, size = 0;
  std::optional<std::int64_t> label;
  bool encoded = false;
};

std::optional<Datum> read_datum(const Bytes& bytes, const LmdbRecord& record) {
  Datum datum;
  try {
    ProtoReader reader(bytes, record.offset, record.offset + record.size);
    for (ProtoField field = reader.next(); field.number != 0; field = reader.next()) {
      if (field.is_part != (field.number == 4)) {
        if (field.number <= 7 && field.number != 6) return {};
        continue;
      }
      if (field.number == 1) datum.channels = field.value;
      if (field.number == 2) datum.height = field.value;
      if (field.number == 3) datum.width = field.value;
      if (field.number == 4) datum.offset = field.offset, datum.size = field.size;
      if (field.number == 5) datum.label = static_cast<std::int64_t>(field.value);
      if (field.number == 7) datum.encoded = field.value != 0;
    }
  } catch (const Error&) {
    return {};
  }
  if (datum.size == 0) return {};
  constexpr std::uint64_t most = Decoder::kMostPixels;
  if (!datum.encoded &&
      ((datum.channels != 1 && datum.channels != 3) || datum.height == 0 || datum.height > most || datum.width == 0 ||
       datum.width > most / datum.height || datum.size != datum.channels * datum.height * datum.width))
    return {};
  return datum;
}

class LmdbSource : public Source {
 public:
  struct Item {
    FilePart part;
    std::string key;
    ImageSize planes;  // where these are values, channel by channel
  };
  LmdbSource(std::vector<std::string> files, std::vector<Item> items)
      : files_(std::move(files)), items_(std::move(items)) {}

  std::string name(std::int64_t item) const override {
    const Item& of = items_[item];
    return text(files_[of.part.file], "[", of.key, "]");
  }
  StoredImage read(std::int64_t item, std::vector<std::byte>& buffer) const override {
    const auto& [of, key, planes] = items_[item];
    const std::span<const std::byte> bytes = read_part(files_[of.file], of.offset, of.size, buffer);
    if (planes == ImageSize{}) return {bytes, {}};
    buffer.resize(std::max(buffer.size(), 2 * of.size));  // the image goes after its planes
    const std::size_t channels = static_cast<std::size_t>(planes.channels), plane = of.size / channels;
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t p = 0; p < plane; ++p)
        buffer[of.size + p * channels + c] = buffer[(channels - 1 - c) * plane + p];  // blue comes first
    return {std::span(buffer).subspan(of.size, of.size), planes};
  }

 private:
  std::vector<std::string> files_;
  std::vector<Item> items_;
};

/// The labels in labels.csv, .tsv or .jsonl beside the file by the canonical forms of their keys; empty where there is
/// none.
std::unordered_map<std::string, std::string> sidecar(const fs::path& folder) {
  std::unordered_map<std::string, std::string> labels;
  std::error_code error;
  for (const char* name : {"labels.csv", "labels.tsv", "labels.jsonl"}) {
    if (!fs::is_regular_file(folder / name, error)) continue;
    const Table table = read_table((folder / name).string());
    const auto key = table.find({"key"}), label = table.find({"label", "class"});
    if (!key || !label)
      fail(Fault::data, table.path, ":1: has no column key or none called label; name the columns key and label");
    for (const Table::Row& row : table.rows)
      if (!labels.emplace(canonical_form(Table::cell(row, *key)), Table::cell(row, *label)).second)
        fail(Fault::data, table.at(row), ": names the key ", Table::cell(row, *key), " again; remove a line");
    return labels;
  }
  return labels;
}

/// Whether it begins as an LMDB file does, which may have any name.
bool is_environment(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return false;  // a pipe would make us wait
  char head[kPageHeader + 4] = {};
  std::ifstream(file, std::ios::binary).read(head, sizeof head);
  return little({head, sizeof head}, kPageHeader, 4) == kMagic;
}

/// The files of each split: `path` itself, its data.mdb, or those in its folders train, val and test.
std::map<Split, std::string> environments(const fs::path& path) {
  std::error_code error;
  std::map<Split, std::string> found;
  if (!fs::is_directory(path, error)) {
    if (is_environment(path)) found[Split::train] = path.string();
    return found;
  }
  if (fs::is_regular_file(path / "data.mdb", error)) return {{Split::train, (path / "data.mdb").string()}};
  for (const fs::directory_entry& entry : entries(path)) {
    const auto split = split_named(entry.path().filename().string());
    const fs::path file = entry.path() / "data.mdb";
    if (!split || !fs::is_regular_file(file, error)) continue;
    if (!found.emplace(*split, file.string()).second)
      fail(Fault::data, path.string(), ": ", found[*split], " and ", file.string(), " are both the ", *split,
           " split; leave one of them");
  }
  return found;
}

}  // namespace

std::vector<LmdbRecord> index_lmdb(const Bytes& file) { return Tree(file).records(); }

bool is_lmdb(const std::string& path) { return !environments(path).empty(); }

Listing open_lmdb(const std::string& path, const DatasetOptions& options) {
  Gathered items;
  std::vector<std::string> files;
  std::vector<LmdbSource::Item> found;
  std::int64_t raw = 0, others = 0;
  std::string other;
  for (const auto& [split, file] : environments(path)) {
    const Bytes bytes = bytes_of_file(file);
    const std::unordered_map<std::string, std::string> labels = sidecar(fs::path(file).parent_path());
    const std::size_t before = found.size();
    naming([&file = file] { return file; },
           [&, &split = split] {
             for (const LmdbRecord& record : index_lmdb(bytes)) {
               const auto named = labels.find(canonical_form(record.key));
               const std::optional<Datum> datum = read_datum(bytes, record);
               if (named == labels.end() && (!labels.empty() || !datum || !datum->label)) {
                 if (others++ == 0) other = record.key;
                 continue;
               }
               items.add(split, named == labels.end() ? text(*datum->label) : named->second);
               LmdbSource::Item item{{files.size(), record.offset, record.size}, record.key, {}};
               if (datum) item.part.offset = datum->offset, item.part.size = datum->size;
               if (datum && !datum->encoded) {
                 item.planes = {static_cast<int>(datum->height), static_cast<int>(datum->width),
                                static_cast<int>(datum->channels)};
                 raw += datum->channels == 3;
               }
               found.push_back(std::move(item));
             }
           });
    if (found.size() == before)
      fail(Fault::data, file, ": no value is a Caffe Datum with a label, and there is no labels.csv beside it (",
           "columns key and label) that names a key; add that file");
    files.push_back(file);
  }
  Listing listing = items.finish(path, options);
  note_count(listing.notes, others, "records have no label and are left out", other);
  if (raw > 0)
    listing.notes.push_back(text(raw,
                                 " images are raw colour levels, taken as blue, green, red, which is "
                                 "what Caffe's convert_imageset writes"));
  listing.source = std::make_shared<LmdbSource>(std::move(files), std::move(found));
  return listing;
}

}  // namespace neurim
