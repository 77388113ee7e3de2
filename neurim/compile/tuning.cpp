#include "neurim/compile/tuning.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "neurim/base/error.h"
#include "neurim/base/json.h"
#include "neurim/base/writable.h"
#include "neurim/compile/program.h"
#include "neurim/graph/value.h"
#include "neurim/hardware/isa.h"
#include "neurim/hardware/machine.h"

namespace neurim {

using Json = nlohmann::json;

namespace {

constexpr int kFormat = 1;

/// What has measured: choices of another processor, of other kernels or with fewer instructions are none of ours.
const std::string& measuring_machine() {
  static const std::string known = [] {
    const Machine machine = this_machine();
    std::string caches;
    for (const CpuCache& cache : machine.caches) caches += text(", L", cache.level, ' ', cache.bytes >> 10, " KiB");
    return text(machine.processor, " (", join(machine.features, " "), caches, "), ", name(isa()),
                has_bf16() ? ", bf16" : "", has_f16() ? ", fp16" : "", has_vnni() ? ", vnni" : "",
                has_dot_products() ? ", dot products" : "", ", neurim " NEURIM_VERSION);
  }();
  return known;
}

/// The content of a file of choices: {"format": 1, "machines": {machine: {request: kernel}}}.
Json content_of(const fs::path& file) {
  const std::string content = read_text(file);
  const auto fix = [&](std::string_view what) {
    fail(Fault::data, file.string(), ": ", what, "; name another file, or remove it to measure again");
  };
  try {
    check_json(content, 3);
  } catch (const Error& error) {
    fix(error.what());
  }
  const Json json = Json::parse(content);
  const auto is_map = [](const Json& value, bool (*is_member)(const Json&)) {
    return value.is_object() && std::all_of(value.begin(), value.end(), is_member);
  };
  if (!json.is_object() || !json.contains("machines") || json.value("format", Json()) != kFormat)
    fix(text("is no file of kernels that were measured, of format ", kFormat));
  if (!is_map(json["machines"], [](const Json& keys) { return keys.is_object(); }))
    fix("its machines are not objects of keys");
  for (const Json& keys : json["machines"])
    if (!is_map(keys, [](const Json& kernel) { return kernel.is_string(); })) fix("a kernel in it is no text");
  return json;
}

}  // namespace

void Tuning::read(const fs::path& file) {
  if (!is_there(file)) return;
  const Json json = content_of(file);
  const Json& machines = json["machines"];
  const auto own = machines.find(measuring_machine());
  if (own == machines.end()) return;
  for (const auto& [key, kernel] : own->items()) kernels_.emplace(key, kernel.get<std::string>());
}

void Tuning::write(const fs::path& file) const {
  Json json = is_there(file) ? content_of(file) : Json{{"format", kFormat}, {"machines", Json::object()}};
  Json& own = json["machines"][measuring_machine()];
  if (own.is_null()) own = Json::object();
  for (const auto& [key, kernel] : kernels_) own[key] = kernel;
  if (const fs::path folder = file.parent_path(); !folder.empty()) make_folder(folder);
  write_file(file, json.dump(1) + '\n');
}

fs::path Tuning::usual_file() { return cache_folder() / "tuning.json"; }

void Tuning::save() const {
  if (!file_.empty()) write(file_);
}

std::shared_ptr<Tuning> Tuning::named(std::string_view mode, const std::string& file, const fs::path& own) {
  require(mode == "off" || mode == "locked" || mode == "on", "tuning: there is no '", mode,
          "'; known are off, locked, on");
  require(mode != "off" || file.empty(), "tuning_file: is for tuning=on and tuning=locked");
  if (mode == "off") return nullptr;
  const fs::path path = file.empty() ? usual_file() : fs::path(file);
  const auto tuning = std::make_shared<Tuning>(mode == "on" ? Mode::measure : Mode::locked);
  const fs::path& known = !own.empty() && is_there(own) ? own : path;
  tuning->read(known);
  if (mode == "locked" && tuning->size() == 0)
    fail(Fault::data, known.string(), ": nothing in it was measured on this machine (", measuring_machine(),
         "); measure with tuning=on");
  if (mode == "on") {
    check_can_make(fs::absolute(path).parent_path());  // before minutes of measuring
    tuning->keep_in(path);
  }
  return tuning;
}

const std::string* Tuning::chosen(const std::string& key) const {
  const auto at = kernels_.find(key);
  return at == kernels_.end() ? nullptr : &at->second;
}

std::string tuning_key(const Graph& graph, int number, const LowerOptions& options) {
  const Graph::Node& node = graph.nodes[number];
  if (graph.multiply_adds(node) == 0) return {};
  std::string key = text(node.op->name(), ' ', attributes(*node.op));
  for (const int in : node.in) {
    const Graph::Value& value = graph.values[in];
    key += text(' ', value.type, value.captured && value.captured.value()->constant ? " constant" : "");
  }
  key += text(", ", options.chunks, options.chunks == 1 ? " piece" : " pieces");
  if (options.compute_dtype != DType::f32) key += text(", products ", options.compute_dtype);
  if (!options.winograd) key += ", no winograd";
  return graph.device == Device{} ? key : text(key, ", ", graph.device);
}

}  // namespace neurim
