// Reads a weights file and writes all its tensors as safetensors, for state_dict_test.py to compare with PyTorch.
//   state_dict_to_safetensors IN OUT
#include <cstdio>

#include "neurim/neurim.h"

int main(int argc, char** argv) {
  using namespace neurim;
  try {
    require(argc == 3, "usage: state_dict_to_safetensors IN OUT");
    std::vector<std::pair<std::string, Tensor>> tensors;
    for (const auto& [name, entry] : read_state_dict(argv[1]).entries) tensors.emplace_back(name, entry.load());
    write_safetensors(argv[2], tensors);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.fault());
  }
}
