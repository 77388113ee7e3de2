#include "neurim/model/onnx/tensor_file.h"

#include <charconv>
#include <cstring>
#include <limits>

#include "neurim/base/error.h"
#include "neurim/model/onnx/narrow.h"
#include "onnx/onnx-data.pb.h"

namespace neurim {

namespace {

constexpr const char* kAbsent = "neurim:absent";                // no name of a file: the values are not there
constexpr std::size_t kMostSparse = std::size_t{1} << 24;       // elements of a sparse tensor, as a dense one
constexpr std::size_t kMostTensorBytes = std::size_t{1} << 36;  // of one tensor

Shape shape_of_dims(const google::protobuf::RepeatedField<std::int64_t>& dims) {
  Shape shape;
  for (const std::int64_t size : dims) {
    if (size < 0) fail(Fault::data, "a tensor has the size ", size);
    shape.push_back(size);
  }
  if (shape.numel() < 0) fail(Fault::data, "a tensor has too many elements");
  return shape;
}

std::size_t stored_bytes(OnnxElement element, std::int64_t count) {
  const auto bits = static_cast<std::size_t>(is_narrow(element) ? narrow_bits(element)
                                                                : neurim::bits(dtype_of(element)));
  return (static_cast<std::size_t>(count) * bits + 7) / 8;
}

/// The tensor from bytes as raw_data has them: little-endian, narrow numbers packed from the lowest bits on.
Tensor from_raw(OnnxElement element, const Shape& shape, std::span<const std::byte> raw) {
  const std::int64_t count = shape.numel();
  if (raw.size() != stored_bytes(element, count))
    fail(Fault::data, "a tensor ", element, shape, " has ", raw.size(), " bytes, not ", stored_bytes(element, count));
  const Type type{dtype_of(element), shape};
  if (!is_narrow(element)) return Tensor::from(type, raw.data());
  const int bits = narrow_bits(element), each = 8 / bits;
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = from_narrow(element, static_cast<std::uint8_t>(
                                         std::to_integer<int>(raw[i / each]) >> (i % each * bits) & ((1 << bits) - 1)));
  std::vector<std::byte> host(bytes(type));
  for (std::size_t i = 0; i < values.size(); ++i) switch (type.dtype) {
      case DType::f32: reinterpret_cast<float*>(host.data())[i] = static_cast<float>(values[i]); break;
      case DType::u8: host[i] = static_cast<std::byte>(values[i]); break;
      default: host[i] = static_cast<std::byte>(static_cast<std::int8_t>(values[i])); break;
    }
  return Tensor::from(type, host.data());
}

std::string to_raw(const OnnxValue& value) {
  const Tensor& tensor = value.tensor();
  if (!is_narrow(value.element())) {
    std::string raw(bytes(tensor.type()), '\0');
    tensor.read(raw.data());
    return raw;
  }
  const int bits = narrow_bits(value.element()), each = 8 / bits;
  const std::vector<double> values = tensor.values<double>();
  std::string raw(stored_bytes(value.element(), tensor.numel()), '\0');
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto& at = reinterpret_cast<std::uint8_t&>(raw[i / each]);
    at = static_cast<std::uint8_t>(at | to_narrow(value.element(), values[i], {.saturate = false})
                                            << (i % each * bits));
  }
  return raw;
}

/// The raw bytes of a tensor whose numbers stand in a field of their own, each cut to the size of an element.
template <class Stored, class Field>
std::vector<std::byte> cut(const Field& field, std::int64_t count) {
  if (field.size() != count) fail(Fault::data, "a tensor has ", field.size(), " numbers, not ", count);
  std::vector<std::byte> raw(static_cast<std::size_t>(count) * sizeof(Stored));
  for (int i = 0; i < field.size(); ++i) {
    const auto value = static_cast<Stored>(field[i]);
    std::memcpy(raw.data() + static_cast<std::size_t>(i) * sizeof value, &value, sizeof value);
  }
  return raw;
}

std::vector<std::byte> typed_data(const onnx::TensorProto& tensor, OnnxElement element, std::int64_t count) {
  switch (element) {
    case OnnxElement::f32: return cut<float>(tensor.float_data(), count);
    case OnnxElement::f64: return cut<double>(tensor.double_data(), count);
    case OnnxElement::i64: return cut<std::int64_t>(tensor.int64_data(), count);
    case OnnxElement::u64: return cut<std::uint64_t>(tensor.uint64_data(), count);
    case OnnxElement::u32: return cut<std::uint32_t>(tensor.uint64_data(), count);
    case OnnxElement::i32: return cut<std::int32_t>(tensor.int32_data(), count);
    case OnnxElement::i16: return cut<std::int16_t>(tensor.int32_data(), count);
    case OnnxElement::u16:
    case OnnxElement::f16:
    case OnnxElement::bf16: return cut<std::uint16_t>(tensor.int32_data(), count);
    default:  // bytes; numbers of 4 and 2 bits are packed as in raw data, a byte a number of the field
      return cut<std::uint8_t>(tensor.int32_data(), static_cast<std::int64_t>(stored_bytes(element, count)));
  }
}

std::size_t external_number(const std::string& text, const char* key) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    fail(Fault::data, "the ", key, " of external data is '", text, "'");
  return number;
}

OnnxValue external_value(const onnx::TensorProto& tensor, OnnxElement element, const Shape& shape,
                         const fs::path& folder) {
  std::string location;
  std::size_t offset = 0, length = stored_bytes(element, shape.numel());
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = external_number(entry.value(), "offset");
    if (entry.key() == "length") length = external_number(entry.value(), "length");
  }
  const MappedFile file(folder, location);
  if (offset > file.bytes().size() || length > file.bytes().size() - offset)
    fail(Fault::data, (folder / location).string(), ": holds ", file.bytes().size(), " bytes, and the tensor '",
         tensor.name(), "' lies at ", offset, " to ", offset + length);
  return {from_raw(element, shape, file.bytes().subspan(offset, length)), element};
}

OnnxValue tensor_value(const onnx::TensorProto& tensor, const fs::path& folder) {
  const auto element = static_cast<OnnxElement>(tensor.data_type());
  const Shape shape = shape_of_dims(tensor.dims());
  const std::int64_t count = shape.numel();
  if (tensor.has_segment()) fail(Fault::data, "the tensor '", tensor.name(), "' is a segment, which is not read");
  if (element == OnnxElement::string) {
    if (tensor.string_data_size() != count)
      fail(Fault::data, "a tensor has ", tensor.string_data_size(), " texts, not ", count);
    return OnnxStrings{shape, {tensor.string_data().begin(), tensor.string_data().end()}};
  }
  dtype_of(element);  // throws for unknown ones
  if (static_cast<std::size_t>(count) > kMostTensorBytes / 8) fail(Fault::data, "the tensor ", shape, " is too large");
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) return external_value(tensor, element, shape, folder);
  if (tensor.has_raw_data()) return {from_raw(element, shape, std::as_bytes(std::span(tensor.raw_data()))), element};
  return {from_raw(element, shape, typed_data(tensor, element, count)), element};
}

OnnxValue sequence_value(const onnx::SequenceProto& sequence) {
  OnnxValues all;
  for (const auto& each : sequence.tensor_values()) all.push_back(value_of(each, {}));
  for (const auto& each : sequence.sparse_tensor_values()) all.push_back(value_of(each, {}));
  for (const auto& each : sequence.sequence_values()) all.push_back(sequence_value(each));
  if (sequence.map_values_size() > 0) fail(Fault::data, "a sequence holds maps, which are not read");
  return OnnxValue(std::move(all));
}

OnnxValue optional_value(const onnx::OptionalProto& optional) {
  if (optional.has_tensor_value()) return value_of(optional.tensor_value(), {});
  if (optional.has_sparse_tensor_value()) return value_of(optional.sparse_tensor_value(), {});
  if (optional.has_sequence_value()) return sequence_value(optional.sequence_value());
  if (optional.has_optional_value()) return optional_value(optional.optional_value());
  return {};
}

void set_sequence(onnx::SequenceProto& sequence, const OnnxValue& value) {
  const auto& all = value.sequence();
  sequence.set_elem_type(!all.empty() && all[0].is_sequence() ? onnx::SequenceProto::SEQUENCE
                                                              : onnx::SequenceProto::TENSOR);
  for (const OnnxValue& each : all) {
    if (each.is_sequence())
      set_sequence(*sequence.add_sequence_values(), each);
    else
      set_values(*sequence.add_tensor_values(), each);
  }
}

template <class Message>
Message parsed(const std::string& bytes) {
  Message message;
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) || !message.ParseFromString(bytes))
    fail(Fault::data, "is no such message of ONNX, or is damaged");
  return message;
}

}  // namespace

OnnxValue value_of(const onnx::TensorProto& tensor, const fs::path& folder) {
  try {
    return tensor_value(tensor, folder);
  } catch (const Error& error) {
    if (error.fault() == Fault::resource) throw;
    fail(Fault::data, tensor.name().empty() ? "" : text("tensor '", tensor.name(), "': "), error.what());
  }
}

void set_values(onnx::TensorProto& tensor, const OnnxValue& value) {
  tensor.clear_external_data();
  tensor.clear_data_location();
  tensor.clear_dims();
  tensor.set_data_type(static_cast<std::int32_t>(value.element()));
  for (const Dim size : value.shape()) tensor.add_dims(size);
  if (value.is_strings())
    for (const std::string& each : value.strings().values) tensor.add_string_data(each);
  else
    tensor.set_raw_data(to_raw(value));
}

void set_absent(onnx::TensorProto& tensor) {
  const std::string name = tensor.name();
  const std::int32_t element = tensor.data_type();
  const std::vector<std::int64_t> dims(tensor.dims().begin(), tensor.dims().end());
  tensor.Clear();
  tensor.set_name(name);
  tensor.set_data_type(element);
  for (const std::int64_t size : dims) tensor.add_dims(size);
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  auto& entry = *tensor.add_external_data();
  entry.set_key("location");
  entry.set_value(kAbsent);
}

OnnxValue value_or_absent(const onnx::TensorProto& tensor, const fs::path& folder) {
  const bool absent = tensor.external_data_size() == 1 && tensor.external_data(0).value() == kAbsent;
  if (!absent) return value_of(tensor, folder);
  const auto element = static_cast<OnnxElement>(tensor.data_type());
  return {Tensor::empty({dtype_of(element), shape_of_dims(tensor.dims())}), element};
}

OnnxValue value_of(const onnx::SparseTensorProto& sparse, const fs::path& folder) {
  const OnnxValue values = value_of(sparse.values(), folder), indices = value_of(sparse.indices(), folder);
  const Shape shape = shape_of_dims(sparse.dims());
  const auto places = indices.tensor().values<std::int64_t>();
  const std::int64_t count = values.tensor().numel(), whole = shape.numel();
  const int rank = shape.rank();
  if (indices.element() != OnnxElement::i64 || values.shape().rank() != 1 ||
      (std::ssize(places) != count && std::ssize(places) != count * rank))
    fail(Fault::data, "a sparse tensor ", shape, " has values ", values, " and indices ", indices);
  if (is_narrow(values.element())) fail(Fault::data, "a sparse tensor of ", values.element(), " is not read");
  if (static_cast<std::size_t>(whole) > kMostSparse) fail(Fault::data, "the sparse tensor ", shape, " is too large");
  const Type type{values.tensor().dtype(), shape};
  const std::size_t size = static_cast<std::size_t>(bits(type.dtype)) / 8;
  std::vector<std::byte> dense(bytes(type)), from(bytes(values.tensor().type()));
  values.tensor().read(from.data());
  const bool linear = std::ssize(places) == count && indices.shape().rank() == 1;
  const auto stride = strides(shape);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = linear ? places[i] : 0;
    for (int axis = 0; !linear && axis < rank; ++axis) {
      const std::int64_t index = places[i * rank + axis];
      if (index < 0 || index >= shape[axis]) fail(Fault::data, "a sparse tensor ", shape, " has the index ", index);
      at += index * stride[axis];
    }
    if (at < 0 || at >= whole) fail(Fault::data, "a sparse tensor ", shape, " has the index ", at);
    std::memcpy(dense.data() + static_cast<std::size_t>(at) * size, from.data() + static_cast<std::size_t>(i) * size,
                size);
  }
  return {Tensor::from(type, dense.data()), values.element()};
}

OnnxValue read_onnx_value(const fs::path& path, OnnxKind kind) {
  return naming([&] { return path.string(); },
                [&] {
                  const std::string bytes = read_file(path);
                  switch (kind) {
                    case OnnxKind::sequence: return sequence_value(parsed<onnx::SequenceProto>(bytes));
                    case OnnxKind::optional: return optional_value(parsed<onnx::OptionalProto>(bytes));
                    default: return value_of(parsed<onnx::TensorProto>(bytes), {});
                  }
                });
}

void write_onnx_value(const fs::path& path, const OnnxValue& value, OnnxKind kind, const std::string& name) {
  if (kind == OnnxKind::sequence) {
    onnx::SequenceProto message;
    message.set_name(name);
    set_sequence(message, value);
    return write_file(path, message.SerializeAsString());
  }
  if (kind == OnnxKind::optional) {
    onnx::OptionalProto message;
    message.set_name(name);
    message.set_elem_type(!value                ? onnx::OptionalProto::UNDEFINED
                          : value.is_sequence() ? onnx::OptionalProto::SEQUENCE
                                                : onnx::OptionalProto::TENSOR);
    if (value.is_sequence())
      set_sequence(*message.mutable_sequence_value(), value);
    else if (value)
      set_values(*message.mutable_tensor_value(), value);
    return write_file(path, message.SerializeAsString());
  }
  onnx::TensorProto message;
  message.set_name(name);
  set_values(message, value);
  write_file(path, message.SerializeAsString());
}

}  // namespace neurim
