// Saving and loading the tensors of any module (models, optimizers).
#pragma once
#include "neurim/nn/module.h"
#include "neurim/weights/state_dict.h"

namespace neurim {

struct Model;

/// Writes all tensors of the module, weights and state, as safetensors with checksums under their full names. A tied
/// tensor is written once, under its first name.
void save_model(ModuleRef module, const fs::path& path, const Metadata& metadata = {});

/// How closely weights have to fit a module. `exact`: name for name and shape for shape.
///
/// `adapt`, for fine-tuning: exact, but the last layer keeps its drawn values where the weights are of
/// another number of classes or have no such layer; and where the first convolution has other input channels,
/// its weights are summed over them for 1 channel, else repeated and scaled by their ratio, which keeps the
/// level of what comes out (as timm does: timm.models.adapt_input_conv); and position embeddings that were learnt for
/// images of another size are resampled (see resampled_positions).
///
/// `any`: what fits is taken, the rest stays as it was.
enum class Fit : std::uint8_t { exact, adapt, any };

/// What came of loading weights into a module.
struct LoadReport {
  Metadata metadata;                 ///< of the file
  std::int64_t taken = 0,            ///< tensors that were filled
      all = 0;                       ///< the module's tensors but for Model::computed
  std::vector<std::string> missing;  ///< in the file; names of the module
  std::vector<std::string> unfit;    ///< of another type: name and both types
  std::vector<std::string> unused;   ///< names in the file
  std::vector<std::string> notes;    ///< what was chosen, adapted or passed over, a line each
};

/// Fills the module's tensors. An f32 or f64 tensor takes data of the other floating types too. A tied tensor may stand
/// under any of its names. "module." (DataParallel) or "_orig_mod." (torch.compile) before all names of the file is
/// passed over, which is noted. PyTorch's counters num_batches_tracked and n_averaged are passed over without
/// a word: nothing here reads them. Where the fit is not as close as asked for, throws one Error(data) that
/// counts and names the tensors that the file lacks, that the module has no place for and whose types differ,
/// before anything is changed. Throws Error(data), too, where values are not finite, and changes nothing either.
LoadReport load_model(ModuleRef module, const StateDict& weights, Fit fit = Fit::exact);

/// The same for a model, whose tensors may also all have the names that another library gives them
/// (Model::other_names); which is noted. Such a tensor may be of another shape: without axes of size 1, or a linear
/// layer's for a convolution's. Names of older files (Model::older_names) are known, and what Model::passed_over names
/// is noted. What Model::computed names need not be there, and throws Error(data) where it is there and not the same.
LoadReport load_model(const Model& model, const StateDict& weights, Fit fit = Fit::exact);

/// The same with the weights of a file: see read_state_dict.
LoadReport load_model(ModuleRef module, const fs::path& path, Fit fit = Fit::exact);
/// The same of a model.
LoadReport load_model(const Model& model, const fs::path& path, Fit fit = Fit::exact);

/// How many classes and input channels weights have that are the model's but for these numbers.
struct Ends {
  std::int64_t classes,  ///< that the last layer tells apart
      channels;          ///< that the first convolution takes
};
/// Throws Error(data) where they have no such last layer.
Ends ends_of(const Model& model, const StateDict& weights);

/// Moves all tensors of the model to the device, and gives the model back.
const Model& place(const Model& model, Device device);
/// Where they lie; the CPU where there are none.
Device device_of(const Model& model);

}  // namespace neurim
