#include "neurim/base/writable.h"
#include "neurim/cli/input_options.h"
#include "neurim/cli/open_model.h"
#include "neurim/cli/verbs.h"
#include "neurim/neurim.h"
#include "neurim/train/export_checkpoint.h"

namespace neurim::cli {

namespace {

/// The files of an export.
struct Files {
  std::vector<std::string> names;
  std::uintmax_t bytes;  ///< of all
};

/// "best.onnx (1,024 KiB)", or both names with the size of both.
std::string described(const Files& files) {
  return text(join(files.names, " and "), " (", thousands(static_cast<std::int64_t>(files.bytes >> 10)), " KiB)");
}

}  // namespace

int verb_export(const Words& words) {
  CommandLine line(
      {"export",
       "writes a model as an ONNX file, or one of Neurim's own: f32 (N,C,H,W) in, logits out, labels and preprocessing "
       "in its metadata; of a series (N,steps,columns) in, what comes next out",
       "model",
       {"neurim export model=runs/classify/train format=onnx", "neurim export runs/classify/train format=neurim",
        "neurim export best.safetensors output=shop.onnx opset=18 dynamic=false"}});
  std::string model, arch, format = "onnx", output;
  InputOptions input;
  OnnxExportOptions options;
  std::int64_t seed = 0;
  line.options.topic("most used");
  line.options("model", model, "run folder, model folder, weights or function file, model file, or known name", {"m"});
  line.options("arch", arch, kArchOfWeights);
  line.options("format", format, "onnx, or neurim: the graph with its weights in one file, which all verbs take");
  line.options("output", output, "file to write; by default export/best.onnx or best.neurim in the run folder");
  input.visit(line.options);
  line.options.topic("output");
  line.options("opset", options.opset, "version of ONNX's operators");
  line.options("dynamic", options.dynamic_batch,
               "takes any number of images, and series of any length; else one, of the length of training");
  line.options("seed", seed, kSeedOfWeights);
  if (!line.parse(words)) return 0;
  require(format == "onnx" || format == "neurim", "format: there is no '", format, "'; known are onnx, neurim");
  require(format == "onnx" || !line.given("opset"), "opset: is for format=onnx");
  if (!output.empty() && (is_there(output) || !fs::path(output).has_filename())) check_can_write(output);

  initialize();
  Console console(line.console());
  Checkpoint checkpoint = open_model(model, arch, input.imgsz, seed);
  if (checkpoint.config.sequence)
    refuse_options(line, {"imgsz", "resize", "crop_pct", "interpolation", "decode"}, checkpoint);
  else
    checkpoint.config.preprocess = input.applied_to(checkpoint.config.preprocess);
  if (input.imgsz) check_size(checkpoint.model, *input.imgsz);
  print_notes(checkpoint, console);
  if (checkpoint.config.task() == TaskKind::forecast)
    if (const std::string lost = lost_in_f32(checkpoint); !lost.empty()) console.print(text("note: ", lost));
  const fs::path path = output.empty() ? export_path(checkpoint, format) : fs::path(output);
  check_no_input(path, files_of_model(model, checkpoint));
  if (line.dry_run()) {
    std::optional<OnnxExport> files;
    if (format == "onnx")
      files = onnx_of(checkpoint, path, options);
    else
      function_of(checkpoint, options.dynamic_batch);
    const fs::path folder = fs::absolute(path).parent_path();
    if (!writes_in_place(path)) check_can_make(folder);
    if (!files) return line.end_dry_run(console, text("write ", path.string()), {{"path", path.string()}});
    if (fs::exists(folder)) files->check_can_write();
    return line.end_dry_run(console, text("write ", described({files->names(), files->size()})),
                            {{"path", path.string()}, {"files", files->names()}, {"bytes", files->size()}});
  }
  Files files{{path.string()}, 0};
  if (format == "onnx") {
    const OnnxExport written = export_checkpoint(checkpoint, path, options);
    files = {written.names(), written.size()};
  } else {
    export_function(checkpoint, path, options.dynamic_batch);
    files.bytes = fs::file_size(path);
  }
  if (checkpoint.path.empty()) console.print(drawn_weights_note(checkpoint));
  const Preprocess& p = checkpoint.config.preprocess;
  console.print(text("Saved ", described(files), ", input ",
                     checkpoint.config.sequence ? text(input_type(checkpoint.config, 1))
                                                : text(p.channels, 'x', p.height, 'x', p.width)));
  console.event({{"event", "summary"}, {"path", path.string()}, {"files", files.names}, {"bytes", files.bytes}});
  return 0;
}

}  // namespace neurim::cli
