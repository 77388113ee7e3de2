#include "neurim/model/state.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "neurim/base/error.h"
#include "neurim/model/model.h"
#include "neurim/model/positions.h"

namespace neurim {

namespace {

constexpr int kMostWrappers = 8;  // in each other; a name of a megabyte may begin with as many as it likes

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

bool is_counter(std::string_view name) {
  return name == "n_averaged" || name == "num_batches_tracked" || ends_with(name, ".num_batches_tracked");
}

/// What wrappers put before all names of a file, where the module's own names do not begin so.
std::string wrapping(const StateDict& weights, const std::vector<Named>& tensors) {
  const auto all_begin = [&](const std::string& prefix) {
    bool any = false;
    for (const auto& [name, entry] : weights.entries) {
      if (!is_counter(name) && !starts_with(name, prefix)) return false;
      any = any || !is_counter(name);
    }
    return any && !std::any_of(tensors.begin(), tensors.end(),
                               [&](const Named& n) { return starts_with(n.names.front(), prefix); });
  };
  std::string prefix;
  bool longer = true;
  for (int depth = 0; longer && depth < kMostWrappers; ++depth) {
    longer = false;
    for (const char* wrapper : {"module.", "_orig_mod."})
      if (all_begin(prefix + wrapper)) prefix += wrapper, longer = true;
  }
  return prefix;
}

/// The tensors under the names that another library gives them.
std::vector<Named> under_other_names(std::vector<Named> tensors, const Model& model) {
  for (Named& named : tensors)
    for (std::string& name : named.names)
      if (const auto other = model.other_names.find(name); other != model.other_names.end()) name = other->second;
  return tensors;
}

/// What the net computes itself under this name, or null.
const Tensor* computed(const Model& model, std::string_view name) {
  for (const auto& [end, tensor] : model.computed)
    if (ends_with(name, end)) return &tensor;
  return nullptr;
}

/// The weights without what the net computes itself, which is to be the same there, in a shape of any kind.
StateDict without_computed(StateDict weights, const Model& model) {
  std::erase_if(weights.entries, [&](const std::pair<const std::string, StateDict::Entry>& item) {
    const auto& [name, entry] = item;
    const Tensor* expected = computed(model, name);
    if (!expected) return false;
    if (entry.type.shape.numel() != expected->numel() || entry.load().values<double>() != expected->values<double>())
      fail(Fault::data, weights.path.string(), ": ", name, ' ', entry.type, " is not the ", expected->type(),
           " that the model computes; is the file of another architecture?");
    return true;
  });
  return weights;
}

/// How many of the tensors the weights have a name of.
std::ptrdiff_t found_in(const StateDict& weights, const std::vector<Named>& tensors) {
  const std::string prefix = wrapping(weights, tensors);
  return std::count_if(tensors.begin(), tensors.end(), [&](const Named& named) {
    return std::any_of(named.names.begin(), named.names.end(),
                       [&](const std::string& name) { return weights.entries.count(prefix + name) > 0; });
  });
}

/// Whether data of one type fill a tensor of the other, shapes aside.
bool converts(const Type& file, const Type& module) {
  const bool wide = module.dtype == DType::f32 || module.dtype == DType::f64;
  return file.dtype == module.dtype || (wide && is_floating(file.dtype));
}

/// The shape without its axes of size 1.
Shape squeezed(const Shape& shape) {
  Shape left;
  for (const std::int64_t size : shape)
    if (size != 1) left.push_back(size);
  return left;
}

/// Whether two libraries may have one tensor in these shapes: but for axes of size 1, or as a linear layer's weight
/// (out,in*kh*kw) and as a convolution's (out,in,kh,kw).
bool same_tensor(const Shape& a, const Shape& b) {
  const bool linear = a.rank() == 2 || b.rank() == 2;
  return squeezed(a) == squeezed(b) || (linear && a.rank() + b.rank() == 6 && a[0] == b[0] && a.numel() == b.numel());
}

/// Whether the shapes differ in the size of that axis alone.
bool differ_at(int axis, Shape a, const Shape& b) {
  if (a.rank() != b.rank() || a.rank() <= axis || a[axis] == b[axis]) return false;
  a[axis] = b[axis];
  return a == b;
}

/// The layer that a tensor belongs to: its name without what comes after the last dot.
std::string layer_of(const std::string& name) { return name.substr(0, name.rfind('.') + 1); }

/// The first tensor of four axes: the weights of the first convolution.
const Tensor* first_convolution(const std::vector<Named>& tensors) {
  for (const Named& named : tensors)
    if (named.tensor.rank() == 4) return &named.tensor;
  return nullptr;
}

/// w(out,in,kh,kw) -> (out,channels,kh,kw), as f32.
std::vector<float> with_channels(const Tensor& weights, std::int64_t channels) {
  const std::int64_t out = weights.size(0), in = weights.size(1), taps = weights.size(2) * weights.size(3);
  const std::vector<float> from = weights.values<float>();
  std::vector<float> to(out * channels * taps);
  const auto at = [&](std::int64_t o, std::int64_t c, std::int64_t of, std::int64_t t) {
    return (o * of + c) * taps + t;
  };
  const float scale = static_cast<float>(in) / static_cast<float>(channels);
  for (std::int64_t o = 0; o < out; ++o)
    for (std::int64_t t = 0; t < taps; ++t)
      if (channels == 1)
        for (std::int64_t c = 0; c < in; ++c) to[at(o, 0, 1, t)] += from[at(o, c, in, t)];
      else
        for (std::int64_t c = 0; c < channels; ++c) to[at(o, c, channels, t)] = from[at(o, c % in, in, t)] * scale;
  return to;
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

void require_fit(const LoadReport& report, const fs::path& file, Fit fit) {
  if (report.missing.empty() && report.unfit.empty() && report.unused.empty()) return;
  fail(Fault::data, file.string(), ": does not fit the model", summary(report.missing, "missing from the file"),
       summary(report.unfit, "of another type"), summary(report.unused, "left over in the file"),
       "; is it of another architecture", fit == Fit::exact ? " or number of classes?" : "?");
}

/// A tensor of the module and what of the file fills it.
struct Match {
  const Named* to;
  const std::pair<const std::string, StateDict::Entry>* from;
  std::vector<float> (*adapted)(const Tensor&, std::int64_t size) = nullptr;  // to this size of axis 1
};

/// `exponent` are the bits that are all set in what is infinite or no number.
template <class Bits>
void check_finite(const std::vector<std::byte>& data, Bits exponent, std::string_view name, const fs::path& file) {
  const auto bad_at = [&](std::size_t i) {
    Bits bits;
    std::memcpy(&bits, data.data() + i * sizeof bits, sizeof bits);
    return (bits & exponent) == exponent;
  };
  const std::size_t count = data.size() / sizeof(Bits);
  std::size_t bad = 0, first = 0;
  for (std::size_t i = 0; i < count; ++i) bad += bad_at(i);
  if (bad == 0) return;
  while (!bad_at(first)) ++first;
  fail(Fault::data, file.string(), ": ", bad, " of the ", count, " values of ", name,
       " are infinite or not a number, the first at index ", first,
       "; the training that wrote it diverged: use an earlier checkpoint, or train again with a lower lr");
}

/// The data of a tensor of the file, checked.
std::vector<std::byte> values_of(const std::pair<const std::string, StateDict::Entry>& from, const fs::path& file) {
  const auto& [name, entry] = from;
  std::vector<std::byte> data(bytes(entry.type));
  entry.read(data.data());
  switch (entry.type.dtype) {
    case DType::f64: check_finite<std::uint64_t>(data, 0x7FF0'0000'0000'0000, name, file); break;
    case DType::f32: check_finite<std::uint32_t>(data, 0x7F80'0000, name, file); break;
    case DType::bf16: check_finite<std::uint16_t>(data, 0x7F80, name, file); break;
    case DType::f16: check_finite<std::uint16_t>(data, 0x7C00, name, file); break;
    default: break;
  }
  return data;
}

void write(const Match& match, const fs::path& file) {
  const Tensor& to = match.to->tensor;
  const Type& type = match.from->second.type;
  const std::vector<std::byte> data = values_of(*match.from, file);
  if (match.adapted)
    to.write(match.adapted(Tensor::from(type, data.data()), to.size(1)).data());
  else if (type.dtype != to.dtype() && to.dtype() == DType::f64)
    to.write(Tensor::from(type, data.data()).values<double>().data());
  else if (type.dtype != to.dtype())
    to.write(Tensor::from(type, data.data()).values<float>().data());
  else
    to.write(data.data());
}

/// Fills the tensors from their names in the weights. `reshaped`: also from the other shapes of same_tensor. What
/// begins with a name of `passed_over` is left where it is.
LoadReport load(const std::vector<Named>& tensors, const StateDict& weights, Fit fit, bool reshaped = false,
                const std::vector<std::string>& passed_over = {}) {
  LoadReport report{
      .metadata = weights.metadata, .all = static_cast<std::int64_t>(tensors.size()), .notes = weights.notes};
  const std::string prefix = wrapping(weights, tensors);
  if (!prefix.empty()) report.notes.push_back(text("passes over '", prefix, "' before all names"));

  const std::string head = tensors.empty() ? std::string() : layer_of(tensors.back().names.front());
  const Tensor* const first = first_convolution(tensors);
  std::vector<Match> matches;
  std::unordered_set<std::string> known;
  std::string new_head;  // why the last layer is not taken
  for (const Named& named : tensors) {
    for (const std::string& name : named.names) known.insert(prefix + name);
    const Type& type = named.tensor.type();
    const auto source = std::find_if(named.names.begin(), named.names.end(),
                                     [&](const auto& name) { return weights.entries.count(prefix + name) > 0; });
    const bool in_head = fit == Fit::adapt && layer_of(named.names.front()) == head;
    if (source == named.names.end()) {
      if (in_head)
        new_head = text(named.names.front(), " is not in the file");
      else
        report.missing.push_back(named.names.front());
      continue;
    }
    const std::string name = prefix + *source;
    const auto& found = *weights.entries.find(name);
    const StateDict::Entry& entry = found.second;
    const bool converted = converts(entry.type, type);
    const std::string both = text(name, ": ", entry.type, " in the file, ", type, " here");
    if (converted && (entry.type.shape == type.shape || (reshaped && same_tensor(entry.type.shape, type.shape))))
      matches.push_back({&named, &found});
    else if (in_head && converted && differ_at(0, entry.type.shape, type.shape))
      new_head = both;
    else if (fit == Fit::adapt && &named.tensor == first && converted && type.dtype == DType::f32 &&
             differ_at(1, entry.type.shape, type.shape) && entry.type.shape[1] > 0) {
      matches.push_back({&named, &found, with_channels});
      report.notes.push_back(text("fits the first convolution to ", type.shape[1], " input channels: ", both));
    } else if (fit == Fit::adapt && converted && type.dtype == DType::f32 && are_positions(entry.type.shape) &&
               are_positions(type.shape) && differ_at(1, entry.type.shape, type.shape)) {
      matches.push_back({&named, &found, resampled_positions});
      report.notes.push_back(text("resamples position embeddings of images of another size: ", both));
    } else
      report.unfit.push_back(both);
  }
  std::set<std::string> passed;
  for (const auto& [name, entry] : weights.entries) {
    if (known.count(name) || is_counter(name)) continue;
    const auto begin = std::find_if(passed_over.begin(), passed_over.end(), [&, &name = name](const std::string& part) {
      return starts_with(name, prefix + part);
    });
    begin == passed_over.end() ? report.unused.push_back(name) : void(passed.insert(*begin));
  }
  for (const std::string& part : passed)
    report.notes.push_back(
        text("passes over '", part, "…', an auxiliary classifier for training, which this net leaves out"));
  if (!new_head.empty()) {
    std::erase_if(matches, [&](const Match& match) { return layer_of(match.to->names.front()) == head; });
    report.notes.push_back(text("the last layer starts anew: ", new_head));
  }

  if (fit != Fit::any) require_fit(report, weights.path, fit);
  for (const Match& match : matches)
    values_of(*match.from, weights.path);  // nothing changes before all are known to be good
  for (const Match& match : matches) write(match, weights.path);
  report.taken = static_cast<std::int64_t>(matches.size());
  return report;
}

}  // namespace

void save_model(ModuleRef module, const fs::path& path, const Metadata& metadata) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const Named& named : distinct_tensors(module)) tensors.emplace_back(named.names.front(), named.tensor);
  write_safetensors(path, tensors, metadata, true);
}

Ends ends_of(const Model& model, const StateDict& weights) {
  std::vector<Named> tensors = distinct_tensors(model);
  if (const std::vector<Named> others = under_other_names(tensors, model);
      found_in(weights, others) > found_in(weights, tensors))
    tensors = others;
  const std::string prefix = wrapping(weights, tensors);
  const auto shape_of = [&](const Named& named) -> const Shape* {
    for (const std::string& name : named.names)
      if (const auto found = weights.entries.find(prefix + name); found != weights.entries.end())
        return &found->second.type.shape;
    return nullptr;
  };
  const Shape* last = tensors.empty() ? nullptr : shape_of(tensors.back());
  if (!last || last->rank() == 0 || (*last)[0] == 0)
    fail(Fault::data, weights.path.string(), ": has no ", tensors.empty() ? "tensors" : tensors.back().names.front(),
         ", the last layer of ", model.name, ", which tells the number of classes; is it of another architecture?");
  Ends ends{(*last)[0], model.in_chans};
  const Tensor* const first = first_convolution(tensors);
  for (const Named& named : tensors)
    if (const Shape* shape = &named.tensor == first ? shape_of(named) : nullptr; shape && shape->rank() == 4)
      ends.channels = (*shape)[1];
  return ends;
}

LoadReport load_model(ModuleRef module, const StateDict& weights, Fit fit) {
  return load(distinct_tensors(module), weights, fit);
}

LoadReport load_model(const Model& model, const StateDict& given, Fit fit) {
  const StateDict weights = without_computed(given, model);
  std::vector<Named> tensors = distinct_tensors(model);
  std::erase_if(tensors, [&](const Named& named) { return computed(model, named.names.front()); });
  const std::vector<Named> others = under_other_names(tensors, model);
  for (Named& named : tensors)
    if (const auto older = model.older_names.find(named.names.front()); older != model.older_names.end())
      named.names.push_back(older->second);
  if (found_in(weights, others) <= found_in(weights, tensors))
    return load(tensors, weights, fit, false, model.passed_over);
  LoadReport report = load(others, weights, fit, true, model.passed_over);
  const auto& [here, there] = *model.other_names.begin();
  report.notes.push_back(text("has the names of another library, as ", there, " for ", here));
  return report;
}

LoadReport load_model(ModuleRef module, const fs::path& path, Fit fit) {
  return load_model(module, read_state_dict(path), fit);
}

LoadReport load_model(const Model& model, const fs::path& path, Fit fit) {
  return load_model(model, read_state_dict(path), fit);
}

const Model& place(const Model& model, Device device) {
  for (const Parameter& parameter : named_parameters(model)) parameter.tensor.place(device);
  return model;
}

Device device_of(const Model& model) {
  const Parameters parameters = named_parameters(model);
  return parameters.empty() ? Device() : parameters[0].tensor.device();
}

}  // namespace neurim
