#include "neurim/base/writable.h"
#include "neurim/cli/open_model.h"
#include "neurim/cli/verbs.h"
#include "neurim/neurim.h"

namespace neurim::cli {

namespace {

/// The numpy expression that brings images `x` of another axis order to (N,C,H,W); "" if they have it, or other
/// channels.
std::string_view axes_in_order(const Shape& shape, std::int64_t channels) {
  const int axes = shape.rank();
  if (axes == 4 && shape[1] != channels && shape[3] == channels) return "x.transpose(0, 3, 1, 2)";
  if (axes == 3 && shape[2] == channels) return "x.transpose(2, 0, 1)[None]";
  if (axes == 3 && channels == 1) return "x[:, None]";
  if (axes == 3 && shape[0] == channels) return "x[None]";
  if (axes == 2 && channels == 1) return "x[None, None]";
  return "";
}

/// Reads the file as f32; numpy makes most arrays f64. A forecaster takes f64 unchanged, since a level may be large
/// beside its changes.
Tensor read_input(const fs::path& file, const Checkpoint& checkpoint) {
  const fs::path folder = file.parent_path();
  if (!is_there(file))
    fail(Fault::data, folder.string(), ": holds no input_0.npy; save the input there: numpy.save('", file.string(),
         "', x)");
  if (fs::exists(folder / "input_1.npy"))
    fail(Fault::data, folder.string(), ": holds input_1.npy, but the model takes one input; remove it");
  const Tensor in = read_npy(file);
  const std::string_view fix = checkpoint.config.sequence
                                   ? ""
                                   : axes_in_order(in.shape(), checkpoint.config.preprocess.channels);
  require(fix.empty(), file.string(), ": is ", in.type(), ", and the model takes (N,C,H,W), such as ",
          input_type(checkpoint.config, 1), "; save ", fix, " instead");
  if (in.dtype() == DType::f64 && checkpoint.config.task() == TaskKind::forecast) return in;
  return in.dtype() == DType::f64 || in.dtype() == DType::f16 ? cast(in, DType::f32) : in;
}

}  // namespace

int verb_run(const Words& words) {
  CommandLine line({"run",
                    "runs a model on raw tensors: input_0.npy of one folder becomes output_0.npy of another",
                    "model",
                    {"neurim run model=runs/classify/train inputs=in outputs=out",
                     "neurim run best.safetensors inputs=in outputs=out",
                     "neurim run model=resnet18 inputs=in outputs=out threads=1"}});
  std::string model, arch, inputs, outputs;
  std::optional<std::int64_t> threads;
  std::int64_t seed = 0;
  line.options("model", model, "run folder, weights or function file, or, with drawn weights, model file or known name",
               {"m"});
  line.options("arch", arch, kArchOfWeights);
  line.options("inputs", inputs, "folder with input_0.npy: floating (N,C,H,W), preprocessed");
  line.options("outputs", outputs,
               "folder that output_0.npy is written into: f32 (N,classes); of a series f64 where the input is");
  line.options("threads", threads, "compute threads");
  line.options("seed", seed, kSeedOfWeights);
  line.add_device();
  line.add_precision();
  line.add_tuning();
  if (!line.parse(words)) return 0;
  require(!inputs.empty() && !outputs.empty(), "inputs and outputs are needed: inputs=DIR outputs=DIR");

  initialize();
  if (threads) set_threads(*threads);
  Console console(line.console());
  const Checkpoint checkpoint = open_model(model, arch, {}, seed);
  place(checkpoint.model, line.device());
  print_notes(checkpoint, console);
  const fs::path input = fs::path(inputs) / "input_0.npy";
  const Tensor in = read_input(input, checkpoint);
  if (checkpoint.path.empty()) console.print(drawn_weights_note(checkpoint));
  const auto unlike = [&] {
    return text(input.string(), " is ", in.type(), ", and the model was made for ", input_type(checkpoint.config, 1));
  };
  const Plan planned = naming(unlike, [&] { return inference_plan(checkpoint.model, in.type(), line.plan_options()); });
  const fs::path file = fs::path(outputs) / "output_0.npy";
  check_no_input(file, {input});
  if (line.dry_run()) {
    check_can_make(outputs);
    const Type type = planned.outputs()[0].type();
    return line.end_dry_run(console, text("write ", file.string(), ": ", in.type(), " -> ", type),
                            {{"path", file.string()}});
  }
  const Tensor out = planned({in})[0];
  make_folder(outputs);
  write_npy(file, out);
  console.print(text(in.type(), " -> ", out.type(), "  ", file.string()));
  console.event({{"event", "summary"}, {"outputs", 1}});
  return 0;
}

}  // namespace neurim::cli
