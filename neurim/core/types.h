// What a tensor is, without its data: element type, shape, physical layout, device.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/core/dim.h"

namespace neurim {

/// The type of an element.
enum class DType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, boolean };
/// All of them.
inline constexpr std::array kDTypes{DType::f64, DType::f32, DType::f16,    DType::bf16, DType::i64,
                                    DType::i32, DType::i16, DType::i8,     DType::u64,  DType::u32,
                                    DType::u16, DType::u8,  DType::boolean};

int bits(DType dtype);                                    ///< of an element
std::string_view name(DType dtype);                       ///< "f32", "bool", …
std::optional<DType> dtype_named(std::string_view name);  ///< the inverse of name
bool is_floating(DType dtype);                            ///< f64, f32, f16 or bf16
/// Appends its name.
inline void append(std::string& out, DType dtype) { out += name(dtype); }

/// Sizes along each axis, outermost first; at most 8 axes. Empty: a scalar.
class Shape {
 public:
  static constexpr std::size_t kMaxRank = 8;  ///< the most axes
  Shape() = default;
  /// These sizes, outermost first.
  Shape(std::initializer_list<Dim> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const Dim> sizes);           ///< These sizes, outermost first.
  explicit Shape(std::span<const std::int64_t> sizes);  ///< These sizes, outermost first.
  /// The number of axes.
  int rank() const { return rank_; }
  /// Whether it is a scalar's.
  bool empty() const { return rank_ == 0; }
  /// Of an axis; negative ones count from the end.
  Dim operator[](int axis) const { return sizes_[axis < 0 ? axis + rank_ : axis]; }
  /// Of an axis; negative ones count from the end.
  Dim& operator[](int axis) { return sizes_[axis < 0 ? axis + rank_ : axis]; }
  /// The outermost size.
  const Dim* begin() const { return sizes_.data(); }
  /// After the innermost size.
  const Dim* end() const { return sizes_.data() + rank_; }
  void push_back(Dim size);  ///< appends an axis; throws Error(usage) beyond kMaxRank
  Dim numel() const;         ///< the product; throws Error(usage) when it does not fit 63 bits
  bool symbolic() const;     ///< whether any size is
  bool operator==(const Shape& other) const;

 private:
  std::array<Dim, kMaxRank> sizes_{};
  int rank_ = 0;
};
void append(std::string& out, const Shape& shape);                ///< "(8,3,224,224)"
std::ostream& operator<<(std::ostream& out, const Shape& shape);  ///< prints (2,3,4)

/// The axis counted from the front; throws Error(usage) with `who` when it is outside [-rank, rank).
int normal_axis(std::int64_t axis, int rank, std::string_view who);
/// NumPy's broadcasting of two shapes; throws Error(usage) with `who` and both shapes.
Shape broadcast(const Shape& a, const Shape& b, std::string_view who);
/// Row-major strides in elements.
std::array<std::int64_t, Shape::kMaxRank> strides(const Shape& shape);

/// Element type and logical shape. The logical order of images is always NCHW.
struct Type {
  DType dtype = DType::f32;  ///< of the elements
  Shape shape;               ///< sizes of the axes
  bool operator==(const Type&) const = default;
};
using Types = std::vector<Type>;                                ///< of several values
void append(std::string& out, const Type& type);                ///< "f32(8,3,224,224)"
std::ostream& operator<<(std::ostream& out, const Type& type);  ///< prints f32(2,3,4)

/// The physical order of a tensor's elements; a value to compare and hash.
struct Layout {
  /// How elements are arranged.
  enum Kind : std::uint8_t {
    plain,          ///< row-major in the logical order
    channels_last,  ///< axis 1 innermost
    blocked,        ///< axis 1 split by `block`, the block innermost (nChw16c); the tail of the last block is zero
    batch_blocked,  ///< axis 0 split by `block`, the block innermost (ceil(N/16)CHW16n); its tail is zero too
    last_blocked,   ///< the last axis split so, its blocks after axis 0 (x(N,L,C) as N ceil(C/16) L 16c); of one block
                    ///< rows lie apart
    packed,         ///< an opaque form that a backend registered under `format`
  };
  Kind kind = plain;         ///< the arrangement
  std::uint16_t block = 0;   ///< elements of a block
  std::uint32_t format = 0;  ///< of `packed`: index of the registered format
  /// The dtype in memory: exact: that of the type; for f32 also 16 bits, rounded to the nearest.
  enum StorageDtype : std::uint8_t { exact, bf16, f16 };
  StorageDtype storage = exact;  ///< the dtype in memory
  bool operator==(const Layout&) const = default;
};
void append(std::string& out, const Layout& layout);  ///< appends its name
/// Of bf16 and f16 that, of others exact; and back, exact being f32.
Layout::StorageDtype storage_of(DType dtype);
DType dtype_of(Layout::StorageDtype storage);  ///< of 16 bits; f32 for exact
/// The axis that a layout splits into blocks, if any; -1: the last.
std::optional<int> split_axis(const Layout& layout);

/// Bytes of a tensor of this type in this layout; of a packed one as its backend registered it.
std::size_t bytes(const Type& type, const Layout& layout = {});

/// What a backend registers for an opaque physical form. Pointers are host pointers of the registering device's memory.
struct PackedFormat {
  std::string name;                                                             ///< unique
  std::size_t bytes = 0;                                                        ///< of the packed tensor
  void (*pack)(const void* self, const void* plain, void* packed) = nullptr;    ///< from the plain layout
  void (*unpack)(const void* self, const void* packed, void* plain) = nullptr;  ///< to the plain layout
  const void* self = nullptr;                                                   ///< lives as long as the process
  /// Of a form for reading only, which loses digits: the layout that kernels make it from. It has no `unpack`, and
  /// no state lives in it.
  std::optional<Layout> made_from = {};
};
/// Registers a format, or finds the one of the same name; the result is Layout::format.
std::uint32_t register_format(const PackedFormat& format);
const PackedFormat& packed_format(std::uint32_t format);  ///< the registered format of this index

/// Copies between the plain order and `layout` on the host, `type` naming the elements.
void pack(const Type& type, const Layout& layout, const void* plain, void* packed);
void unpack(const Type& type, const Layout& layout, const void* packed, void* plain);  ///< converts to the plain layout

/// A device: the number its backend was handed at registration, and which one of them.
struct Device {
  std::uint8_t kind = 0;   ///< 0 is the CPU
  std::uint8_t index = 0;  ///< which of the devices of its kind
  bool operator==(const Device&) const = default;
};
void append(std::string& out, Device device);  ///< "cpu", "test:0"

}  // namespace neurim
