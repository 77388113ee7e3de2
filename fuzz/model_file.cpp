// What no bytes may crash: model files.
#include "neurim/model/model_file.h"

#include <cstdlib>

#include "neurim/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const neurim::ModelFile file({reinterpret_cast<const char*>(data), size}, "net.toml");
    file.build({.num_classes = 3, .in_chans = 3, .height = 16, .width = 16, .seed = {}, .most_values = 1 << 18});
  } catch (const neurim::Error& error) {
    if (error.fault() != neurim::Fault::data) std::abort();
  }
  return 0;
}
