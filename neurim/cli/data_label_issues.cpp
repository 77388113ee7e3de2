#include "neurim/base/writable.h"
#include "neurim/cli/data_tasks.h"
#include "neurim/cli/interrupt.h"
#include "neurim/cli/summary.h"
#include "neurim/evaluate/predictions.h"
#include "neurim/neurim.h"
#include "neurim/train/cross_validation.h"

namespace neurim::cli {

int data_label_issues(const Words& words) {
  CommandLine line(
      {"data label-issues",
       "finds labels that are probably wrong: trains on parts of the training split and asks about the others",
       "data",
       {"neurim data label-issues photos", "neurim data label-issues photos model=resnet18 epochs=20 folds=10",
        "neurim data label-issues fashion-mnist model=lenet5 epochs=4 out=issues.csv"}});
  TrainOptions training;
  Options named;
  training.visit(named);
  std::string data, model = "resnet18", out = "label_issues.csv", answers;
  std::int64_t folds = 5;
  line.options("data", data, "images of one class, as train takes them; the training split is looked at", {"data_dir"});
  line.options("model", model, "what is trained: a known name or a model file", {"m", "arch"});
  line.options("folds", folds, "parts of the training split; so many models are trained");
  line.options("out", out, "file to write: file, label, suggested and score, the most suspicious first");
  line.options("predictions", answers, "file to write all answers to, with their probabilities");
  const std::vector<const char*> taken{"pretrained", "epochs",  "batch",   "imgsz",   "lr",        "opt", "augment",
                                       "resize",     "max_bad", "workers", "threads", "precision", "seed"};
  for (const char* name : taken) line.options.borrow(*named.find(name), "; by default as train chooses");
  line.add_device();
  if (!line.parse(words)) return 0;
  require(!data.empty(), "the data are missing; give what train takes: data=photos");
  require(folds >= 2, "folds is ", folds, "; it is at least 2");
  check_target(out, data);
  if (!answers.empty()) check_target(answers, data);
  initialize();
  for (const char* name : taken)
    if (line.given(name)) named.set(name, line.options.find(name)->get());
  training.data = data;
  training.model = model;
  training.device = text(line.device());
  const std::shared_ptr<const fs::path> runs = temporary_folder();
  training.project = runs->string();
  Console console(line.console());
  const Interrupt interrupt;
  if (line.dry_run()) {
    check_can_write(out);
    training.folds = folds;
    train(training, {.dry_run = true});
    return line.end_dry_run(console, text("train ", folds, " models, and write ", out),
                            {{"path", out}, {"folds", folds}});
  }
  const Predictions predictions = cross_validated(training, folds, control_of(interrupt, console, false));
  if (interrupt.signal() != 0) return interrupt.exit_code();
  write_file(out, label_issues_csv(predictions));
  if (!answers.empty()) write_file(answers, predictions_csv(predictions));
  const std::vector<LabelIssue> issues = label_issues(predictions);
  const auto name = [&](std::int64_t c) { return predictions.class_names()[static_cast<std::size_t>(c)]; };
  for (std::size_t i = 0; i < issues.size(); ++i) {
    const Prediction& one = predictions.samples()[issues[i].place];
    if (i < kNamed)
      console.print(text(one.name, "  ", name(one.label), ", rather ", name(issues[i].suggested), " (",
                         fixed(100 * issues[i].score, 2), " %)"));
    console.event({{"event", "label_issue"},
                   {"path", one.name},
                   {"label", name(one.label)},
                   {"suggested", name(issues[i].suggested)},
                   {"score", issues[i].score}});
  }
  console.print(text(out, ": ", plural(std::ssize(issues), "label"), " of ",
                     thousands(std::ssize(predictions.samples())), " that another class is likelier than"));
  console.event(
      {{"event", "summary"}, {"path", out}, {"samples", predictions.samples().size()}, {"issues", issues.size()}});
  return 0;
}

}  // namespace neurim::cli
