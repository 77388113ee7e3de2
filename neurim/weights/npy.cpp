#include "neurim/weights/npy.h"

#include <span>

#include "neurim/base/error.h"
#include "neurim/base/npy.h"

namespace neurim {

namespace {

struct NpyCode {
  std::string_view descr;
  DType dtype;
};
constexpr NpyCode kCodes[] = {{"<f8", DType::f64}, {"<f4", DType::f32}, {"<f2", DType::f16}, {"<i8", DType::i64},
                              {"<i4", DType::i32}, {"<i2", DType::i16}, {"|i1", DType::i8},  {"<u8", DType::u64},
                              {"<u4", DType::u32}, {"<u2", DType::u16}, {"|u1", DType::u8},  {"|b1", DType::boolean}};

DType dtype_of(const std::string& descr) {
  for (const NpyCode& code : kCodes)
    if (descr == code.descr) return code.dtype;
  fail(Fault::data, "holds elements of type '", descr,
       "'; float16 to 64, int8 to 64, uint8 to 64 and bool are read, little-endian");
}

}  // namespace

Tensor read_npy(const fs::path& path) {
  const std::string file = read_file(path);
  return naming([&] { return path.string(); },
                [&] {
                  const NpyHead head = npy_head(bytes_in_memory(std::as_bytes(std::span(file))));
                  const Type type{dtype_of(head.descr), Shape(head.shape)};
                  const std::size_t have = file.size() - head.begin;
                  if (have != bytes(type))
                    fail(Fault::data, "holds ", have, " bytes of data where ", type, " needs ", bytes(type),
                         "; it is cut off or damaged");
                  return Tensor::from(type, file.data() + head.begin);
                });
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
  std::string file = text(kNpyMagic, '\x01', '\x00');
  const auto length = static_cast<std::uint16_t>(header.size());
  file.append(reinterpret_cast<const char*>(&length), 2);
  file += header;
  const std::size_t begin = file.size();
  file.resize(begin + bytes(tensor.type()));
  tensor.read(file.data() + begin);
  write_file(path, file);
}

}  // namespace neurim
