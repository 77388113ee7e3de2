#include "neurim/base/writable.h"
#include "neurim/cli/input_options.h"
#include "neurim/cli/open_model.h"
#include "neurim/cli/verbs.h"
#include "neurim/neurim.h"
#include "neurim/train/export_checkpoint.h"

namespace neurim::cli {

namespace {

/// "best.onnx (1,024 KiB)", or both names with the size of both.
std::string described(const OnnxExport& files) {
  return text(join(files.names(), " and "), " (", thousands(static_cast<std::int64_t>(files.size() >> 10)), " KiB)");
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
  const Preprocess& p = checkpoint.config.preprocess;
  const std::string input_text = checkpoint.config.sequence ? text(sequence_type(checkpoint.config, 1))
                                                            : text(p.channels, 'x', p.height, 'x', p.width);
  if (format == "neurim") {
    if (line.dry_run()) {
      function_of(checkpoint, options.dynamic_batch);
      if (!writes_in_place(path)) check_can_make(fs::absolute(path).parent_path());
      return line.end_dry_run(console, text("write ", path.string()), {{"path", path.string()}});
    }
    export_function(checkpoint, path, options.dynamic_batch);
    if (checkpoint.path.empty()) console.print(drawn_weights_note(checkpoint));
    const auto size = static_cast<std::int64_t>(fs::file_size(path));
    console.print(text("Saved ", path.string(), " (", thousands(size >> 10), " KiB), input ", input_text));
    console.event({{"event", "summary"},
                   {"path", path.string()},
                   {"files", std::vector<std::string>{path.string()}},
                   {"bytes", size}});
    return 0;
  }
  if (line.dry_run()) {
    const OnnxExport files = onnx_of(checkpoint, path, options);
    if (!writes_in_place(path)) check_can_make(fs::absolute(path).parent_path());
    if (fs::exists(fs::absolute(path).parent_path())) files.check_can_write();
    return line.end_dry_run(console, text("write ", described(files)),
                            {{"path", path.string()}, {"files", files.names()}, {"bytes", files.size()}});
  }
  const OnnxExport files = export_checkpoint(checkpoint, path, options);
  if (checkpoint.path.empty()) console.print(drawn_weights_note(checkpoint));
  console.print(text("Saved ", described(files), ", input ", input_text));
  console.event({{"event", "summary"}, {"path", path.string()}, {"files", files.names()}, {"bytes", files.size()}});
  return 0;
}

}  // namespace neurim::cli
