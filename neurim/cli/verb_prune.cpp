#include "neurim/base/writable.h"
#include "neurim/cli/interrupt.h"
#include "neurim/cli/open_data.h"
#include "neurim/cli/open_model.h"
#include "neurim/cli/summary.h"
#include "neurim/cli/verbs.h"
#include "neurim/evaluate/csv.h"
#include "neurim/neurim.h"
#include "neurim/quantize/prune_model.h"
#include "neurim/train/export_checkpoint.h"

namespace neurim::cli {

namespace {

struct PruneWords {
  std::string model, arch, data, split = "val", output;
  std::optional<double> max_drop;
  PruneModelOptions prune;
  TrainOptions training;

  void visit(CommandLine& line) {
    Options named;
    training.visit(named);
    line.options.topic("most used");
    line.options("model", model, "run folder, model folder, weights, function or ONNX file", {"m"});
    line.options("arch", arch, kArchOfWeights);
    line.options("data", data, "images; by default those that it was trained on");
    line.options("macs", prune.channels.macs, "share of the multiply-adds that may stay");
    line.options("epochs", prune.epochs, "of training afterwards; auto: half of those that it was trained");
    line.options("lr", prune.lr, "learning rate of these; auto: a hundredth of the training's");
    line.options("max_drop", max_drop,
                 "how far top-1 (of several classes an image mAP) may drop, in points; beyond, no model is written; "
                 "auto: any");
    line.options("output", output, "file to write; by default export/best.pruned.neurim in the run folder");
    line.options.topic("channels");
    line.options("multiple", prune.channels.multiple, "channels that stay are a multiple of it");
    line.options("least", prune.channels.least, "share of the channels of a layer that stays at least");
    line.options.topic("data");
    line.options("split", split, "on which accuracy is measured: val, test or train");
    for (const char* name : kOptionsOfReading) line.options.borrow(*named.find(name), "; by default as in training");
  }
};

std::string groups_csv(const PrunedModel& made) {
  std::string out = "layers,channels,kept\n";
  for (const ChannelGroup& group : made.groups)
    out += text(csv_field(join(group.layers, " ")), ',', group.importance.size(), ',', group.kept, '\n');
  return out;
}

}  // namespace

int verb_prune(const Words& words) {
  CommandLine line({"prune",
                    "takes channels away from a classifier and trains it again",
                    "model data",
                    {"neurim prune runs/classify/train macs=0.5", "neurim prune best.safetensors data=photos epochs=5",
                     "neurim prune runs/classify/train macs=0.7 max_drop=1 --json"}});
  PruneWords o;
  o.visit(line);
  if (!line.parse(words)) return 0;
  o.prune.split = split_option(o.split);
  o.prune.channels.check();
  require(o.prune.epochs != 0 || !o.prune.lr, "lr: without epochs nothing is trained; leave it out");
  require(o.max_drop.value_or(0) >= 0, "max_drop is ", o.max_drop.value_or(0), "; it is at least 0 points");
  initialize();
  Console console(line.console());
  const TrainedClassifier trained = open_trained({"prune", o.model, o.arch, o.data, o.prune.split, kOptionsOfReading},
                                                 line, console);
  const auto& [checkpoint, options, dataset] = trained;
  o.prune.options = options;
  const fs::path path = o.output.empty() ? export_path(checkpoint, "pruned.neurim") : fs::path(o.output);
  const auto beside = [&](const char* name) { return path.parent_path() / text(path.stem().string(), '.', name); };
  o.prune.run = beside("training");
  check_no_input(path, files_of_model(o.model, checkpoint));
  check_can_make(fs::absolute(path).parent_path());
  if (line.dry_run())
    return line.end_dry_run(console, text("prune ", checkpoint.path.string(), ", and write ", path.string()),
                            {{"path", path.string()}});
  make_folder(fs::absolute(path).parent_path());
  const Interrupt interrupt;
  const PrunedClassifier made = prune_model(
      checkpoint, dataset, o.prune, [&](const std::string& step) { console.print(step); },
      control_of(interrupt, console));
  if (made.stopped) {
    console.warn("stopped; no model is written");
    return interrupt.exit_code();
  }
  const std::string metric = checkpoint.config.task().monitor;
  const double share = static_cast<double>(made.pruned.after) / static_cast<double>(made.pruned.before);
  console.print(text(metric, ' ', fixed(100 * made.before, 2), " -> ", fixed(100 * made.after, 2), " on ",
                     thousands(dataset.size(o.prune.split)), ' ', o.split, " images, with ", fixed(100 * share, 1),
                     " % of the multiply-adds"));
  JsonObject summary{{"event", "summary"},
                     {metric + "_before", made.before},
                     {metric, made.after},
                     {"macs_before", made.pruned.before},
                     {"macs", made.pruned.after}};
  const bool held = !o.max_drop || 100 * (made.before - made.after) <= *o.max_drop + 1e-9;
  if (held) {
    write_function(made.pruned.model.function, path);
    write_file(beside("channels.csv"), groups_csv(made.pruned));
    console.print(
        text("Saved ", path.string(), " (", thousands(static_cast<std::int64_t>(fs::file_size(path) >> 10)), " KiB)"));
    summary.add("model", path.string());
    summary.add("channels", beside("channels.csv").string());
    summary.add("bytes", fs::file_size(path));
  } else {
    console.warn(text("no model is written: ", metric, " drops by ", fixed(100 * (made.before - made.after), 2),
                      " points, and max_drop is ", *o.max_drop, "; give more epochs, or a larger share of macs"));
  }
  console.event(summary);
  return held ? 0 : static_cast<int>(Fault::gate);
}

}  // namespace neurim::cli
