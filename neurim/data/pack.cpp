#include "neurim/data/pack.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "neurim/base/file.h"
#include "neurim/base/json.h"
#include "neurim/base/thread_pool.h"
#include "neurim/base/utf8.h"
#include "neurim/data/fingerprint.h"
#include "neurim/data/formats/jpeg_rows.h"
#include "neurim/data/pack_format.h"

namespace neurim {
namespace {

constexpr std::int64_t kSamplesATime = 64;

/// A file that grows at its end.
class Appender {
 public:
  explicit Appender(std::string path)
      : path_(std::move(path)), descriptor_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) give_up("create");
  }
  ~Appender() { ::close(descriptor_); }
  Appender(const Appender&) = delete;

  void cut_to(std::uint64_t size) {
    if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0 ||
        ::lseek(descriptor_, static_cast<off_t>(size), SEEK_SET) < 0)
      give_up("cut");
    size_ = size;
  }
  void append(std::string_view bytes) {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t count = ::write(descriptor_, bytes.data() + done, bytes.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) give_up("write");
      done += count;
    }
    size_ += bytes.size();
  }
  /// Writes over the beginning of the file.
  void begin_with(std::string_view bytes) {
    if (::pwrite(descriptor_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) give_up("write");
  }
  /// Makes what was appended last, and gives the file its name.
  void finish(const std::string& name) {
    if (::fsync(descriptor_) != 0) give_up("sync");
    std::error_code error;
    fs::rename(path_, name, error);
    if (error) fail(Fault::resource, name, ": cannot rename ", path_, ": ", error.message());
  }
  std::uint64_t size() const { return size_; }

 private:
  [[noreturn]] void give_up(std::string_view step) const {
    fail(Fault::resource, path_, ": cannot ", step, ": ", std::strerror(errno), " after ", size_,
         " bytes; what is there stays, and the same command goes on from it");
  }

  std::string path_;
  int descriptor_;
  std::uint64_t size_ = 0;
};

template <class Struct>
std::string_view bytes_of(const Struct& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

struct Sample {
  std::int64_t ordinal;  // among all samples of all splits
  Split split;
  std::int64_t index;  // in the split
};

/// What a thread needs.
struct Packer {
  Decoder decoder;
  Image image;
  std::vector<std::byte> buffer;

  /// The record of a sample. Throws Error(data) where it cannot be decoded.
  std::string record(const Dataset& dataset, const Sample& sample) {
    const StoredImage stored = dataset.read(sample.split, sample.index, buffer);
    const std::string name = dataset.name(sample.split, sample.index);
    RecordHead head{.ordinal = static_cast<std::uint64_t>(sample.ordinal),
                    .label = static_cast<std::int32_t>(dataset.label(sample.split, sample.index)),
                    .split = static_cast<std::uint32_t>(sample.split),
                    .name_bytes = static_cast<std::uint32_t>(name.size()),
                    .height = static_cast<std::uint32_t>(stored.pixels.height),
                    .width = static_cast<std::uint32_t>(stored.pixels.width),
                    .channels = static_cast<std::uint32_t>(stored.pixels.channels),
                    .bits = stored.pixels.bits == 16 ? 16u : 0u};
    JpegRows rows;
    std::string indexed;
    require(std::max(head.height, head.width) <= kMostPackedSide, name, ": images of more than ", kMostPackedSide,
            " pixels a side cannot be packed");
    const bool jpeg = decoder.open(stored).format == "JPEG";
    if (jpeg) indexed = with_jpeg_rows(stored.bytes, rows);
    if (indexed.empty()) decoder.read(image);  // to see that it can be decoded
    const std::string_view bytes = indexed.empty()
                                       ? std::string_view(reinterpret_cast<const char*>(stored.bytes.data()),
                                                          stored.bytes.size())
                                       : std::string_view(indexed);
    require(bytes.size() <= 0xFFFFFFFFu, name, ": images of 4 GiB and more cannot be packed");
    head.bytes = static_cast<std::uint32_t>(bytes.size());
    head.rows = static_cast<std::uint32_t>(rows.offsets.size());
    head.block_height = rows.block_height;
    std::string body = name;
    body.resize(aligned(body.size()));
    body.append(reinterpret_cast<const char*>(rows.offsets.data()), rows.offsets.size() * 4);
    body.append(bytes);
    body.resize(aligned(body.size()));
    head.crc = record_crc(head, std::as_bytes(std::span(body)));
    return text(bytes_of(head), body);
  }
};

PackHead head_of(const Dataset& dataset, std::string (*print)(const Dataset& dataset, Split split)) {
  PackHead head;
  std::string all;
  for (const Split split : kSplits) all += print(dataset, split);
  std::memcpy(head.fingerprint, all.data(), sizeof head.fingerprint);
  return head;
}

/// Of the records, each given by the ordinal of its sample.
std::string json_of(const Dataset& dataset, const std::vector<Sample>& samples,
                    const std::vector<std::int64_t>& records) {
  std::vector<double> weights;
  std::vector<std::string> groups;
  bool weighted = false, grouped = false;
  for (const std::int64_t ordinal : records) {
    const Sample& sample = samples[ordinal];
    weights.push_back(dataset.weight(sample.split, sample.index));
    groups.push_back(dataset.group(sample.split, sample.index));
    if (!is_utf8(groups.back()))
      fail(Fault::data, dataset.name(sample.split, sample.index),
           ": its group has a name that is not UTF-8, which a packed file cannot hold; rename it");
    weighted = weighted || weights.back() != 1;
    grouped = grouped || !groups.back().empty();
  }
  JsonObject names{{"class_names", dataset.class_names()}};
  if (dataset.multi_label()) names.add("label_sets", dataset.label_sets());
  if (weighted) names.add("weights", weights);
  if (grouped) names.add("groups", groups);
  return names.line();
}

/// Takes over the whole records of an interrupted call; returns the number of samples it had looked at.
std::int64_t take_over(const std::string& part, const PackHead& head, std::vector<PackEntry>& table,
                       std::vector<std::int64_t>& records, std::uint64_t& end) {
  end = 0;
  std::error_code error;
  if (!fs::is_regular_file(part, error) || fs::file_size(part, error) < sizeof head) return 0;
  const MappedFile file(part);
  const std::span<const std::byte> bytes = file.bytes();
  if (std::memcmp(bytes.data(), &head, sizeof head) != 0) return 0;
  end = sizeof head;
  std::int64_t looked_at = 0;
  while (const std::optional<Record> record = record_at(bytes, end, bytes.size())) {
    if (record_crc(record->head, record->body) != record->head.crc) break;
    table.push_back({end, record->head.label, record->head.split});
    records.push_back(static_cast<std::int64_t>(record->head.ordinal));
    looked_at = static_cast<std::int64_t>(record->head.ordinal) + 1;
    end += sizeof(RecordHead) + record->body.size();
  }
  return looked_at;
}

std::vector<Sample> samples_of(const Dataset& dataset) {
  std::vector<Sample> samples;
  for (const Split split : kSplits)
    for (std::int64_t i = 0; i < dataset.size(split); ++i)
      samples.push_back({static_cast<std::int64_t>(samples.size()), split, i});
  return samples;
}

/// Whether an interrupted call has left something.
bool is_left(const std::string& part) {
  std::error_code unseen;
  return fs::exists(part, unseen) && fs::file_size(part, unseen) > 0;
}

}  // namespace

void check_pack(const Dataset& dataset, const std::string& path) {
  const std::string part = path + ".part";
  if (is_left(part) && !is_pack(part))
    fail(Fault::usage, part,
         ": exists already, and is not what an interrupted pack leaves; remove it, or give another name");
  FileLock(part, path, false);  // throws where another process has it
  const std::vector<Sample> samples = samples_of(dataset);
  std::vector<std::int64_t> ordinals;
  for (const Sample& sample : samples) ordinals.push_back(sample.ordinal);
  json_of(dataset, samples, ordinals);
}

PackResult pack(const Dataset& dataset, const std::string& path, int threads, const PackProgress& progress) {
  check_pack(dataset, path);
  const std::string part = path + ".part";
  const FileLock lock(part, path);
  const std::vector<Sample> samples = samples_of(dataset);
  const PackHead head = head_of(dataset, file_fingerprint);
  const bool left = is_left(part);
  std::vector<PackEntry> table;
  std::vector<std::int64_t> taken;  // the ordinals of the samples in the table
  std::uint64_t end = 0;
  std::int64_t done = take_over(part, head, table, taken, end);
  PackResult result{.resumed = static_cast<std::int64_t>(table.size()), .begun_anew = left && end == 0};
  Appender file(part);
  file.cut_to(end);
  if (end == 0) file.append(bytes_of(head));

  ThreadPool pool(threads);
  std::vector<Packer> packers(threads);
  std::vector<std::string> records, reasons;
  const auto all = static_cast<std::int64_t>(samples.size());
  while (done < all) {
    const std::int64_t count = std::min(kSamplesATime, all - done);
    records.assign(count, "");
    reasons.assign(count, "");
    std::atomic<std::int64_t> next{0};
    pool.each(threads, [&](int thread) {
      for (std::int64_t i; (i = next++) < count;) {
        const Sample& sample = samples[done + i];
        try {
          records[i] = packers[thread].record(dataset, sample);
        } catch (const Error& error) {
          reasons[i] = text(dataset.name(sample.split, sample.index), ": ", error.what());
        }
      }
    });
    for (std::int64_t i = 0; i < count; ++i) {
      const std::string& record = records[i];
      if (record.empty()) {
        result.skipped.push_back(reasons[i]);
        continue;
      }
      const Sample& sample = samples[done + i];
      table.push_back({file.size(), static_cast<std::int32_t>(dataset.label(sample.split, sample.index)),
                       static_cast<std::uint32_t>(sample.split)});
      taken.push_back(sample.ordinal);
      file.append(record);
    }
    done += count;
    if (progress && !progress(done, all) && done < all) {
      result.samples = static_cast<std::int64_t>(table.size());
      result.bytes = file.size();
      return result;
    }
  }
  if (table.empty())
    fail(Fault::data, path, ": none of the ", all, " samples can be decoded, such as ", result.skipped.front());
  const std::string json = json_of(dataset, samples, taken);
  std::string last(reinterpret_cast<const char*>(table.data()), table.size() * sizeof(PackEntry));
  last += json;
  const PackTail tail{.table = file.size(),
                      .records = table.size(),
                      .json_bytes = json.size(),
                      .crc = crc_of(std::as_bytes(std::span(last)))};
  file.append(last);
  file.append(bytes_of(tail));
  file.begin_with(bytes_of(head_of(dataset, fingerprint)));
  file.finish(path);
  result.samples = static_cast<std::int64_t>(table.size());
  result.bytes = file.size();
  return result;
}

}  // namespace neurim
