#include <unistd.h>

#include "neurim/base/writable.h"
#include "neurim/cli/summary.h"
#include "neurim/cli/verbs.h"
#include "neurim/data/pack.h"
#include "neurim/neurim.h"
#include "neurim/train/run_folder.h"

namespace neurim::cli {

namespace {

/// Draws the digits into one packed file.
void draw(const fs::path& file, std::uint64_t seed, int train_images, int val_images) {
  make_folder(file.parent_path());
  const fs::path images = file.string() + text(".", ::getpid());
  const auto clear = [&] {
    std::error_code ignored;
    fs::remove_all(images, ignored);
  };
  try {
    write_digits(images, seed, train_images, val_images);
    pack(Dataset::open(images.string()), file.string(), threads());
  } catch (...) {
    clear();
    throw;
  }
  clear();
}

}  // namespace

int verb_demo(const Words& words) {
  CommandLine line({"demo",
                    "draws digits, trains LeNet-5 on them, evaluates it and exports it; needs no data",
                    "",
                    {"neurim demo", "neurim demo epochs=20 seed=7", "neurim demo project=/tmp/demo --json"}});
  TrainOptions options{.model = "lenet5", .batch = 64, .lr = 3e-3, .project = "runs/classify", .name = "demo"};
  std::int64_t epochs = 8, train_images = 500, val_images = 100;
  line.options("epochs", epochs, "how often all images are seen");
  line.options("train_images", train_images, "images of each digit to train on", {"train_pictures"});
  line.options("val_images", val_images, "images of each digit to evaluate by", {"val_pictures"});
  line.options("seed", options.seed, "of images, weights and order");
  line.options("threads", options.threads, "compute threads");
  line.options("project", options.project, "folder of the runs");
  line.add_device();
  if (!line.parse(words)) return 0;
  require(train_images >= 1 && val_images >= 1, "train_images is ", train_images, " and val_images ", val_images,
          "; each is at least 1");
  options.epochs = epochs;
  const fs::path digits = fs::path(options.project) /
                          text("digits-", options.seed, '-', train_images, '-', val_images, ".pack");
  options.data = digits.string();
  options.device = text(line.device());
  options.check();

  initialize();
  Console console(line.console());
  const bool drawn = fs::exists(digits);
  const std::int64_t images = 10 * (train_images + val_images);
  if (line.dry_run()) {
    const fs::path run = run_folder_to_make(options.project, options.name);
    return line.end_dry_run(
        console,
        text(drawn ? "" : text("draw ", thousands(images), " digits into ", digits.string(), " and "), "train ",
             plural(epochs, "epoch"), " into ", run.string()),
        {{"run", run.string()}, {"pictures", images}, {"drawn", drawn}, {"epochs", epochs}});
  }
  const Interrupt interrupt;
  if (!drawn) {
    console.print(text("Drawing ", thousands(images), " digits into ", digits.string()));
    draw(digits, static_cast<std::uint64_t>(options.seed), static_cast<int>(train_images),
         static_cast<int>(val_images));
  }
  const TrainResult result = train(options, control_of(interrupt, console));
  if (result.stopped) return close_run(result, interrupt, console);

  const Checkpoint checkpoint = load_checkpoint(result.run);
  const fs::path exported = export_path(checkpoint, "onnx");
  export_checkpoint(checkpoint, exported);
  const std::string run = result.run.string();
  console.print(text("Best: epoch ", result.best_epoch, "  ", metrics_line(result.metrics)));
  console.print(text("  curves      ", run, "/results.png"));
  console.print(text("  confusions  ", run, "/confusion_matrix.png"));
  console.print(text("  ONNX        ", exported.string()));
  console.print("Now with your own images, one folder per class:");
  console.print("  neurim train data=YOUR_PICTURES model=resnet18");
  console.event(summary_json(result.metrics, result.run, result.model));
  return 0;
}

}  // namespace neurim::cli
