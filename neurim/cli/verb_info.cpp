#include <chrono>
#include <cstdio>

#include "neurim/cli/drawn_batch.h"
#include "neurim/cli/input_options.h"
#include "neurim/cli/open_model.h"
#include "neurim/cli/show_roofline.h"
#include "neurim/cli/verbs.h"
#include "neurim/model/onnx/model.h"
#include "neurim/neurim.h"
#include "neurim/train/onnx_checkpoint.h"

namespace neurim::cli {

namespace {

void show_layers(const Model& model, const Type& images, Console& console) {
  char row[256];
  std::snprintf(row, sizeof row, "  %-36s %-18s %-20s %12s %14s", "where", "op", "output", "parameters",
                "multiply-adds");
  console.print(row);
  const std::vector<LayerCost> layers = layer_costs(model, {images.shape[1], images.shape[2], images.shape[3]});
  for (const LayerCost& layer : layers) {
    std::snprintf(row, sizeof row, "  %-36s %-18s %-20s %12s %14s", layer.where.c_str(), layer.op.c_str(),
                  text(layer.out).c_str(), thousands(layer.parameters).c_str(), thousands(layer.multiply_adds).c_str());
    console.print(row);
    console.event({{"event", "layer"},
                   {"where", layer.where},
                   {"op", layer.op},
                   {"shape", std::vector<std::int64_t>(layer.out.begin(), layer.out.end())},
                   {"parameters", layer.parameters},
                   {"multiply_adds", layer.multiply_adds}});
  }
  const ModelCost cost = total(layers);
  console.print(text("  one image: ", thousands(cost.multiply_adds), " multiply-adds, activations ",
                     thousands(4 * cost.activations >> 10), " KiB"));
}

void show_parameters(Checkpoint& checkpoint, Console& console) {
  char row[256];
  for (const Parameter& parameter : named_parameters(checkpoint.model)) {
    std::snprintf(row, sizeof row, "  %-36s %-20s %12s%s", parameter.name.c_str(),
                  text(parameter.tensor.shape()).c_str(), thousands(parameter.tensor.numel()).c_str(),
                  parameter.role == Role::state ? "  state" : "");
    console.print(row);
  }
}

void show_plan(const Plan& plan, std::int64_t classes, Console& console) {
  draw_batch(plan, classes);
  const std::vector<PlanRow> rows = plan.profile(kReplays);
  double seconds = 0;
  char line[512];
  std::snprintf(line, sizeof line, "  %-26s %-40s %-14s %-10s %10s %9s", "where", "op", "kernel", "layout", "KiB",
                "ms");
  console.print(line);
  for (const PlanRow& row : rows) {
    std::snprintf(line, sizeof line, "  %-26s %-40s %-14s %-10s %10s %9.3f", row.where.c_str(), row.op.c_str(),
                  row.kernel.c_str(), row.layout.c_str(), thousands(static_cast<std::int64_t>(row.bytes >> 10)).c_str(),
                  row.seconds * 1e3);
    console.print(line);
    for (const std::string& reason : row.declined) console.print(text("      declined: ", reason));
    console.event({{"event", "task"},
                   {"where", row.where},
                   {"op", row.op},
                   {"kernel", row.kernel},
                   {"layout", row.layout},
                   {"bytes", row.bytes},
                   {"ms", row.seconds * 1e3},
                   {"declined", row.declined}});
    seconds += row.seconds;
  }
  console.print(text("  ", rows.size(), " tasks, arena ",
                     thousands(static_cast<std::int64_t>(plan.arena_bytes() >> 10)), " KiB, ", fixed(seconds * 1e3, 3),
                     " ms"));
}

struct InfoOptions {
  std::string model, arch, mode = "infer";
  bool show = false, beside_roof = false, graph = false;
  std::int64_t batch = 1, seed = 0;
  InputOptions input;
  std::optional<std::int64_t> threads;

  void visit(CommandLine& line) {
    line.options.topic("most used");
    line.options("model", model, "run folder, model folder, weights or function file, model file, or known name",
                 {"m"});
    line.options("arch", arch, kArchOfWeights);
    line.options("plan", show,
                 "show the tasks of its plan: op, kernel, layout, bytes, time, and why other kernels declined");
    line.options("roofline", beside_roof,
                 "show the tasks with their multiply-adds and bytes, and their times beside the least that arithmetic "
                 "and memory allow so many threads at once; then the sums of each kind");
    line.options("graph", graph, "show the traced graph, a line for each op; batch and time are symbols");
    line.options("mode", mode, "the plan for infer or train");
    line.options("batch", batch, "images a step", {"batch_size", "b"});
    line.options("imgsz", input.imgsz,
                 "size of the input, pixels: one number, or height x width; auto: the model's own",
                 {"img_size", "input_size"});
    line.options.topic("computing");
    line.options("threads", threads, "compute threads");
    line.options("seed", seed, kSeedOfWeights);
    line.add_device();
    line.add_precision();
    line.add_tuning();
  }

  /// Throws Error(usage) for contradictory options.
  void check(const CommandLine& line) const {
    require(mode == "infer" || mode == "train", "mode: there is no '", mode, "'; known are infer, train");
    require(!show || !graph, "graph: shows what is planned, and plan the plan of it; leave one out");
    require(show || !beside_roof, "roofline: shows a plan; write --plan --roofline");
    require(show || line.compute_dtype() == DType::f32, "precision: is of a plan; write --plan precision=bf16");
    require(show || !line.given("tuning"), "tuning: is of a plan; write --plan tuning=on");
  }
};

/// The first names of a list, and how many more there are.
std::string few_of(std::vector<std::string> names) {
  constexpr std::size_t few = 20;
  const std::size_t more = names.size() > few ? names.size() - few : 0;
  names.resize(names.size() - more);
  return text(join(names, ", "), more > 0 ? text(", … and ", more, " more") : "");
}

/// Prints the model's size, input and classes.
void show_model(const Checkpoint& checkpoint, const Type& inputs, std::int64_t parameters, Console& console) {
  const TaskInfo& task = checkpoint.config.task();
  console.print(text(checkpoint.config.model, "  ", thousands(parameters), " parameters  input ", inputs, "  ",
                     checkpoint.model.num_classes,
                     task == forecast_task()             ? " values of " + checkpoint.config.sequence->target
                     : task.answer == Answer::values     ? std::string(" numbers")
                     : task.answer == Answer::characters ? std::string(" characters")
                                                         : std::string(" classes")));
  if (task == forecast_task())
    console.print(text("  columns: ", join(checkpoint.config.sequence->columns, ", ")));
  else if (!checkpoint.config.class_names.empty() && task.answer != Answer::characters)
    console.print(
        text(task.answer == Answer::values ? "  targets: " : "  classes: ", few_of(checkpoint.config.class_names)));
}

/// Makes the plan and prints its tasks.
void show_planned(const Checkpoint& checkpoint, const Type& inputs, const InfoOptions& o, const CommandLine& line,
                  Console& console) {
  const PlanOptions options = line.plan_options();
  const auto show = [&](const auto& make) {
    const auto begin = std::chrono::steady_clock::now();
    const Plan planned = make();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    const std::string share = fixed(100 * rounded_share(planned.rows()), 1);
    console.print(text("  planned in ", fixed(taken.count(), 2), " s",
                       line.compute_dtype() != DType::f32
                           ? text(", ", name(line.compute_dtype()), " in ", share, " % of the multiply-adds")
                           : ""));
    (o.beside_roof ? show_roofline : show_plan)(planned, checkpoint.model.num_classes, console);
  };
  if (o.mode == "infer") return show([&] { return inference_plan(checkpoint.model, inputs, options); });
  refuse_sequence(checkpoint, "--plan mode=train");
  SGD optimizer(named_parameters(checkpoint.model), {.lr = 0, .momentum = 0.9});
  if (options.compute_dtype == DType::f16) optimizer.scale_losses();
  show([&] {
    return plan(training_step(checkpoint.model, optimizer, {}),
                batch_types(o.batch, inputs.shape[1], inputs.shape[2], inputs.shape[3]),
                training_options(line.device(), options));
  });
}

/// What any ONNX file says of itself.
int show_onnx(const std::string& file, Console& console) {
  const OnnxModel model = OnnxModel::open(file);
  std::vector<std::string> operators;
  for (const auto& [name, count] : model.operators()) operators.push_back(text(name, ' ', count));
  console.print(text(file, "  ONNX opset ", model.opset(), "  ", thousands(model.stored_numbers()), " stored numbers"));
  const auto show = [&](const char* what, const std::vector<OnnxPort>& ports) {
    for (const OnnxPort& port : ports) {
      console.print(text("  ", what, "  ", port.name, "  ", port));
      console.event({{"event", what}, {"name", port.name}, {"type", text(port)}});
    }
  };
  show("input", model.inputs());
  show("output", model.outputs());
  console.print(text("  operators  ", join(operators, ", ")));
  for (const auto& [key, value] : model.metadata())
    console.print(text("  ", key, "  ", value.size() > 100 ? value.substr(0, 100) + "…" : value));
  console.event({{"event", "summary"}, {"model", file}, {"parameters", model.stored_numbers()}});
  return 0;
}

}  // namespace

int verb_info(const Words& words) {
  CommandLine line({"info",
                    "shows the layers and parameters of a model, or its plan with kernels and times",
                    "model",
                    {"neurim info resnet18", "neurim info runs/classify/train --plan batch=8",
                     "neurim info resnet50 --plan --roofline mode=train batch=16 imgsz=96"}});
  InfoOptions o;
  o.visit(line);
  if (!line.parse(words)) return 0;
  o.check(line);

  initialize();
  if (o.threads) set_threads(*o.threads);
  Console console(line.console());
  if (is_onnx_file(o.model) && !o.show && !o.graph) return show_onnx(o.model, console);
  Checkpoint checkpoint = open_model(o.model, o.arch, o.input.imgsz, o.seed);
  place(checkpoint.model, line.device());
  print_notes(checkpoint, console);
  const bool sequence = checkpoint.config.sequence.has_value();
  if (o.input.imgsz && !sequence) check_size(checkpoint.model, *o.input.imgsz);
  if (sequence) refuse_options(line, {"imgsz"}, checkpoint);
  const Type inputs = sequence ? input_type(checkpoint.config, o.batch)
                               : image_type(o.input.applied_to(checkpoint.config.preprocess), o.batch);
  const std::int64_t parameters = parameter_count(checkpoint.model);
  show_model(checkpoint, inputs, parameters, console);
  if (o.graph) {
    const Function function = function_of(checkpoint);
    const std::string written = function.graph.text(function.outputs);
    for (const std::string& row : split(written.substr(0, written.size() - 1), '\n')) console.print(row);
    console.event({{"event", "graph"}, {"text", written}});
  } else if (o.show) {
    show_planned(checkpoint, inputs, o, line, console);
  } else {
    if (!sequence) show_layers(checkpoint.model, inputs, console);
    show_parameters(checkpoint, console);
  }
  console.event({{"event", "summary"}, {"model", checkpoint.config.model}, {"parameters", parameters}});
  return 0;
}

}  // namespace neurim::cli
