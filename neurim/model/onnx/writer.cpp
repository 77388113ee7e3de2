#include "neurim/model/onnx/writer.h"

#include <algorithm>
#include <array>
#include <set>

#include "neurim/base/error.h"
#include "neurim/model/onnx/fold.h"
#include "onnx/onnx-data.pb.h"

namespace neurim {

struct OnnxProto {
  onnx::ModelProto model;
};

namespace {

constexpr std::int64_t kOldest = 13;
/// The version of the file format that came with each opset from the oldest one on.
constexpr std::array<std::int64_t, 11> kIrVersions{7, 7, 8, 8, 8, 8, 9, 9, 10, 10, 11};

/// Smaller tensors stay in the file, among them all shapes, which shape inference reads there.
constexpr std::size_t kLargeTensor = 1024;
/// Where data begin in the file beside it: pages can be mapped from there, on Windows too.
constexpr std::size_t kOffsetUnit = 65536;

template <class Entries>
void add_entry(Entries& entries, const std::string& key, const std::string& value) {
  auto& entry = *entries.Add();
  entry.set_key(key);
  entry.set_value(value);
}

void set_type(onnx::ValueInfoProto& value, const std::string& name, const Type& of) {
  value.set_name(name);
  auto& type = *value.mutable_type()->mutable_tensor_type();
  type.set_elem_type(static_cast<std::int32_t>(onnx_type(of.dtype)));
  auto& shape = *type.mutable_shape();
  for (const Dim size : of.shape) {
    auto& dim = *shape.add_dim();
    if (size.symbolic())
      dim.set_dim_param(text(size));
    else
      dim.set_dim_value(size);
  }
}

void set_attribute(onnx::AttributeProto& attribute, const OnnxAttribute& from) {
  attribute.set_name(from.first);
  if (const auto* number = std::get_if<std::int64_t>(&from.second)) {
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(*number);
  } else if (const auto* real = std::get_if<double>(&from.second)) {
    attribute.set_type(onnx::AttributeProto::FLOAT);
    attribute.set_f(static_cast<float>(*real));
  } else if (const auto* word = std::get_if<std::string>(&from.second)) {
    attribute.set_type(onnx::AttributeProto::STRING);
    attribute.set_s(*word);
  } else if (const auto* words = std::get_if<std::vector<std::string>>(&from.second)) {
    attribute.set_type(onnx::AttributeProto::STRINGS);
    for (const std::string& each : *words) attribute.add_strings(each);
  } else {
    attribute.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t each : std::get<std::vector<std::int64_t>>(from.second)) attribute.add_ints(each);
  }
}

}  // namespace

OnnxWriter::OnnxWriter(std::int64_t opset) : opset_(opset), file_(std::make_unique<OnnxProto>()) {
  const std::int64_t newest = kOldest + static_cast<std::int64_t>(kIrVersions.size()) - 1;
  require(opset >= kOldest && opset <= newest, "onnx: opset ", opset, " is not one of ", kOldest, " to ", newest);
  onnx::ModelProto& model = file_->model;
  model.set_ir_version(kIrVersions[opset - kOldest]);
  model.set_producer_name("neurim");
  auto& version = *model.add_opset_import();
  version.set_domain("");
  version.set_version(opset);
  model.mutable_graph()->set_name("neurim");
}

OnnxWriter::~OnnxWriter() = default;

void OnnxWriter::reserve(const std::string& name) {
  require(!name.empty() && taken_.emplace(name, 1).second, "onnx: '", name,
          "' is not a name, or names two inputs or outputs");
}

std::string OnnxWriter::fresh(std::string_view wish) {
  std::string name(wish);
  const auto at = taken_.find(wish);
  if (at != taken_.end()) do {
      name = text(wish, '_', ++at->second);
    } while (taken_.count(name));
  taken_.emplace(name, 1);
  return name;
}

void OnnxWriter::input(const std::string& name, const Type& type) {
  set_type(*file_->model.mutable_graph()->add_input(), name, type);
  for (int axis = 0; axis < type.shape.rank(); ++axis) symbols_.emplace(text(type.shape[axis]), std::pair{name, axis});
}

void OnnxWriter::output(const std::string& name, const Type& type) {
  set_type(*file_->model.mutable_graph()->add_output(), name, type);
}

void OnnxWriter::describe(const std::string& name, const Type& type) {
  set_type(*file_->model.mutable_graph()->add_value_info(), name, type);
  for (int axis = 0; axis < type.shape.rank(); ++axis) symbols_[text(type.shape[axis])] = {name, axis};
}

std::string OnnxWriter::node(std::string_view type, const std::vector<std::string>& in,
                             const OnnxAttributes& attributes, std::string_view wish) {
  return node(type, in, attributes, wish, 1)[0];
}

std::vector<std::string> OnnxWriter::node(std::string_view type, const std::vector<std::string>& in,
                                          const OnnxAttributes& attributes, std::string_view wish, int outputs) {
  last_constant_ = outputs == 1 ? constant_of(type, in, attributes, wish) : "";
  if (!last_constant_.empty()) return {last_constant_};
  onnx::NodeProto& node = *file_->model.mutable_graph()->add_node();
  std::vector<std::string> names;
  for (int i = 0; i < outputs; ++i) names.push_back(fresh(wish));
  node.set_name(names[0]);
  node.set_op_type(std::string(type));
  for (const std::string& each : in) node.add_input(each);
  for (const std::string& each : names) node.add_output(each);
  for (const OnnxAttribute& each : attributes) set_attribute(*node.add_attribute(), each);
  return names;
}

std::string OnnxWriter::constant_of(std::string_view type, const std::vector<std::string>& in,
                                    const OnnxAttributes& attributes, std::string_view wish) {
  Tensors values;
  for (const std::string& each : in) {
    const auto found = constants_.find(each);
    if (found == constants_.end()) return {};
    values.push_back(found->second);
  }
  const Tensor result = values.empty() ? Tensor() : folded(type, values, attributes);
  if (!result) return {};
  const std::string name = constant(result, wish);
  const auto whole = [](const Tensor& value) { return !is_floating(value.dtype()); };  // sizes and places
  if (std::all_of(values.begin() + 1, values.end(), whole)) {
    const auto origin = made_of_.find(in[0]);
    made_of_[name] = origin == made_of_.end() ? in[0] : origin->second;
  }
  return name;
}

void OnnxWriter::rename_last(const std::string& name) {
  if (!last_constant_.empty()) node("Identity", {last_constant_}, {}, "Identity");
  auto& nodes = *file_->model.mutable_graph()->mutable_node();
  *nodes.Mutable(nodes.size() - 1)->mutable_output(0) = name;
}

std::string OnnxWriter::constant(const Tensor& tensor, std::string_view wish) {
  onnx::TensorProto& stored = *file_->model.mutable_graph()->add_initializer();
  stored.set_name(fresh(wish));
  stored.set_data_type(static_cast<std::int32_t>(onnx_type(tensor.dtype())));
  for (const Dim each : tensor.shape()) stored.add_dims(each);
  std::string& data = *stored.mutable_raw_data();
  data.resize(neurim::bytes(tensor.type()));
  tensor.read(data.data());
  constants_[stored.name()] = tensor;
  return stored.name();
}

void OnnxWriter::drop_unread() {
  onnx::GraphProto& graph = *file_->model.mutable_graph();
  std::set<std::string_view> read;
  for (const onnx::NodeProto& node : graph.node()) read.insert(node.input().begin(), node.input().end());
  auto& all = *graph.mutable_initializer();
  const auto kept = std::stable_partition(all.pointer_begin(), all.pointer_end(), [&](const onnx::TensorProto* tensor) {
    return read.count(tensor->name()) > 0;
  });
  std::set<std::string> free;
  for (auto dropped = kept; dropped != all.pointer_end(); ++dropped) free.insert((*dropped)->name());
  all.DeleteSubrange(static_cast<int>(kept - all.pointer_begin()), static_cast<int>(all.pointer_end() - kept));
  std::map<std::string, std::string> renamed;
  for (onnx::TensorProto& tensor : all)
    if (const auto origin = made_of_.find(tensor.name()); origin != made_of_.end() && free.erase(origin->second) > 0) {
      renamed[tensor.name()] = origin->second;
      tensor.set_name(origin->second);
    }
  for (onnx::NodeProto& node : *graph.mutable_node())
    for (std::string& in : *node.mutable_input())
      if (const auto at = renamed.find(in); at != renamed.end()) in = at->second;
}

std::string OnnxWriter::size(Dim size) {
  const std::string name = text(size);
  if (!size.symbolic()) return constant(Tensor::from(Shape{1}, std::vector<std::int64_t>{size}), name);
  if (const auto known = sizes_.find(name); known != sizes_.end()) return known->second;
  std::string made;
  if (const auto symbol = symbols_.find(name); symbol != symbols_.end()) {
    const std::int64_t axis = symbol->second.second;
    if (opset_ >= 15)
      made = node("Shape", {symbol->second.first}, {{"start", axis}, {"end", axis + 1}}, name);
    else
      made = node("Gather", {node("Shape", {symbol->second.first}, {}, name), this->size(axis)},
                  {{"axis", std::int64_t{0}}}, name);
  } else {
    const auto joined = [&](std::string& all, std::string_view type, const std::string& part) {
      all = all.empty() ? part : node(type, {all, part}, {}, name);
    };
    for (const Dim::Term& term : size.terms()) {
      std::string product = term.factor == 1 && !term.parts.empty() ? "" : this->size(term.factor);
      for (const std::string& part : term.parts) {
        const auto fraction = Dim::floor_of(part);
        require(fraction || symbols_.count(part) > 0, "onnx: the size ", size, " is of ", part,
                ", and no input has such an axis");
        joined(product, "Mul",
               fraction ? node("Div", {this->size(fraction->first), this->size(fraction->second)}, {}, part)
                        : this->size(Dim::symbol(part)));
      }
      joined(made, "Add", product);
    }
  }
  return sizes_[name] = made;
}

std::string OnnxWriter::sizes(std::span<const Dim> sizes, std::string_view wish) {
  std::vector<std::int64_t> fixed;  // the numbers since the last size that varies
  std::vector<std::string> pieces;
  const auto vector_of = [&](const std::vector<std::int64_t>& values) {
    return constant(Tensor::from({std::ssize(values)}, values), wish);
  };
  const auto flush = [&] {
    if (!fixed.empty()) pieces.push_back(vector_of(fixed));
    fixed.clear();
  };
  for (const Dim each : sizes) {
    if (!each.symbolic()) {
      fixed.push_back(each);
      continue;
    }
    flush();
    pieces.push_back(size(each));
  }
  if (pieces.empty()) return vector_of(fixed);
  flush();
  return pieces.size() == 1 ? pieces[0] : node("Concat", pieces, {{"axis", std::int64_t{0}}}, wish);
}

void OnnxWriter::metadata(const std::map<std::string, std::string>& metadata) {
  for (const auto& [key, value] : metadata) add_entry(*file_->model.mutable_metadata_props(), key, value);
}

std::size_t OnnxWriter::size() const { return file_->model.ByteSizeLong(); }
std::string OnnxWriter::bytes() const { return file_->model.SerializeAsString(); }

std::string OnnxWriter::take_data(const std::string& location) {
  auto& initializers = *file_->model.mutable_graph()->mutable_initializer();
  std::string data;
  data.reserve(size() + static_cast<std::size_t>(initializers.size()) * kOffsetUnit);  // at the most
  for (onnx::TensorProto& tensor : initializers) {
    if (tensor.raw_data().size() < kLargeTensor) continue;
    const std::unique_ptr<const std::string> raw(tensor.release_raw_data());
    data.resize((data.size() + kOffsetUnit - 1) / kOffsetUnit * kOffsetUnit);
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    add_entry(*tensor.mutable_external_data(), "location", location);
    add_entry(*tensor.mutable_external_data(), "offset", text(data.size()));
    add_entry(*tensor.mutable_external_data(), "length", text(raw->size()));
    data += *raw;
  }
  return data;
}

}  // namespace neurim
