#include "neurim/cli/open_data.h"
#include "neurim/cli/open_model.h"
#include "neurim/cli/report_folder.h"
#include "neurim/cli/verbs.h"
#include "neurim/infer/embedding.h"
#include "neurim/neurim.h"

namespace neurim::cli {

namespace {

constexpr const char* kOfTraining[] = {"batch", "workers", "threads", "split_seed"};

}  // namespace

int verb_embed(const Words& words) {
  CommandLine line(
      {"embed",
       "writes what a classifier sees in images: features, neighbours, suspicious duplicates, a map of them",
       "model data",
       {"neurim embed runs/classify/train", "neurim embed runs/classify/train data=photos split=train most=5000",
        "neurim embed best.safetensors data=photos similarity=0.99"}});
  std::string model, arch, data, split = "val";
  ReportFolder report("embed");
  std::int64_t most = 2000;
  double similarity = 0.999;
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
  report.visit(line);
  line.add_device();
  if (!line.parse(words)) return 0;
  require(most >= 2, "most is ", most, "; it is at least 2");
  const Split part = split_option(split);
  initialize();
  Console console(line.console());
  const TrainedClassifier trained = open_trained({"embed", model, arch, data, part, kOfTraining}, line, console);
  const auto& [checkpoint, options, dataset] = trained;
  place(checkpoint.model, line.device());
  require(!checkpoint.config.multi_label(), checkpoint.path.string(),
          ": is multi-label; embed is for models of one class an image");
  report.settle(checkpoint);
  if (line.dry_run())
    return line.end_dry_run(console,
                            text("embed ", plural(dataset.size(part), "image"), " in ", report.to_make().string()),
                            {{"pictures", dataset.size(part)}, {"run", report.to_make().string()}});
  const Embedding embedding = embed(checkpoint, dataset, part, checkpoint.config.preprocess, options, most,
                                    [&](double share) {
                                      console.progress(text("  ", bar(share, 12), ' ', fixed(share * 100, 0), " %"));
                                      return true;
                                    });
  for (const BadSample& one : embedding.unreadable) console.print(text("  skipped: ", one.reason));
  const fs::path folder = report.make();
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
