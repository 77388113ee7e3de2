#include "neurim/weights/state_dict.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "neurim/base/error.h"
#include "neurim/base/json.h"
#include "neurim/weights/pytorch_file.h"

namespace neurim {

namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostIndex = 100'000'000;  // bytes, as of a safetensors header
constexpr std::string_view kIndexEnd = ".index.json";

StateDict all_of(const std::shared_ptr<const SafeTensors>& file) {
  file->check_data();
  StateDict dict{.path = file->path(), .metadata = file->metadata()};
  if (!file->has_checksums() && (dict.metadata.count("neurim") || dict.metadata.count("stamp")))
    dict.notes.push_back(
        "has no checksum, as an earlier version of Neurim wrote it, so damage to its values is not noticed");
  for (const std::string& name : file->names())
    dict.entries[name] = {file->type(name), [file, name](std::byte* host) {
                            const std::span<const std::byte> bytes = file->bytes(name);
                            std::copy(bytes.begin(), bytes.end(), host);
                          }};
  return dict;
}

/// One file of either kind.
StateDict read_weights(const fs::path& path) {
  return is_pytorch_file(MappedFile(path).bytes()) ? read_pytorch_file(path)
                                                   : all_of(std::make_shared<const SafeTensors>(path));
}

/// {"weight_map": {tensor: file}}, of files beside the index.
StateDict read_index(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (!error && size > kMostIndex) fail(Fault::data, path.string(), ": is too large for an index");
  const std::string content = read_text(path);
  naming([&] { return path.string(); }, [&] { check_json(content, 8); });
  const Json json = Json::parse(content);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    fail(Fault::data, path.string(), ": is no index of weights: it has no weight_map");
  StateDict dict{.path = path};
  std::map<std::string, StateDict> files;
  for (const auto& [name, file] : json["weight_map"].items()) {
    const std::string shard = file.is_string() ? file.get<std::string>() : std::string();
    if (shard.empty() || fs::path(shard).filename() != shard || shard == ".." || shard == ".")
      fail(Fault::data, path.string(), ": '", name, "' is not in a file beside the index; the index is damaged");
    auto found = files.find(shard);
    if (found == files.end()) found = files.emplace(shard, read_weights(path.parent_path() / shard)).first;
    const auto entry = found->second.entries.find(name);
    if (entry == found->second.entries.end())
      fail(Fault::data, path.string(), ": says that '", name, "' is in ", shard,
           ", which has no such tensor; get both again");
    dict.entries.emplace(name, entry->second);
  }
  for (const auto& [shard, held] : files)
    for (const auto& [name, entry] : held.entries)
      if (!dict.entries.count(name))
        dict.notes.push_back(text("passes over '", name, "' in ", shard, ", which the index does not list"));
  return dict;
}

}  // namespace

Tensor StateDict::Entry::load(Device device) const {
  std::vector<std::byte> data(bytes(type));
  read(data.data());
  return Tensor::from(type, data.data(), device);
}

std::vector<std::string> StateDict::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries) names.push_back(name);
  return names;
}

StateDict read_state_dict(const fs::path& path) {
  if (ends_with(path.filename().string(), kIndexEnd)) return read_index(path);
  return read_weights(path);
}

StateDict read_state_dict(std::span<const std::byte> safetensors, const fs::path& name) {
  return all_of(std::make_shared<const SafeTensors>(safetensors, name));
}

}  // namespace neurim
