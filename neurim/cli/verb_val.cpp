#include <algorithm>
#include <functional>

#include "neurim/cli/input_options.h"
#include "neurim/cli/open_data.h"
#include "neurim/cli/open_model.h"
#include "neurim/cli/sequence_verbs.h"
#include "neurim/cli/summary.h"
#include "neurim/cli/verbs.h"
#include "neurim/data/sources/parts.h"
#include "neurim/evaluate/drawn_names.h"
#include "neurim/evaluate/report.h"
#include "neurim/neurim.h"
#include "neurim/train/crop_validation.h"
#include "neurim/train/run_folder.h"

namespace neurim::cli {

namespace {

constexpr std::int64_t kBatch = 32;  // where the model comes without the options of its training

Split split_named(const std::string& word) {
  for (const Split split : kSplits)
    if (name(split) == word) return split;
  fail(Fault::usage, "split: there is no '", word, "'; known are train, val, test");
}

/// Says which classes the split has no image of. Throws Error(data) where the data, which are others than those of
/// training, have none at all, unless they may be a subset.
void check_classes(const Dataset& dataset, Split split, const std::string& data, bool of_training, bool allow_subset,
                   Console& console) {
  if (dataset.multi_label()) return;  // where an image may be of no class
  const std::vector<std::string>& names = dataset.class_names();
  const std::vector<std::int64_t> counts = dataset.class_counts(split);
  std::vector<std::string> there, lacking, of_others;
  for (std::size_t c = 0; c < names.size(); ++c) {
    const bool anywhere = std::any_of(kSplits.begin(), kSplits.end(),
                                      [&](Split each) { return dataset.class_counts(each)[c] > 0; });
    if (anywhere) there.push_back(names[c]);
    if (!anywhere) lacking.push_back(names[c]);
    if (anywhere && counts[c] == 0) of_others.push_back(names[c]);
  }
  if (!lacking.empty() && !of_training && !allow_subset)
    fail(Fault::data, data, ": has images of the classes [", listed(there), "], and the model knows [", listed(names),
         "]; give images of [", listed(lacking),
         "] too, or allow_subset=true, which leaves these out of macro averages");
  lacking.insert(lacking.end(), of_others.begin(), of_others.end());
  if (!lacking.empty())
    console.say(text("  data    ", split, " has no images of [", listed(lacking), "]: ",
                     allow_subset ? "macro averages leave these out"
                                  : "these count 0 in macro averages; allow_subset=true leaves them out"));
}

/// What an evaluated split comes to.
struct Verdict {
  Metrics metrics;
  std::string table;                           ///< of the classes
  Kept kept;                                   ///< above the reject threshold; of one class an image
  std::function<void(const fs::path&)> write;  ///< the report
  std::vector<BadSample> unreadable;
};

template <class Evaluation>
Verdict verdict_of(Evaluation evaluation, const Kept& kept, std::vector<BadSample> unreadable) {
  Verdict verdict{.metrics = metrics_of(evaluation),
                  .table = per_class_table(evaluation),
                  .kept = kept,
                  .write = {},
                  .unreadable = std::move(unreadable)};
  verdict.write = [evaluation = std::move(evaluation)](const fs::path& folder) { write_report(evaluation, folder); };
  return verdict;
}

Verdict evaluate(const Checkpoint& checkpoint, const Dataset& dataset, Split split, const Preprocess& preprocess,
                 const TrainOptions& options, DType compute_dtype, int crops, double threshold, bool allow_subset,
                 Console& console) {
  const Validation::Watch watch = [&](double share) {
    console.progress(text("  ", bar(share, 12), ' ', fixed(share * 100, 0), " %"));
    return true;
  };
  if (crops != 1) {
    std::vector<BadSample> unreadable;
    Evaluation evaluation = *validate_crops(checkpoint.model, dataset, split, preprocess, options, crops, unreadable,
                                            watch);
    if (allow_subset) evaluation.leave_out_empty();
    return verdict_of(evaluation, evaluation.kept(threshold), std::move(unreadable));
  }
  Validation validation(checkpoint.model, dataset, split, preprocess, options, compute_dtype);
  if (checkpoint.config.multi_label()) {
    MultiLabelEvaluation evaluation = *validation.run_multi_label(watch);
    evaluation.set_thresholds(checkpoint.config.thresholds);
    return verdict_of(std::move(evaluation), {}, validation.bad());
  }
  Evaluation evaluation = *validation.run(watch);
  if (allow_subset) evaluation.leave_out_empty();
  return verdict_of(evaluation, evaluation.kept(threshold), validation.bad());
}

}  // namespace

int verb_val(const Words& words) {
  CommandLine line({"val",
                    "evaluates a trained model on a split of a data set",
                    "model data",
                    {"neurim val model=runs/classify/train", "neurim val model=best.safetensors data=photos split=test",
                     "neurim val runs/classify/train reject=auto --json"}});
  std::string model, arch, data, loader, classes, split = "val", reject = "none", project = "auto", run_name = "auto";
  std::optional<std::int64_t> batch, workers, threads, split_seed;
  std::optional<double> max_bad;
  InputOptions input;
  std::int64_t crops = 1;
  bool exist_ok = false, allow_subset = false;
  line.options.topic("most used");
  line.options("model", model, "run folder, model folder (config.json and weights), or weights file", {"m"});
  line.options("arch", arch, kArchOfWeights);
  line.options("data", data, "images, series or text; by default those that it was trained on");
  line.options("split", split, "train, val or test");
  line.options("reject", reject, "how good the answers of at least this probability are: a number, auto, none",
               {"reject_threshold"});
  line.options("batch", batch, "samples a step; by default as in training", {"batch_size", "b"});
  input.visit(line.options);
  line.options("crops", crops,
               "evaluate by the mean probabilities of 5 parts of each image (corners and centre), or of 10 "
               "with their mirror images");
  line.options.topic("data");
  line.options("split_seed", split_seed,
               "seed of the split where the data have none of their own; by default as in training");
  line.options("classes", classes,
               "what the model's classes are called, in the order of its outputs: a file with a name a line, or names "
               "with commas; by default as the model says",
               {"class_names", "labels"});
  line.options("allow_subset", allow_subset,
               "whether the data may have fewer classes than the model, of which macro averages are then");
  line.options("max_bad", max_bad,
               "unreadable images to bear: a share of all splits below 1, else a count; by default as in training");
  line.options.topic("computing");
  line.options("workers", workers, "threads that load images", {"j"});
  line.options("loader", loader, text("by default as in training: ", join(loader_names(), ", "), " (a plug-in)"));
  line.options("threads", threads, "compute threads");
  line.options.topic("output");
  line.options("project", project,
               "folder of the reports; auto: reports in the run, or of other weights in runs/classify and such");
  line.options("name", run_name, "name of the report's folder, auto: the split; a number is added where it exists");
  line.options("exist_ok", exist_ok, "write into an existing folder");
  line.add_device();
  line.add_precision();
  if (!line.parse(words)) return 0;
  require(!model.empty(), "the model is missing; give a run folder or a weights file: model=runs/classify/train");
  const Split part = split_named(split);

  initialize();
  Console console(line.console());
  const Checkpoint checkpoint = load_checkpoint(model, arch);
  place(checkpoint.model, line.device());
  say_notes(checkpoint, console);
  const bool multi_label = checkpoint.config.multi_label();
  TrainOptions options;
  Options named;
  options.visit(named);
  named.read_yaml(checkpoint.config.options, text(checkpoint.path.string(), " (options)"));
  const bool of_training = data.empty() || data == options.data;
  if (!data.empty()) options.data = data;
  if (batch) options.batch = batch;
  if (!options.batch) options.batch = kBatch;
  if (workers) options.workers = workers;
  if (!loader.empty()) options.loader = loader;
  if (max_bad) options.max_bad = *max_bad;
  if (threads) options.threads = threads;
  if (split_seed) options.split_seed = *split_seed;
  options.device = text(line.device());
  if (line.dry_run()) options = options.without_files();
  require(!options.data.empty(), "data is missing; give what to evaluate by: data=PATH");
  const TaskKind task = checkpoint.config.task();
  const fs::path run = (checkpoint.path / "../..").lexically_normal();  // if it is one
  if (project == "auto")
    project = reports_folder(is_there(run / "args.yaml") ? run : fs::path(default_project(task))).string();
  if (run_name == "auto") run_name = split;
  options.project = project;
  options.name = run_name;
  options.check();
  if (task != TaskKind::language)  // a wrong one shows before the work
    check_data_apart(options.data, run_folder_to_make(project, run_name, exist_ok));
  if (data.empty()) check_remembered_data(options.data, checkpoint.path, "give data=PATH");
  if (options.threads) set_threads(*options.threads);
  // The figures are told by then, so that a full disk does not hide them; nor does it leave an empty folder.
  const auto save = [&](const Metrics& metrics, const std::function<void(const fs::path&)>& write) {
    fs::path folder;
    try {
      folder = make_run_folder(project, run_name, exist_ok);
      write(folder);
    } catch (...) {
      std::error_code ignored;
      if (!exist_ok && !folder.empty()) fs::remove(folder, ignored);  // where it is empty
      console.event(summary_json(metrics, {}, checkpoint.path));
      throw;
    }
    console.say(text("Saved ", folder.string()));
    console.event(summary_json(metrics, folder, checkpoint.path));
  };
  const auto end_dry_run = [&](std::int64_t samples, bool writes) {
    const fs::path folder = writes ? run_folder_to_make(project, run_name, exist_ok) : fs::path();
    return line.end_dry_run(
        console,
        text("evaluate by ", plural(samples, text(split, " sample")),
             writes ? text(", and write ", folder.string()) : ""),
        {{"run", folder.string()}, {"model", checkpoint.path.string()}, {"split", split}, {"samples", samples}});
  };
  if (checkpoint.config.sequence) {
    refuse_options(line,
                   {"reject", "imgsz", "resize", "crop_pct", "interpolation", "decode", "crops", "classes",
                    "allow_subset", "workers", "loader", "max_bad", "split_seed", "precision"},
                   checkpoint);
    return val_sequence(checkpoint, options, part, line.dry_run() ? end_dry_run : DryRunOfVal(), save, console);
  }
  const double threshold = reject_threshold(reject, checkpoint);

  DatasetOptions dataset_options = dataset_of(options);
  dataset_options.class_names = checkpoint.config.class_names;
  dataset_options.multi_label = multi_label;
  if (!classes.empty()) {
    options.classes = classes;
    dataset_options.class_names = classes_of(options);
    require(dataset_options.class_names.size() == checkpoint.config.class_names.size(), "classes names ",
            dataset_options.class_names.size(), " classes, the model has ", checkpoint.config.class_names.size());
  }
  const Dataset dataset = open_data(options.data, dataset_options, console);
  if (dataset.size(part) == 0)
    fail(Fault::data, options.data, ": has no ", split, " split; it has ", splits_of(dataset));
  check_classes(dataset, part, options.data, of_training, allow_subset, console);
  if (of_training && part != Split::train && is_there(run / "data.json") &&
      !is_split_of_run(run, dataset, Split::train) && !is_split_of_run(run, dataset, part))
    console.say(text("  data    the ", split,
                     " split is another than in training, as images came, went or were renamed, or by split_seed: "
                     "it may hold images that the model was trained on"));
  options = options.resolved(checkpoint.model, dataset);
  require(crops == 1 || !multi_label, "crops=", crops, " is for models of one class an image, and ",
          checkpoint.path.string(), " is multi-label; leave it out");
  const Preprocess preprocess = input.applied_to(checkpoint.config.preprocess);
  if (input.imgsz) check_size(checkpoint.model, *input.imgsz);
  console.say(text("neurim ", version(), "  val  ", checkpoint.path.string(), "  ", options.data, " (",
                   thousands(dataset.size(part)), ' ', split, " images), input ", preprocess.channels, 'x',
                   preprocess.height, 'x', preprocess.width));
  if (const auto note = drawn_names_note(dataset.class_names()); note && !multi_label)
    console.say(text("  data    ", *note));
  if (crops != 1) check_crops(crops, preprocess);
  require(crops == 1 || line.compute_dtype() == DType::f32, "crops=", crops,
          " is evaluated in f32; leave out precision");
  if (line.dry_run()) {
    Validation(checkpoint.model, dataset, part, preprocess, options, line.compute_dtype());  // opens the loader
    return end_dry_run(dataset.size(part), true);
  }
  const auto [metrics, table, kept, write, unreadable] = evaluate(checkpoint, dataset, part, preprocess, options,
                                                                  line.compute_dtype(), static_cast<int>(crops),
                                                                  threshold, allow_subset, console);
  for (const BadSample& one : unreadable) console.say(text("  skipped: ", one.reason));
  if (!unreadable.empty())
    console.say(
        text("  ", unreadable.size(), " of ", thousands(dataset.size(part)), " images cannot be read and are skipped"));
  console.say_lines(std::string_view(table).substr(0, table.size() - 1));  // without the end of its last line
  console.say(metrics_line(metrics));
  if (reject != "none") {
    console.say(text("reject ", threshold, ": keeps ", fixed(kept.coverage * 100, 2), " % of the answers, of which ",
                     fixed(kept.accuracy * 100, 2), " % are right"));
    console.event(
        {{"event", "reject"}, {"threshold", threshold}, {"coverage", kept.coverage}, {"accuracy", kept.accuracy}});
  }
  save(metrics, write);
  return 0;
}

}  // namespace neurim::cli
