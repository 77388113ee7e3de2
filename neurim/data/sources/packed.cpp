// Reads packed files (pack.h).
#include <zlib.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "neurim/base/error.h"
#include "neurim/base/file.h"
#include "neurim/data/dataset.h"
#include "neurim/data/pack_format.h"

namespace neurim {

std::uint32_t crc_of(std::span<const std::byte> bytes, std::uint32_t before) {
  return static_cast<std::uint32_t>(crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::uint32_t record_crc(const RecordHead& head, std::span<const std::byte> body) {
  constexpr std::size_t kFrom = offsetof(RecordHead, ordinal);
  const auto bytes = std::as_bytes(std::span(&head, 1));
  return crc_of(body, crc_of(bytes.subspan(kFrom)));
}

std::optional<Record> record_at(std::span<const std::byte> file, std::uint64_t offset, std::uint64_t end) {
  Record record;
  if (offset > end || end - offset < sizeof record.head) return {};
  std::memcpy(&record.head, file.data() + offset, sizeof record.head);
  if (record.head.magic != RecordHead{}.magic) return {};
  const std::uint64_t size = aligned(aligned(record.head.name_bytes) + std::uint64_t{record.head.rows} * 4 +
                                     std::uint64_t{record.head.bytes});
  if (size > end - offset - sizeof record.head) return {};
  record.body = file.subspan(offset + sizeof record.head, size);
  return record;
}

namespace {

constexpr const char* kFix = "; pack the data again";

class PackedSource : public Source {
 public:
  explicit PackedSource(const std::string& path) : path_(path), file_(path) {
    const std::span<const std::byte> bytes = file_.bytes();
    PackTail tail;
    if (bytes.size() < sizeof(PackHead) + sizeof tail) damaged("it is too short");
    std::memcpy(&tail, bytes.data() + bytes.size() - sizeof tail, sizeof tail);
    if (std::memcmp(tail.magic, PackTail{}.magic, sizeof tail.magic) != 0) damaged("its end is missing");
    PackHead head;
    std::memcpy(&head, bytes.data(), sizeof head);
    if (head.version != PackHead{}.version)
      fail(Fault::data, path, ": it has version ", head.version, ", and only ", PackHead{}.version, " is read", kFix);
    end_ = tail.table;
    const std::uint64_t room = bytes.size() - sizeof tail;
    if (tail.table > room || tail.records > (room - tail.table) / sizeof(PackEntry) ||
        tail.json_bytes != room - tail.table - tail.records * sizeof(PackEntry))
      damaged("its table lies outside of it");
    const auto last = bytes.subspan(tail.table, room - tail.table);
    if (crc_of(last) != tail.crc) damaged("its table has changed");
    table_.resize(tail.records);
    std::memcpy(table_.data(), last.data(), tail.records * sizeof(PackEntry));
    json_ = std::string(reinterpret_cast<const char*>(last.data()) + tail.records * sizeof(PackEntry), tail.json_bytes);
    checked_ = std::make_unique<std::atomic<bool>[]>(table_.size());
  }

  std::string name(std::int64_t item) const override {
    const Record record = find(item);
    return text(path_, ": ",
                std::string_view(reinterpret_cast<const char*>(record.body.data()), record.head.name_bytes));
  }

  StoredImage read(std::int64_t item, std::vector<std::byte>&) const override {
    const Record record = find(item);
    const RecordHead& head = record.head;
    const std::span<const std::byte> rows = record.body.subspan(aligned(head.name_bytes), std::size_t{head.rows} * 4);
    StoredImage stored{.bytes = record.body.subspan(aligned(head.name_bytes) + rows.size(), head.bytes)};
    // Each record is checked when it is first read; later reads touch only the bytes that they need.
    std::atomic<bool>& checked = checked_[item];
    if (!checked.load(std::memory_order_relaxed)) {
      check(record);
      checked.store(true, std::memory_order_relaxed);
    }
    stored.pixels = pixels_of(head);
    // Bodies begin at multiples of 8, and so do their row indices.
    stored.rows = {reinterpret_cast<const std::uint32_t*>(rows.data()), head.rows};
    stored.block_height = head.block_height;
    return stored;
  }

  const std::vector<PackEntry>& table() const { return table_; }
  const std::string& json() const { return json_; }
  [[noreturn]] void damaged(std::string_view reason) const {
    fail(Fault::data, path_, ": this packed file is damaged: ", reason, kFix);
  }

 private:
  static ImageSize pixels_of(const RecordHead& head) {
    return {static_cast<int>(head.height), static_cast<int>(head.width), static_cast<int>(head.channels),
            head.bits == 16 ? 16 : 8};
  }

  Record find(std::int64_t item) const {
    const std::uint64_t offset = table_[item].offset;
    const std::optional<Record> record = offset % 8 == 0 ? record_at(file_.bytes(), offset, end_)
                                                         : std::optional<Record>();
    if (!record) damaged(text("there is no sample ", item, " at ", offset));
    return *record;
  }

  void check(const Record& record) const {
    const RecordHead& head = record.head;
    if (record_crc(head, record.body) != head.crc) fail(Fault::data, "its bytes in the packed file have changed", kFix);
    // What the CRC cannot say: whether the writer was ours.
    const ImageSize pixels = pixels_of(head);
    const bool raw = head.height || head.width || head.channels;
    const auto* rows = reinterpret_cast<const std::uint32_t*>(record.body.data() + aligned(head.name_bytes));
    bool sound = (head.bits == 0 || (raw && head.bits == 16)) &&
                 (!raw || (head.height >= 1 && head.height <= kMostPackedSide && head.width >= 1 &&
                           head.width <= kMostPackedSide && head.channels >= 1 && head.channels <= kMostChannels &&
                           pixels.bytes() == head.bytes));
    for (std::uint32_t i = 0; i < head.rows; ++i)
      sound = sound && rows[i] >= 2 && rows[i] <= head.bytes && (i == 0 || rows[i] >= rows[i - 1] + 2);
    if (!sound || (head.rows > 0 && (head.rows < 2 || head.block_height < 8 || head.block_height > 32)))
      fail(Fault::data, "its entry in the packed file contradicts itself", kFix);
  }

  std::string path_;
  MappedFile file_;
  std::uint64_t end_ = 0;  // of the records
  std::vector<PackEntry> table_;
  std::string json_;
  std::unique_ptr<std::atomic<bool>[]> checked_;  // of each record
};

}  // namespace

bool is_pack(const std::string& path) {
  PackHead head;
  char magic[sizeof head.magic] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof magic);
  return std::memcmp(magic, head.magic, sizeof magic) == 0;
}

Listing open_pack(const std::string& path) {
  const auto source = std::make_shared<PackedSource>(path);
  Listing listing;
  try {
    const nlohmann::json names = nlohmann::json::parse(source->json());
    names.at("class_names").get_to(listing.class_names);
    if (names.contains("label_sets")) names.at("label_sets").get_to(listing.label_sets);
    if (names.contains("weights")) names.at("weights").get_to(listing.weights);
    if (names.contains("groups")) names.at("groups").get_to(listing.groups);
  } catch (const nlohmann::json::exception&) {
    source->damaged("its list of classes cannot be read");
  }
  const std::size_t classes = listing.class_names.size();
  for (const std::vector<std::int64_t>& set : listing.label_sets)
    for (std::size_t i = 0; i < set.size(); ++i)
      if (set[i] < (i ? set[i - 1] + 1 : 0) || static_cast<std::size_t>(set[i]) >= classes)
        source->damaged("a label set is none of its classes");
  const std::size_t records = source->table().size();
  if ((!listing.weights.empty() && listing.weights.size() != records) ||
      (!listing.groups.empty() && listing.groups.size() != records))
    source->damaged("its weights or groups are not as many as its samples");
  for (const double weight : listing.weights)
    if (!(weight >= 0) || !std::isfinite(weight)) source->damaged("a weight is no number of at least 0");
  const std::size_t labels = listing.label_sets.empty() ? classes : listing.label_sets.size();
  for (const PackEntry& entry : source->table()) {
    if (entry.label < 0 || static_cast<std::size_t>(entry.label) >= labels || entry.split >= kSplits.size())
      source->damaged("a sample is of no class");
    listing[kSplits[entry.split]].push_back(static_cast<std::int64_t>(listing.labels.size()));
    listing.labels.push_back(entry.label);
  }
  listing.source = source;
  return listing;
}

}  // namespace neurim
