#include <algorithm>
#include <csignal>
#include <numeric>

#include "neurim/base/writable.h"
#include "neurim/cli/input_options.h"
#include "neurim/cli/open_data.h"
#include "neurim/cli/open_model.h"
#include "neurim/cli/sequence_verbs.h"
#include "neurim/cli/verbs.h"
#include "neurim/data/label_problems.h"
#include "neurim/data/path_pattern.h"
#include "neurim/data/sources/folder.h"
#include "neurim/evaluate/csv.h"
#include "neurim/neurim.h"

namespace neurim::cli {

namespace {

/// What was asked for.
struct Pictures {
  std::vector<fs::path> files;
  std::int64_t left_out = 0;  // of what lies in folders
};

/// Adds the picture itself, all pictures below a folder in the order of their names, or both for all that a
/// pattern stands for.
void add_pictures(const fs::path& source, Pictures& pictures, Console& console) {
  std::error_code error;
  if (!is_there(source)) {
    const std::vector<fs::path> named = paths_of_pattern(source.string());
    if (named.empty())
      fail(Fault::data, source.string(), ": there is no such file or folder; check the path");
    for (const fs::path& path : named) add_pictures(path, pictures, console);
    return;
  }
  if (!fs::is_directory(source, error)) return pictures.files.push_back(source);
  const PicturesBelow found = pictures_below(source.string());
  tell_notes(found.notes, console);
  if (found.files.empty()) fail(Fault::data, source.string(), ": holds no picture file");
  pictures.files.insert(pictures.files.end(), found.files.begin(), found.files.end());
  pictures.left_out += found.left_out;
}

/// The classes by falling probability.
std::vector<std::size_t> ranking(const std::vector<double>& shares) {
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
  return order;
}

/// Names what is in pictures, one after the other.
class Namer {
 public:
  /// Says so where the most likely class has less than `threshold`; of one class a picture, `topk` of them.
  Namer(const Checkpoint& checkpoint, const Preprocess& preprocess, double threshold, std::int64_t topk, const PlanOptions& options)
      : card_(checkpoint.card),
        preprocess_(preprocess),
        threshold_(threshold),
        most_(card_.multi_label() ? card_.class_names.size()
                                  : std::min(static_cast<std::size_t>(topk), card_.class_names.size())),
        plan_(plan(
            [&](const Tensors& in) {
              const Tensor logits = checkpoint.model(in[0]);
              return Tensors{card_.multi_label() ? logits : softmax(logits)};
            },
            {image_type(preprocess, 1)}, {.freeze = true, .products = options.products, .tuning = options.tuning, .device = device_of(checkpoint.model)})),
        transform_(preprocess),
        pixels_(preprocess.size().levels()) {}

  /// Throws Error(data) naming a picture that cannot be read.
  void read(const fs::path& picture) {
    naming([&] { return picture.string(); },
           [&] {
             decoder_.open_file(picture.string(), preprocess_.decoding());
             transform_(decoder_, pixels_.data());
           });
  }

  /// Prints what is in the picture that was read, and adds its lines to `csv`. `rejects`: it may be rejected, and the event has
  /// the answer, too.
  void answer(const fs::path& picture, bool rejects, Console& console, std::string& csv) {
    const std::vector<std::string>& classes = card_.class_names;
    plan_.inputs()[0].write(pixels_.data());
    plan_.run(plan_.inputs(), plan_.outputs());
    std::vector<double> shares = plan_.outputs()[0].values<double>();
    if (card_.multi_label())
      for (double& share : shares) share = probability_of(static_cast<float>(share));
    if (std::any_of(shares.begin(), shares.end(), [](double share) { return std::isnan(share); }))
      fail(Fault::data, picture.string(), ": the model gives NaN for it, as numbers in between outgrow f32, or with precision=fp16 65,504: try precision=bf16, or weights of an earlier epoch");
    std::vector<std::size_t> named = ranking(shares);
    named.resize(most_);
    if (card_.multi_label()) std::erase_if(named, [&](std::size_t c) { return shares[c] < card_.thresholds[c]; });
    const bool unknown = !card_.multi_label() && shares[named[0]] < threshold_;
    std::vector<std::string> answers;
    std::vector<JsonObject> predictions;
    for (const std::size_t c : named) {
      answers.push_back(text(classes[c], ' ', fixed(shares[c] * 100, 1), " %"));
      predictions.push_back({{"label", classes[c]}, {"index", c}, {"prob", static_cast<float>(shares[c])}});
      if (!unknown || c == named[0])
        csv += text(csv_field(picture.string()), ',', answers.size(), ',',
                    csv_field(unknown ? kRejected : classes[c]), ',', static_cast<float>(shares[c]),
                    rejects ? text(',', unknown) : "", '\n');
    }
    if (answers.empty()) answers.push_back("none of the classes");
    console.say(text(picture.string(), "  ",
                     unknown ? text(kRejected, " (", join(answers, ", "), ')') : join(answers, "  ")));
    JsonObject event{{"event", "prediction"}, {"path", picture.string()}};
    if (rejects) event.add("label", unknown ? kRejected : classes[named[0]]), event.add("rejected", unknown);
    event.add("predictions", predictions);
    console.event(event);
  }

 private:
  const ModelCard& card_;
  const Preprocess preprocess_;
  const double threshold_;
  const std::size_t most_;  // classes that are named
  const Plan plan_;
  Decoder decoder_;
  Transform transform_;
  std::vector<float> pixels_;
};

/// The exit code.
int predict_pictures(Namer& namer, const Pictures& asked, const std::string& save_csv, bool rejects, double max_bad,
                     const CommandLine& line, Console& console) {
  const std::vector<fs::path>& pictures = asked.files;
  if (line.dry_run()) {
    if (!save_csv.empty()) check_can_write(save_csv);
    return line.end_dry_run(console,
                            text("name what is in ", plural(std::ssize(pictures), "picture"),
                                 save_csv.empty() ? "" : text(", and write ", save_csv)),
                            {{"pictures", pictures.size()}, {"save_csv", save_csv}});
  }
  std::string csv = text("path,rank,class,probability", rejects ? ",rejected" : "", '\n'), reason;
  const std::int64_t allowed = most_bad(max_bad, std::ssize(pictures));
  std::int64_t unreadable = 0;
  for (const fs::path& picture : pictures) {
    try {
      namer.read(picture);
    } catch (const Error& error) {
      if (error.fault() != Fault::data || pictures.size() == 1) throw;
      console.say(text("skipped: ", error.what()));
      if (unreadable++ == 0) reason = error.what();
      continue;
    }
    namer.answer(picture, rejects, console, csv);
  }
  const bool none = unreadable == std::ssize(pictures);
  if (!save_csv.empty() && !none) write_file(save_csv, csv);
  if (unreadable > 0)
    console.say(text(unreadable, " of ", pictures.size(), " pictures cannot be read and were skipped"));
  console.event({{"event", "summary"}, {"pictures", pictures.size()}, {"unreadable", unreadable}, {"left_out", asked.left_out}});
  if (none)
    fail(Fault::data, "none of the ", unreadable, " pictures can be read, such as ", pictures[0].string(),
         "; 'neurim data scan' says why");
  if (unreadable > allowed)
    fail(Fault::data, unreadable, " of ", pictures.size(), " images cannot be read, more than the ", allowed,
         " that max_bad allows, such as ", reason, "; the others are predicted; repair or remove these, or raise max_bad");
  return 0;
}

}  // namespace

int verb_predict(const Words& words) {
  Words more;
  CommandLine line({"predict",
                    "names what is in pictures; of a series says what comes next; goes on with a text",
                    "model source",
                    {"neurim predict runs/classify/train photo.jpg",
                     "neurim predict model=runs/forecast/train source=sales.csv save_csv=next.csv",
                     "neurim predict model=runs/language/train prompt='Once' length=300 temperature=0.7"},
                    &more});
  std::string model, arch, source, save_csv, reject = "none", prompt;
  GenerateOptions generating;
  auto seed = static_cast<std::int64_t>(generating.seed);
  InputOptions input;
  std::optional<std::int64_t> topk, threads;
  double max_bad = LoaderOptions().max_bad;
  line.options.topic("most used");
  line.options("model", model, "run folder, model folder (config.json and weights), or weights file", {"m"});
  line.options("arch", arch, kArchOfWeights);
  line.options("source", source,
               "picture, folder of pictures, or pattern such as 'photos/*.jpg'; series, by default the one of training");
  line.options("topk", topk,
               "how many classes to name; by default 1, or all above their thresholds if multi-label");
  line.options("reject", reject,
               "call a picture unknown below this probability: a number, auto (training found it), none",
               {"reject_threshold"});
  line.options("max_bad", max_bad, "unreadable images to tolerate: a share of all below 1, else a count; more end with exit code 3");
  line.options("save_csv", save_csv, "file to write path, class and probability to, or the forecast");
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
  line.add_device();
  line.add_precision();
  line.add_tuning();
  if (!line.parse(words)) return 0;
  require(!model.empty(),
          "the model is missing; give a run folder or a weights file: model=runs/classify/train");
  if (!save_csv.empty()) {
    check_can_write(save_csv);
    std::signal(SIGPIPE, SIG_IGN);  // the file gets all, also where nobody reads stdout any more
  }
  require(!topk || *topk >= 1, "topk is ", topk.value_or(0), "; it is at least 1");

  initialize();
  if (threads) set_threads(*threads);
  Console console(line.console());
  const Checkpoint checkpoint = load_checkpoint(model, arch);
  place(checkpoint.model, line.device());
  say_notes(checkpoint, console);
  if (!save_csv.empty()) check_no_input(save_csv, files_of_model(model, checkpoint));
  const std::vector<std::string> of_pictures{"topk",     "reject",        "imgsz", "resize",
                                             "crop_pct", "interpolation", "decode", "precision", "max_bad"};
  const std::vector<std::string> of_texts{"prompt", "length", "temperature"};
  if (checkpoint.card.sequence) refuse_options(line, of_pictures, checkpoint);
  if (checkpoint.card.task() == TaskKind::language) {
    refuse_options(line, {"source", "save_csv"}, checkpoint);
    generating.seed = static_cast<std::uint64_t>(seed);
    return predict_text(checkpoint, prompt, generating, line, console);
  }
  refuse_options(line, of_texts, checkpoint);
  if (checkpoint.card.task() == TaskKind::forecast) {
    require(more.empty(), "there are ", 1 + more.size(), " sources, and a forecast goes on from one; leave the others out");
    return predict_series(checkpoint, source, save_csv, line, console);
  }
  require(!source.empty(), "the source is missing; give a picture or a folder: source=photos");
  const double threshold = reject_threshold(reject, checkpoint);
  const std::vector<std::string>& classes = checkpoint.card.class_names;
  if (reject != "none" && std::find(classes.begin(), classes.end(), kRejected) != classes.end())
    console.say(text("note: a class of the model is called ", kRejected, ", as what is rejected: the field rejected tells them apart"));
  require(!topk || !checkpoint.card.multi_label(), "topk is for models of one class a picture, and ",
          checkpoint.path.string(), " is multi-label: it names what is above the threshold of each class");
  if (input.imgsz) check_size(checkpoint.model, *input.imgsz);
  Pictures pictures;
  add_pictures(source, pictures, console);
  for (const std::string& further : more) add_pictures(further, pictures, console);
  if (!save_csv.empty()) check_no_input(save_csv, pictures.files);
  Namer namer(checkpoint, input.applied_to(checkpoint.card.preprocess), threshold, topk.value_or(1), line.plan_options());
  return predict_pictures(namer, pictures, save_csv, reject != "none", max_bad, line, console);
}

}  // namespace neurim::cli
