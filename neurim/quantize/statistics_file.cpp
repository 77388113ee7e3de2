#include "neurim/quantize/statistics_file.h"

#include <cstdlib>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/base/xxh64.h"
#include "neurim/weights/state_dict.h"

namespace neurim {

namespace {

/// Names of the values that statistics are of.
std::map<int, std::string> names_of_values(const FloatModel& model) {
  std::map<int, std::string> names;
  for (const QuantLayer& layer : model.layers) {
    names.emplace(layer.x, layer.name + ".input");
    if (layer.beside >= 0) names.emplace(layer.beside, layer.name + ".beside");
  }
  return names;
}

/// Tells the weights of the layers from others.
std::string fingerprint(const FloatModel& model) {
  std::string bytes;
  for (const QuantLayer& layer : model.layers) {
    const std::vector<float> weight = model.function.graph.values[layer.weight].captured.values<float>();
    bytes.append(reinterpret_cast<const char*>(weight.data()), weight.size() * sizeof(float));
  }
  return xxh64_hex(std::as_bytes(std::span(bytes)));
}

}  // namespace

void write_statistics(const FloatModel& model, const KeptStatistics& statistics, const fs::path& path) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const auto& [value, name] : names_of_values(model)) {
    const ValueStatistics& one = statistics.values.at(value);
    const std::vector<std::int64_t> state = one.numbers.state();
    tensors.emplace_back(name + ".bins", Tensor::from({std::ssize(state)}, state));
    const double ends[] = {one.numbers.least(), one.numbers.most()};
    tensors.emplace_back(name + ".ends", Tensor::from({DType::f64, {2}}, ends));
    tensors.emplace_back(name + ".channel_most", Tensor::from({std::ssize(one.channel_most)}, one.channel_most));
    tensors.emplace_back(name + ".channel_mean",
                         Tensor::from({DType::f64, {std::ssize(one.channel_mean)}}, one.channel_mean.data()));
  }
  write_safetensors(path, tensors,
                    {{"neurim_statistics", "1"}, {"weights", fingerprint(model)}, {"images", text(statistics.images)}},
                    true);
}

KeptStatistics read_statistics(const FloatModel& model, const fs::path& path) {
  const StateDict file = read_state_dict(path);
  const auto said = [&](const char* key) {
    const auto found = file.metadata.find(key);
    return found == file.metadata.end() ? std::string() : found->second;
  };
  if (said("neurim_statistics") != "1")
    fail(Fault::data, path.string(), ": is no file of statistics; give another name, under which it is written");
  if (said("weights") != fingerprint(model))
    fail(Fault::data, path.string(), ": is of other weights; remove it, or give another name");
  return naming([&] { return path.string(); },
                [&] {
                  KeptStatistics out;
                  out.images = std::atoll(said("images").c_str());
                  for (const auto& [value, name] : names_of_values(model)) {
                    const auto values = [&, &name = name]<class T>(const char* part, DType dtype) {
                      const auto entry = file.entries.find(name + part);
                      if (entry == file.entries.end() || entry->second.type.dtype != dtype ||
                          entry->second.type.shape.rank() != 1)
                        fail(Fault::data, "lacks ", name, part, "; remove it");
                      return entry->second.load().values<T>();
                    };
                    const auto state = values.operator()<std::int64_t>(".bins", DType::i64);
                    const auto ends = values.operator()<double>(".ends", DType::f64);
                    if (ends.size() != 2) fail(Fault::data, "lacks ", name, ".ends; remove it");
                    try {
                      out.values[value] = {Observer::of(state, ends[0], ends[1]),
                                           values.operator()<float>(".channel_most", DType::f32),
                                           values.operator()<double>(".channel_mean", DType::f64)};
                    } catch (const Error& error) {
                      fail(Fault::data, name, ": ", error.what(), "; remove the file");
                    }
                  }
                  return out;
                });
}

}  // namespace neurim
