// WebDataset: samples in tar archives (github.com/webdataset/webdataset, "The WebDataset Format").
#include "neurim/data/sources/tar.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <nlohmann/json.hpp>

#include "neurim/base/error.h"
#include "neurim/data/path_pattern.h"

namespace neurim {
namespace {

constexpr std::uint64_t kBlock = 512;
constexpr std::uint64_t kMostName = 1 << 20;   // bytes of a long name or a pax header
constexpr std::uint64_t kMostLabel = 1 << 20;  // bytes of a .cls or .json
constexpr std::uint64_t kMostShards = 1'000'000;
constexpr std::uint64_t kMostPadding = 16 << 20;  // bytes of 0 after the end of an archive

/// A number field: octal digits, or big-endian binary where the first bit is set (GNU).
std::optional<std::uint64_t> number(std::string_view field) {
  std::uint64_t value = 0;
  if (static_cast<unsigned char>(field[0]) & 0x80) {
    if (field[0] != '\x80') return {};  // negative, or beyond any file
    for (const char c : field.substr(1)) {
      if (value >> 55) return {};
      value = value << 8 | static_cast<unsigned char>(c);
    }
    return value;
  }
  const std::size_t begin = std::min(field.find_first_not_of(' '), field.size());
  const std::size_t end = std::min(field.find_first_of(std::string_view(" \0", 2), begin), field.size());
  for (const char c : field.substr(begin, end - begin)) {
    if (c < '0' || c > '7') return {};
    value = value << 3 | static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

std::string_view text_field(std::string_view field) { return field.substr(0, field.find('\0')); }

bool checksum_holds(std::string_view header) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i)
    sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(header[i]);  // its own field counts as blanks
  return number(header.substr(148, 8)) == sum;
}

/// What pax headers and GNU's long names say of the next member.
struct Extended {
  std::optional<std::string> name;
  std::optional<std::uint64_t> size;
};

/// The records "LENGTH KEY=VALUE\n"; false where they are damaged.
bool read_pax(std::string_view records, Extended& extended) {
  while (!records.empty() && records[0] != '\0') {
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(records.data(), records.data() + records.size(), length);
    const auto digits = static_cast<std::size_t>(end - records.data());
    if (error != std::errc() || length > records.size() || length < digits + 3 || records[digits] != ' ' ||
        records[length - 1] != '\n')
      return false;
    const std::string_view record = records.substr(digits + 1, length - digits - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") extended.name = std::string(value);
    if (key == "size") {
      std::uint64_t size = 0;
      const auto [stop, wrong] = std::from_chars(value.data(), value.data() + value.size(), size);
      if (wrong != std::errc() || stop != value.data() + value.size()) return false;
      extended.size = size;
    }
    records.remove_prefix(length);
  }
  return true;
}

/// Whether there is more than padding from `at` on.
bool goes_on(const Bytes& archive, std::uint64_t at) {
  constexpr std::uint64_t most = 1 << 16;  // read at once
  const std::uint64_t end = std::min(archive.size, at + kMostPadding);
  for (std::vector<std::byte> bytes; at < end; at += bytes.size()) {
    bytes.resize(std::min(most, end - at));
    archive.read(at, bytes);
    if (as_text(bytes).find_first_not_of('\0') != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace

TarIndex index_tar(const Bytes& archive) {
  TarIndex index;
  std::vector<std::byte> block(kBlock), body;
  Extended extended;
  std::uint64_t at = 0;
  const auto damage = [&](std::string_view what, std::string_view fix = "download it again") {
    index.damage = text(what, " at byte ", at);
    index.fix = fix;
    return index;
  };
  while (true) {
    if (archive.size - at < kBlock) return damage("it is cut off");
    archive.read(at, block);
    const std::string_view header = as_text(block);
    if (header.find_first_not_of('\0') == std::string_view::npos) {  // the end of the archive
      if (!goes_on(archive, at + kBlock)) return index;
      return damage("other bytes follow the archive, which ends",
                    "give each archive as a file of its own, or join them with tar -A, not with cat");
    }
    if (!checksum_holds(header)) return damage("a header is damaged");
    std::optional<std::uint64_t> size = number(header.substr(124, 12));
    const char kind = header[156];
    const bool plain = kind == '0' || kind == '\0' || kind == '7';
    if (plain && extended.size) size = extended.size;
    if (!size) return damage("a header has no size");
    const std::uint64_t begin = at + kBlock;
    if (*size > archive.size - begin) return damage("a member is cut off");
    if (kind == 'x' || kind == 'L') {
      if (*size > kMostName) return damage("a member's name is too long");
      body.resize(*size);
      archive.read(begin, body);
      if (kind == 'L') {
        extended.name = std::string(text_field(as_text(body)));
      } else if (!read_pax(as_text(body), extended)) {
        return damage("a pax header is damaged");
      }
    } else if (plain) {
      std::string name(text_field(header.substr(0, 100)));
      // In GNU's own format, "ustar" and two blanks, these bytes are others.
      if (const auto prefix = text_field(header.substr(345, 155));
          header.substr(257, 6) == std::string_view("ustar\0", 6) && !prefix.empty())
        name = text(prefix, "/", name);
      name = extended.name.value_or(name);
      extended = {};
      if (!name.ends_with('/')) index.members.push_back({std::move(name), begin, *size});
    } else if (kind != 'g' && kind != 'K') {
      extended = {};  // a folder, a link or a device
      if (kind == 'S') return damage("a sparse file, which is not read, stands");
    }
    const std::uint64_t padded = *size + (kBlock - *size % kBlock) % kBlock;
    if (padded > archive.size - begin) return damage("it is cut off");
    at = begin + padded;
  }
}

namespace {

/// The members of one sample.
struct Sample {
  std::string key;  // what its members are called before their kinds
  const TarMember* image = nullptr;
  const TarMember* cls = nullptr;
  const TarMember* json = nullptr;
  bool repeated = false;  // two members are of one kind
  int image_rank = 0;
  int images = 0;  // of that rank
};

/// How likely an image of that kind is the one of its sample, 0 the most: .jpg, .depth.png, .npy, .emb.npy.
int rank_of(std::string_view kind) { return (kind.ends_with(".npy") ? 2 : 0) + (kind.rfind('.') > 0 ? 1 : 0); }

/// The name up to its first dot, folder and all; "" of a hidden member and of one without a dot.
std::string first_part(const std::string& name) {
  const std::size_t base = name.rfind('/') + 1;  // 0 without a slash
  const std::size_t dot = name.find('.', base);
  return dot == base || dot == std::string::npos ? "" : name.substr(0, dot);
}

bool is_label(const std::string& kind) { return kind == ".cls" || kind == ".json"; }

/// Adds the samples of neighbours that are called the same up to their first dot. That is one sample, unless labels say
/// that names have dots: then a member is of the longest name of a label that its own begins with, or has a name of its
/// own.
void add_samples(std::span<const TarMember> members, const std::string& first, std::vector<Sample>& samples) {
  constexpr int kMostDots = 64;  // of a name that are looked at
  std::set<std::string_view> labelled, images;
  for (const TarMember& member : members) {
    const std::string_view name(member.name), stem = name.substr(0, name.rfind('.'));
    if (is_label(lower(name.substr(stem.size())))) labelled.insert(stem);
    if (is_image(member.name)) images.insert(name);
  }
  const bool plain = labelled.empty() || labelled.contains(first);
  std::erase_if(labelled, [&](std::string_view stem) {  // the sample of no image
    const std::string begin = text(stem, '.');
    const auto image = images.lower_bound(begin);
    return image == images.end() || !image->starts_with(begin);
  });
  std::map<std::string_view, std::size_t> numbers;  // of the samples
  std::map<std::string_view, std::set<std::string>> kinds;
  for (const TarMember& member : members) {
    const std::string_view name(member.name);
    std::size_t dot = name.rfind('.');
    std::string_view key = plain ? std::string_view(first) : name.substr(0, dot);
    for (int i = 0; i < kMostDots && dot != name.npos && dot >= first.size(); ++i, dot = name.rfind('.', dot - 1))
      if (labelled.contains(name.substr(0, dot))) {
        key = name.substr(0, dot);
        break;
      }
    const auto [number, is_new] = numbers.emplace(key, samples.size());
    if (is_new) samples.push_back({std::string(key)});
    Sample& sample = samples[number->second];
    const std::string kind = lower(member.name.substr(key.size()));
    if (!kinds[key].insert(kind).second) sample.repeated = true;
    if (kind == ".cls") sample.cls = &member;
    if (kind == ".json") sample.json = &member;
    if (!is_image(member.name)) continue;
    const int rank = rank_of(kind);
    if (!sample.image || rank < sample.image_rank) sample.image = &member, sample.image_rank = rank, sample.images = 0;
    sample.images += rank == sample.image_rank;
  }
}

std::vector<Sample> samples_of(const TarIndex& index) {
  std::vector<Sample> samples;
  const std::span<const TarMember> members(index.members);
  for (std::size_t begin = 0, end = 0; begin < members.size(); begin = end) {
    const std::string first = first_part(members[begin].name);
    for (end = begin + 1; end < members.size() && first_part(members[end].name) == first;) ++end;
    if (!first.empty()) add_samples(members.subspan(begin, end - begin), first, samples);
  }
  return samples;
}

/// The label that a member holds, one of .cls without blanks around it; "" where it holds none.
std::string label_in(const TarMember& member, const Bytes& archive, bool json) {
  if (member.size > kMostLabel) return "";
  std::vector<std::byte> bytes(member.size);
  archive.read(member.offset, bytes);
  std::string label(as_text(bytes));
  if (json) {
    const auto object = nlohmann::json::parse(label, nullptr, false);
    label.clear();
    if (!object.is_object()) return "";
    for (const char* key : {"label", "class", "cls"})
      if (const auto found = object.find(key);
          label.empty() && found != object.end() && !found->is_structured() && !found->is_null())
        label = found->is_string() ? found->get<std::string>() : found->dump();
    return label;
  }
  const std::size_t begin = label.find_first_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : label.substr(begin, label.find_last_not_of(" \t\r\n") + 1 - begin);
}

class TarSource : public Source {
 public:
  struct Item {
    FilePart part;
    std::string name;
  };
  TarSource(std::vector<std::string> shards, std::vector<Item> items)
      : shards_(std::move(shards)), items_(std::move(items)) {}

  std::string name(std::int64_t item) const override {
    const Item& of = items_[item];
    return text(shards_[of.part.file], "[", of.name, "]");
  }
  StoredImage read(std::int64_t item, std::vector<std::byte>& buffer) const override {
    const FilePart& part = items_[item].part;
    return {read_part(shards_[part.file], part.offset, part.size, buffer), {}};
  }

 private:
  std::vector<std::string> shards_;
  std::vector<Item> items_;
};

bool is_packed_tar(const fs::path& file) {
  const std::string name = lower(file.filename().string());
  for (const char* ending : {".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst"})
    if (ends_with(name, ending)) return true;
  return false;
}

bool is_shard(const fs::path& file) { return ends_with(file.filename().string(), ".tar"); }

/// The files that a pattern PREFIX{FIRST..LAST}SUFFIX stands for; empty where `path` is none. Braces of folders that
/// are there are no pattern.
std::vector<std::string> expand(const std::string& path) {
  const std::size_t open = path.find('{', written_part(path)), dots = path.find("..", open),
                    close = path.find('}', open);
  if (open == std::string::npos || dots == std::string::npos || close == std::string::npos || dots > close) return {};
  const std::string low = path.substr(open + 1, dots - open - 1), high = path.substr(dots + 2, close - dots - 2);
  std::uint64_t first = 0, last = 0;
  for (const auto& [word, value] : {std::pair{&low, &first}, std::pair{&high, &last}}) {
    const auto [end, error] = std::from_chars(word->data(), word->data() + word->size(), *value);
    if (error != std::errc() || end != word->data() + word->size()) return {};
  }
  require(first <= last && last - first < kMostShards, path, ": the pattern counts from ", first, " to ", last,
          "; give the smaller number first, and at most ", kMostShards, " shards");
  std::vector<std::string> found;
  for (std::uint64_t i = first; i <= last; ++i) {
    std::string word = text(i);
    if (word.size() < low.size()) word.insert(0, low.size() - word.size(), '0');
    found.push_back(text(path.substr(0, open), word, path.substr(close + 1)));
  }
  return found;
}

std::vector<std::string> shards_of(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return shards_in(path, is_shard);
  return fs::exists(path, error) ? std::vector<std::string>{path} : expand(path);
}

}  // namespace

bool is_tar(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error))
    return !shards_in(path, is_shard).empty() || !shards_in(path, is_packed_tar).empty();
  if (fs::is_regular_file(path, error)) return is_shard(path) || is_packed_tar(path);
  return (is_shard(path) || is_packed_tar(path)) && !expand(path).empty();
}

Listing open_tar(const std::string& path, const DatasetOptions& options) {
  std::vector<std::string> shards = shards_of(path);
  if (shards.empty() || is_packed_tar(shards[0]))
    fail(Fault::data, path,
         ": packed archives have no random access; unpack them once to plain .tar (gunzip, unxz, bunzip2, "
         "unzstd)");
  std::vector<std::string> notes, lost;  // lost: what is left out of the shards
  const std::vector<Split> splits = splits_of(shards, path, notes);
  check_all_there(shards, path);
  std::error_code error;
  if (fs::is_directory(path, error))
    if (const std::vector<std::string> packed = shards_in(path, is_packed_tar); !packed.empty())
      note_count(notes, std::ssize(packed),
                 "packed archives beside the shards are passed over (unpack them once to plain .tar)", packed[0]);
  Gathered items;
  std::vector<TarSource::Item> found;
  std::string damage;
  std::int64_t without_label = 0, without_image = 0, repeated = 0, several = 0, folders = 0;
  std::string no_label, no_image, a_repeated, a_several;
  for (std::size_t s = 0; s < shards.size(); ++s) {
    const Bytes archive = bytes_of_file(shards[s]);
    const TarIndex index = naming([&] { return shards[s]; }, [&] { return index_tar(archive); });
    if (!index.damage.empty()) {
      lost.push_back(text("error: ", shards[s], ": ", index.damage, "; the ", index.members.size(),
                          " members before it are used: ", index.fix));
      if (damage.empty()) damage = text(shards[s], ": ", index.damage);
    }
    for (const Sample& sample : samples_of(index)) {
      const std::string where = text(shards[s], "[", sample.key, "]");
      if (sample.repeated) {
        if (repeated++ == 0) a_repeated = where;
        continue;
      }
      std::string label;
      naming([&] { return where; },
             [&] {
               // A name says more than a number.
               if (sample.json) label = label_in(*sample.json, archive, true);
               if (label.empty() && sample.cls) label = label_in(*sample.cls, archive, false);
             });
      if (!sample.image) {
        if (!label.empty() && without_image++ == 0) no_image = where;
        continue;
      }
      if (label.empty()) {
        if (without_label++ == 0) no_label = where;
        folders += sample.key.find('/') != std::string::npos;
        continue;
      }
      if (sample.images > 1 && several++ == 0) a_several = where;
      items.add(splits[s], label);
      found.push_back({{s, sample.image->offset, sample.image->size}, sample.image->name});
    }
  }
  // Two samples of one name side by side: nothing tells which label is whose.
  note_count(lost, repeated, "samples have two members of one kind (name each sample once) and are left out",
             a_repeated);
  note_count(lost, without_label, "samples have no label in .cls or .json and are left out", no_label);
  note_count(lost, without_image, "samples have no image and are left out", no_image);
  if (found.empty())
    fail(Fault::data, path, ": no image with a label was found in ", shards.size(), " archives",
         lost.empty() ? "" : text(" (", lost[0], ")"), "; ",
         folders > 0 ? "this is a packed folder: unpack it with tar -xf and give that folder"
                     : "each sample is NAME.jpg and NAME.cls (or NAME.json with \"label\")");
  note_count(notes, several, "samples have several images, of which the first is used", a_several);
  Listing listing = items.finish(path, options);
  for (const auto& more : {lost, notes}) listing.notes.insert(listing.notes.end(), more.begin(), more.end());
  listing.damage = damage;
  listing.source = std::make_shared<TarSource>(std::move(shards), std::move(found));
  return listing;
}

}  // namespace neurim
