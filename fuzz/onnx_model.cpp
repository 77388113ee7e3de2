// What no bytes may crash: ONNX models. Mutations keep the structure of the messages, so that most files are read far.
#include <cstdlib>
#include <random>

#include "neurim/base/error.h"
#include "neurim/compile/plan.h"
#include "neurim/model/onnx/model.h"
#include "onnx/onnx-data.pb.h"

namespace neurim {
void define_ops();
void add_reference_kernels();
void add_reference_kernels_for(std::uint8_t device);
}  // namespace neurim

namespace {

constexpr std::int64_t kMostNumbers = 1 << 16;  // of an input: larger ones only take time

using Random = std::minstd_rand;

template <class Elements>
auto* any_of(Elements* elements, Random& random) {
  return elements->empty() ? nullptr
                           : elements->Mutable(static_cast<int>(random() % static_cast<unsigned>(elements->size())));
}

/// A number that sizes, axes and counts go wrong at; none at which a model asks for much work and is right.
std::int64_t odd_number(Random& random) {
  constexpr std::int64_t numbers[] = {
      0, 1, -1, 2, 3, 5, 7, -2, 64, std::int64_t{1} << 40, INT64_MAX, INT64_MIN, INT32_MAX, -(std::int64_t{1} << 40)};
  return numbers[random() % std::size(numbers)];
}

void change(onnx::AttributeProto& attribute, Random& random) {
  switch (random() % 4) {
    case 0: attribute.set_i(odd_number(random)); break;
    case 1:
      if (attribute.ints_size() > 0)
        attribute.set_ints(static_cast<int>(random() % static_cast<unsigned>(attribute.ints_size())),
                           odd_number(random));
      break;
    case 2: attribute.add_ints(odd_number(random)); break;
    default: attribute.set_f(random() % 2 ? static_cast<float>(odd_number(random)) : 0.0f / 0.0f);
  }
}

void change(onnx::TensorProto& tensor, Random& random) {
  switch (random() % 4) {
    case 0: tensor.add_dims(odd_number(random)); break;
    case 1:
      if (tensor.dims_size() > 0)
        tensor.set_dims(static_cast<int>(random() % static_cast<unsigned>(tensor.dims_size())), odd_number(random));
      break;
    case 2: tensor.set_data_type(static_cast<int>(random() % 27)); break;
    default:
      if (!tensor.raw_data().empty())
        (*tensor.mutable_raw_data())[random() % tensor.raw_data().size()] = static_cast<char>(random());
  }
}

void change(onnx::GraphProto& graph, Random& random) {
  onnx::NodeProto* node = any_of(graph.mutable_node(), random);
  onnx::NodeProto* other = any_of(graph.mutable_node(), random);
  if (!node) return;
  switch (random() % 8) {
    case 0:
      if (std::string* in = any_of(node->mutable_input(), random))
        *in = other->output_size() > 0 ? other->output(0) : "";
      break;
    case 1: node->set_op_type(other->op_type()); break;
    case 2:
      if (node->input_size() > 0) node->mutable_input()->RemoveLast();
      break;
    case 3: std::swap(*node, *other); break;
    case 4:
      if (onnx::TensorProto* tensor = any_of(graph.mutable_initializer(), random)) change(*tensor, random);
      break;
    case 5:
      if (onnx::ValueInfoProto* input = any_of(graph.mutable_input(), random)) {
        auto& shape = *input->mutable_type()->mutable_tensor_type()->mutable_shape();
        if (auto* dim = any_of(shape.mutable_dim(), random)) dim->set_dim_value(odd_number(random));
      }
      break;
    default:
      if (onnx::AttributeProto* attribute = any_of(node->mutable_attribute(), random)) {
        change(*attribute, random);
        if (attribute->has_g() && random() % 2) change(*attribute->mutable_g(), random);
        if (attribute->has_t()) change(*attribute->mutable_t(), random);
      }
  }
}

/// Plans the model and runs it on ones.
void run(const neurim::OnnxModel& model) {
  neurim::OnnxValues in;
  for (const neurim::OnnxPort& port : model.inputs()) {
    if (port.kind != neurim::OnnxKind::tensor || port.element == neurim::OnnxElement::string) return;
    neurim::Shape shape;
    std::int64_t numbers = 1;
    for (const neurim::Dim size : port.shape.value_or(neurim::Shape{1})) {
      shape.push_back(size.symbolic() ? neurim::Dim(2) : size);
      const std::int64_t known = shape[shape.rank() - 1];
      if (known > kMostNumbers) return;
      numbers *= std::max<std::int64_t>(known, 1);
      if (numbers > kMostNumbers) return;
    }
    in.push_back({neurim::Tensor::full({neurim::dtype_of(port.element), shape}, 1), port.element});
  }
  try {
    neurim::Tensors tensors;
    neurim::Types types;
    for (const neurim::OnnxValue& value : in) tensors.push_back(value.tensor()), types.push_back(value.tensor().type());
    const neurim::Plan plan = neurim::plan([&](const neurim::Tensors& x) { return model(x); }, types, {.freeze = true});
    plan.run(tensors, plan.outputs());
  } catch (const neurim::OnnxNeedsData&) {
    model(in);
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(std::uint8_t* data, size_t size, size_t most);

extern "C" size_t LLVMFuzzerCustomMutator(std::uint8_t* data, size_t size, size_t most, unsigned seed) {
  Random random(seed);
  onnx::ModelProto model;
  if (random() % 8 == 0 || !model.ParseFromArray(data, static_cast<int>(size)))
    return LLVMFuzzerMutate(data, size, most);
  for (unsigned changes = 1 + random() % 3; changes > 0; --changes) change(*model.mutable_graph(), random);
  if (model.ByteSizeLong() > most) return size;
  model.SerializeToArray(data, static_cast<int>(model.ByteSizeLong()));
  return model.ByteSizeLong();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool ready = (neurim::define_ops(), neurim::add_reference_kernels(),
                             neurim::add_reference_kernels_for(0), true);
  try {
    if (ready) run(neurim::OnnxModel::parse({reinterpret_cast<const char*>(data), size}, "/nonexistent"));
  } catch (const neurim::Error&) {
  }
  return 0;
}
