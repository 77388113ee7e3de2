// Files of weights: tensors by name.
#pragma once
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "neurim/weights/safetensors.h"

namespace neurim {

/// The named tensors of a file. Data stay in the mapped file until a tensor is loaded.
struct StateDict {
  /// One tensor, not yet read.
  struct Entry {
    Type type;                                  ///< as stored
    std::function<void(std::byte* host)> read;  ///< copies out in row-major order; keeps the file mapped
    Tensor load(Device device = {}) const;      ///< into the memory of the device
  };

  fs::path path;                                      ///< of the file, for messages
  Metadata metadata;                                  ///< of a safetensors file
  std::vector<std::string> notes;                     ///< what was chosen among several things, a line each
  std::map<std::string, Entry, std::less<>> entries;  ///< by name

  std::vector<std::string> names() const;  ///< sorted
};

/// Reads safetensors, a safetensors index (model.safetensors.index.json, as Hugging Face cuts large models
/// into files beside it), or a state dict that torch.save wrote (pytorch_file.h), told apart by content.
/// Everything but the values is checked, and where the file has a checksum of them these too; throws Error(data) naming
/// the file and the tensor.
StateDict read_state_dict(const fs::path& path);
/// The same of the bytes of a safetensors file, which live as long as the result; `name` stands for the path.
StateDict read_state_dict(std::span<const std::byte> safetensors, const fs::path& name);

}  // namespace neurim
