#include "neurim/weights/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "neurim/base/bytes.h"
#include "neurim/base/error.h"
#include "neurim/base/json.h"
#include "neurim/base/xxh64.h"
#include "neurim/weights/other_kind.h"

namespace neurim {

namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the file's numbers are little-endian and read in place");

constexpr std::size_t kLengthBytes = 8, kMaxHeader = 100'000'000;
constexpr std::string_view kMetadata = "__metadata__";
constexpr const char *kHeaderSum = "xxh64_header", *kDataSum = "xxh64_data";
const std::string kNoSum(16, '0');  // in the place of the header's own

struct DTypeName {
  DType dtype;
  std::string_view name;
};
constexpr DTypeName kNames[] = {
    {DType::f64, "F64"}, {DType::f32, "F32"}, {DType::f16, "F16"},     {DType::bf16, "BF16"}, {DType::i64, "I64"},
    {DType::i32, "I32"}, {DType::i16, "I16"}, {DType::i8, "I8"},       {DType::u64, "U64"},   {DType::u32, "U32"},
    {DType::u16, "U16"}, {DType::u8, "U8"},   {DType::boolean, "BOOL"}};

std::string_view file_name(DType dtype) {
  const auto* row = std::find_if(std::begin(kNames), std::end(kNames),
                                 [&](const DTypeName& r) { return r.dtype == dtype; });
  NEURIM_ASSERT(row != std::end(kNames));
  return row->name;
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

/// Puts digits in the place of those that the header has as the checksum of that name, if it has them.
void put_sum(std::string& header, const char* name, const std::string& digits) {
  const std::string key = text('"', name, "\":\"");
  const std::size_t at = header.find(key);
  if (at != header.npos) header.replace(at + key.size(), digits.size(), digits);
}

[[noreturn]] void fail_sum(const fs::path& path, const char* what) {
  fail(Fault::data, path.string(), ": is damaged: its ", what,
       " is not what its checksum is of; use another copy (or, if a program changed the ",
       "file on purpose, take the metadata ", kHeaderSum, " and ", kDataSum, " out of it)");
}

/// The header as JSON: tensors by name, with lists in them.
Json parse_header(std::string_view header, const fs::path& path) {
  try {
    check_json(header, 3);
  } catch (const Error& error) {
    fail(Fault::data, path.string(), ": the header ", error.what(), "; the file is damaged or not safetensors");
  }
  return Json::parse(header);
}

std::uint64_t count(const Json& number, const std::string& where) {
  if (!number.is_number_unsigned() || number.get<std::uint64_t>() > INT64_MAX)
    fail(Fault::data, where, ": sizes and offsets must be integers from 0 to 2^63 - 1");
  return number.get<std::uint64_t>();
}

Metadata read_metadata(const Json& json, const std::string& where) {
  if (!json.is_object()) fail(Fault::data, where, " is not an object of strings");
  Metadata metadata;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) fail(Fault::data, where, ": the value of '", key, "' is not a string");
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

Type read_type(const Json& item, const std::string& where) {
  if (!item.is_object() || item.size() != 3 || !item.contains("dtype") || !item.contains("shape") ||
      !item.contains("data_offsets") || !item["dtype"].is_string() || !item["shape"].is_array())
    fail(Fault::data, where, ": a tensor has exactly a dtype, a shape and data_offsets");
  const std::string dtype = item["dtype"].get<std::string>();
  const auto* row = std::find_if(std::begin(kNames), std::end(kNames),
                                 [&](const DTypeName& r) { return r.name == dtype; });
  if (row == std::end(kNames))
    fail(Fault::data, where, ": dtype '", dtype, "' is not supported; convert it to F32 or I64");
  if (item["shape"].size() > Shape::kMaxRank)
    fail(Fault::data, where, ": has ", item["shape"].size(), " axes, at most ", Shape::kMaxRank, " are supported");
  Type type{row->dtype, {}};
  for (const Json& size : item["shape"]) type.shape.push_back(static_cast<std::int64_t>(count(size, where)));
  return type;
}

/// The bytes of a type from a file, whose sizes may be anything.
std::uint64_t checked_bytes(const Type& type, const std::string& where) {
  std::uint64_t total = static_cast<std::uint64_t>(bits(type.dtype)) / 8;
  for (const std::int64_t size : type.shape)
    if (__builtin_mul_overflow(total, static_cast<std::uint64_t>(size), &total))
      fail(Fault::data, where, ": shape ", type.shape, " is larger than any file");
  return total;
}

}  // namespace

SafeTensors::SafeTensors(const fs::path& path) : path_(path), file_(path), all_(file_->bytes()) { read_header(); }

SafeTensors::SafeTensors(std::span<const std::byte> bytes, const fs::path& name) : path_(name), all_(bytes) {
  read_header();
}

void SafeTensors::read_header() {
  const std::span<const std::byte> all = all_;
  std::uint64_t length = 0;
  if (!all.empty()) std::memcpy(&length, all.data(), std::min(all.size(), kLengthBytes));
  const bool begins_well = all.size() > kLengthBytes && length <= all.size() - kLengthBytes &&
                           as_text(all)[kLengthBytes] == '{';
  if (const std::string kind = begins_well ? "" : other_kind(all); !kind.empty())
    fail(Fault::data, path_.string(), ": ", kind);
  if (all.size() < kLengthBytes)
    fail(Fault::data, path_.string(), ": only ", all.size(), " bytes; not a safetensors file, or cut off");
  if (length > kMaxHeader)
    fail(Fault::data, path_.string(),
         ": is neither safetensors nor what torch.save writes, or is damaged: its header would be of ", length,
         " bytes, and the limit is ", kMaxHeader);
  if (length > all.size() - kLengthBytes)
    fail(Fault::data, path_.string(), ": claims a header of ", length, " bytes but has only ",
         all.size() - kLengthBytes, " after the length; the file is cut off");
  const std::string_view header = as_text(all).substr(kLengthBytes, length);
  const std::size_t data = kLengthBytes + length, data_bytes = all.size() - data;

  const Json json = parse_header(header, path_);
  if (!json.is_object() || header.front() != '{')
    fail(Fault::data, path_.string(), ": the header is not a JSON object; not a safetensors file");
  if (json.contains(kMetadata))
    metadata_ = read_metadata(json[std::string(kMetadata)], text(path_.string(), ": '", kMetadata, "'"));
  check_header(header);
  std::vector<std::pair<std::size_t, const std::pair<const std::string, Entry>*>> order;
  for (const auto& [name, item] : json.items()) {
    if (name == kMetadata) continue;
    const std::string where = text(path_.string(), ": '", name, "'");
    const Type type = read_type(item, where);
    const Json& offsets = item["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2) fail(Fault::data, where, ": data_offsets are not two numbers");
    const std::uint64_t begin = count(offsets[0], where), end = count(offsets[1], where);
    if (begin > end || end > data_bytes)
      fail(Fault::data, where, ": data_offsets [", begin, ", ", end, ") lie outside the ", data_bytes,
           " bytes of data; the file is cut off or damaged");
    if (checked_bytes(type, where) != end - begin)
      fail(Fault::data, where, ": ", type, " takes ", checked_bytes(type, where), " bytes but data_offsets give ",
           end - begin);
    order.emplace_back(begin, &*entries_.emplace(name, Entry{type, data + begin, data + end}).first);
  }

  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second->second.end) < std::pair(b.first, b.second->second.end);
  });
  std::size_t next = data;
  for (const auto& [begin, named] : order) {
    const Entry& entry = named->second;
    if (entry.begin != next)
      fail(Fault::data, path_.string(), ": '", named->first, "' ",
           entry.begin < next ? "overlaps the tensor before it" : "leaves a gap after the tensor before it",
           "; the file is damaged");
    next = entry.end;
  }
  if (next != all.size())
    fail(Fault::data, path_.string(), ": ", all.size() - next,
         " bytes after the last tensor belong to none; the file is damaged");
}

void SafeTensors::check_header(std::string_view header) {
  const auto own = metadata_.extract(kHeaderSum), of_data = metadata_.extract(kDataSum);
  if (!own && !of_data) return;
  std::string unsummed(header);
  put_sum(unsummed, kHeaderSum, kNoSum);
  // One checksum without the other: the name of the other one is damaged.
  if (!own || !of_data || xxh64_hex(bytes_of(unsummed)) != own.mapped()) fail_sum(path_, "header");
  data_sum_ = of_data.mapped();
}

void SafeTensors::check_data() const {
  if (!has_checksums()) return;
  std::size_t begin = all_.size();
  for (const auto& [name, entry] : entries_) begin = std::min(begin, entry.begin);
  if (xxh64_hex(all_.subspan(begin)) != data_sum_) fail_sum(path_, "data");
}

std::vector<std::string> SafeTensors::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

const SafeTensors::Entry& SafeTensors::entry(std::string_view name) const {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    const std::string near = nearest(name, names());
    fail(Fault::data, path_.string(), ": has no tensor '", name, "'", near.empty() ? "" : "; did you mean '", near,
         near.empty() ? "" : "'?");
  }
  return found->second;
}

std::span<const std::byte> SafeTensors::bytes(std::string_view name) const {
  const Entry& e = entry(name);
  return all_.subspan(e.begin, e.end - e.begin);
}

Tensor SafeTensors::load(std::string_view name, Device device) const {
  return Tensor::from(type(name), bytes(name).data(), device);
}

void write_safetensors(const fs::path& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                       const Metadata& metadata, bool checksums) {
  std::vector<const std::pair<std::string, Tensor>*> order;
  for (const auto& named : tensors) order.push_back(&named);
  // Widest elements first, and the header padded to 8 bytes: every tensor is aligned to its element.
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return bits(a->second.dtype()) > bits(b->second.dtype()); });

  Json json = Json::object();
  if (!metadata.empty() || checksums) json[std::string(kMetadata)] = metadata;
  if (checksums) json[std::string(kMetadata)].update({{kHeaderSum, kNoSum}, {kDataSum, kNoSum}});
  std::size_t end = 0;
  for (const auto* named : order) {
    const auto& [name, tensor] = *named;
    require(name != kMetadata, path.string(), ": '", name,
            "' is no name for a tensor; the format has another use for it");
    require(!json.contains(name), path.string(), ": cannot write two tensors under the name '", name, "'");
    const std::size_t begin = end;
    end += bytes(tensor.type());
    json[name] = {{"dtype", file_name(tensor.dtype())},
                  {"shape", std::vector<std::int64_t>(tensor.shape().begin(), tensor.shape().end())},
                  {"data_offsets", {begin, end}}};
  }
  std::string header;
  try {
    header = json.dump();
  } catch (const Json::exception&) {
    fail(Fault::usage, path.string(), ": a tensor name or a metadata string is not UTF-8");
  }
  header.resize((header.size() + 7) / 8 * 8, ' ');

  const std::uint64_t length = header.size();
  std::string file;
  file.reserve(kLengthBytes + header.size() + end);
  file.resize(kLengthBytes + header.size());
  for (const auto* named : order) {
    const std::size_t at = file.size();
    file.resize(at + bytes(named->second.type()));
    named->second.read(file.data() + at);
  }
  if (checksums) {
    put_sum(header, kDataSum, xxh64_hex(bytes_of(std::string_view(file).substr(kLengthBytes + header.size()))));
    put_sum(header, kHeaderSum, xxh64_hex(bytes_of(header)));
  }
  std::memcpy(file.data(), &length, kLengthBytes);
  header.copy(file.data() + kLengthBytes, header.size());
  write_file(path, file);
}

}  // namespace neurim
