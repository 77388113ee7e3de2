// What no bytes may crash: LMDB files.
#include "neurim/data/sources/lmdb.h"

#include "neurim/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    neurim::index_lmdb(neurim::bytes_in_memory(bytes));
  } catch (const neurim::Error&) {
  }
  return 0;
}
