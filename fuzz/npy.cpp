// What no bytes may crash: NumPy files; the first byte says which kind.
#include "neurim/base/error.h"
#include "neurim/data/sources/npy_array.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    if (size == 0) return 0;
    const neurim::Bytes file = neurim::bytes_in_memory(bytes.subspan(1));
    if (data[0] & 1) {
      neurim::parse_npy(file);
    } else {
      (data[0] & 2 ? neurim::parse_npz_heads : neurim::parse_npz)(file, [](const std::string&) { return true; });
    }
  } catch (const neurim::Error&) {
  }
  return 0;
}
