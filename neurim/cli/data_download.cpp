#include "neurim/cli/data_tasks.h"
#include "neurim/data/download.h"
#include "neurim/neurim.h"

namespace neurim::cli {

int data_download(const Words& words) {
  CommandLine line({"data download",
                    text("fetches a public data set and compares it with its checksums: ", join(public_sets(), ", ")),
                    "set",
                    {"neurim data download fashion-mnist", "neurim data download cifar10 out=sets/cifar10",
                     "neurim data download mnist mirror=/mnt/mirror/mnist"}});
  std::string set, out, mirror;
  line.options("set", set, "name of the set", {"name"});
  line.options("out", out, "folder to put it into; empty: the name of the set");
  line.options("mirror", mirror, "folder or URL to take the published files from, instead of the publishers' servers");
  if (!line.parse(words)) return 0;
  require(!set.empty(), "the set is missing; known are ", join(public_sets(), ", "));
  if (out.empty()) out = set;
  Console console(line.console());
  if (line.dry_run()) {
    const std::vector<std::string> files = check_download(set, out, mirror);
    for (const std::string& file : files) console.print(text("  ", file));
    return line.end_dry_run(console, text("fetch what ", out, " lacks of these ", plural(std::ssize(files), "file")),
                            {{"set", set}, {"path", out}, {"files", files}});
  }
  download(set, out, mirror, [&](std::string_view what) { console.print(text("  ", what)); });
  console.print(text("Saved ", out, "  ·  next: neurim train data=", out, " model=lenet5"));
  console.event({{"event", "summary"}, {"set", set}, {"path", out}});
  return 0;
}

}  // namespace neurim::cli
