// Saving and loading the tensors of any module (models, optimizers) as safetensors.
#pragma once
#include "neurim/model/safetensors.h"
#include "neurim/nn/module.h"

namespace neurim {

/// Writes all tensors of the module, weights and state, under their full names. A tied tensor is written
/// once, under its first name.
void save_model(ModuleRef module, const fs::path& path, const Metadata& metadata = {});

/// Fills the module's tensors from the file and returns the file's metadata. An f32 tensor takes f64, f16 and
/// bf16 data too. A tied tensor may stand under any of its names. `strict`: throws one Error(data) that
/// counts and names the tensors that the file lacks, that the module has no place for and whose types differ,
/// before anything is changed; else those are left as they are. PyTorch's num_batches_tracked counters are
/// passed over: nothing here reads them.
Metadata load_model(ModuleRef module, const fs::path& path, bool strict = true);

}  // namespace neurim
