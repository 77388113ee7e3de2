#include "neurim/model/state.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "neurim/base/error.h"

namespace neurim {

namespace {

/// One tensor and all names it has in the module.
struct Named {
  Tensor tensor;
  std::vector<std::string> names;
};

std::vector<Named> distinct_tensors(ModuleRef module) {
  std::vector<Named> found;
  std::unordered_map<const Value*, std::size_t> places;
  for (const Parameter& p : named_parameters(module)) {
    const auto [place, is_new] = places.emplace(p.tensor.value(), found.size());
    if (is_new) found.push_back({p.tensor, {}});
    found[place->second].names.push_back(p.name);
  }
  return found;
}

bool fits(const Type& file, const Type& module) {
  return file == module ||
         (file.shape == module.shape && module.dtype == DType::f32 && is_floating(file.dtype));
}

void fill_from(const SafeTensors& file, const std::string& name, const Tensor& tensor) {
  if (file.type(name) == tensor.type())
    tensor.write(file.bytes(name).data());
  else
    tensor.write(file.load(name).values<float>().data());
}

/// "; 2 missing (a, b)", or "" for an empty list; at most five are named.
std::string summary(std::vector<std::string> names, std::string_view what) {
  if (names.empty()) return {};
  const std::size_t count = names.size();
  if (count > 5) {
    names.resize(5);
    names.push_back("…");
  }
  return text("; ", count, ' ', what, " (", join(names, ", "), ")");
}

}  // namespace

void save_model(ModuleRef module, const fs::path& path, const Metadata& metadata) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const Named& named : distinct_tensors(module)) tensors.emplace_back(named.names.front(), named.tensor);
  write_safetensors(path, tensors, metadata);
}

Metadata load_model(ModuleRef module, const fs::path& path, bool strict) {
  const SafeTensors file(path);
  std::vector<std::pair<std::string, Tensor>> matches;
  std::vector<std::string> missing, unfit, left_over;
  std::unordered_set<std::string> known;
  for (const Named& named : distinct_tensors(module)) {
    known.insert(named.names.begin(), named.names.end());
    const auto source = std::find_if(named.names.begin(), named.names.end(),
                                     [&](const auto& name) { return file.has(name); });
    if (source == named.names.end())
      missing.push_back(named.names.front());
    else if (!fits(file.type(*source), named.tensor.type()))
      unfit.push_back(
          text(*source, ": ", file.type(*source), " in the file, ", named.tensor.type(), " here"));
    else
      matches.emplace_back(*source, named.tensor);
  }
  for (const std::string& name : file.names())
    if (!known.count(name) && !ends_with(name, ".num_batches_tracked")) left_over.push_back(name);

  if (strict && !(missing.empty() && unfit.empty() && left_over.empty()))
    fail(Fault::data, path.string(), ": does not fit the model", summary(missing, "missing from the file"),
         summary(unfit, "of another type"), summary(left_over, "left over in the file"),
         "; is it of another architecture or number of classes?");
  for (const auto& [name, tensor] : matches) fill_from(file, name, tensor);
  return file.metadata();
}

}  // namespace neurim
