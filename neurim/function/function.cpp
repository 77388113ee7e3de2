#include "neurim/function/function.h"

#include <algorithm>
#include <map>
#include <set>

#include "neurim/base/error.h"
#include "neurim/graph/value.h"

namespace neurim {

namespace {

constexpr const char *kFormat = "neurim_function", *kGraph = "graph";

void check_names(const std::vector<std::string>& names, std::string_view what) {
  std::set<std::string> known;
  for (const std::string& name : names)
    require(!name.empty() && known.insert(name).second, "function: '", name, "' is no name of an ", what,
            ", or that of two");
}

std::vector<Function::Port> ports(const Graph& graph, const std::vector<int>& values,
                                  const std::vector<std::string>& names) {
  std::vector<Function::Port> all;
  for (std::size_t i = 0; i < values.size(); ++i) all.push_back({names[i], graph.values[values[i]].type});
  return all;
}

std::vector<std::string> input_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const int value : graph.inputs) names.push_back(graph.values[value].name);
  return names;
}

}  // namespace

std::vector<Function::Port> Function::input_ports() const { return ports(graph, graph.inputs, input_names(graph)); }
std::vector<Function::Port> Function::output_ports() const { return ports(graph, graph.outputs, outputs); }

Function trace_function(const std::function<Tensors(Tensors)>& function, const std::vector<Function::Port>& inputs,
                        const std::vector<std::string>& outputs, Metadata metadata, Device device) {
  const Untraced untraced;
  Trace trace({.device = device});
  Tensors in;
  for (const Function::Port& input : inputs) in.push_back(trace.input(input.type, input.name));
  Function traced{trace.finish(function(in)), outputs, std::move(metadata)};
  check_names(input_names(traced.graph), "input");
  check_names(outputs, "output");
  require(outputs.size() == traced.graph.outputs.size(), "function: ", outputs.size(), " names for ",
          traced.graph.outputs.size(), " outputs");
  return traced;
}

void write_function(const Function& function, const fs::path& path) {
  Metadata metadata = function.metadata;
  metadata[kFormat] = kFunctionFormat;
  metadata[kGraph] = function.graph.text(function.outputs);
  write_safetensors(path, stored_tensors(function.graph), metadata, true);
}

bool is_function(const Metadata& metadata) { return metadata.count(kFormat) > 0; }

Function read_function(const fs::path& path, Device device) { return read_function(read_state_dict(path), device); }

Function read_function(const StateDict& file, Device device) {
  const auto said = [&](const char* key) -> const std::string& {
    const auto found = file.metadata.find(key);
    if (found == file.metadata.end())
      fail(Fault::data, file.path.string(), ": is no function file, as its metadata have no '", key, "'");
    return found->second;
  };
  if (said(kFormat) != kFunctionFormat)
    fail(Fault::data, file.path.string(), ": is a function file of format ", said(kFormat), ", this version reads ",
         kFunctionFormat, "; use a newer Neurim");
  std::map<std::string, Tensor> tensors;
  const auto stored = [&](const std::string& name, const Type& type) {
    Tensor& tensor = tensors[name];
    if (!tensor) {
      const auto entry = file.entries.find(name);
      require(entry != file.entries.end(), "the file has no tensor '", name, "'");
      require(entry->second.type == type, "the tensor '", name, "' of the file is ", entry->second.type, ", not ",
              type);
      tensor = entry->second.load(device);
      tensor.set_name(name);
    }
    return tensor;
  };
  try {
    ParsedGraph parsed = parse_graph(said(kGraph), stored, device);
    for (const std::string& name : file.names())
      require(tensors.count(name) > 0, "no line reads the tensor '", name, "'");
    Function function{std::move(parsed.graph), std::move(parsed.outputs), file.metadata};
    check_names(input_names(function.graph), "input");
    check_names(function.outputs, "output");
    function.metadata.erase(kGraph);
    function.metadata.erase(kFormat);
    return function;
  } catch (const Error& error) {
    if (error.fault() == Fault::resource) throw;
    fail(Fault::data, file.path.string(), ": ", error.what(), "; use another copy, or a newer Neurim");
  }
}

}  // namespace neurim
