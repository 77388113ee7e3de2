// What no bytes may crash: safetensors files.
#include "neurim/weights/safetensors.h"

#include <cstdlib>

#include "neurim/base/error.h"
#include "tests/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const neurim::MemoryFile file({reinterpret_cast<const char*>(data), size});
  try {
    const neurim::SafeTensors opened(file.path());
    for (const std::string& name : opened.names()) opened.load(name);
  } catch (const neurim::Error& error) {
    if (error.fault() != neurim::Fault::data) std::abort();
  }
  return 0;
}
