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

void say_notes(const Checkpoint& checkpoint, Console& console) {
  for (const std::string& note : checkpoint.notes)
    console.say(text("note: ", checkpoint.path.string(), ": ", note));
}

std::string drawn_weights_note(const Checkpoint& checkpoint) {
  return text("note: ", checkpoint.card.model, " is a name, so its weights are drawn, not trained");
}

Type image_type(const Checkpoint& checkpoint, std::int64_t batch, std::int64_t imgsz) {
  require(batch >= 1 && imgsz >= 0, "batch is ", batch, " and imgsz ", imgsz,
          "; batch is at least 1, imgsz not negative");
  const Preprocess& p = checkpoint.card.preprocess;
  return {DType::f32, {batch, p.channels, imgsz ? imgsz : p.height, imgsz ? imgsz : p.width}};
}

}  // namespace neurim::cli
