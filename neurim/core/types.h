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

namespace neurim {

enum class DType : std::uint8_t { f64, f32, f16, bf16, i64, i32, i8, u8, boolean };
inline constexpr std::array kDTypes{DType::f64, DType::f32, DType::f16, DType::bf16,   DType::i64,
                                    DType::i32, DType::i8,  DType::u8,  DType::boolean};

int bits(DType dtype);
std::string_view name(DType dtype);                       ///< "f32", "bool", …
std::optional<DType> dtype_named(std::string_view name);  ///< the inverse of name
bool is_floating(DType dtype);
inline void append(std::string& out, DType dtype) { out += name(dtype); }

/// Sizes along each axis, outermost first; at most 8 axes. Empty: a scalar.
class Shape {
 public:
  static constexpr std::size_t kMaxRank = 8;
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  explicit Shape(std::span<const std::int64_t> sizes);
  int rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  std::int64_t operator[](int axis) const { return sizes_[axis < 0 ? axis + rank_ : axis]; }
  std::int64_t& operator[](int axis) { return sizes_[axis < 0 ? axis + rank_ : axis]; }
  const std::int64_t* begin() const { return sizes_.data(); }
  const std::int64_t* end() const { return sizes_.data() + rank_; }
  void push_back(std::int64_t size);
  std::int64_t numel() const;  ///< the product; throws Error(usage) when it does not fit 63 bits
  bool operator==(const Shape& other) const;

 private:
  std::array<std::int64_t, kMaxRank> sizes_{};
  int rank_ = 0;
};
void append(std::string& out, const Shape& shape);  ///< "(8,3,224,224)"
std::ostream& operator<<(std::ostream& out, const Shape& shape);

/// The axis counted from the front; throws Error(usage) with `who` when it is outside [-rank, rank).
int normal_axis(std::int64_t axis, int rank, std::string_view who);
/// NumPy's broadcasting of two shapes; throws Error(usage) with `who` and both shapes.
Shape broadcast(const Shape& a, const Shape& b, std::string_view who);
/// Row-major strides in elements.
std::array<std::int64_t, Shape::kMaxRank> strides(const Shape& shape);

/// Element type and logical shape. The logical order of images is always NCHW.
struct Type {
  DType dtype = DType::f32;
  Shape shape;
  bool operator==(const Type&) const = default;
};
using Types = std::vector<Type>;
void append(std::string& out, const Type& type);  ///< "f32(8,3,224,224)"
std::ostream& operator<<(std::ostream& out, const Type& type);

/// The physical order of a tensor's elements; a value to compare and hash.
struct Layout {
  enum Kind : std::uint8_t {
    plain,          ///< row-major in the logical order
    channels_last,  ///< axis 1 innermost
    blocked,        ///< axis 1 split by `block`, the block innermost (nChw16c); the tail of the last block is zero
    batch_blocked,  ///< axis 0 split by `block`, the block innermost (ceil(N/16)CHW16n); its tail is zero too
    last_blocked,   ///< the last axis split so, its blocks behind axis 0 (x(N,L,C) as N ceil(C/16) L 16c); of one block
                    ///< rows lie apart
    packed,         ///< an opaque form that a backend registered under `format`
  };
  Kind kind = plain;
  std::uint16_t block = 0;
  std::uint32_t format = 0;
  /// Of f32: the type whose nearest number each element is, in two bytes; what reads it loses digits.
  enum StorageDtype : std::uint8_t { exact, bf16, f16 } storage = exact;
  bool operator==(const Layout&) const = default;
};
void append(std::string& out, const Layout& layout);
/// Of bf16 and f16 that, of others exact; and back, exact being f32.
Layout::StorageDtype storage_of(DType dtype);
DType dtype_of(Layout::StorageDtype storage);
/// The axis that a layout splits into blocks, if any; -1: the last.
std::optional<int> split_axis(const Layout& layout);

/// Bytes of a tensor of this type in this layout; of a packed one as its backend registered it.
std::size_t bytes(const Type& type, const Layout& layout = {});

/// What a backend registers for an opaque physical form. Pointers are host pointers of the registering device's memory.
struct PackedFormat {
  std::string name;
  std::size_t bytes = 0;
  void (*pack)(const void* self, const void* plain, void* packed) = nullptr;
  void (*unpack)(const void* self, const void* packed, void* plain) = nullptr;
  const void* self = nullptr;  ///< lives as long as the process
  /// Of a form for reading only, which loses digits: the layout that kernels make it from. It has no `unpack`, and
  /// no state lives in it.
  std::optional<Layout> made_from = {};
};
/// Registers a format, or finds the one of the same name; the result is Layout::format.
std::uint32_t register_format(const PackedFormat& format);
const PackedFormat& packed_format(std::uint32_t format);

/// Copies between the plain order and `layout` on the host, `type` naming the elements.
void pack(const Type& type, const Layout& layout, const void* plain, void* packed);
void unpack(const Type& type, const Layout& layout, const void* packed, void* plain);

/// A device: the number its backend was handed at registration, and which one of them.
struct Device {
  std::uint8_t kind = 0;  ///< 0 is the CPU
  std::uint8_t index = 0;
  bool operator==(const Device&) const = default;
};
void append(std::string& out, Device device);  ///< "cpu", "test:0"

}  // namespace neurim
