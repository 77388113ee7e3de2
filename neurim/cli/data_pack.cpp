#include "neurim/base/writable.h"
#include "neurim/cli/data_tasks.h"
#include "neurim/cli/interrupt.h"
#include "neurim/cli/open_data.h"
#include "neurim/data/pack.h"
#include "neurim/neurim.h"

namespace neurim::cli {

int data_pack(const Words& words) {
  CommandLine line({"data pack",
                    "writes a data set to one file, from which training reads faster; goes on where it was stopped; "
                    "exit code 3 where "
                    "only a part of the data can be read",
                    "data",
                    {"neurim data pack photos out=photos.pack", "neurim train data=photos.pack model=resnet18",
                     "neurim data pack data=photos out=photos.pack threads=8 --json"}});
  std::string data, out;
  DatasetOptions options{.val_split = 0.0, .for_training = false};
  std::optional<std::int64_t> threads_wanted;
  line.options("data", data, "what train takes as data", {"data_dir"});
  line.options("out", out, "file to write");
  line.options("group_by", options.group_by, "column of a table whose values are kept as the groups");
  line.options("threads", threads_wanted, "threads that decode");
  if (!line.parse(words)) return 0;
  require(!data.empty(), "the data are missing; give what is to be packed: data=photos");
  require(!out.empty(), "the file is missing; give the file to write: out=photos.pack");
  check_target(out, data);
  if (threads_wanted) set_threads(*threads_wanted);
  Console console(line.console());
  const Interrupt interrupt;
  const Dataset dataset = open_data(data, options, console);
  if (line.dry_run()) {
    check_pack(dataset, out);
    check_can_write(out);
    line.end_dry_run(console, text("write ", plural(dataset.size(), "image"), " to ", out),
                     {{"path", out}, {"samples", dataset.size()}});
    check_whole(dataset, out);
    return 0;
  }
  bool stopped = false;
  const PackResult result = pack(dataset, out, threads(), [&](std::int64_t done, std::int64_t all) {
    console.progress(text("  ", thousands(done), " of ", thousands(all), " images"));
    stopped = interrupt.signal().load() != 0 && done < all;
    return !stopped;
  });
  for (const std::string& reason : result.skipped) console.print(text("  skipped: ", reason));
  if (result.begun_anew)
    console.print("  the data have changed since this command was stopped: all of them are packed again");
  if (result.resumed > 0) console.print(text("  ", plural(result.resumed, "image"), " were there already"));
  const std::int64_t skipped = dataset.size() - result.samples;  // also by earlier calls that this one continues
  console.print(stopped ? text("Stopped after ", plural(result.samples, "image"), "; the same command goes on.")
                        : text(out, ": ", fixed(static_cast<double>(result.bytes) / 1e6, 1), " MB, ",
                               plural(result.samples, "image"),
                               skipped > 0 ? text(", ", thousands(skipped), " skipped") : ""));
  console.event({{"event", "summary"},
                 {"path", out},
                 {"samples", result.samples},
                 {"resumed", result.resumed},
                 {"begun_anew", result.begun_anew},
                 {"skipped", result.skipped},
                 {"bytes", result.bytes},
                 {"finished", !stopped}});
  if (!stopped) check_whole(dataset, out, skipped);
  return stopped ? interrupt.exit_code() : 0;
}

}  // namespace neurim::cli
