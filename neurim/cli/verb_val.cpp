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
#include "neurim/train/evaluation_report.h"
#include "neurim/train/run_folder.h"

namespace neurim::cli {

namespace {

constexpr std::int64_t kBatch = 32;  // for weights without training options

Split split_named(const std::string& word) {
  for (const Split split : kSplits)
    if (name(split) == word) return split;
  fail(Fault::usage, "split: there is no '", word, "'; known are train, val, test");
}

/// Prints which classes have no image in the split. Throws Error(data) if data other than those of training lack
/// classes altogether, unless `allow_subset`.
void check_classes(const Dataset& dataset, Split split, const std::string& data, bool of_training, bool allow_subset,
                   Console& console) {
  if (dataset.multi_label()) return;  // images may have no class
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
    console.print(text("  data    ", split, " has no images of [", listed(lacking), "]: ",
                       allow_subset ? "macro averages leave these out"
                                    : "these count 0 in macro averages; allow_subset=true leaves them out"));
}

/// The results of an evaluation.
struct EvaluationResult {
  Metrics metrics;
  std::string table;                           ///< per class
  Kept kept;                                   ///< above the reject threshold; only for one class an image
  std::vector<HeadlineMetric> headline;        ///< the same
  std::function<void(const fs::path&)> write;  ///< writes the report
  std::vector<BadSample> unreadable;
};

/// What evaluates images of one class: all parts of them, or the whole.
struct ImageEvaluator {
  const Checkpoint& checkpoint;
  const Dataset& dataset;
  const EvaluationSubject subject;
  const Preprocess& preprocess;
  const TrainOptions& options;
  DType compute_dtype;
  int crops;
  double threshold;
  bool allow_subset;
  Validation::Watch watch;

  EvaluationResult run() const {
    if (checkpoint.config.multi_label()) return run_multi_label();
    std::vector<BadSample> unreadable;
    Predictions predictions(dataset.class_names());
    Evaluation evaluation = crops != 1 ? *validate_crops(checkpoint.model, dataset, subject.split, preprocess, options,
                                                         crops, unreadable, predictions, watch)
                                       : run_whole(predictions, unreadable);
    if (allow_subset) evaluation.leave_out_empty();
    std::vector<HeadlineMetric> headline = headline_metrics(evaluation, predictions.probabilities());
    return {
        .metrics = metrics_of(evaluation),
        .table = per_class_table(evaluation),
        .kept = evaluation.kept(threshold),
        .headline = headline,
        .write =
            [=, predictions = std::move(predictions), dataset = dataset, subject = subject](const fs::path& folder) {
              write_evaluation(evaluation, predictions, headline, dataset, subject, folder);
            },
        .unreadable = std::move(unreadable)};
  }

 private:
  Evaluation run_whole(Predictions& predictions, std::vector<BadSample>& unreadable) const {
    Validation validation(checkpoint.model, dataset, subject.split, preprocess, options, compute_dtype);
    Evaluation evaluation = *validation.run(watch, &predictions);
    unreadable = validation.bad();
    return evaluation;
  }

  EvaluationResult run_multi_label() const {
    Validation validation(checkpoint.model, dataset, subject.split, preprocess, options, compute_dtype);
    MultiLabelEvaluation evaluation = *validation.run_multi_label(watch);
    evaluation.set_thresholds(checkpoint.config.thresholds);
    return {.metrics = metrics_of(evaluation),
            .table = per_class_table(evaluation),
            .kept = {},
            .headline = {},
            .write = [=](const fs::path& folder) { write_report(evaluation, folder); },
            .unreadable = validation.bad()};
  }
};

struct ValOptions {
  std::string model, arch, data, classes, split = "val", reject = "none", project = "auto", run_name = "auto";
  TrainOptions training;  ///< the options of training that this verb takes too are declared here
  InputOptions input;
  std::int64_t crops = 1;
  bool exist_ok = false, allow_subset = false;

  void visit(CommandLine& line) {
    Options named;
    training.visit(named);
    const auto of_training = [&](const char* name) {
      line.options.borrow(*named.find(name), "; by default as in training");
    };
    line.options.topic("most used");
    line.options("model", model, "run folder, model folder (config.json and weights), weights or function file", {"m"});
    line.options("arch", arch, kArchOfWeights);
    line.options("data", data, "images, series or text; by default those that it was trained on");
    line.options("split", split, "train, val or test");
    line.options("reject", reject, "how good the answers of at least this probability are: a number, auto, none",
                 {"reject_threshold"});
    of_training("batch");
    input.visit(line.options);
    line.options("crops", crops,
                 "evaluate by the mean probabilities of 5 parts of each image (corners and centre), or of 10 "
                 "with their mirror images");
    line.options.topic("data");
    of_training("split_seed");
    line.options(
        "classes", classes,
        "what the model's classes are called, in the order of its outputs: a file with a name a line, or names "
        "with commas; by default as the model says",
        {"class_names", "labels"});
    line.options("allow_subset", allow_subset,
                 "whether the data may have fewer classes than the model, of which macro averages are then");
    of_training("max_bad");
    line.options.topic("computing");
    of_training("workers");
    of_training("loader");
    of_training("threads");
    line.options.topic("output");
    line.options("project", project,
                 "folder of the reports; auto: reports in the run, or of other weights in runs/classify and such");
    line.options("name", run_name, "name of the report's folder, auto: the split; a number is added where it exists");
    line.options("exist_ok", exist_ok, "write into an existing folder");
    line.add_device();
    line.add_precision();
  }
};

/// One call of the verb: its options, the model, and the options of the model's training.
class Val {
 public:
  Val(ValOptions& o, CommandLine& line)
      : o_(o),
        line_(line),
        part_(split_named(o.split)),
        console_((initialize(), line.console())),
        checkpoint_(load_checkpoint(o.model, o.arch)),
        run_((checkpoint_.path / "../..").lexically_normal()) {
    place(checkpoint_.model, line.device());
    print_notes(checkpoint_, console_);
    read_training();
  }

  int run() {
    if (!checkpoint_.config.sequence) return run_images();
    refuse_options(line_,
                   {"reject", "imgsz", "resize", "crop_pct", "interpolation", "decode", "crops", "classes",
                    "allow_subset", "workers", "loader", "max_bad", "split_seed", "precision"},
                   checkpoint_);
    const auto end = [&](std::int64_t samples, bool writes) { return end_dry_run(samples, writes); };
    const auto save_report = [&](const Metrics& metrics, const std::function<void(const fs::path&)>& write) {
      save(metrics, write);
    };
    return val_sequence(checkpoint_, options_, part_, line_.dry_run() ? DryRunOfVal(end) : DryRunOfVal(), save_report,
                        console_);
  }

 private:
  /// Reads the options of training, replaces those that were given, and finds the report's folder.
  void read_training() {
    Options named;
    options_.visit(named);
    named.read_yaml(checkpoint_.config.options, text(checkpoint_.path.string(), " (options)"));
    of_training_ = o_.data.empty() || o_.data == options_.data;
    if (!o_.data.empty()) options_.data = o_.data;
    for (const char* name : {"batch", "split_seed", "max_bad", "workers", "loader", "threads"})
      if (const std::string value = line_.options.find(name)->get(); value != kAuto) named.set(name, value);
    if (!options_.batch) options_.batch = kBatch;
    options_.device = text(line_.device());
    if (line_.dry_run()) options_ = options_.without_files();
    require(!options_.data.empty(), "data is missing; give what to evaluate by: data=PATH");
    const TaskKind task = checkpoint_.config.task();
    if (o_.project == "auto")
      o_.project = reports_folder(is_there(run_ / "args.yaml") ? run_ : fs::path(default_project(task))).string();
    if (o_.run_name == "auto") o_.run_name = o_.split;
    options_.project = o_.project;
    options_.name = o_.run_name;
    options_.check();
    if (task != TaskKind::language)  // reports a wrong one before the work
      check_data_apart(options_.data, run_folder_to_make(o_.project, o_.run_name, o_.exist_ok));
    if (o_.data.empty()) check_remembered_data(options_.data, checkpoint_.path, "give data=PATH");
    if (options_.threads) set_threads(*options_.threads);
  }

  /// Writes the report. Metrics are printed before, so that a full disk does not hide them; no empty folder is left.
  void save(const Metrics& metrics, const std::function<void(const fs::path&)>& write) {
    fs::path folder;
    try {
      folder = make_run_folder(o_.project, o_.run_name, o_.exist_ok);
      write(folder);
      if (metrics.task != TaskKind::classify) write_metrics(metrics, folder);
    } catch (...) {
      std::error_code ignored;
      if (!o_.exist_ok && !folder.empty()) fs::remove(folder, ignored);  // only if it is empty
      console_.event(summary_json(metrics, {}, checkpoint_.path));
      throw;
    }
    console_.print(text("Saved ", folder.string()));
    console_.event(summary_json(metrics, folder, checkpoint_.path));
  }

  /// metrics.json of tasks that have no more to say.
  void write_metrics(const Metrics& metrics, const fs::path& folder) const {
    const TaskNames& names = names_of(metrics.task);
    JsonObject values;
    for (const NamedMetric& one : names.metrics) values.add(one.name, JsonObject{{"value", metrics.*one.value}});
    write_file(folder / "metrics.json", JsonObject{{"task", names.task},
                                                   {"model", checkpoint_.path.string()},
                                                   {"data", options_.data},
                                                   {"split", o_.split},
                                                   {"samples", metrics.samples},
                                                   {"metrics", values}}
                                            .indented());
  }

  int end_dry_run(std::int64_t samples, bool writes) {
    const fs::path folder = writes ? run_folder_to_make(o_.project, o_.run_name, o_.exist_ok) : fs::path();
    return line_.end_dry_run(
        console_,
        text("evaluate by ", plural(samples, text(o_.split, " sample")),
             writes ? text(", and write ", folder.string()) : ""),
        {{"run", folder.string()}, {"model", checkpoint_.path.string()}, {"split", o_.split}, {"samples", samples}});
  }

  /// Opens the images with the classes of the model.
  Dataset open_images() {
    DatasetOptions dataset_options = dataset_of(options_);
    dataset_options.class_names = checkpoint_.config.class_names;
    dataset_options.multi_label = checkpoint_.config.multi_label();
    if (!o_.classes.empty()) {
      options_.classes = o_.classes;
      dataset_options.class_names = classes_of(options_);
      require(dataset_options.class_names.size() == checkpoint_.config.class_names.size(), "classes names ",
              dataset_options.class_names.size(), " classes, the model has ", checkpoint_.config.class_names.size());
    }
    Dataset dataset = open_data(options_.data, dataset_options, console_);
    if (dataset.size(part_) == 0)
      fail(Fault::data, options_.data, ": has no ", o_.split, " split; it has ", splits_of(dataset));
    check_classes(dataset, part_, options_.data, of_training_, o_.allow_subset, console_);
    if (of_training_ && part_ != Split::train && is_there(run_ / "data.json") &&
        !is_split_of_run(run_, dataset, Split::train) && !is_split_of_run(run_, dataset, part_))
      console_.print(text("  data    the ", o_.split,
                          " split is another than in training, as images came, went or were renamed, or by split_seed: "
                          "it may hold images that the model was trained on"));
    return dataset;
  }

  /// Prints what is evaluated. Throws for crops and sizes that the model or the options do not take.
  Preprocess start(const Dataset& dataset) {
    const bool multi_label = checkpoint_.config.multi_label();
    require(o_.crops == 1 || !multi_label, "crops=", o_.crops, " is for models of one class an image, and ",
            checkpoint_.path.string(), " is multi-label; leave it out");
    const Preprocess preprocess = o_.input.applied_to(checkpoint_.config.preprocess);
    if (o_.input.imgsz) check_size(checkpoint_.model, *o_.input.imgsz);
    console_.print(text("neurim ", version(), "  val  ", checkpoint_.path.string(), "  ", options_.data, " (",
                        thousands(dataset.size(part_)), ' ', o_.split, " images), input ", preprocess.channels, 'x',
                        preprocess.height, 'x', preprocess.width));
    if (const auto note = drawn_names_note(dataset.class_names()); note && !multi_label)
      console_.print(text("  data    ", *note));
    if (o_.crops != 1) check_crops(o_.crops, preprocess);
    require(o_.crops == 1 || line_.compute_dtype() == DType::f32, "crops=", o_.crops,
            " is evaluated in f32; leave out precision");
    return preprocess;
  }

  int run_images() {
    const double threshold = reject_threshold(o_.reject, checkpoint_);
    const Dataset dataset = open_images();
    options_ = options_.resolved(checkpoint_.model, dataset);
    const Preprocess preprocess = start(dataset);
    if (line_.dry_run()) {
      Validation(checkpoint_.model, dataset, part_, preprocess, options_, line_.compute_dtype());  // opens the loader
      return end_dry_run(dataset.size(part_), true);
    }
    const Validation::Watch watch = [&](double share) {
      console_.progress(text("  ", bar(share, 12), ' ', fixed(share * 100, 0), " %"));
      return true;
    };
    const auto [metrics, table, kept, headline, write,
                unreadable] = ImageEvaluator{.checkpoint = checkpoint_,
                                             .dataset = dataset,
                                             .subject = {checkpoint_.path.string(), options_.data, part_},
                                             .preprocess = preprocess,
                                             .options = options_,
                                             .compute_dtype = line_.compute_dtype(),
                                             .crops = static_cast<int>(o_.crops),
                                             .threshold = threshold,
                                             .allow_subset = o_.allow_subset,
                                             .watch = watch}
                                  .run();
    for (const BadSample& one : unreadable) console_.print(text("  skipped: ", one.reason));
    if (!unreadable.empty())
      console_.print(text("  ", unreadable.size(), " of ", thousands(dataset.size(part_)),
                          " images cannot be read and are skipped"));
    console_.print_lines(std::string_view(table).substr(0, table.size() - 1));  // without the last line break
    for (const HeadlineMetric& one : headline)
      console_.print(text(one.title, std::string(30 - one.title.size(), ' '), shown(one)));
    console_.print(metrics_line(metrics));
    if (o_.reject != "none") {
      console_.print(text("reject ", threshold, ": keeps ", fixed(kept.coverage * 100, 2),
                          " % of the answers, of which ", fixed(kept.accuracy * 100, 2), " % are right"));
      console_.event(
          {{"event", "reject"}, {"threshold", threshold}, {"coverage", kept.coverage}, {"accuracy", kept.accuracy}});
    }
    save(metrics, write);
    return 0;
  }

  ValOptions& o_;
  CommandLine& line_;
  const Split part_;
  Console console_;
  const Checkpoint checkpoint_;
  const fs::path run_;  // the checkpoint's run, if it is in one
  TrainOptions options_;
  bool of_training_ = false;  // whether the data are those of training
};

}  // namespace

int verb_val(const Words& words) {
  CommandLine line({"val",
                    "evaluates a trained model on a split of a data set",
                    "model data",
                    {"neurim val model=runs/classify/train", "neurim val model=best.safetensors data=photos split=test",
                     "neurim val runs/classify/train reject=auto --json"}});
  ValOptions o;
  o.visit(line);
  if (!line.parse(words)) return 0;
  require(!o.model.empty(), "the model is missing; give a run folder or a weights file: model=runs/classify/train");
  return Val(o, line).run();
}

}  // namespace neurim::cli
