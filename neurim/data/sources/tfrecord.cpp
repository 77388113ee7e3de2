#include "neurim/data/sources/tfrecord.h"

#include <zlib.h>

#include <algorithm>

#include "neurim/base/error.h"
#include "neurim/base/tfrecord.h"
#include "neurim/data/sources/proto.h"

namespace neurim {
namespace {

constexpr std::uint64_t kHeader = 12, kFooter = 4;  // length and its checksum; the checksum of the data
constexpr std::uint64_t kMostKey = 256, kMostText = 4096;
constexpr std::size_t kMostUnpacked = std::size_t{1} << 30;  // bytes of all packed files of a set

/// A Feature: bytes_list = 1 or int64_list = 3, whose value = 1.
struct Feature {
  ProtoField bytes;                     // the first text
  std::optional<std::int64_t> integer;  // or the first number
  std::int64_t values = 0;              // how many there are
};

Feature read_feature(const Bytes& file, const ProtoField& part) {
  Feature feature;
  ProtoReader kinds(file, part);
  for (ProtoField kind = kinds.next(); kind.number != 0; kind = kinds.next()) {
    if (!kind.is_part || (kind.number != 1 && kind.number != 3)) continue;
    const auto add_number = [&](std::uint64_t number) {
      if (feature.values++ == 0) feature.integer = static_cast<std::int64_t>(number);
    };
    ProtoReader values(file, kind);
    for (ProtoField value = values.next(); value.number != 0; value = values.next()) {
      if (value.number != 1) continue;
      if (kind.number == 1) {
        if (value.is_part && feature.values++ == 0) feature.bytes = value;
      } else if (!value.is_part) {
        add_number(value.value);
      } else {
        ProtoReader packed(file, value);
        while (const auto number = packed.next_varint()) add_number(*number);
      }
    }
  }
  return feature;
}

/// Reads Example: features = 1, whose map feature = 1 has key = 1 and value = 2.
void read_example(const Bytes& file, TfRecord& record) {
  std::optional<std::int64_t> number, plain_number;
  std::string word;
  ProtoReader example(file, record.offset, record.offset + record.size);
  for (ProtoField features = example.next(); features.number != 0; features = example.next()) {
    if (features.number != 1 || !features.is_part) continue;
    ProtoReader map(file, features);
    for (ProtoField entry = map.next(); entry.number != 0; entry = map.next()) {
      if (entry.number != 1 || !entry.is_part) continue;
      std::string key;
      ProtoField value;
      ProtoReader pair(file, entry);
      for (ProtoField part = pair.next(); part.number != 0; part = pair.next()) {
        if (part.number == 1 && part.is_part) key = text_of(file, part, kMostKey);
        if (part.number == 2 && part.is_part) value = part;
      }
      const bool is_image = key == "image/encoded" || (key == "image" && record.image_size == 0);
      const bool is_label = key == "image/class/text" || key == "image/class/label" || key == "image/label" ||
                            key == "label";
      if (value.number == 0 || (!is_image && !is_label)) continue;
      const Feature feature = read_feature(file, value);
      if (is_image) record.image_offset = feature.bytes.offset, record.image_size = feature.bytes.size;
      if (!is_label) continue;
      if (feature.values > 1)
        fail(Fault::data, key, " has ", feature.values,
             " values, where an image has one class; write its number or name alone, and no one-hot row");
      if (feature.bytes.size > 0 && word.empty()) word = text_of(file, feature.bytes, kMostText);
      if (feature.integer) (key == "image/class/label" ? number : plain_number) = feature.integer;
    }
  }
  if (!number) number = plain_number;
  // The text is what a person calls the class; where there is none the number is.
  record.label = !word.empty() ? word : number ? text(*number) : "";
}

/// Whether the data are what their checksum says; `whole` is data and checksum.
bool data_holds(std::span<const std::byte> whole) {
  const std::size_t size = whole.size() - kFooter;
  return masked_crc32c(whole.first(size)) == little(as_text(whole), size, 4);
}

class TfRecordSource : public Source {
 public:
  struct Item {
    FilePart record;
    std::uint64_t image_offset = 0, image_size = 0;
  };
  /// `unpacked`: the contents of the files that are packed, by their numbers.
  TfRecordSource(std::vector<std::string> files, std::map<std::size_t, std::vector<std::byte>> unpacked,
                 std::vector<Item> items)
      : files_(std::move(files)), unpacked_(std::move(unpacked)), items_(std::move(items)) {}

  std::string name(std::int64_t item) const override {
    const Item& of = items_[item];
    return text(files_[of.record.file], "[byte ", of.record.offset, "]");
  }
  StoredImage read(std::int64_t item, std::vector<std::byte>& buffer) const override {
    const auto& [record, image_offset, image_size] = items_[item];
    const auto packed = unpacked_.find(record.file);
    const std::span<const std::byte>
        whole = packed == unpacked_.end() ? read_part(files_[record.file], record.offset, record.size + kFooter, buffer)
                                          : std::span(packed->second).subspan(record.offset, record.size + kFooter);
    if (!data_holds(whole))
      fail(Fault::data, "the record's checksum does not hold; the file is damaged: download it again");
    return {whole.subspan(image_offset - record.offset, image_size), {}};
  }

 private:
  std::vector<std::string> files_;
  std::map<std::size_t, std::vector<std::byte>> unpacked_;
  std::vector<Item> items_;
};

/// The content of a file that gzip packed, at most `most` bytes. Throws Error(data) where it is damaged or
/// more.
std::vector<std::byte> unpacked(const std::string& path, std::size_t most) {
  constexpr std::size_t kPiece = 1 << 20;
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) fail(Fault::data, path, ": cannot read; check that the file is readable");
  std::vector<std::byte> bytes;
  for (std::size_t size = 0;; size = bytes.size()) {
    bytes.resize(size + kPiece);
    const int count = gzread(file.get(), bytes.data() + size, kPiece);
    int code = Z_OK;
    const char* reason = gzerror(file.get(), &code);
    if (count < 0 || (code != Z_OK && code != Z_STREAM_END))
      fail(Fault::data, path, ": cannot be unpacked: ", reason, "; it is damaged: download it again");
    bytes.resize(size + static_cast<std::size_t>(count));
    if (bytes.size() > most)
      fail(Fault::data, path,
           ": is packed, which has no random access, and too large to hold unpacked in "
           "memory (",
           most, " bytes are left of ", kMostUnpacked, "); unpack it once with gunzip");
    if (count == 0) return bytes;
  }
}

/// The name without -00000-of-00010 at its end; all of it where it ends otherwise.
std::string_view without_number(std::string_view name) {
  std::string_view rest = name;
  for (const std::string_view before : {"-of-", "-"}) {
    const std::size_t size = rest.find_last_not_of("0123456789") + 1;  // 0 where there are digits alone
    if (size == rest.size() || !rest.substr(0, size).ends_with(before)) return name;
    rest = rest.substr(0, size - before.size());
  }
  return rest;
}

/// x.tfrecord and x.tfrecords, also with -00000-of-00010 or .gz or both after it, but no index or checksum of
/// one; and of other names those that end in -00000-of-00010.
bool is_record_file(const fs::path& file) {
  const std::string name = file.filename().string();
  const std::size_t packing = name.ends_with(".gz") ? 3 : 0;
  const std::string_view kind = without_number(std::string_view(name).substr(0, name.size() - packing));
  return kind.ends_with(".tfrecord") || kind.ends_with(".tfrecords") || without_number(name).size() < name.size();
}

std::vector<std::string> record_files(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error))
    return fs::is_regular_file(path, error) && is_record_file(path) ? std::vector<std::string>{path}
                                                                    : std::vector<std::string>{};
  return shards_in(path, is_record_file);
}

}  // namespace

TfRecordIndex index_tfrecord(const Bytes& file) {
  TfRecordIndex index;
  std::vector<std::byte> header(kHeader);
  std::uint64_t at = 0;
  try {
    while (at < file.size) {
      if (file.size - at < kHeader + kFooter) fail(Fault::data, "a record is cut off");
      file.read(at, header);
      TfRecord record{at + kHeader, little(as_text(header), 0, 8)};
      if (masked_crc32c(std::span(header).first(8)) != little(as_text(header), 8, 4))
        fail(Fault::data, "the checksum of a length does not hold");
      if (record.size > file.size - at - kHeader - kFooter) fail(Fault::data, "a record is cut off");
      try {
        if (record.size > kMostPart - kFooter)
          fail(Fault::data, "its ", record.size, " bytes are above the limit of ", kMostPart);
        read_example(file, record);
      } catch (const Error& error) {
        record.image_size = 0;  // only this one is damaged, as the next one's place is known
        if (index.reason.empty()) index.reason = text("the record at byte ", at, ": ", error.what());
      }
      const bool whole = record.image_size > 0 && !record.label.empty();
      index.others += !whole;
      at += kHeader + record.size + kFooter;
      if (whole) index.records.push_back(std::move(record));
    }
  } catch (const Error& error) {
    index.damage = text(error.what(), ", in the record at byte ", at);
  }
  return index;
}

bool is_tfrecord(const std::string& path) { return !record_files(path).empty(); }

Listing open_tfrecord(const std::string& path, const DatasetOptions& options) {
  std::vector<std::string> files = record_files(path);
  std::vector<std::string> notes, lost;  // lost: what is left out of the files
  const std::vector<Split> splits = splits_of(files, path, notes);
  check_all_there(files, path);
  Gathered items;
  std::vector<TfRecordSource::Item> found;
  std::string damage;
  std::int64_t others = 0;
  std::string other;
  std::set<std::string> labels;
  std::vector<std::byte> buffer;
  std::map<std::size_t, std::vector<std::byte>> packed;  // unpacked contents by the number of the file
  std::size_t left = kMostUnpacked;
  for (std::size_t f = 0; f < files.size(); ++f) {
    Bytes bytes = bytes_of_file(files[f]);
    std::vector<std::byte> magic(std::min<std::uint64_t>(bytes.size, 2));
    bytes.read(0, magic);
    if (as_text(magic) == "\x1F\x8B") {
      packed[f] = unpacked(files[f], left);
      left -= packed[f].size();
      bytes = bytes_in_memory(packed[f]);
    }
    const TfRecordIndex index = index_tfrecord(bytes);
    if (!index.damage.empty()) {
      lost.push_back(text("error: ", files[f], ": ", index.damage, "; the ", index.records.size(),
                          " samples before it are used: download it again"));
      if (damage.empty()) damage = text(files[f], ": ", index.damage);
    }
    if (index.others > 0 && others == 0) other = index.reason.empty() ? files[f] : text(files[f], ", ", index.reason);
    others += index.others;
    for (const TfRecord& record : index.records) {
      // No damaged record may bring in a class; where its label is a known one, reading it finds the damage.
      if (!labels.contains(record.label)) {
        buffer.resize(record.size + kFooter);
        bytes.read(record.offset, buffer);
        if (!data_holds(buffer)) {
          if (others++ == 0) other = files[f];
          continue;
        }
        labels.insert(record.label);
      }
      items.add(splits[f], record.label);
      found.push_back({{f, record.offset, record.size}, record.image_offset, record.image_size});
    }
  }
  note_count(lost, others, "records are damaged or lack an image or its one label and are left out, in files", other);
  if (found.empty())
    fail(Fault::data, path, ": no record has image/encoded and image/class/label or image/class/text",
         lost.empty() ? "" : text(" (", lost[0], ")"), "; write tf.train.Example with these keys");
  Listing listing = items.finish(path, options);
  for (const auto& more : {lost, notes}) listing.notes.insert(listing.notes.end(), more.begin(), more.end());
  listing.damage = damage;
  listing.source = std::make_shared<TfRecordSource>(std::move(files), std::move(packed), std::move(found));
  return listing;
}

}  // namespace neurim
