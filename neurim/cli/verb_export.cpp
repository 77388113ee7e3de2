#include "neurim/base/writable.h"
#include "neurim/cli/input_options.h"
#include "neurim/cli/open_model.h"
#include "neurim/cli/verbs.h"
#include "neurim/infer/parity.h"
#include "neurim/neurim.h"
#include "neurim/train/export_checkpoint.h"

namespace neurim::cli {

namespace {

/// The files of an export.
struct Files {
  std::vector<std::string> names;
  std::uintmax_t bytes;  ///< of all
};

constexpr double kLeastAgreement = 1, kMostDifference = 1e-4;  // of the likeliest classes; of probabilities
constexpr int kUnlike = 5;                                     // the exit code of an export that answers otherwise

/// "best.onnx (1,024 KiB)", or both names with the size of both.
std::string described(const Files& files) {
  return text(join(files.names, " and "), " (", thousands(static_cast<std::int64_t>(files.bytes >> 10)), " KiB)");
}

/// Writes the names of the classes and parity.json beside the file: of one in a folder that the user chose under its
/// own name.
bool compare_export(const Checkpoint& checkpoint, const fs::path& path, bool own_folder, const std::string& data,
                    double tolerance, Console& console, JsonObject& summary) {
  const auto beside = [&](const char* name) {
    return path.parent_path() / (own_folder ? name : text(path.stem().string(), '.', name));
  };
  if (!checkpoint.config.sequence) write_file(beside("labels.txt"), join(checkpoint.config.class_names, "\n") + "\n");
  std::string note;
  const auto images = parity_images(checkpoint, data, note);
  if (!note.empty()) console.print(text("note: compared on drawn images, as of the data of training: ", note));
  const Parity parity = parity_of(checkpoint, InferenceSession(OnnxModel::open(path)), images);
  write_file(beside("parity.json"), parity.json(kLeastAgreement, tolerance));
  console.print(text("Compared with the model on ", parity.source, ": the likeliest class is the same for ",
                     fixed(parity.top1_agreement * 100, 1), " %, probabilities differ by at most ",
                     parity.largest_difference));
  if (!parity.within(kLeastAgreement, tolerance))
    console.print(text("the export answers otherwise than the model: at most ", tolerance, " is allowed (parity_tol)"));
  summary.add("top1_agreement", parity.top1_agreement);
  summary.add("largest_difference", parity.largest_difference);
  return parity.within(kLeastAgreement, tolerance);
}

/// What a dry run says.
int would_write(const Checkpoint& checkpoint, const std::string& format, const fs::path& path,
                const OnnxExportOptions& options, const CommandLine& line, Console& console) {
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

/// Throws Error(usage) where the options do not fit together.
void check_options(const CommandLine& line, const std::string& format, const std::string& output) {
  require(format == "onnx" || format == "neurim", "format: there is no '", format, "'; known are onnx, neurim");
  for (const char* name : {"opset", "data", "parity_tol"})
    require(format == "onnx" || !line.given(name), name, ": is for format=onnx");
  if (!output.empty() && (is_there(output) || !fs::path(output).has_filename())) check_can_write(output);
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
  std::string data;
  double tolerance = kMostDifference;
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
  line.options("data", data,
               "images that the ONNX file is compared with the model on; by default the run's validation split, else "
               "drawn ones");
  line.options("parity_tol", tolerance,
               "how much the probabilities of the ONNX file may differ from the model's; more end with exit code 5");
  line.options("seed", seed, kSeedOfWeights);
  if (!line.parse(words)) return 0;
  check_options(line, format, output);

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
  if (line.dry_run()) return would_write(checkpoint, format, path, options, line, console);
  Files files{{path.string()}, 0};
  if (format == "onnx") {
    const OnnxExport written = export_checkpoint(checkpoint, path, options);
    files = {written.names(), written.size()};
  } else {
    export_function(checkpoint, path, options.dynamic_batch);
    files.bytes = fs::file_size(path);
  }
  int exit_code = 0;
  if (checkpoint.path.empty()) console.print(drawn_weights_note(checkpoint));
  const Preprocess& p = checkpoint.config.preprocess;
  console.print(text("Saved ", described(files), ", input ",
                     checkpoint.config.sequence ? text(input_type(checkpoint.config, 1))
                                                : text(p.channels, 'x', p.height, 'x', p.width)));
  JsonObject summary{{"event", "summary"}, {"path", path.string()}, {"files", files.names}, {"bytes", files.bytes}};
  const bool compares = format == "onnx" && !writes_in_place(path);  // what is written away is not there to be read
  if (compares && !compare_export(checkpoint, path, output.empty(), data, tolerance, console, summary))
    exit_code = kUnlike;
  console.event(summary);
  return exit_code;
}

}  // namespace neurim::cli
