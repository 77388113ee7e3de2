#include <unistd.h>

#include "neurim/base/writable.h"
#include "neurim/cli/export_model.h"
#include "neurim/cli/summary.h"
#include "neurim/cli/verbs.h"
#include "neurim/data/pack.h"
#include "neurim/neurim.h"
#include "neurim/train/run_folder.h"

namespace neurim::cli {

namespace {

/// Draws the digits into one packed file.
void draw(const fs::path& file, std::uint64_t seed, int train_pictures, int val_pictures) {
  make_folder(file.parent_path());
  const fs::path pictures = file.string() + text(".", ::getpid());
  const auto clear = [&] {
    std::error_code ignored;
    fs::remove_all(pictures, ignored);
  };
  try {
    write_digits(pictures, seed, train_pictures, val_pictures);
    pack(Dataset::open(pictures.string()), file.string(), static_cast<int>(threads()));
  } catch (...) {
    clear();
    throw;
  }
  clear();
}

}  // namespace

int verb_demo(const Words& words) {
  CommandLine line({"demo",
                    "draws digits, trains LeNet-5 on them, judges it and exports it; needs no data",
                    "",
                    {"neurim demo", "neurim demo epochs=20 seed=7", "neurim demo project=/tmp/demo --json"}});
  TrainOptions options{
      .model = "lenet5", .batch = 64, .lr = 3e-3, .project = "runs/classify", .name = "demo"};
  std::int64_t epochs = 8, train_pictures = 500, val_pictures = 100;
  line.options("epochs", epochs, "how often all pictures are seen");
  line.options("train_pictures", train_pictures, "pictures of each digit to train on");
  line.options("val_pictures", val_pictures, "pictures of each digit to judge by");
  line.options("seed", options.seed, "of pictures, weights and order");
  line.options("threads", options.threads, "compute threads");
  line.options("project", options.project, "folder of the runs");
  line.add_device();
  if (!line.parse(words)) return 0;
  require(train_pictures >= 1 && val_pictures >= 1, "train_pictures is ", train_pictures,
          " and val_pictures ", val_pictures, "; each is at least 1");
  options.epochs = epochs;
  const fs::path digits =
      fs::path(options.project) / text("digits-", options.seed, '-', train_pictures, '-', val_pictures, ".pack");
  options.data = digits.string();
  options.device = text(line.device());
  options.check();

  initialize();
  Console console(line.console());
  const bool drawn = fs::exists(digits);
  const std::int64_t pictures = 10 * (train_pictures + val_pictures);
  if (line.dry_run()) {
    const fs::path run = run_folder_to_make(options.project, options.name);
    return line.end_dry_run(
        console,
        text(drawn ? "" : text("draw ", thousands(pictures), " digits into ", digits.string(), " and "),
             "train ", plural(epochs, "epoch"), " into ", run.string()),
        {{"run", run.string()}, {"pictures", pictures}, {"drawn", drawn}, {"epochs", epochs}});
  }
  const Interrupt interrupt;
  if (!drawn) {
    console.say(text("Drawing ", thousands(pictures), " digits into ", digits.string()));
    draw(digits, static_cast<std::uint64_t>(options.seed), static_cast<int>(train_pictures), static_cast<int>(val_pictures));
  }
  const TrainResult result = train(options, control_of(interrupt, console));
  if (result.stopped) return close_run(result, interrupt, console);

  const Checkpoint checkpoint = load_checkpoint(result.run);
  const fs::path exported = export_path(checkpoint);
  export_checkpoint(checkpoint, exported);
  const std::string run = result.run.string();
  console.say(text("Best: epoch ", result.best_epoch, "  ", figures_line(result.figures)));
  console.say(text("  curves      ", run, "/results.png"));
  console.say(text("  confusions  ", run, "/confusion_matrix.png"));
  console.say(text("  ONNX        ", exported.string()));
  console.say("Now with your own pictures, one folder per class:");
  console.say("  neurim train data=YOUR_PICTURES model=resnet18");
  console.event(summary_json(result.figures, result.run, result.model));
  return 0;
}

}  // namespace neurim::cli
