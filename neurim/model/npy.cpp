#include "neurim/model/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "neurim/base/error.h"

namespace neurim {

namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

constexpr std::int64_t kMostNpyElements = std::int64_t{1} << 48;  // their bytes can be counted

struct NpyCode {
  std::string_view descr;
  DType dtype;
};
constexpr NpyCode kCodes[] = {{"<f8", DType::f64}, {"<f4", DType::f32},    {"<f2", DType::f16},
                           {"<i8", DType::i64}, {"<i4", DType::i32},    {"|i1", DType::i8},
                           {"|u1", DType::u8},  {"|b1", DType::boolean}};

/// What stands behind 'key': in the dictionary of the header.
std::string_view value_of(std::string_view header, std::string_view key, const fs::path& path) {
  const std::string quoted = text('\'', key, "':");
  const std::size_t at = header.find(quoted);
  if (at == std::string_view::npos)
    fail(Fault::data, path.string(), ": its header has no ", key, "; is it an .npy file?");
  header.remove_prefix(at + quoted.size());
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

DType dtype_of(std::string_view header, const fs::path& path) {
  const std::string_view value = value_of(header, "descr", path);
  for (const NpyCode& code : kCodes)
    if (!value.empty() && starts_with(value.substr(1), text(code.descr, value.substr(0, 1))))
      return code.dtype;
  fail(Fault::data, path.string(), ": holds elements of type ", value.substr(0, value.find(',')),
       "; float16 to 64, int8, int32, int64, uint8 and bool are read, little-endian");
}

Shape shape_of(std::string_view header, const fs::path& path) {
  std::string_view value = value_of(header, "shape", path);
  const std::size_t close = value.find(')');
  if (!starts_with(value, "(") || close == std::string_view::npos)
    fail(Fault::data, path.string(), ": its header has no shape in parentheses; is it damaged?");
  value = value.substr(1, close - 1);
  Shape shape;
  std::int64_t elements = 1;
  for (std::string part : split(value, ',')) {
    part.erase(0, part.find_first_not_of(' '));
    if (part.empty()) continue;
    std::int64_t size = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), size);
    if (error != std::errc() || end != part.data() + part.size() || size < 0 ||
        shape.rank() == Shape::kMaxRank ||
        __builtin_mul_overflow(elements, std::max<std::int64_t>(size, 1), &elements) ||
        elements > kMostNpyElements)
      fail(Fault::data, path.string(), ": its shape (", value,
           ") is damaged, too large, or of more than 8 axes");
    shape.push_back(size);
  }
  return shape;
}

}  // namespace

Tensor read_npy(const fs::path& path) {
  const std::string file = read_file(path);
  if (file.size() < 12 || !starts_with(file, kMagic)) fail(Fault::data, path.string(), ": is no .npy file");
  const bool wide = file[6] >= 2;  // version 2 has a header length of four bytes
  std::uint32_t length = 0;
  std::memcpy(&length, file.data() + 8, wide ? 4 : 2);
  const std::size_t begin = wide ? 12 : 10;
  if (length > file.size() - begin) fail(Fault::data, path.string(), ": is cut off within its header");
  const std::string_view header = std::string_view(file).substr(begin, length);
  if (starts_with(value_of(header, "fortran_order", path), "True"))
    fail(Fault::data, path.string(), ": is in column-major order; save numpy.ascontiguousarray of it");
  const Type type{dtype_of(header, path), shape_of(header, path)};
  const std::size_t have = file.size() - begin - length;
  if (have != bytes(type))
    fail(Fault::data, path.string(), ": holds ", have, " bytes of data where ", type, " needs ", bytes(type),
         "; it is cut off or damaged");
  return Tensor::from(type, file.data() + begin + length);
}

void write_npy(const fs::path& path, const Tensor& tensor) {
  if (tensor.dtype() == DType::bf16) {
    const std::vector<float> values = tensor.values<float>();
    return write_npy(path, Tensor::from(tensor.shape(), values));
  }
  std::string_view descr;
  for (const NpyCode& code : kCodes)
    if (code.dtype == tensor.dtype()) descr = code.descr;
  std::string shape;
  for (const std::int64_t size : tensor.shape()) shape += text(size, ',');
  std::string header = text("{'descr': '", descr, "', 'fortran_order': False, 'shape': (", shape, "), }");
  header.append(63 - (10 + header.size()) % 64, ' ');  // data begin at a multiple of 64
  header += '\n';
  std::string file = text(kMagic, '\x01', '\x00');
  const auto length = static_cast<std::uint16_t>(header.size());
  file.append(reinterpret_cast<const char*>(&length), 2);
  file += header;
  const std::size_t begin = file.size();
  file.resize(begin + bytes(tensor.type()));
  tensor.read(file.data() + begin);
  write_file(path, file);
}

}  // namespace neurim
