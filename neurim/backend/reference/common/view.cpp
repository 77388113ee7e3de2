#include "neurim/backend/reference/view.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <vector>

#include "neurim/base/error.h"
#include "neurim/core/float16.h"

namespace neurim::reference {

template <class T>
T View::load(std::int64_t i) const {
  switch (type.dtype) {
    case DType::f64: return static_cast<const double*>(data)[i];
    case DType::f32: return static_cast<const float*>(data)[i];
    case DType::f16: return from_f16(static_cast<const std::uint16_t*>(data)[i]);
    case DType::bf16: return from_bf16(static_cast<const std::uint16_t*>(data)[i]);
    case DType::i64: return static_cast<T>(static_cast<const std::int64_t*>(data)[i]);
    case DType::i32: return static_cast<const std::int32_t*>(data)[i];
    case DType::i16: return static_cast<const std::int16_t*>(data)[i];
    case DType::i8: return static_cast<const std::int8_t*>(data)[i];
    case DType::u64: return static_cast<T>(static_cast<const std::uint64_t*>(data)[i]);
    case DType::u32: return static_cast<const std::uint32_t*>(data)[i];
    case DType::u16: return static_cast<const std::uint16_t*>(data)[i];
    case DType::u8: return static_cast<const std::uint8_t*>(data)[i];
    case DType::boolean: return static_cast<const std::uint8_t*>(data)[i] != 0;
  }
  return 0;
}

template double View::load(std::int64_t i) const;
template long double View::load(std::int64_t i) const;

double View::operator[](std::int64_t i) const { return load<double>(i); }

namespace {

template <class T, class Number>
T saturate(Number value) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<Number>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (value >= static_cast<Number>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(value);
}

template <class Number>
void stored(DType dtype, void* data, std::int64_t i, Number value) {
  switch (dtype) {
    case DType::f64: static_cast<double*>(data)[i] = static_cast<double>(value); break;
    case DType::f32: static_cast<float*>(data)[i] = static_cast<float>(value); break;
    case DType::f16: static_cast<std::uint16_t*>(data)[i] = to_f16(static_cast<float>(value)); break;
    case DType::bf16: static_cast<std::uint16_t*>(data)[i] = to_bf16(static_cast<float>(value)); break;
    case DType::i64: static_cast<std::int64_t*>(data)[i] = saturate<std::int64_t>(value); break;
    case DType::i32: static_cast<std::int32_t*>(data)[i] = saturate<std::int32_t>(value); break;
    case DType::i16: static_cast<std::int16_t*>(data)[i] = saturate<std::int16_t>(value); break;
    case DType::i8: static_cast<std::int8_t*>(data)[i] = saturate<std::int8_t>(value); break;
    case DType::u64: static_cast<std::uint64_t*>(data)[i] = saturate<std::uint64_t>(value); break;
    case DType::u32: static_cast<std::uint32_t*>(data)[i] = saturate<std::uint32_t>(value); break;
    case DType::u16: static_cast<std::uint16_t*>(data)[i] = saturate<std::uint16_t>(value); break;
    case DType::u8: static_cast<std::uint8_t*>(data)[i] = saturate<std::uint8_t>(value); break;
    case DType::boolean: static_cast<std::uint8_t*>(data)[i] = value != 0; break;
  }
}

}  // namespace

void View::set(std::int64_t i, double value) const { stored(type.dtype, data, i, value); }
void View::store(std::int64_t i, long double value) const { stored(type.dtype, data, i, value); }

bool wider_than_double(std::span<const View> in, std::span<const View> out) {
  const auto wide = [](const View& view) { return view.type.dtype == DType::i64 || view.type.dtype == DType::u64; };
  return std::any_of(in.begin(), in.end(), wide) || std::any_of(out.begin(), out.end(), wide);
}

std::int64_t View::integer(std::int64_t i) const {
  if (type.dtype == DType::i64) return static_cast<const std::int64_t*>(data)[i];
  constexpr double kEnd = 0x1p63;
  const double value = (*this)[i];
  if (std::isnan(value)) return 0;
  if (value >= kEnd) return std::numeric_limits<std::int64_t>::max();
  if (value < -kEnd) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(value);
}

std::vector<double> View::values() const {
  std::vector<double> all(static_cast<std::size_t>(numel()));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = (*this)[static_cast<std::int64_t>(i)];
  return all;
}

void View::set(std::span<const double> values) const {
  for (std::size_t i = 0; i < values.size(); ++i) set(static_cast<std::int64_t>(i), values[i]);
}

double dot(std::int64_t count, const double* a, std::int64_t step_a, const double* b, std::int64_t step_b, double sum) {
  for (std::int64_t i = 0; i < count; ++i) sum += a[i * step_a] * b[i * step_b];
  return sum;
}

void add_scaled(std::int64_t count, double factor, const double* x, std::int64_t step_x, double* y,
                std::int64_t step_y) {
  for (std::int64_t i = 0; i < count; ++i) y[i * step_y] += x[i * step_x] * factor;
}

BroadcastIndex::BroadcastIndex(const Shape& operand, const Shape& out) : out_(out) {
  const auto dense = strides(operand);
  const int shift = out.rank() - operand.rank();
  for (int axis = 0; axis < operand.rank(); ++axis)
    if (operand[axis] != 1) stride_[axis + shift] = dense[axis];
}

std::int64_t BroadcastIndex::operator()(std::int64_t flat) const {
  std::int64_t index = 0;
  for (int axis = out_.rank() - 1; axis >= 0; --axis) {
    index += flat % out_[axis] * stride_[axis];
    flat /= out_[axis];
  }
  return index;
}

namespace {

using Bodies = std::map<std::string, Body, std::less<>>;

Bodies& bodies() {
  static Bodies& table = *new Bodies;
  return table;
}

/// The kinds of devices that run reference kernels.
std::vector<std::uint8_t>& devices() {
  static auto& kinds = *new std::vector<std::uint8_t>;
  return kinds;
}

/// The state of a prepared reference kernel: the types are known, the pointers come with each call.
struct Prepared {
  std::shared_ptr<const Op> op;
  Body body;
  Types in, out;
};

constexpr std::size_t kMostOperands = 64;

void run(const void* self, const Args& args, int) noexcept {
  const auto& kernel = *static_cast<const Prepared*>(self);
  std::array<View, kMostOperands> in, out;
  for (std::size_t i = 0; i < kernel.in.size(); ++i) in[i] = {kernel.in[i], args.in[i]};
  for (std::size_t i = 0; i < kernel.out.size(); ++i) out[i] = {kernel.out[i], args.out[i]};
  std::uint32_t status = 0;
  kernel.body(*kernel.op, std::span(in).first(kernel.in.size()), std::span(out).first(kernel.out.size()), status);
  if (status) *args.status |= status;
}

Launch prepare(KernelRequest& request) {
  if (request.steps.size() != 1) return decline(request, "takes one op at a time");
  if (request.in.size() > kMostOperands || request.out.size() > kMostOperands)
    return decline(request, "more than ", kMostOperands, " operands");
  auto kernel = std::make_shared<Prepared>();
  kernel->op = request.op().shared_from_this();
  kernel->body = bodies().find(request.op().name())->second;
  for (std::size_t i = 0; i < request.in.size(); ++i) kernel->in.push_back(request.input(static_cast<int>(i)).type);
  for (std::size_t i = 0; i < request.out.size(); ++i) kernel->out.push_back(request.output(static_cast<int>(i)).type);
  return {run, kernel};
}

void add_kernel(const Bodies::value_type& body, std::uint8_t device) {
  add({.op = body.first, .name = "reference", .device = device, .rank = 0, .prepare = prepare});
}

}  // namespace

void define_reference(std::string_view op, Body body) {
  const auto [added, is_new] = bodies().emplace(op, body);
  require(is_new, "there is a reference kernel of '", op, "' already; give your op another name");
  for (const std::uint8_t device : devices()) add_kernel(*added, device);
}

}  // namespace neurim::reference

namespace neurim {

void add_reference_kernels_for(std::uint8_t device) {
  reference::devices().push_back(device);
  for (const auto& body : reference::bodies()) reference::add_kernel(body, device);
}

}  // namespace neurim
