#include "neurim/cli/open_model.h"
#include "neurim/cli/summary.h"
#include "neurim/cli/verbs.h"
#include "neurim/evaluate/report.h"
#include "neurim/neurim.h"
#include "neurim/train/run_folder.h"

namespace neurim::cli {

namespace {

constexpr std::int64_t kBatch = 32;  // where the model comes without the options of its training

Split split_named(const std::string& word) {
  for (const Split split : kSplits)
    if (name(split) == word) return split;
  fail(Fault::usage, "split: there is no '", word, "'; known are train, val, test");
}

}  // namespace

int verb_val(const Words& words) {
  CommandLine line(
      {"val",
       "judges a trained model on a split of a data set",
       "model",
       {"neurim val model=runs/classify/train", "neurim val model=best.safetensors data=photos split=test",
        "neurim val runs/classify/train --json"}});
  std::string model, data, classes, split = "val", project = "runs/classify", run_name = "val";
  std::optional<std::int64_t> batch, workers, threads;
  bool exist_ok = false;
  line.options("model", model, "run folder, model folder (config.json and weights), or weights file", {"m"});
  line.options("data", data, "folder of pictures or IDX files; by default the one it was trained on");
  line.options("split", split, "train, val or test");
  line.options("classes", classes,
               "what the model's classes are called, in the order of its outputs: a file with a name a line, or names "
               "with commas; by default as the model says",
               {"class_names", "labels"});
  line.options("batch", batch, "pictures a step; by default as in training", {"batch_size", "b"});
  line.options("workers", workers, "threads that load pictures", {"j"});
  line.options("threads", threads, "compute threads");
  line.options("project", project, "folder of the reports");
  line.options("name", run_name, "name of the report's folder; a number is added where it exists");
  line.options("exist_ok", exist_ok, "write into an existing folder");
  if (!line.parse(words)) return 0;
  require(!model.empty(),
          "the model is missing; give a run folder or a weights file: model=runs/classify/train");
  const Split part = split_named(split);

  initialize();
  Console console(line.console());
  const Checkpoint checkpoint = load_checkpoint(model);
  say_notes(checkpoint, console);
  TrainOptions options;
  Options named;
  options.visit(named);
  named.read_yaml(checkpoint.card.options, text(checkpoint.path.string(), " (options)"));
  if (!data.empty()) options.data = data;
  if (batch) options.batch = batch;
  if (!options.batch) options.batch = kBatch;
  if (workers) options.workers = workers;
  if (threads) options.threads = threads;
  require(!options.data.empty(), "data is missing; give the folder of the pictures: data=DIR");
  options.check();
  if (options.threads) set_threads(*options.threads);

  DatasetOptions dataset_options = dataset_of(options);
  dataset_options.class_names = checkpoint.card.class_names;
  if (!classes.empty()) {
    options.classes = classes;
    dataset_options.class_names = classes_of(options);
    require(dataset_options.class_names.size() == checkpoint.card.class_names.size(), "classes names ",
            dataset_options.class_names.size(), " classes, the model has ", checkpoint.card.class_names.size());
  }
  const Dataset dataset = Dataset::open(options.data, dataset_options);
  if (dataset.size(part) == 0)
    fail(Fault::data, options.data, ": has no ", split, " split; known are split=train, val and test");
  options = options.resolved(checkpoint.model, dataset);
  Validation validation(checkpoint.model, dataset, part, checkpoint.card.preprocess, options);
  console.say(text("neurim ", version(), "  val  ", checkpoint.path.string(), "  ", options.data, " (",
                   thousands(dataset.size(part)), ' ', split, " pictures)"));
  const Evaluation evaluation = *validation.run([&](double share) {
    console.progress(text("  ", bar(share, 12), ' ', fixed(share * 100, 0), " %"));
    return true;
  });
  const fs::path folder = make_run_folder(project, run_name, exist_ok);
  write_report(evaluation, folder);
  const std::vector<BadSample> unreadable = validation.bad();
  for (const BadSample& bad : unreadable) console.say(text("  skipped: ", bad.reason));
  if (!unreadable.empty())
    console.say(text("  ", unreadable.size(), " of ", thousands(dataset.size(part)),
                     " pictures cannot be read and are skipped"));
  const std::string table = per_class_table(evaluation);
  console.say(std::string_view(table).substr(0, table.size() - 1));  // without the end of its last line
  const Figures figures = figures_of(evaluation);
  console.say(text("top1 ", fixed(figures.top1 * 100, 2), "  top5 ", fixed(figures.top5 * 100, 2),
                   "  macro-F1 ", fixed(figures.f1_macro * 100, 2), "  loss ", fixed(figures.loss, 4)));
  console.say(text("Saved ", folder.string()));
  console.event(summary_json(figures, folder, checkpoint.path));
  return 0;
}

}  // namespace neurim::cli
