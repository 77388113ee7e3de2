#include "neurim/cli/open_model.h"

#include <algorithm>

#include "neurim/base/error.h"
#include "neurim/model/zoo.h"

namespace neurim::cli {

Checkpoint open_model(const std::string& name) {
  require(!name.empty(), "the model is missing; give a run folder, a weights file or a known name: model=…");
  const std::vector<std::string> known = model_names();
  const bool is_known = std::find(known.begin(), known.end(), name) != known.end();
  if (!is_known &&
      (fs::exists(name) || name.find('/') != std::string::npos || ends_with(name, ".safetensors")))
    return load_checkpoint(name);
  Model model = create_model(name);
  ModelCard card{.model = model.name, .in_chans = model.in_chans};
  card.preprocess.channels = static_cast<int>(model.in_chans);
  card.preprocess.height = card.preprocess.width = static_cast<int>(model.image_size);
  card.preprocess.mean = model.mean;
  card.preprocess.std = model.deviation;
  return {{}, std::move(card), std::move(model)};
}

std::string drawn_weights_note(const Checkpoint& checkpoint) {
  return text("note: ", checkpoint.card.model, " is a name, so its weights are drawn, not trained");
}

Type image_type(const Preprocess& preprocess, std::int64_t batch) {
  require(batch >= 1, "batch is ", batch, "; it is at least 1");
  return {DType::f32, {batch, preprocess.channels, preprocess.height, preprocess.width}};
}

}  // namespace neurim::cli
