#include <algorithm>

#include "neurim/cli/data_tasks.h"
#include "neurim/cli/open_data.h"
#include "neurim/data/statistics.h"
#include "neurim/neurim.h"

namespace neurim::cli {

int data_stats(const Words& words) {
  CommandLine line(
      {"data stats",
       "counts the samples of each class and split, and measures the mean and std of the pixels",
       "data",
       {"neurim data stats photos", "neurim data stats photos imgsz=64", "neurim data stats data=photos.pack --json"}});
  std::string data;
  ChannelCount in_chans = 3;
  InputSize imgsz = 224;
  std::optional<std::int64_t> threads_wanted;
  line.options("data", data, "what train takes as data", {"data_dir"});
  line.options("imgsz", imgsz, "size that images are brought to, pixels: one number, or height x width",
               {"img_size", "input_size"});
  line.options("in_chans", in_chans, "channels: gray, la, rgb, rgba or a number", {"channels"});
  line.options("threads", threads_wanted, "threads that decode");
  if (!line.parse(words)) return 0;
  require(!data.empty(), "the data are missing; give what train takes: data=photos");
  if (threads_wanted) set_threads(*threads_wanted);
  Console console(line.console());
  const Dataset dataset = open_data(data, {.val_split = 0.0, .for_training = false}, console);
  const Split measured = first_split(dataset);
  const Preprocess preprocess{.channels = static_cast<int>(in_chans.count),
                              .height = static_cast<int>(imgsz.height),
                              .width = static_cast<int>(imgsz.width)};
  const ChannelStatistics channels = channel_statistics(dataset, preprocess, threads(), measured);

  JsonObject splits;
  for (const Split split : kSplits) {
    const std::vector<std::int64_t> counts = dataset.class_counts(split);
    splits.add(name(split), JsonObject{{"samples", dataset.size(split)}, {"classes", counts}});
    if (dataset.size(split) == 0) continue;
    const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
    const auto called = [&](auto at) { return dataset.class_names()[at - counts.begin()]; };
    console.print(text("  ", name(split), "  ", plural(dataset.size(split), "sample"), ", ", counts.size(),
                       " classes of ", thousands(*least), " (", called(least), ") to ", thousands(*most), " (",
                       called(most), ')'));
  }
  const auto listed = [](const std::vector<double>& values) {
    std::vector<std::string> metrics;
    for (const double value : values) metrics.push_back(fixed(value, 4));
    return join(metrics, ",");
  };
  console.print(text("  mean=", listed(channels.mean), " std=", listed(channels.std), "  (of ",
                     plural(channels.images, text(measured, " image")), ")"));
  if (const std::string note = constant_channels_note(channels); !note.empty()) console.print(text("  ", note));
  if (channels.left_out > 0)
    console.print(text("  left out of these: ", plural(channels.left_out, "image"), ", such as ", channels.reason));
  console.event({{"event", "summary"},
                 {"class_names", dataset.class_names()},
                 {"splits", splits},
                 {"mean", channels.mean},
                 {"std", channels.std},
                 {"pictures", channels.images},
                 {"left_out", channels.left_out}});
  return 0;
}

}  // namespace neurim::cli
