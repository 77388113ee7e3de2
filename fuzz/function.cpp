// What no bytes may crash: function files.
#include "neurim/function/function.h"

#include <cstdlib>

#include "neurim/base/error.h"
#include "tests/memory_file.h"

namespace neurim {
void define_ops();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const bool defined = (neurim::define_ops(), true);
  if (!defined || size < 1) return 0;
  try {
    // By turns a whole file and the text of a graph, whose tensors are all there.
    if (data[0] % 2 == 0) {
      const neurim::MemoryFile file({reinterpret_cast<const char*>(data) + 1, size - 1});
      const neurim::Function function = neurim::read_function(file.path());
      if (neurim::parse_graph(function.graph.text(function.outputs), [&](const std::string& name, const neurim::Type&) {
            for (const auto& [known, tensor] : neurim::stored_tensors(function.graph))
              if (known == name) return tensor;
            std::abort();
          }).graph.text() != function.graph.text())
        std::abort();
    } else {
      neurim::parse_graph({reinterpret_cast<const char*>(data) + 1, size - 1},
                          [](const std::string&, const neurim::Type& type) {
                            neurim::require(bytes(type) <= std::size_t{1} << 20, "too large for a test");
                            return neurim::Tensor::empty(type);
                          });
    }
  } catch (const neurim::Error& error) {
    if (error.fault() != neurim::Fault::data && error.fault() != neurim::Fault::usage) std::abort();
  }
  return 0;
}
