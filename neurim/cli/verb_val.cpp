#include <algorithm>
#include <functional>
#include <optional>

#include "neurim/cli/input_options.h"
#include "neurim/cli/open_data.h"
#include "neurim/cli/open_model.h"
#include "neurim/cli/report_folder.h"
#include "neurim/cli/sequence_verbs.h"
#include "neurim/cli/summary.h"
#include "neurim/cli/verbs.h"
#include "neurim/data/sources/parts.h"
#include "neurim/data/views.h"
#include "neurim/evaluate/drawn_names.h"
#include "neurim/neurim.h"
#include "neurim/train/image_evaluation.h"
#include "neurim/train/run_folder.h"

namespace neurim::cli {

namespace {

constexpr const char* kOfTraining[] = {"batch", "split_seed", "max_bad", "workers", "loader", "threads"};

/// Prints which classes have no image in the split. Throws Error(data) if data other than those of training lack
/// classes altogether, unless `allow_subset`.
void check_classes(const Dataset& dataset, Split split, const std::string& data, bool of_training, bool allow_subset,
                   Console& console) {
  if (dataset.has_targets()) return;  // images may have no class
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

struct ValOptions {
  std::string model, arch, data, classes, split = "val", reject = "none", tta = "none", slice_by;
  ReportFolder report{kAuto};
  TrainOptions training;  ///< the options of training that this verb takes too are declared here
  InputOptions input;
  bool allow_subset = false, calibrate = false, corruptions = false;

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
    line.options("tta", tta, kViewsOfImages, {"crops", "augment"});
    line.options(
        "calibrate", calibrate,
        "find the temperature of least log-loss and store it in the model, which predict and exports then use");
    line.options("slice_by", slice_by,
                 "metrics of parts of the split too: size, brightness, folder, or a column of the table of the data");
    line.options("corruptions", corruptions,
                 "accuracy with noise, blur, JPEG, rotation and darkness in five grades too");
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
    report.visit(line, ", auto: the split");
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
        part_(split_option(o.split)),
        console_((initialize(), line.console())),
        checkpoint_(load_checkpoint(o.model, o.arch)),
        run_((checkpoint_.path / "../..").lexically_normal()) {
    place(checkpoint_.model, line.device());
    print_notes(checkpoint_, console_);
    read_training();
  }

  int run() {
    if (!checkpoint_.config.sequence) return run_images();
    refuse_options(
        line_,
        {"reject", "imgsz", "resize", "crop_pct", "interpolation", "decode", "tta", "calibrate", "slice_by",
         "corruptions", "classes", "allow_subset", "workers", "loader", "max_bad", "split_seed", "precision"},
        checkpoint_);
    const auto end = [&](std::int64_t samples) { return end_dry_run(samples); };
    const auto save_report = [&](const Metrics& metrics, const std::vector<HeadlineMetric>& headline,
                                 const std::function<void(const fs::path&)>& write) {
      print_headline(headline);
      console_.print(metrics_line(metrics));
      save(metrics, [&](const fs::path& folder) {
        if (write) write(folder);
        write_metrics(metrics.task().name, subject(), metrics.samples, {}, headline, folder);
      });
    };
    return val_sequence(checkpoint_, options_, part_, line_.dry_run() ? DryRunOfVal(end) : DryRunOfVal(), save_report,
                        console_);
  }

 private:
  /// Reads the options of training, replaces those that were given, and finds the report's folder.
  void read_training() {
    options_ = options_of_training(checkpoint_, kOfTraining, line_);
    of_training_ = o_.data.empty() || o_.data == options_.data;
    if (!o_.data.empty()) options_.data = o_.data;
    if (line_.dry_run()) options_ = options_.without_files();
    require(!options_.data.empty(), "data is missing; give what to evaluate by: data=PATH");
    o_.report.settle(checkpoint_, o_.split);
    options_.project = o_.report.project();
    options_.name = o_.report.name();
    options_.check();
    check_data_apart(options_.data, o_.report.to_make());
    if (o_.data.empty()) check_remembered_data(options_.data, checkpoint_.path, "give data=PATH");
    if (options_.threads) set_threads(*options_.threads);
  }

  /// Writes the report. Metrics are printed before, so that a full disk does not hide them; no empty folder is left.
  void save(const Metrics& metrics, const std::function<void(const fs::path&)>& write) {
    fs::path folder;
    try {
      folder = o_.report.make();
      write(folder);
    } catch (...) {
      std::error_code ignored;
      if (!o_.report.exist_ok() && !folder.empty()) fs::remove(folder, ignored);  // only if it is empty
      console_.event(summary_json(metrics, {}, checkpoint_.path));
      throw;
    }
    console_.print(text("Saved ", folder.string()));
    console_.event(summary_json(metrics, folder, checkpoint_.path));
  }

  EvaluationSubject subject() const { return {checkpoint_.path.string(), options_.data, part_}; }

  int end_dry_run(std::int64_t samples) {
    const fs::path folder = o_.report.to_make();
    return line_.end_dry_run(
        console_, text("evaluate by ", plural(samples, text(o_.split, " sample")), ", and write ", folder.string()),
        {{"run", folder.string()}, {"model", checkpoint_.path.string()}, {"split", o_.split}, {"samples", samples}});
  }

  /// Opens the images with the classes of the model.
  Dataset open_images() {
    DatasetOptions dataset_options = dataset_of(options_, checkpoint_.config);
    if (!o_.classes.empty()) {
      refuse_numbers(checkpoint_, "classes");
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
    const bool one_class = checkpoint_.config.task() == classify_task();
    for (const char* name : {"tta", "calibrate", "slice_by", "corruptions"})
      require(one_class || !line_.given(name), name, " is for models of one class an image, and ",
              checkpoint_.path.string(), " is one of ", checkpoint_.config.task().data, "; leave it out");
    const Preprocess preprocess = o_.input.applied_to(checkpoint_.config.preprocess);
    if (o_.input.imgsz) check_size(checkpoint_.model, *o_.input.imgsz);
    console_.print(text("neurim ", version(), "  val  ", checkpoint_.path.string(), "  ", options_.data, " (",
                        thousands(dataset.size(part_)), ' ', o_.split, " images), input ", preprocess.channels, 'x',
                        preprocess.height, 'x', preprocess.width));
    if (const auto note = drawn_names_note(dataset.class_names()); note && one_class)
      console_.print(text("  data    ", *note));
    parse_views(o_.tta, preprocess);  // a wrong one shows before the work
    if (o_.calibrate) check_keeps_temperature(checkpoint_);
    const bool f32_alone = o_.tta != "none" || o_.corruptions;
    require(!f32_alone || line_.compute_dtype() == DType::f32,
            "tta and corruptions are evaluated in f32; leave out precision");
    return preprocess;
  }

  int run_images() {
    std::optional<double> reject;
    if (o_.reject != "none") reject = reject_threshold(o_.reject, checkpoint_);
    const Dataset dataset = open_images();
    options_ = options_.resolved(checkpoint_.model, dataset);
    const Preprocess preprocess = start(dataset);
    if (line_.dry_run()) {
      Validation(checkpoint_.model, dataset, part_, preprocess, options_, line_.compute_dtype());  // opens the loader
      return end_dry_run(dataset.size(part_));
    }
    const ImageEvaluation result = *evaluate_images(checkpoint_.model, dataset,
                                                    {.subject = subject(),
                                                     .preprocess = preprocess,
                                                     .options = options_,
                                                     .compute_dtype = line_.compute_dtype(),
                                                     .thresholds = checkpoint_.config.thresholds,
                                                     .reject = reject,
                                                     .views = parse_views(o_.tta, preprocess),
                                                     .allow_subset = o_.allow_subset,
                                                     .calibrate = o_.calibrate,
                                                     .corruptions = o_.corruptions,
                                                     .slice_by = o_.slice_by},
                                                    watch());
    print_unreadable(result.unreadable, dataset);
    if (!result.table.empty()) print_table(result.table);
    print_headline(result.headline);
    print_extras(result.extras);
    if (o_.calibrate) console_.print(result.calibration_note);
    console_.print(metrics_line(result.metrics));
    if (reject) print_kept(*reject, *result.kept);
    save(result.metrics, result.write);
    if (o_.calibrate)
      save_temperature(checkpoint_, checkpoint_.config.temperature * result.temperature, result.reject_threshold);
    return 0;
  }

  Validation::Watch watch() {
    return [&](double share) {
      console_.progress(text("  ", bar(share, 12), ' ', fixed(share * 100, 0), " %"));
      return true;
    };
  }

  void print_unreadable(const std::vector<BadSample>& unreadable, const Dataset& dataset) {
    for (const BadSample& one : unreadable) console_.print(text("  skipped: ", one.reason));
    if (!unreadable.empty())
      console_.print(text("  ", unreadable.size(), " of ", thousands(dataset.size(part_)),
                          " images cannot be read and are skipped"));
  }

  void print_table(const std::string& table) {
    console_.print_lines(std::string_view(table).substr(0, table.size() - 1));  // without the last line break
  }

  void print_headline(const std::vector<HeadlineMetric>& headline) {
    std::size_t width = 30;
    for (const HeadlineMetric& one : headline) width = std::max(width, one.title.size() + 2);
    for (const HeadlineMetric& one : headline)
      console_.print(text(one.title, std::string(width - one.title.size(), ' '), shown(one)));
  }

  void print_extras(const EvaluationExtras& extras) {
    const auto percent = [](double share) { return fixed(100 * share, 2); };
    for (const DataSlice& one : extras.slices)
      console_.print(text(extras.slices_by, ' ', one.name, ": ", percent(one.accuracy), " % (",
                          percent(one.interval.low), " to ", percent(one.interval.high), ") of ",
                          plural(one.samples, "sample")));
    for (const Corrupted& one : extras.corrupted)
      console_.print(text(one.kind, ' ', one.severity, ": ", percent(one.accuracy), " %"));
  }

  void print_kept(double threshold, const Kept& kept) {
    console_.print(text("reject ", threshold, ": keeps ", fixed(kept.coverage * 100, 2), " % of the answers, of which ",
                        fixed(kept.accuracy * 100, 2), " % are right"));
    console_.event(
        {{"event", "reject"}, {"threshold", threshold}, {"coverage", kept.coverage}, {"accuracy", kept.accuracy}});
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
