#include "neurim/graph/tensor.h"

#include <cstring>
#include <limits>
#include <type_traits>

#include "neurim/base/error.h"
#include "neurim/core/float16.h"
#include "neurim/graph/recorder.h"
#include "neurim/graph/value.h"

namespace neurim {

namespace {

Value& stored(const Tensor& tensor, const char* what) {
  require(static_cast<bool>(tensor), what, ": the tensor is undefined");
  require(!tensor.traced(), what, ": the value is being traced and has no data; do it outside the traced function");
  return *tensor.value();
}

/// A number as another type, floating ones as cast() converts them: whole numbers saturate, and NaN is 0.
template <class T, class From>
T number_as(From number) {
  if constexpr (std::is_integral_v<T> && std::is_floating_point_v<From>) {
    if (!(number == number)) return 0;
    if (number <= static_cast<From>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
    if (number >= static_cast<From>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  }
  return static_cast<T>(number);
}

template <class T>
T load(DType dtype, const std::byte* at) {
  auto as = [&](auto zero) {
    std::memcpy(&zero, at, sizeof zero);
    return zero;
  };
  switch (dtype) {
    case DType::f64: return number_as<T>(as(double{}));
    case DType::f32: return number_as<T>(as(float{}));
    case DType::f16: return number_as<T>(from_f16(as(std::uint16_t{})));
    case DType::bf16: return number_as<T>(from_bf16(as(std::uint16_t{})));
    case DType::i64: return static_cast<T>(as(std::int64_t{}));
    case DType::i32: return static_cast<T>(as(std::int32_t{}));
    case DType::i16: return static_cast<T>(as(std::int16_t{}));
    case DType::i8: return static_cast<T>(as(std::int8_t{}));
    case DType::u64: return static_cast<T>(as(std::uint64_t{}));
    case DType::u32: return static_cast<T>(as(std::uint32_t{}));
    case DType::u16: return static_cast<T>(as(std::uint16_t{}));
    case DType::u8: return static_cast<T>(as(std::uint8_t{}));
    case DType::boolean: return static_cast<T>(as(std::uint8_t{}) != 0);
  }
  return T{};
}

void store(DType dtype, double value, std::byte* at) {
  auto as = [&](auto typed) { std::memcpy(at, &typed, sizeof typed); };
  switch (dtype) {
    case DType::f64: return as(value);
    case DType::f32: return as(static_cast<float>(value));
    case DType::f16: return as(to_f16(static_cast<float>(value)));
    case DType::bf16: return as(to_bf16(static_cast<float>(value)));
    case DType::i64: return as(number_as<std::int64_t>(value));
    case DType::i32: return as(number_as<std::int32_t>(value));
    case DType::i16: return as(number_as<std::int16_t>(value));
    case DType::i8: return as(number_as<std::int8_t>(value));
    case DType::u64: return as(number_as<std::uint64_t>(value));
    case DType::u32: return as(number_as<std::uint32_t>(value));
    case DType::u16: return as(number_as<std::uint16_t>(value));
    case DType::u8: return as(number_as<std::uint8_t>(value));
    case DType::boolean: return as(static_cast<std::uint8_t>(value != 0));
  }
}

}  // namespace

Tensor Tensor::empty(const Type& type, Device device) {
  auto value = std::make_shared<Value>();
  value->type = type;
  value->device = device;
  value->storage = std::make_shared<Storage>(device, neurim::bytes(type));
  value->constant = Recorder::current() != nullptr;
  return Tensor(std::move(value));
}

Tensor Tensor::full(const Type& type, double value, Device device) {
  std::vector<std::byte> host(neurim::bytes(type));
  const std::size_t width = bits(type.dtype) / 8;
  for (std::size_t at = 0; at < host.size(); at += width) store(type.dtype, value, host.data() + at);
  return from(type, host.data(), device);
}

Tensor Tensor::from(const Type& type, const void* host, Device device) {
  Tensor tensor = empty(type, device);
  tensor.write(host);
  return tensor;
}

Tensor Tensor::from(const Shape& shape, std::span<const float> values, Device device) {
  require(static_cast<std::int64_t>(values.size()) == shape.numel(), "tensor: ", values.size(), " values for shape ",
          shape);
  return from({DType::f32, shape}, values.data(), device);
}

Tensor Tensor::from(const Shape& shape, std::span<const std::int64_t> values, Device device) {
  require(static_cast<std::int64_t>(values.size()) == shape.numel(), "tensor: ", values.size(), " values for shape ",
          shape);
  return from({DType::i64, shape}, values.data(), device);
}

Tensor Tensor::scalar(double value, DType dtype, Device device) { return full({dtype, {}}, value, device); }

const Type& Tensor::type() const {
  require(value_ != nullptr, "tensor: undefined tensor used where a value is needed");
  return value_->type;
}

Device Tensor::device() const { return type(), value_->device; }
bool Tensor::traced() const { return value_ && value_->trace != 0; }
std::string_view Tensor::name() const { return value_ ? std::string_view(value_->name) : std::string_view(); }

void Tensor::set_name(std::string name) const {
  require(value_ != nullptr, "tensor: an undefined tensor cannot be named");
  value_->name = std::move(name);
}

void Tensor::read(void* host) const {
  const Value& value = stored(*this, "read");
  Stream& stream = default_stream(value.device);
  if (value.layout.kind == Layout::plain) {
    stream.download(host, value.storage->data(), neurim::bytes(value.type));
    stream.wait();
    return;
  }
  std::vector<std::byte> physical(neurim::bytes(value.type, value.layout));
  stream.download(physical.data(), value.storage->data(), physical.size());
  stream.wait();
  unpack(value.type, value.layout, physical.data(), host);
}

void Tensor::write(const void* host) const {
  Value& value = stored(*this, "write");
  about_to_change(value);
  Stream& stream = default_stream(value.device);
  std::vector<std::byte> physical;
  if (value.layout.kind != Layout::plain) {
    physical.resize(neurim::bytes(value.type, value.layout));
    pack(value.type, value.layout, host, physical.data());
    host = physical.data();
  }
  stream.upload(value.storage->data(), host, neurim::bytes(value.type, value.layout));
  stream.wait();
}

template <class T>
std::vector<T> Tensor::values() const {
  constexpr DType own = std::is_same_v<T, float> ? DType::f32 : std::is_same_v<T, double> ? DType::f64 : DType::i64;
  std::vector<T> out(numel());
  if (dtype() == own) {
    read(out.data());
    return out;
  }
  std::vector<std::byte> host(neurim::bytes(type()));
  read(host.data());
  const DType from = dtype();
  const std::size_t width = bits(from) / 8;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = load<T>(from, host.data() + i * width);
  return out;
}
template std::vector<float> Tensor::values<float>() const;
template std::vector<double> Tensor::values<double>() const;
template std::vector<std::int64_t> Tensor::values<std::int64_t>() const;

double Tensor::item() const {
  require(numel() == 1, "item: the tensor has shape ", shape(), ", not one element");
  alignas(8) std::byte host[8];  // a training loop reads its loss in every step: nothing is allocated
  read(host);
  return load<double>(dtype(), host);
}

Tensor Tensor::clone() const {
  std::vector<std::byte> host(neurim::bytes(type()));
  read(host.data());
  return from(type(), host.data(), device());
}

Tensor Tensor::to(Device device) const {
  if (this->device() == device) return *this;
  std::vector<std::byte> host(neurim::bytes(type()));
  read(host.data());
  return from(type(), host.data(), device);
}

void Tensor::place(Device device) const {
  Value& value = stored(*this, "place");
  if (value.device == device) return;
  const Tensor moved = to(device);
  value.storage = moved.value()->storage;
  value.layout = {};
  value.device = device;
  ++value.epoch;
}

void Tensor::assign(const Tensor& next) const {
  require(type() == next.type(), name(), name().empty() ? "" : ": ", "assign: the state is ", type(),
          ", the new value is ", next.type());
  if (Recorder* recorder = Recorder::current()) return recorder->assign(*this, next);
  std::vector<std::byte> host(neurim::bytes(type()));
  next.read(host.data());
  write(host.data());
}

bool is_learnt(const Tensor& tensor) {
  const Value& value = *tensor.value();
  return value.parameter && !value.state && !value.constant;
}

void about_to_change(Value& value) {
  value.origin = {};
  value.frozen = {};
  if (value.storage->frozen.use_count() <= 1) {
    ++value.storage->version;
    return;
  }
  const auto own = std::make_shared<Storage>(value.device, value.storage->bytes());
  Stream& stream = default_stream(value.device);
  stream.copy(own->data(), value.storage->data(), own->bytes());
  stream.wait();
  value.storage = own;
  ++value.epoch;
}

Tensor snapshot(const Tensor& tensor) {
  auto value = std::make_shared<Value>(stored(tensor, "snapshot"));
  value->constant = true;
  if (!value->storage->frozen) value->storage->frozen = std::make_shared<char>();
  value->frozen = value->storage->frozen;
  return Tensor(std::move(value));
}

Tensor plain(const Tensor& tensor) { return tensor.value()->layout.kind == Layout::plain ? tensor : tensor.clone(); }

Tensor repacked(const Tensor& tensor, const Layout& layout) {
  const Value& from = stored(tensor, "repack");
  auto value = std::make_shared<Value>();
  value->type = from.type, value->device = from.device, value->layout = layout;
  value->storage = std::make_shared<Storage>(from.device, neurim::bytes(from.type, layout));
  const Tensor copy(value);
  if (from.device == Device{} &&
      from.layout.kind == Layout::plain) {  // no copy between: weights may be most of the memory
    pack(from.type, layout, from.storage->data(), value->storage->data());
  } else {
    std::vector<std::byte> host(neurim::bytes(from.type));
    tensor.read(host.data());
    copy.write(host.data());
  }
  return copy;
}

void repack(const Tensor& tensor, const Layout& layout) {
  Value& value = stored(tensor, "repack");
  if (value.layout == layout) return;
  value.storage = repacked(tensor, layout).value()->storage;
  value.layout = layout;
  ++value.epoch;
}

}  // namespace neurim
