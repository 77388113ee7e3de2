#include "neurim/base/writable.h"
#include "neurim/cli/data_tasks.h"
#include "neurim/cli/open_data.h"
#include "neurim/evaluate/drawn_names.h"
#include "neurim/neurim.h"
#include "neurim/train/batch_image.h"

namespace neurim::cli {

int data_preview(const Words& words) {
  CommandLine line({"data preview",
                    "draws training images as a model would get them",
                    "data",
                    {"neurim data preview photos", "neurim data preview photos 'augment=rrc(0.08,1),hflip'",
                     "neurim data preview photos imgsz=160 out=small.jpg seed=7"}});
  std::string data, augment = "rrc(0.35,1),hflip", out = "preview.jpg";
  std::int64_t seed = 42;
  double max_bad = LoaderOptions().max_bad;
  InputSize imgsz = 224;
  ChannelCount in_chans = 3;
  line.options("data", data, "what train takes as data", {"data_dir"});
  line.options("augment", augment, "random changes, such as rrc(0.35,1),hflip(0.5); none for none");
  line.options("imgsz", imgsz, "size, pixels: one number, or height x width", {"img_size", "input_size"});
  line.options("in_chans", in_chans, "channels: gray, la, rgb, rgba or a number, of which the first three are drawn",
               {"channels"});
  line.options("out", out, "file to write, a JPEG");
  line.options("max_bad", max_bad, "unreadable images to tolerate: a share of all below 1, else a count");
  line.options("seed", seed, "of the choice of images and of their changes");
  if (!line.parse(words)) return 0;
  require(!data.empty(), "the data are missing; give what train takes: data=photos");
  check_target(out, data);
  Console console(line.console());
  const Dataset dataset = open_data(data, {.val_split = 0.0, .for_training = false}, console);
  const Split drawn = first_split(dataset);
  const std::string image = drawn == Split::train ? "training image" : text(drawn, " image");
  const Preprocess preprocess{.channels = static_cast<int>(in_chans.count),
                              .height = static_cast<int>(imgsz.height),
                              .width = static_cast<int>(imgsz.width),
                              .crop_pct = 0.875};
  Loader loader(dataset, drawn, preprocess, parse_augment(augment),
                {.workers = 0,
                 .seed = static_cast<std::uint64_t>(seed),
                 .shuffle = true,
                 .cache = Cache::none,
                 .max_bad = max_bad});
  Batch batch;
  loader.start(0);
  loader.next(batch);
  if (line.dry_run()) {
    check_can_write(out);
    return line.end_dry_run(console, text("draw ", plural(batch.size, image), " to ", out),
                            {{"path", out}, {"pictures", batch.size}});
  }
  if (const auto note = drawn_names_note(dataset.class_names())) console.print(text("  data    ", *note));
  for (const BadSample& bad : loader.bad()) console.print(text("  skipped: ", bad.reason));
  write_file(out, batch_image(batch, preprocess, dataset.class_names()));
  console.print(text(out, ": ", plural(batch.size, image)));
  console.event({{"event", "summary"}, {"path", out}, {"pictures", batch.size}});
  return 0;
}

}  // namespace neurim::cli
