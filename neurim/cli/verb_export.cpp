#include <algorithm>
#include <cmath>

#include "neurim/base/writable.h"
#include "neurim/cli/export_formats.h"
#include "neurim/cli/input_options.h"
#include "neurim/cli/open_model.h"
#include "neurim/cli/verbs.h"
#include "neurim/infer/parity.h"
#include "neurim/neurim.h"
#include "neurim/train/export_checkpoint.h"
#include "neurim/train/model_folder.h"
#include "neurim/train/onnx_preprocess.h"

namespace neurim::cli {

namespace {

/// The files of an export.
struct Files {
  std::vector<std::string> names;
  std::uintmax_t bytes;  ///< of all
};

/// How alike an export answers.
struct Bounds {
  double agreement, difference;  ///< of the likeliest classes, and of probabilities
};
constexpr Bounds kExact{1, 1e-4},  // of f32
    kRounded{1, 0.01},             // where a pixel may be rounded the other way
    kHalf{0.99, 0.01},             // of f16 and bf16
    kBytes{0.99, 0.05};            // of 8 bits, where a number between two of them may be rounded the other way
constexpr int kUnlike = 5;         // the exit code of an export that answers otherwise

/// "best.onnx (1,024 KiB)", or both names with the size of both.
std::string described(const Files& files) {
  return text(join(files.names, " and "), " (", thousands(static_cast<std::int64_t>(files.bytes >> 10)), " KiB)");
}

/// Writes the names of the classes and parity.json beside the file: of one in a folder that the user chose under its
/// own name.
bool compare_export(const Checkpoint& checkpoint, const fs::path& path, InputLayout layout, bool own_folder,
                    const std::string& data, const Bounds& bounds, Console& console, JsonObject& summary) {
  const auto beside = [&](const char* name) {
    return path.parent_path() / (own_folder ? name : text(path.stem().string(), '.', name));
  };
  if (!checkpoint.config.sequence) write_file(beside("labels.txt"), join(checkpoint.config.class_names, "\n") + "\n");
  std::string note;
  const auto images = parity_images(checkpoint, data, note);
  // Of drawn images several classes may be as likely, which rounding then decides.
  const double least_agreement = images || bounds.agreement == 1 ? bounds.agreement : 0;
  if (!note.empty()) console.print(text("note: compared on drawn images, as of the data of training: ", note));
  const Parity parity = parity_of(checkpoint, InferenceSession::open(path, {}, 1), images, layout);
  write_file(beside("parity.json"), parity.json(least_agreement, bounds.difference));
  const bool numbers = checkpoint.config.task().answer == Answer::values;
  console.print(text("Compared with the model on ", parity.source, ": ",
                     numbers ? "numbers differ, as a share of the largest, by at most "
                             : text("the likeliest class is the same for ", fixed(parity.top1_agreement * 100, 1),
                                    " %, probabilities differ by at most "),
                     parity.largest_difference));
  const bool alike = parity.within(least_agreement, bounds.difference);
  if (!alike)
    console.print(text("the export answers otherwise than the model: ",
                       numbers ? "" : text("the same class for ", least_agreement * 100, " % is asked, and "),
                       "at most ", bounds.difference, " is allowed (parity_tol)"));
  summary.add("top1_agreement", parity.top1_agreement);
  summary.add("largest_difference", parity.largest_difference);
  return alike;
}

/// Whether layers of the model read numbers of 8 bits.
bool reads_bytes(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Graph::Node& node) { return node.op->name() == "quantize"; });
}

/// What a dry run says.
int would_write(const Checkpoint& checkpoint, const std::string& format, const fs::path& path,
                const OnnxExportOptions& options, ExportedPreprocess preprocess, InputLayout layout,
                const CommandLine& line, Console& console) {
  std::optional<OnnxExport> files;
  if (format != "neurim")
    files = onnx_of(checkpoint, path, options, preprocess, layout);
  else
    function_of(checkpoint, options.dynamic_batch, layout);
  const fs::path folder = fs::absolute(path).parent_path();
  if (!writes_in_place(path)) check_can_make(folder);
  if (!files) return line.end_dry_run(console, text("write ", path.string()), {{"path", path.string()}});
  if (fs::exists(folder)) files->check_can_write();
  return line.end_dry_run(console, text("write ", described({files->names(), files->size()})),
                          {{"path", path.string()}, {"files", files->names()}, {"bytes", files->size()}});
}

/// Throws Error(usage) where the options do not fit together.
void check_options(const CommandLine& line, const ExportFormat& format, const std::string& output) {
  require(format.known(), "format: there is no '", format.name,
          "'; known are onnx, neurim, openvino, engine, triton, pt, timm");
  for (const char* name : {"opset", "preprocess", "half", "data", "parity_tol"})
    require(format.name == "onnx" || format.from_onnx() || !line.given(name), name,
            ": is for format=onnx, and what is made of it");
  for (const char* name : {"dynamic", "input_layout"})
    require(!format.of_weights() || !line.given(name), name, ": is of a graph, and format=", format.name,
            " writes weights alone");
  const std::pair<const char*, std::vector<std::string>> of_some[] = {
      {"python", {"openvino", "engine"}}, {"gpus", {"engine"}}, {"batches", {"engine", "triton"}}};
  for (const auto& [name, formats] : of_some)
    require(!line.given(name) || std::find(formats.begin(), formats.end(), format.name) != formats.end(), name,
            ": is for format=", join(formats, " and format="));
  for (const char* name : {"resize", "crop_pct", "interpolation", "decode", "imgsz"})
    require(format.name != "pt" || !line.given(name), name, ": is of images, and format=pt writes weights alone");
  if (format.name == "triton" || format.name == "timm") return;
  if (!output.empty() && (is_there(output) || !fs::path(output).has_filename())) check_can_write(output);
}

/// What the option says: by default a classifier of images of 8 bits has it in the file.
ExportedPreprocess exported_preprocess(const std::string& chosen, const std::string& format,
                                       const Checkpoint& checkpoint, InputLayout layout) {
  require(chosen.empty() || chosen == "embedded" || chosen == "external", "preprocess: there is no '", chosen,
          "'; known are embedded, external");
  require(chosen != "embedded" || format != "engine",
          "preprocess: TensorRT takes no images of u8; engines are of format f32, preprocess=external");
  const bool turned = layout == InputLayout::nhwc;
  require(!turned || chosen != "embedded",
          "input_layout: is for preprocess=external; with the preprocessing in it the file takes u8 (N,H,W,C) already");
  const bool embedded = chosen.empty()
                            ? format != "engine" && !turned && embeds_no_preprocess(checkpoint.config).empty()
                            : chosen == "embedded";
  return embedded ? ExportedPreprocess::embedded : ExportedPreprocess::external;
}

/// The type that the option says; bf16 with the first opset that has it, unless another one is given.
void choose_dtype(const std::string& half, bool opset_given, OnnxExportOptions& options) {
  if (half == "false" || half == "f32") return;
  require(half == "true" || half == "f16" || half == "bf16", "half: there is no '", half,
          "'; known are true, false, f16, bf16");
  options.dtype = half == "bf16" ? DType::bf16 : DType::f16;
  if (options.dtype == DType::bf16 && !opset_given) options.opset = kBf16Opset;
}

struct ExportOptions {
  std::string model, arch, data, preprocess, half = "false", input_layout = "model";
  ExportFormat format{.name = "onnx"};
  std::vector<double> batches{1, 8, 32};
  InputOptions input;
  OnnxExportOptions onnx;
  std::int64_t seed = 0;
  std::optional<double> tolerance;

  void visit(CommandLine& line) {
    line.options.topic("most used");
    line.options("model", model, "run folder, model folder, weights or function file, model file, or known name",
                 {"m"});
    line.options("arch", arch, kArchOfWeights);
    line.options(
        "format", format.name,
        "onnx; neurim: the graph with its weights in one file, which all verbs take; openvino: IR, by the Python "
        "module openvino; engine: by tensorrt_rtx or tensorrt; triton: a model repository; pt: the weights as a state "
        "dict of PyTorch; timm: a folder for timm.create_model('local-dir:FOLDER')");
    line.options("output", format.output,
                 "file to write, of triton the repository; by default below export in the run folder, as best.onnx");
    input.visit(line.options);
    line.options.topic("output");
    line.options(
        "half", half,
        "true or f16: weights and what is computed in 16 bits, inputs and outputs as they are; bf16: so in bf16, "
        "with opset 22 or later");
    line.options("preprocess", preprocess,
                 "embedded: the file resizes and normalises images u8 (N,H,W,C) and gives probabilities; external: it "
                 "takes f32 (N,C,H,W) as the network does and gives logits; by default embedded, of pixels of 16 bits "
                 "external");
    line.options("input_layout", input_layout,
                 "of preprocess=external: nhwc: the file takes f32 (N,H,W,C); model: (N,C,H,W)");
    line.options("opset", onnx.opset, "version of ONNX's operators");
    line.options("dynamic", onnx.dynamic_batch,
                 "takes any number of images, and series of any length; else one, of the length of training");
    line.options("data", data,
                 "images that the ONNX file is compared with the model on; by default the run's validation split, else "
                 "drawn ones");
    line.options(
        "parity_tol", tolerance,
        "how much the probabilities of the ONNX file may differ from the model's; more end with exit code 5; by "
        "default 0.0001, with preprocessing in the file or in 16 bits 0.01, of layers in 8 bits 0.05");
    line.options("python", format.engine.python, "the Python that has the modules of openvino and engine");
    line.options("gpus", format.engine.gpus,
                 "compute capabilities that an engine is built for, such as 80,86; by default of the GPU that is here");
    line.options("batches", batches,
                 "the least, usual and largest number of samples of an engine; triton takes the last");
    line.options("seed", seed, kSeedOfWeights);
  }
};

/// format=pt and format=timm.
int export_weights(const Checkpoint& checkpoint, const ExportOptions& o, const CommandLine& line, Console& console) {
  const fs::path path = o.format.path(checkpoint);
  const bool folder = o.format.name == "timm";
  require(!checkpoint.config.regression(), "format=", o.format.name,
          " writes weights alone, which do not have the scale "
          "of the numbers that ",
          checkpoint.path.string(), " gives; export format=onnx or format=neurim");
  for (const fs::path& file :
       folder ? std::vector{path / "model.safetensors", path / "config.json"} : std::vector{path})
    check_no_input(file, files_of_model(o.model, checkpoint));
  std::optional<Model> model;
  if (folder) model = timm_model_of(checkpoint);
  check_has_state_dict(checkpoint);
  if (checkpoint.path.empty()) console.print(drawn_weights_note(checkpoint));
  if (line.dry_run()) {
    check_can_make(folder ? path : fs::absolute(path).parent_path());
    return line.end_dry_run(console, text("write ", path.string()), {{"path", path.string()}});
  }
  model ? write_timm_folder(*model, checkpoint.config, path) : export_state_dict(checkpoint, path);
  const auto bytes = fs::file_size(folder ? path / "model.safetensors" : path);
  console.print(text("Saved ", path.string(), " (", thousands(static_cast<std::int64_t>(bytes >> 10)),
                     " KiB): ", folder ? "timm.create_model('local-dir:" : "torch.load('", path.string(),
                     folder ? "', pretrained=True)" : "', weights_only=True)"));
  console.event({{"event", "summary"}, {"path", path.string()}, {"bytes", bytes}});
  return 0;
}

}  // namespace

int verb_export(const Words& words) {
  CommandLine line(
      {"export",
       "writes a model as an ONNX file, or one of Neurim's own: of images u8 (N,H,W,C) of any size in, probabilities "
       "out; of a series (N,steps,columns) in, what comes next out; labels and preprocessing in its metadata",
       "model",
       {"neurim export model=runs/classify/train format=onnx", "neurim export runs/classify/train format=neurim",
        "neurim export best.safetensors output=shop.onnx opset=18 dynamic=false"}});
  ExportOptions o;
  o.visit(line);
  if (!line.parse(words)) return 0;
  check_options(line, o.format, o.format.output);
  const bool whole = std::all_of(o.batches.begin(), o.batches.end(),
                                 [](double n) { return n >= 1 && n < 1e6 && n == std::floor(n); });
  require(whole && o.batches.size() == 3 && std::is_sorted(o.batches.begin(), o.batches.end()),
          "batches are three whole numbers that do not fall, such as 1,8,32");
  for (std::size_t i = 0; i < 3; ++i) o.format.engine.batches[i] = static_cast<std::int64_t>(o.batches[i]);
  o.format.half = o.half != "false" && o.half != "f32";
  choose_dtype(o.half, line.given("opset"), o.onnx);

  initialize();
  Console console(line.console());
  Checkpoint checkpoint = open_model(o.model, o.arch, o.input.imgsz, o.seed);
  if (checkpoint.config.sequence)
    refuse_options(line, {"imgsz", "resize", "crop_pct", "interpolation", "decode"}, checkpoint);
  else
    checkpoint.config.preprocess = o.input.applied_to(checkpoint.config.preprocess);
  if (o.input.imgsz) check_size(checkpoint.model, *o.input.imgsz);
  print_notes(checkpoint, console);
  if (checkpoint.config.task() == forecast_task())
    if (const std::string lost = lost_in_f32(checkpoint); !lost.empty()) console.print(text("note: ", lost));
  const InputLayout layout = input_layout_named(o.input_layout);
  if (checkpoint.config.sequence) refuse_options(line, {"input_layout"}, checkpoint);
  if (o.format.of_weights()) return export_weights(checkpoint, o, line, console);
  const Graph graph = function_of(checkpoint, o.onnx.dynamic_batch).graph;
  if (needs_bf16_opset(graph) && !line.given("opset")) o.onnx.opset = std::max(o.onnx.opset, kBf16Opset);
  const ExportedPreprocess kind = exported_preprocess(o.preprocess, o.format.name, checkpoint, layout);
  const fs::path path = o.format.onnx(checkpoint);
  check_no_input(path, files_of_model(o.model, checkpoint));
  require(o.format.name == "neurim" || writes_in_place(path) || lower(path.extension().string()) == ".onnx",
          "output: ", path.string(), " would not be known as an ONNX file again; call it ", path.string(), ".onnx");
  if (line.dry_run()) return would_write(checkpoint, o.format.name, path, o.onnx, kind, layout, line, console);
  Files files{{path.string()}, 0};
  if (o.format.name != "neurim") {
    const OnnxExport written = export_checkpoint(checkpoint, path, o.onnx, kind, layout);
    files = {written.names(), written.size()};
  } else {
    export_function(checkpoint, path, o.onnx.dynamic_batch, layout);
    files.bytes = fs::file_size(path);
  }
  int exit_code = 0;
  if (checkpoint.path.empty()) console.print(drawn_weights_note(checkpoint));
  const Preprocess& p = checkpoint.config.preprocess;
  const bool embedded = o.format.name != "neurim" && kind == ExportedPreprocess::embedded;
  console.print(text("Saved ", described(files), ", input ",
                     checkpoint.config.sequence ? text(input_type(checkpoint.config, 1))
                     : embedded                 ? text("u8(N,height,width,", p.channels, ") of any size, resized to ")
                     : layout == InputLayout::nhwc ? "(N,H,W,C) of "
                                                   : "",
                     checkpoint.config.sequence ? "" : text(p.channels, 'x', p.height, 'x', p.width)));
  JsonObject summary{{"event", "summary"}, {"path", path.string()}, {"files", files.names}, {"bytes", files.bytes}};
  const bool compares = o.format.name != "neurim" &&
                        !writes_in_place(path);  // what is written away is not there to be read
  Bounds bounds = reads_bytes(graph) ? kBytes : o.onnx.dtype != DType::f32 ? kHalf : embedded ? kRounded : kExact;
  bounds.difference = o.tolerance.value_or(bounds.difference);
  if (compares && !compare_export(checkpoint, path, layout, o.format.output.empty(), o.data, bounds, console, summary))
    exit_code = kUnlike;
  if (o.format.from_onnx() && exit_code == 0 && !o.format.make(checkpoint, bounds.difference, console, summary))
    exit_code = kUnlike;
  console.event(summary);
  return exit_code;
}

}  // namespace neurim::cli
