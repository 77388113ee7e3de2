// What an edge of an ONNX graph carries.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "neurim/graph/tensor.h"

namespace neurim {

/// The types of elements, with ONNX's numbers (TensorProto.DataType).
enum class OnnxElement : std::int32_t {
  none = 0,
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  string = 8,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  bf16 = 16,
  f8e4m3fn = 17,
  f8e4m3fnuz = 18,
  f8e5m2 = 19,
  f8e5m2fnuz = 20,
  u4 = 21,
  i4 = 22,
  f4e2m1 = 23,
  f8e8m0 = 24,
  u2 = 25,
  i2 = 26
};

/// "f32", "string", "f8e4m3fn", …; "unknown" for a number that is none.
std::string_view name(OnnxElement element);
/// Appends its name.
inline void append(std::string& out, OnnxElement element) { out += name(element); }
/// Whether it is a number of 8 or fewer bits that has no DType.
bool is_narrow(OnnxElement element);
/// The dtype that holds such elements: that of the same name; f32 for narrow floating ones, i8 and u8 for narrow
/// integers, each exactly. Throws Error(data) for strings and unknown ones.
DType dtype_of(OnnxElement element);
OnnxElement onnx_element(DType dtype);  ///< the element of the same name

/// A tensor of texts.
struct OnnxStrings {
  Shape shape;                      ///< as of a tensor
  std::vector<std::string> values;  ///< row-major
  /// The texts are sizes that follow from symbols, as Dim has them: what Shape gives of a traced value.
  bool sizes = false;
};

/// A tensor of numbers or texts, a sequence of values, or nothing: an input that is left out, an optional that is
/// empty.
class OnnxValue {
 public:
  OnnxValue() = default;                                                                ///< nothing
  OnnxValue(const Tensor& tensor) : OnnxValue(tensor, onnx_element(tensor.dtype())) {}  ///< of the tensor's dtype
  /// A tensor whose elements are those of another type; its dtype is dtype_of(element).
  OnnxValue(Tensor tensor, OnnxElement element) : element_(element), data_(std::move(tensor)) {}
  OnnxValue(OnnxStrings strings) : element_(OnnxElement::string), data_(std::move(strings)) {}  ///< texts
  /// A sequence.
  explicit OnnxValue(std::vector<OnnxValue> sequence)
      : data_(std::make_shared<const std::vector<OnnxValue>>(std::move(sequence))) {}

  explicit operator bool() const { return data_.index() != 0; }                   ///< whether there is something
  bool is_tensor() const { return std::holds_alternative<Tensor>(data_); }        ///< of numbers
  bool is_strings() const { return std::holds_alternative<OnnxStrings>(data_); }  ///< of texts
  bool is_sequence() const { return std::holds_alternative<Sequence>(data_); }    ///< of values
  OnnxElement element() const { return element_; }                                ///< none for sequences
  const Tensor& tensor() const;                                                   ///< throws Error(usage)
  const OnnxStrings& strings() const;                                             ///< throws Error(usage)
  const std::vector<OnnxValue>& sequence() const;                                 ///< throws Error(usage)
  const Shape& shape() const;  ///< of a tensor of numbers or texts; throws Error(usage)

 private:
  using Sequence = std::shared_ptr<const std::vector<OnnxValue>>;
  OnnxElement element_ = OnnxElement::none;
  std::variant<std::monostate, Tensor, OnnxStrings, Sequence> data_;
};
using OnnxValues = std::vector<OnnxValue>;  ///< of one node, or of a whole graph
/// Sizes as a value: i64 where all are numbers, else texts.
OnnxValue onnx_sizes(const Shape& shape, const std::vector<Dim>& sizes);
/// The same as texts, whether they are numbers or not.
OnnxStrings texts_of_sizes(const Shape& shape, const std::vector<Dim>& sizes);
bool is_sizes(const OnnxValue& value);  ///< whether it holds sizes as texts
/// The sizes in such a value, or the whole numbers in a tensor that is known. Throws Error(usage) for another.
std::vector<Dim> sizes_of(const OnnxValue& value);
void append(std::string& out, const OnnxValue& value);  ///< "f32(2,3)", "string(4)", "a sequence of 3", "nothing"

}  // namespace neurim
