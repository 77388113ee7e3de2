#include "neurim/model/onnx/value.h"

#include <algorithm>
#include <array>

#include "neurim/base/error.h"
#include "neurim/base/text.h"

namespace neurim {

namespace {

struct ElementRow {
  OnnxElement element;
  std::string_view name;
  DType dtype;  // that holds it
};
constexpr std::array kElementRows{ElementRow{OnnxElement::f32, "f32", DType::f32},
                                  ElementRow{OnnxElement::u8, "u8", DType::u8},
                                  ElementRow{OnnxElement::i8, "i8", DType::i8},
                                  ElementRow{OnnxElement::u16, "u16", DType::u16},
                                  ElementRow{OnnxElement::i16, "i16", DType::i16},
                                  ElementRow{OnnxElement::i32, "i32", DType::i32},
                                  ElementRow{OnnxElement::i64, "i64", DType::i64},
                                  ElementRow{OnnxElement::boolean, "bool", DType::boolean},
                                  ElementRow{OnnxElement::f16, "f16", DType::f16},
                                  ElementRow{OnnxElement::f64, "f64", DType::f64},
                                  ElementRow{OnnxElement::u32, "u32", DType::u32},
                                  ElementRow{OnnxElement::u64, "u64", DType::u64},
                                  ElementRow{OnnxElement::bf16, "bf16", DType::bf16},
                                  ElementRow{OnnxElement::f8e4m3fn, "f8e4m3fn", DType::f32},
                                  ElementRow{OnnxElement::f8e4m3fnuz, "f8e4m3fnuz", DType::f32},
                                  ElementRow{OnnxElement::f8e5m2, "f8e5m2", DType::f32},
                                  ElementRow{OnnxElement::f8e5m2fnuz, "f8e5m2fnuz", DType::f32},
                                  ElementRow{OnnxElement::u4, "u4", DType::u8},
                                  ElementRow{OnnxElement::i4, "i4", DType::i8},
                                  ElementRow{OnnxElement::f4e2m1, "f4e2m1", DType::f32},
                                  ElementRow{OnnxElement::f8e8m0, "f8e8m0", DType::f32},
                                  ElementRow{OnnxElement::u2, "u2", DType::u8},
                                  ElementRow{OnnxElement::i2, "i2", DType::i8}};

const ElementRow* row_of(OnnxElement element) {
  const auto* found = std::find_if(kElementRows.begin(), kElementRows.end(),
                                   [&](const ElementRow& row) { return row.element == element; });
  return found == kElementRows.end() ? nullptr : found;
}

}  // namespace

std::string_view name(OnnxElement element) {
  if (element == OnnxElement::string) return "string";
  const ElementRow* row = row_of(element);
  return row ? row->name : "unknown";
}

bool is_narrow(OnnxElement element) { return element >= OnnxElement::f8e4m3fn && element <= OnnxElement::i2; }

DType dtype_of(OnnxElement element) {
  const ElementRow* row = row_of(element);
  if (!row)
    fail(Fault::data, "elements of type ", name(element), " (", static_cast<int>(element),
         ") are no numbers that are read");
  return row->dtype;
}

OnnxElement onnx_element(DType dtype) {
  return std::find_if(kElementRows.begin(), kElementRows.end(),
                      [&](const ElementRow& row) { return row.dtype == dtype && !is_narrow(row.element); })
      ->element;
}

const Tensor& OnnxValue::tensor() const {
  require(is_tensor(), "it is ", *this, ", where a tensor of numbers is wanted");
  return std::get<Tensor>(data_);
}

const OnnxStrings& OnnxValue::strings() const {
  require(is_strings(), "it is ", *this, ", where a tensor of texts is wanted");
  return std::get<OnnxStrings>(data_);
}

const std::vector<OnnxValue>& OnnxValue::sequence() const {
  require(is_sequence(), "it is ", *this, ", where a sequence is wanted");
  return *std::get<Sequence>(data_);
}

const Shape& OnnxValue::shape() const { return is_strings() ? strings().shape : tensor().shape(); }

OnnxValue onnx_sizes(const Shape& shape, const std::vector<Dim>& sizes) {
  if (std::none_of(sizes.begin(), sizes.end(), [](Dim size) { return size.symbolic(); }))
    return Tensor::from(shape, std::vector<std::int64_t>(sizes.begin(), sizes.end()));
  return texts_of_sizes(shape, sizes);
}

OnnxStrings texts_of_sizes(const Shape& shape, const std::vector<Dim>& sizes) {
  OnnxStrings texts{shape, {}, true};
  for (const Dim size : sizes) texts.values.push_back(text(size));
  return texts;
}

bool is_sizes(const OnnxValue& value) { return value.is_strings() && value.strings().sizes; }

std::vector<Dim> sizes_of(const OnnxValue& value) {
  std::vector<Dim> all;
  if (is_sizes(value))
    for (const std::string& size : value.strings().values) all.push_back(Dim::parse(size));
  else
    for (const std::int64_t size : value.tensor().values<std::int64_t>())
      all.emplace_back(std::max(size, -(std::int64_t{1} << 61)));  // where a slice begins "at the least number"
  return all;
}

void append(std::string& out, const OnnxValue& value) {
  if (value.is_sequence())
    out += text("a sequence of ", value.sequence().size());
  else if (value)
    out += text(value.element(), value.shape());
  else
    out += "nothing";
}

}  // namespace neurim
