#include "neurim/core/types.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>
#include <ostream>

#include "neurim/base/error.h"
#include "neurim/core/float16.h"

namespace neurim {

namespace {

struct DTypeRow {
  std::string_view name;
  int bits;
  bool floating;
};
constexpr std::array<DTypeRow, kDTypes.size()> kRows{{{"f64", 64, true},
                                                      {"f32", 32, true},
                                                      {"f16", 16, true},
                                                      {"bf16", 16, true},
                                                      {"i64", 64, false},
                                                      {"i32", 32, false},
                                                      {"i16", 16, false},
                                                      {"i8", 8, false},
                                                      {"u64", 64, false},
                                                      {"u32", 32, false},
                                                      {"u16", 16, false},
                                                      {"u8", 8, false},
                                                      {"bool", 8, false}}};
const DTypeRow& row(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

struct Formats {
  std::mutex mutex;
  std::deque<PackedFormat> list;  // a deque: references stay valid
};
Formats& formats() {
  static Formats& all = *new Formats;
  return all;
}

/// How many elements an axis of `size` takes in blocks of `block`.
std::int64_t filled(std::int64_t size, std::int64_t block) { return (size + block - 1) / block * block; }

/// Walks the elements of a tensor in plain order and calls visit(plain index, index in `layout`).
template <class Visit>
void each_place(const Type& type, const Layout& layout, Visit visit) {
  if (layout.kind == Layout::batch_blocked) {
    const std::int64_t images = type.shape[0], block = layout.block,
                       image = type.shape.numel() / std::max<std::int64_t>(1, images);
    for (std::int64_t i = 0; i < images; ++i)
      for (std::int64_t k = 0; k < image; ++k) visit(i * image + k, (i / block * image + k) * block + i % block);
    return;
  }
  const bool last = layout.kind == Layout::last_blocked;
  const std::int64_t n = type.shape[0], c = type.shape[last ? -1 : 1],
                     rest = type.shape.numel() / std::max<std::int64_t>(1, n * c);
  const std::int64_t block = layout.kind == Layout::channels_last ? c : layout.block;
  const std::int64_t blocks = (c + block - 1) / block;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < c; ++j)
      for (std::int64_t k = 0; k < rest; ++k)
        visit(last ? (i * rest + k) * c + j : (i * c + j) * rest + k,
              ((i * blocks + j / block) * rest + k) * block + j % block);
}

template <class T>
void reorder(const Type& type, const Layout& layout, const void* from, void* to, bool packing) {
  const T* source = static_cast<const T*>(from);
  T* target = static_cast<T*>(to);
  if (packing) std::memset(to, 0, bytes(type, layout));
  each_place(type, layout, [&](std::int64_t plain, std::int64_t place) {
    if (packing)
      target[place] = source[plain];
    else
      target[plain] = source[place];
  });
}

void reorder_rounded(const Type& type, const Layout& layout, const void* from, void* to, bool packing) {
  if (packing) std::memset(to, 0, bytes(type, layout));
  each_place(type, layout, [&](std::int64_t plain, std::int64_t place) {
    if (packing)
      static_cast<std::uint16_t*>(to)[place] = to_storage(layout.storage, static_cast<const float*>(from)[plain]);
    else
      static_cast<float*>(to)[plain] = from_storage(layout.storage, static_cast<const std::uint16_t*>(from)[place]);
  });
}

void copy_layout(const Type& type, const Layout& layout, const void* from, void* to, bool packing) {
  if (type.shape.numel() == 0) return;
  if (layout.kind == Layout::plain) {
    std::memcpy(to, from, bytes(type));
  } else if (layout.kind == Layout::packed) {
    const PackedFormat& format = packed_format(layout.format);
    (packing ? format.pack : format.unpack)(format.self, from, to);
  } else if (layout.storage) {
    reorder_rounded(type, layout, from, to, packing);
  } else {
    switch (bits(type.dtype)) {
      case 64: return reorder<std::uint64_t>(type, layout, from, to, packing);
      case 32: return reorder<std::uint32_t>(type, layout, from, to, packing);
      case 16: return reorder<std::uint16_t>(type, layout, from, to, packing);
      default: return reorder<std::uint8_t>(type, layout, from, to, packing);
    }
  }
}

}  // namespace

int bits(DType dtype) { return row(dtype).bits; }
std::string_view name(DType dtype) { return row(dtype).name; }
bool is_floating(DType dtype) { return row(dtype).floating; }

std::optional<DType> dtype_named(std::string_view wanted) {
  for (DType dtype : kDTypes)
    if (name(dtype) == wanted) return dtype;
  return std::nullopt;
}

Shape::Shape(std::span<const Dim> sizes) {
  for (const Dim size : sizes) push_back(size);
}

Shape::Shape(std::span<const std::int64_t> sizes) {
  for (const std::int64_t size : sizes) push_back(size);
}

void Shape::push_back(Dim size) {
  require(rank_ < static_cast<int>(kMaxRank), "shape: more than ", kMaxRank, " axes");
  sizes_[rank_++] = size;
}

Dim Shape::numel() const {
  std::int64_t number = 1;
  Dim symbols = 1;
  for (const Dim size : *this)
    if (size.symbolic())
      symbols *= size;
    else if (const std::int64_t known = size; known < 0 || __builtin_mul_overflow(number, known, &number))
      fail(Fault::usage, "shape: ", *this, " has no valid number of elements");
  return symbols.symbolic() ? symbols * number : Dim(number);
}

bool Shape::symbolic() const {
  return std::any_of(begin(), end(), [](Dim size) { return size.symbolic(); });
}

bool Shape::operator==(const Shape& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

void append(std::string& out, const Shape& shape) {
  out += '(';
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (axis) out += ',';
    append(out, shape[axis]);
  }
  out += ')';
}

void append(std::string& out, const Type& type) { append(out, type.dtype), append(out, type.shape); }

std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << text(shape); }
std::ostream& operator<<(std::ostream& out, const Type& type) { return out << text(type); }

void append(std::string& out, const Layout& layout) {
  switch (layout.kind) {
    case Layout::plain: out += "plain"; break;
    case Layout::channels_last: out += "channels_last"; break;
    case Layout::blocked: out += text("blocked", layout.block); break;
    case Layout::batch_blocked: out += text("images", layout.block); break;
    case Layout::last_blocked: out += text("features", layout.block); break;
    case Layout::packed: out += packed_format(layout.format).name; break;
  }
  if (layout.storage) out += text(' ', dtype_of(layout.storage));
}

Layout::StorageDtype storage_of(DType dtype) {
  return dtype == DType::bf16 ? Layout::bf16 : dtype == DType::f16 ? Layout::f16 : Layout::exact;
}
DType dtype_of(Layout::StorageDtype storage) {
  return storage == Layout::bf16 ? DType::bf16 : storage == Layout::f16 ? DType::f16 : DType::f32;
}

int normal_axis(std::int64_t axis, int rank, std::string_view who) {
  require(axis >= -rank && axis < rank, who, ": axis ", axis, " is outside a tensor of ", rank, " axes");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Shape broadcast(const Shape& a, const Shape& b, std::string_view who) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape out = longer;
  const auto one = [](Dim size) { return !size.symbolic() && size == 1; };  // without assuming anything of a symbol
  for (int i = 1; i <= shorter.rank(); ++i) {
    if (one(shorter[-i])) continue;
    require(one(out[-i]) || out[-i] == shorter[-i], who, ": shapes ", a, " and ", b, " do not broadcast");
    if (one(out[-i])) out[-i] = shorter[-i];
  }
  return out;
}

std::array<std::int64_t, Shape::kMaxRank> strides(const Shape& shape) {
  std::array<std::int64_t, Shape::kMaxRank> out{};
  std::int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    out[axis] = step;
    step *= shape[axis];
  }
  return out;
}

std::optional<int> split_axis(const Layout& layout) {
  switch (layout.kind) {
    case Layout::blocked: return 1;
    case Layout::batch_blocked: return 0;
    case Layout::last_blocked: return -1;
    default: return std::nullopt;
  }
}

std::size_t bytes(const Type& type, const Layout& layout) {
  std::int64_t count = type.shape.numel();
  if (layout.kind == Layout::packed) return packed_format(layout.format).bytes;
  if (const auto axis = split_axis(layout)) {
    const std::int64_t size = type.shape[*axis];
    count = size == 0 ? 0 : count / size * filled(size, layout.block);
  }
  std::int64_t total = 0;
  require(!__builtin_mul_overflow(count, layout.storage ? 2 : bits(type.dtype) / 8, &total), "tensor ", type,
          " is too large");
  return total;
}

std::uint32_t register_format(const PackedFormat& format) {
  const std::lock_guard lock(formats().mutex);
  for (std::size_t i = 0; i < formats().list.size(); ++i)
    if (formats().list[i].name == format.name) return static_cast<std::uint32_t>(i);
  formats().list.push_back(format);
  return static_cast<std::uint32_t>(formats().list.size() - 1);
}

const PackedFormat& packed_format(std::uint32_t format) {
  const std::lock_guard lock(formats().mutex);
  NEURIM_ASSERT(format < formats().list.size());
  return formats().list[format];
}

void pack(const Type& type, const Layout& layout, const void* plain, void* packed) {
  copy_layout(type, layout, plain, packed, true);
}

void unpack(const Type& type, const Layout& layout, const void* packed, void* plain) {
  copy_layout(type, layout, packed, plain, false);
}

}  // namespace neurim
