// State dicts as torch.save writes them, without running the pickles in them.
#pragma once
#include "neurim/weights/state_dict.h"

namespace neurim {

/// Whether the file begins like a zip archive or like what torch.save wrote before PyTorch 1.6.
bool is_pytorch_file(std::span<const std::byte> file);

/// Reads a state dict out of a .pt, .pth, .th or .bin file: PyTorch's zip form (members must be stored, as
/// torch.save does) or the form before 1.6, little-endian, with pickles of protocol 2 to 5 that hold nothing but
/// tensors, numbers, strings and their tuples, lists and dicts. Anything else is refused by name; nothing is
/// executed.
///
/// A checkpoint that holds the state dict under a key is searched: state_dict_ema, model_ema, state_dict,
/// model, else the only key that leads to tensors; notes say which was taken. Tensors of any strides become
/// contiguous, those that share storage become independent, negated views get their values, int16 becomes i32. No
/// tensor may be larger than the file. Throws Error(data) naming the file, and the tensor where it is one's fault.
StateDict read_pytorch_file(const fs::path& path);

/// Writes a state dict as torch.save does, for torch.load(FILE, weights_only=True), atomically: PyTorch's zip form with
/// a pickle of protocol 2. Throws Error(usage) above 4 GiB, and for dtypes that its storages have not (u16, u32, u64).
void write_pytorch_file(const fs::path& path, const std::vector<std::pair<std::string, Tensor>>& tensors);

}  // namespace neurim
