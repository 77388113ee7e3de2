#include <algorithm>

#include "neurim/base/writable.h"
#include "neurim/cli/open_model.h"
#include "neurim/cli/verbs.h"
#include "neurim/infer/session.h"
#include "neurim/neurim.h"
#include "neurim/train/onnx_checkpoint.h"

namespace neurim::cli {

namespace {

/// The numpy expression that brings images `x` of another axis order to that of the layout; "" if they have it, or
/// other channels.
std::string_view axes_in_order(const Shape& shape, std::int64_t channels, InputLayout layout) {
  if (layout == InputLayout::nhwc)
    return shape.rank() == 4 && shape[3] != channels && shape[1] == channels ? "x.transpose(0, 2, 3, 1)" : "";
  const int axes = shape.rank();
  if (axes == 4 && shape[1] != channels && shape[3] == channels) return "x.transpose(0, 3, 1, 2)";
  if (axes == 3 && shape[2] == channels) return "x.transpose(2, 0, 1)[None]";
  if (axes == 3 && channels == 1) return "x[:, None]";
  if (axes == 3 && shape[0] == channels) return "x[None]";
  if (axes == 2 && channels == 1) return "x[None, None]";
  return "";
}

/// The input of a checkpoint as f32; numpy makes most arrays f64. A forecaster takes f64 unchanged, since a level may
/// be large beside its changes.
Tensor as_trained(const Tensor& in, const fs::path& file, const Checkpoint& checkpoint, InputLayout layout) {
  const std::string_view fix = checkpoint.config.sequence
                                   ? ""
                                   : axes_in_order(in.shape(), checkpoint.config.preprocess.channels, layout);
  require(fix.empty(), file.string(), ": is ", in.type(), ", and the model takes ",
          layout == InputLayout::nhwc ? "(N,H,W,C)" : text("(N,C,H,W), such as ", input_type(checkpoint.config, 1)),
          "; save ", fix, " instead");
  if (in.dtype() == DType::f64 && checkpoint.config.task() == forecast_task()) return in;
  return in.dtype() == DType::f64 || in.dtype() == DType::f16 ? cast(in, DType::f32) : in;
}

/// The inputs of a model, a file each.
struct Inputs {
  OnnxValues values;
  std::vector<fs::path> files;  // empty for one that is left out
  bool messages = false;        // whether there are ONNX's .pb among them
  bool none() const {           // whether no input has a file
    return std::all_of(files.begin(), files.end(), [](const fs::path& file) { return file.empty(); });
  }
};

Inputs read_inputs(const fs::path& folder, const std::vector<OnnxPort>& ports) {
  Inputs inputs;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const fs::path npy = folder / text("input_", i, ".npy"), pb = folder / text("input_", i, ".pb");
    if (is_there(pb)) {
      inputs.messages = true;
      inputs.values.push_back(read_onnx_value(pb, ports[i].kind));
      inputs.files.push_back(pb);
    } else if (is_there(npy)) {
      inputs.values.push_back(read_npy(npy));
      inputs.files.push_back(npy);
    } else {
      if (ports[i].kind != OnnxKind::optional)
        fail(Fault::data, folder.string(), ": holds no input_", i, ".npy",
             ports.size() > 1 ? text(" (", ports[i].name, ')') : "", "; save the input there: numpy.save('",
             npy.string(), "', x)");
      inputs.values.push_back({});
      inputs.files.push_back({});
    }
  }
  for (const char* ending : {".npy", ".pb"})
    if (const std::string more = text("input_", ports.size(), ending); fs::exists(folder / more))
      fail(Fault::data, folder.string(), ": holds ", more, ", but the model takes ", plural(std::ssize(ports), "input"),
           "; remove it");
  return inputs;
}

/// The types of values, and whether all are tensors.
std::optional<Types> types_of(const OnnxValues& values) {
  Types types;
  for (const OnnxValue& value : values) {
    if (!value.is_tensor()) return std::nullopt;
    types.push_back(value.tensor().type());
  }
  return types;
}

std::string described(const OnnxValues& values) {
  std::vector<std::string> all;
  for (const OnnxValue& value : values) all.push_back(text(value));
  return join(all, ", ");
}

/// Writes a file for each output.
void write_each(const OnnxValues& out, const InferenceSession& session, const std::vector<fs::path>& files,
                bool messages) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    const OnnxPort& port = session.outputs()[i];
    if (messages) {
      write_onnx_value(files[i], out[i], port.kind, port.name);
    } else {
      require(out[i].is_tensor() && !is_narrow(out[i].element()), "output ", i, " is ", out[i],
              ", which no .npy holds; give the inputs as input_0.pb");
      write_npy(files[i], out[i].tensor());
    }
  }
}

/// In the form of the inputs; in both where there are none to say it.
void write_outputs(const OnnxValues& out, const InferenceSession& session, std::vector<fs::path> files,
                   const Inputs& in) {
  write_each(out, session, files, in.messages);
  if (!in.none() || in.messages) return;
  for (fs::path& file : files) file.replace_extension(".pb");
  write_each(out, session, files, true);
}

struct RunOptions {
  std::string model, arch, inputs, outputs, input_layout = "model";
  std::optional<std::int64_t> threads;
  std::int64_t seed = 0;

  void visit(CommandLine& line) {
    line.options("model", model,
                 "run folder, weights, function or ONNX file, or, with drawn weights, model file or known name", {"m"});
    line.options("arch", arch, kArchOfWeights);
    line.options(
        "inputs", inputs,
        "folder with input_0.npy, input_1.npy, … in the order of the model's inputs, or ONNX's input_0.pb, …; of "
        "images floating (N,C,H,W), preprocessed");
    line.options(
        "outputs", outputs,
        "folder that output_0.npy, … are written into, output_0.pb, … where an input is one, both where there is "
        "none");
    line.options("input_layout", input_layout,
                 "of images: model, as the file takes them, which is (N,C,H,W) unless it was exported otherwise; nhwc: "
                 "(N,H,W,C)");
    line.options("threads", threads, "compute threads");
    line.options("seed", seed, kSeedOfWeights);
  }
};

}  // namespace

int verb_run(const Words& words) {
  CommandLine line(
      {"run",
       "runs a model on raw tensors: input_0.npy, … of one folder become output_0.npy, … of another",
       "model",
       {"neurim run model=runs/classify/train inputs=in outputs=out", "neurim run detector.onnx inputs=in outputs=out",
        "neurim run model=resnet18 inputs=in outputs=out threads=1"}});
  RunOptions o;
  o.visit(line);
  line.add_device();
  line.add_precision();
  line.add_tuning();
  if (!line.parse(words)) return 0;
  require(!o.inputs.empty() && !o.outputs.empty(), "inputs and outputs are needed: inputs=DIR outputs=DIR");

  initialize();
  if (o.threads) set_threads(*o.threads);
  Console console(line.console());
  std::optional<Checkpoint> checkpoint;
  InputLayout layout = input_layout_named(o.input_layout);
  if (!is_onnx_file(o.model)) {
    checkpoint = open_model(o.model, o.arch, {}, o.seed);
    place(checkpoint->model, line.device());
    print_notes(*checkpoint, console);
  }
  const PlanOptions options = line.plan_options();
  constexpr std::size_t kPlans = 16;
  if (checkpoint) layout = std::max(layout, checkpoint->layout);
  const InferenceSession session = checkpoint ? InferenceSession(*checkpoint, options, kPlans, layout)
                                              : InferenceSession::open(o.model, options, kPlans, layout);
  Inputs in = read_inputs(o.inputs, session.inputs());
  if (checkpoint) {
    in.values[0] = as_trained(in.values[0].tensor(), in.files[0], *checkpoint, layout);
    if (checkpoint->path.empty()) console.print(drawn_weights_note(*checkpoint));
  }
  const auto unlike = [&] {
    return checkpoint ? text(in.files[0].string(), " is ", in.values[0], ", and the model was made for ",
                             input_type(checkpoint->config, 1))
                      : o.model;
  };
  const std::optional<Types> types = types_of(in.values);
  const std::string eager = !types ? "an input is no tensor"
                                   : naming(unlike, [&] { return session.eager_because(*types); });
  std::vector<fs::path> files;
  for (std::size_t i = 0; i < session.outputs().size(); ++i)
    files.push_back(fs::path(o.outputs) / text("output_", i, in.messages ? ".pb" : ".npy"));
  for (const fs::path& file : files) check_no_input(file, in.files);
  if (line.dry_run()) {
    check_can_make(o.outputs);
    std::vector<std::string> made;
    if (eager.empty())
      for (const Type& type : session.output_types(*types)) made.push_back(text(type));
    return line.end_dry_run(console,
                            text("write ", files[0].string(), files.size() > 1 ? ", …" : "", ": ", described(in.values),
                                 " -> ", eager.empty() ? join(made, ", ") : text(plural(std::ssize(files), "output"))),
                            {{"path", files[0].string()}});
  }
  if (!eager.empty()) console.print(text("note: runs op by op, not as a plan: ", eager));
  const OnnxValues out = naming(unlike, [&] { return session.run(in.values); });
  make_folder(o.outputs);
  write_outputs(out, session, files, in);
  console.print(
      text(described(in.values), " -> ", described(out), "  ", files[0].string(), files.size() > 1 ? ", …" : ""));
  console.event({{"event", "summary"}, {"outputs", out.size()}, {"planned", eager.empty()}});
  return 0;
}

}  // namespace neurim::cli
