#include "neurim/cli/export_formats.h"

#include <algorithm>
#include <iterator>

#include "neurim/train/export_checkpoint.h"

namespace neurim::cli {

namespace {

constexpr const char* kMade[] = {"openvino", "engine", "triton"};

/// A name that folders and servers take.
std::string plain_name(const std::string& model) {
  std::string name = fs::path(model).stem().string();
  for (char& letter : name)
    if (!std::isalnum(static_cast<unsigned char>(letter)) && letter != '-' && letter != '_') letter = '_';
  return name;
}

}  // namespace

bool ExportFormat::from_onnx() const { return std::find(std::begin(kMade), std::end(kMade), name) != std::end(kMade); }

bool ExportFormat::of_weights() const { return name == "pt" || name == "timm"; }

bool ExportFormat::known() const { return name == "onnx" || name == "neurim" || from_onnx() || of_weights(); }

fs::path ExportFormat::path(const Checkpoint& checkpoint) const {
  if (name == "triton") {
    const fs::path repository = output.empty() ? export_path(checkpoint, "onnx").parent_path() / "triton"
                                               : fs::path(output);
    return repository / plain_name(checkpoint.config.model);
  }
  if (!output.empty()) return output;
  if (name == "openvino") {
    const fs::path beside = export_path(checkpoint, "xml");
    return beside.parent_path() / "openvino" / beside.filename();
  }
  if (name == "timm") return export_path(checkpoint, "onnx").parent_path() / "timm";
  return export_path(checkpoint, name);
}

fs::path ExportFormat::onnx(const Checkpoint& checkpoint) const {
  const fs::path made = path(checkpoint);
  if (name == "triton") return made / "1" / "model.onnx";
  return from_onnx() ? fs::path(text(made.string(), ".onnx")) : made;
}

bool ExportFormat::make(const Checkpoint& checkpoint, double tolerance, Console& console, JsonObject& summary) const {
  const fs::path made = path(checkpoint), file = onnx(checkpoint);
  bool alike = true;
  if (name == "triton") {
    write_file(made / "config.pbtxt",
               triton_config(made.filename().string(), InferenceSession::open(file, {}, 1), engine.batches[2]));
    write_file(made / "labels.txt", join(checkpoint.config.class_names, "\n") + "\n");
    console.print(text("Saved ", made.string(), ": tritonserver --model-repository=", made.parent_path().string()));
  } else if (name == "openvino") {
    double difference = 0;
    const Writer by = write_openvino(file, made, half, engine.python, difference);
    alike = difference <= tolerance;
    console.print(text("Saved ", made.string(), " by ", by.module, ' ', by.version, ", whose outputs differ by ",
                       difference, alike ? "" : text("; allowed are ", tolerance, " (parity_tol)")));
    summary.add("largest_difference_openvino", difference);
    std::error_code ignored;
    fs::remove(file, ignored);
  } else {
    console.print(trtexec_command(file, made, InferenceSession::open(file, {}, 1), engine));
    const std::string old = engine_is_old(file, made, engine);
    if (old.empty()) {
      console.print(text(made.string(), " is of this model already"));
    } else {
      const Writer by = build_engine(file, made, engine);
      console.print(text("Saved ", made.string(), " by ", by.module, ' ', by.version, " (built anew, as ", old, ")"));
    }
  }
  summary.add("made", made.string());
  return alike;
}

}  // namespace neurim::cli
