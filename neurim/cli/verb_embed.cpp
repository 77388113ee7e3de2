#include "neurim/cli/open_data.h"
#include "neurim/cli/open_model.h"
#include "neurim/cli/verbs.h"
#include "neurim/infer/embedding.h"
#include "neurim/neurim.h"
#include "neurim/train/run_folder.h"

namespace neurim::cli {

namespace {

constexpr const char* kOfTraining[] = {"batch", "workers", "threads", "split_seed"};

/// The options of the model's training, with what was given in their place.
TrainOptions options_of_training(const Checkpoint& checkpoint, const std::string& data, const CommandLine& line) {
  TrainOptions options;
  Options of_run;
  options.visit(of_run);
  of_run.read_yaml(checkpoint.config.options, text(checkpoint.path.string(), " (options)"));
  if (!data.empty()) options.data = data;
  require(!options.data.empty(), "data is missing; give images: data=PATH");
  if (data.empty()) check_remembered_data(options.data, checkpoint.path, "give data=PATH");
  for (const char* name : kOfTraining)
    if (const std::string value = line.options.find(name)->get(); value != kAuto) of_run.set(name, value);
  if (!options.batch) options.batch = 32;
  options.device = text(line.device());
  return options;
}

}  // namespace

int verb_embed(const Words& words) {
  CommandLine line(
      {"embed",
       "writes what a classifier sees in images: features, neighbours, suspicious duplicates, a map of them",
       "model data",
       {"neurim embed runs/classify/train", "neurim embed runs/classify/train data=photos split=train most=5000",
        "neurim embed best.safetensors data=photos similarity=0.99"}});
  std::string model, arch, data, split = "val", project = kAuto, run_name = "embed";
  std::int64_t most = 2000;
  double similarity = 0.999;
  bool exist_ok = false;
  TrainOptions training;
  Options named;
  training.visit(named);
  line.options("model", model, "run folder, model folder, weights, function or ONNX file", {"m"});
  line.options("arch", arch, kArchOfWeights);
  line.options("data", data, "images of one class; by default those that it was trained on");
  line.options("split", split, "train, val or test");
  line.options("most", most, "samples at most, spread evenly over the split; time grows with their square");
  line.options("similarity", similarity,
               "how alike samples are that duplicates.csv names: the cosine of their features");
  for (const char* name : kOfTraining) line.options.borrow(*named.find(name), "; by default as in training");
  line.options("project", project, "folder of the reports; auto: reports in the run, or runs/classify and such");
  line.options("name", run_name, "name of the folder; a number is added where it exists");
  line.options("exist_ok", exist_ok, "write into an existing folder");
  line.add_device();
  if (!line.parse(words)) return 0;
  require(!model.empty(), "the model is missing; give a run folder or a weights file: model=runs/classify/train");
  require(most >= 2, "most is ", most, "; it is at least 2");
  const Split part = split_option(split);
  initialize();
  Console console(line.console());
  const Checkpoint checkpoint = load_checkpoint(model, arch);
  place(checkpoint.model, line.device());
  print_notes(checkpoint, console);
  refuse_sequence(checkpoint, "embed");
  require(!checkpoint.config.multi_label(), checkpoint.path.string(),
          ": is multi-label; embed is for models of one class an image");
  TrainOptions options = options_of_training(checkpoint, data, line);
  if (options.threads) set_threads(*options.threads);
  DatasetOptions of_data = dataset_of(options);
  of_data.class_names = checkpoint.config.class_names;
  const Dataset dataset = open_data(options.data, of_data, console);
  if (dataset.size(part) == 0)
    fail(Fault::data, options.data, ": has no ", split, " split; it has ", splits_of(dataset));
  options = options.resolved(checkpoint.model, dataset);
  if (project == kAuto) project = reports_of_weights(checkpoint.path, checkpoint.config.task()).string();
  if (line.dry_run())
    return line.end_dry_run(
        console,
        text("embed ", plural(dataset.size(part), "image"), " in ",
             run_folder_to_make(project, run_name, exist_ok).string()),
        {{"pictures", dataset.size(part)}, {"run", run_folder_to_make(project, run_name, exist_ok).string()}});
  const Embedding embedding = embed(checkpoint, dataset, part, checkpoint.config.preprocess, options, most,
                                    [&](double share) {
                                      console.progress(text("  ", bar(share, 12), ' ', fixed(share * 100, 0), " %"));
                                      return true;
                                    });
  for (const BadSample& one : embedding.unreadable) console.print(text("  skipped: ", one.reason));
  const fs::path folder = make_run_folder(project, run_name, exist_ok);
  write_embedding(embedding, dataset, part, similarity,
                  text(checkpoint.path.string(), " on ", options.data, ", ", part), folder);
  console.print(text("Saved ", folder.string(), ": ", plural(std::ssize(embedding.samples), "sample"), " of ",
                     embedding.dimensions, " features"));
  console.event({{"event", "summary"},
                 {"samples", embedding.samples.size()},
                 {"dimensions", embedding.dimensions},
                 {"run", folder.string()}});
  return 0;
}

}  // namespace neurim::cli
