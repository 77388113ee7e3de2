// What no bytes may crash: state dicts that torch.save wrote.
#include "neurim/weights/pytorch_file.h"

#include <cstdlib>

#include "neurim/base/error.h"
#include "tests/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const neurim::MemoryFile file({reinterpret_cast<const char*>(data), size});
  try {
    for (const auto& [name, entry] : neurim::read_pytorch_file(file.path()).entries) entry.load();
  } catch (const neurim::Error& error) {
    if (error.fault() != neurim::Fault::data) std::abort();
  }
  return 0;
}
