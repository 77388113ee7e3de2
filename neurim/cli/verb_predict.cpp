#include <algorithm>
#include <csignal>

#include "neurim/base/writable.h"
#include "neurim/cli/input_options.h"
#include "neurim/cli/open_data.h"
#include "neurim/cli/open_model.h"
#include "neurim/cli/sequence_verbs.h"
#include "neurim/cli/verbs.h"
#include "neurim/data/label_problems.h"
#include "neurim/data/sources/image_list.h"
#include "neurim/data/views.h"
#include "neurim/evaluate/csv.h"
#include "neurim/infer/answered_images.h"
#include "neurim/infer/classifier.h"
#include "neurim/neurim.h"

namespace neurim::cli {

namespace {

/// Prints what the classifier says of images, and keeps the lines of a CSV file.
class Printer {
 public:
  /// Models of one class an image print `topk` classes. `rejects`: answers may be rejected, and the event has the
  /// answer too.
  Printer(const ModelConfig& config, std::int64_t topk, bool rejects, Console& console)
      : config_(config),
        most_(std::min(static_cast<std::size_t>(topk), config.class_names.size())),
        rejects_(rejects),
        console_(console),
        csv_(config.regression() ? columns_of(config.class_names)
                                 : text("path,rank,class,probability", rejects ? ",rejected" : "", '\n')) {}

  /// Returns the answer in words.
  std::string print(const std::string& image, const Classification& said) {
    if (config_.regression()) return print_numbers(image, said.probabilities);
    const std::vector<std::string>& classes = config_.class_names;
    std::vector<std::size_t> named = said.classes;
    if (!config_.multi_label()) named.resize(most_);
    std::vector<std::string> answers;
    std::vector<JsonObject> predictions;
    for (const std::size_t c : named) {
      const double share = said.probabilities[c];
      answers.push_back(text(classes[c], ' ', fixed(share * 100, 1), " %"));
      predictions.push_back({{"label", classes[c]}, {"index", c}, {"prob", static_cast<float>(share)}});
      if (!said.rejected || c == named[0])
        csv_ += text(csv_field(image), ',', answers.size(), ',', csv_field(said.rejected ? kRejected : classes[c]), ',',
                     static_cast<float>(share), rejects_ ? text(',', said.rejected) : "", '\n');
    }
    if (answers.empty()) answers.push_back("none of the classes");
    const std::string answer = said.rejected ? text(kRejected, " (", join(answers, ", "), ')') : join(answers, "  ");
    console_.print(text(image, "  ", answer));
    JsonObject event{{"event", "prediction"}, {"path", image}};
    if (rejects_)
      event.add("label", said.rejected ? kRejected : classes[named[0]]), event.add("rejected", said.rejected);
    event.add("predictions", predictions);
    console_.event(event);
    return answer;
  }

  const std::string& csv() const { return csv_; }

 private:
  static std::string columns_of(const std::vector<std::string>& targets) {
    std::string line = "path";
    for (const std::string& target : targets) line += text(',', csv_field(target));
    return line + '\n';
  }
  std::string print_numbers(const std::string& image, const std::vector<double>& numbers) {
    std::vector<std::string> answers;
    JsonObject values;
    csv_ += csv_field(image);
    for (std::size_t t = 0; t < numbers.size(); ++t) {
      answers.push_back(text(config_.class_names[t], ' ', significant(numbers[t])));
      values.add(config_.class_names[t], static_cast<float>(numbers[t]));
      csv_ += text(',', static_cast<float>(numbers[t]));
    }
    csv_ += '\n';
    const std::string answer = join(answers, "  ");
    console_.print(text(image, "  ", answer));
    console_.event({{"event", "prediction"}, {"path", image}, {"values", values}});
    return answer;
  }

  const ModelConfig& config_;
  const std::size_t most_;  // classes that are printed
  const bool rejects_;
  Console& console_;
  std::string csv_;
};

struct PredictOptions {
  std::string model, arch, source, save_csv, sort_into, annotated, reject = "none", tta = "none", prompt;
  GenerateOptions generating;
  std::int64_t seed = static_cast<std::int64_t>(generating.seed);
  InputOptions input;
  std::optional<std::int64_t> topk, threads;
  double max_bad = LoaderOptions().max_bad;
  std::int64_t batch = ClassifierOptions().batch;
  std::int64_t workers = ClassifierOptions().workers;

  void visit(CommandLine& line) {
    line.options.topic("most used");
    line.options("model", model, "run folder, model folder (config.json and weights), weights or function file", {"m"});
    line.options("arch", arch, kArchOfWeights);
    line.options("source", source,
                 "image, folder of images, pattern such as 'photos/*.jpg', .txt file with a path a line, - for such "
                 "lines on stdin, or @https://… to fetch one; series, by default the one of training");
    line.options("topk", topk, "how many classes to name; by default 1, or all above their thresholds if multi-label");
    line.options("reject", reject,
                 "call an image unknown below this probability: a number, auto (training found it), none",
                 {"reject_threshold"});
    line.options("max_bad", max_bad,
                 "unreadable images to tolerate: a share of all below 1, else a count; more end with exit code 3");
    line.options("save_csv", save_csv, "file to write path, class and probability to, or the forecast");
    line.options("sort_into", sort_into, "new folder to copy images into, a sub-folder for each class");
    line.options("annotated", annotated, "new folder for images with the answer below them", {"save_img"});
    line.options("tta", tta, kViewsOfImages, {"augment"});
    input.visit(line.options);
    line.options.topic("texts");
    line.options("prompt", prompt,
                 "text: what to go on with; by default a new line, or the first character of a model that knows none");
    line.options("length", generating.length, "text: characters to write");
    line.options("temperature", generating.temperature,
                 "text: 1 draws as the model says, less what is likelier, 0 the likeliest");
    line.options("seed", seed, "text: of the draws; elsewhere nothing is drawn");
    line.options.topic("computing");
    line.options("threads", threads, "compute threads");
    line.options("batch", batch, "images to run at once, at most");
    line.options("workers", workers, "threads that read images while others run; 0: as many as compute");
    line.add_device();
    line.add_precision();
    line.add_tuning();
  }
};

/// Returns the exit code.
int predict_images(const ImageClassifier& classifier, Printer& printer, const ImageList& asked, const PredictOptions& o,
                   const CommandLine& line, Console& console) {
  const std::vector<fs::path>& images = asked.files();
  const std::string& save_csv = o.save_csv;
  if (line.dry_run()) {
    if (!save_csv.empty()) check_can_write(save_csv);
    std::vector<std::string> written;
    for (const std::string& one : {save_csv, o.sort_into, o.annotated})
      if (!one.empty()) written.push_back(one);
    return line.end_dry_run(
        console,
        text("name what is in ", plural(std::ssize(images), "image"),
             written.empty() ? "" : text(", and write ", join(written, ", "))),
        {{"pictures", images.size()}, {"save_csv", save_csv}, {"sort_into", o.sort_into}, {"annotated", o.annotated}});
  }
  std::string reason;
  const std::int64_t allowed = most_bad(o.max_bad, std::ssize(images));
  AnsweredImages answered(o.sort_into, o.annotated);
  std::int64_t unreadable = 0;
  classifier.predict(images, [&](std::size_t i, const Classification& said) {
    if (said.unreadable.empty()) {
      const std::string answer = printer.print(asked.name(i), said);
      const std::string label = said.rejected          ? kRejected
                                : said.classes.empty() ? "none"
                                                       : classifier.class_names()[said.classes[0]];
      return answered.add(images[i], label, answer);
    }
    if (images.size() == 1) fail(Fault::data, said.unreadable);
    console.print(text("skipped: ", said.unreadable));
    if (unreadable++ == 0) reason = said.unreadable;
  });
  const bool none = unreadable == std::ssize(images);
  if (!save_csv.empty() && !none) write_file(save_csv, printer.csv());
  if (unreadable > 0) console.print(text(unreadable, " of ", images.size(), " images cannot be read and were skipped"));
  console.event(
      {{"event", "summary"}, {"pictures", images.size()}, {"unreadable", unreadable}, {"left_out", asked.left_out()}});
  if (none)
    fail(Fault::data, "none of the ", unreadable, " images can be read, such as ", images[0].string(),
         "; 'neurim data scan' says why");
  if (unreadable > allowed)
    fail(Fault::data, unreadable, " of ", images.size(), " images cannot be read, more than the ", allowed,
         " that max_bad allows, such as ", reason,
         "; the others are predicted; repair or remove these, or raise max_bad");
  return 0;
}

}  // namespace

int verb_predict(const Words& words) {
  Words more;
  CommandLine line({"predict",
                    "names what is in images; of a series says what comes next; goes on with a text",
                    "model source",
                    {"neurim predict runs/classify/train photo.jpg",
                     "neurim predict model=runs/forecast/train source=sales.csv save_csv=next.csv",
                     "neurim predict model=runs/language/train prompt='Once' length=300 temperature=0.7"},
                    &more});
  PredictOptions o;
  o.visit(line);
  if (!line.parse(words)) return 0;
  require(!o.model.empty(), "the model is missing; give a run folder or a weights file: model=runs/classify/train");
  if (!o.save_csv.empty()) {
    check_can_write(o.save_csv);
    std::signal(SIGPIPE, SIG_IGN);  // the file gets everything, even if nobody reads stdout any more
  }
  require(!o.topk || *o.topk >= 1, "topk is ", o.topk.value_or(0), "; it is at least 1");

  initialize();
  if (o.threads) set_threads(*o.threads);
  Console console(line.console());
  const Checkpoint checkpoint = load_checkpoint(o.model, o.arch);
  place(checkpoint.model, line.device());
  print_notes(checkpoint, console);
  if (!o.save_csv.empty()) check_no_input(o.save_csv, files_of_model(o.model, checkpoint));
  const std::vector<std::string> of_images{"topk",          "reject",    "imgsz",     "resize",  "crop_pct",
                                           "interpolation", "decode",    "precision", "max_bad", "batch",
                                           "workers",       "sort_into", "annotated", "tta"};
  const std::vector<std::string> of_texts{"prompt", "length", "temperature"};
  if (checkpoint.config.sequence) refuse_options(line, of_images, checkpoint);
  if (checkpoint.config.task().answer == Answer::characters) {
    refuse_options(line, {"source", "save_csv"}, checkpoint);
    o.generating.seed = static_cast<std::uint64_t>(o.seed);
    return predict_text(checkpoint, o.prompt, o.generating, line, console);
  }
  refuse_options(line, of_texts, checkpoint);
  if (checkpoint.config.task() == forecast_task()) {
    require(more.empty(), "there are ", 1 + more.size(),
            " sources, and a forecast goes on from one; leave the others out");
    return predict_series(checkpoint, o.source, o.save_csv, line, console);
  }
  require(!o.source.empty(), "the source is missing; give an image or a folder: source=photos");
  const double threshold = reject_threshold(o.reject, checkpoint);
  const std::vector<std::string>& classes = checkpoint.config.class_names;
  if (o.reject != "none" && std::find(classes.begin(), classes.end(), kRejected) != classes.end())
    console.print(text("note: a class of the model is called ", kRejected,
                       ", as what is rejected: the field rejected tells them apart"));
  require(!o.topk || !checkpoint.config.multi_label(), "topk is for models of one class an image, and ",
          checkpoint.path.string(), " is multi-label: it names what is above the threshold of each class");
  if (o.topk) refuse_numbers(checkpoint, "topk");
  if (!o.sort_into.empty()) refuse_numbers(checkpoint, "sort_into");
  if (o.input.imgsz) check_size(checkpoint.model, *o.input.imgsz);
  require(o.sort_into.empty() || !checkpoint.config.multi_label(),
          "sort_into is for models of one class an image, and ", checkpoint.path.string(),
          " is multi-label; leave it out");
  AnsweredImages::check(o.sort_into, "sort_into");
  AnsweredImages::check(o.annotated, "annotated");
  ImageList images;
  images.add(o.source);
  for (const std::string& further : more) images.add(further);
  print_notes(images.notes(), console);
  if (!o.save_csv.empty()) check_no_input(o.save_csv, images.files());
  Checkpoint asked = checkpoint;
  asked.config.preprocess = o.input.applied_to(checkpoint.config.preprocess);
  const ImageClassifier classifier(asked, {.plan = line.plan_options(),
                                           .batch = o.batch,
                                           .workers = o.workers,
                                           .reject_below = threshold,
                                           .views = parse_views(o.tta, asked.config.preprocess)});
  Printer printer(classifier.config(), o.topk.value_or(1), o.reject != "none", console);
  return predict_images(classifier, printer, images, o, line, console);
}

}  // namespace neurim::cli
