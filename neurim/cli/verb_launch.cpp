#include <algorithm>
#include <cstdio>

#include "neurim/cli/verbs.h"
#include "neurim/distributed/launch.h"
#include "neurim/train/console.h"

namespace neurim::cli {

int verb_launch(const Words& words) {
  CommandLine line({"launch",
                    "runs a command as several processes that train together; each has a share of every batch",
                    "",
                    {"neurim launch np=2 -- train data=photos model=resnet18",
                     "neurim launch np=4 max_restarts=3 -- train data=photos model=resnet50 batch=128",
                     "neurim launch np=2 -- resume runs/classify/train"}});
  LaunchOptions options;
  std::int64_t processes = options.processes, restarts = 0, seed = 0;
  std::string device = "cpu";
  line.options("np", processes, "processes, all on this machine; its threads are shared among them", {"nproc"});
  line.options("max_restarts", restarts,
               "how often the job begins again after it has lost a process: from the state that was saved last");
  line.options("address", options.address,
               "HOST:PORT at which the processes meet; by default a free port of 127.0.0.1");
  line.options("timeout", options.timeout, "seconds after which a process that is silent counts as lost");
  line.options("seed", seed, "taken by every verb; the command behind -- has its own");
  line.options("device", device, "taken by every verb; the command behind -- has its own");
  const auto split = std::find(words.begin(), words.end(), "--");
  if (!line.parse({words.begin(), split})) return 0;
  require(split != words.end() && split + 1 != words.end(),
          "the command is missing; give it behind --: neurim launch np=2 -- train data=photos model=resnet18");
  const Words command(split + 1, words.end());
  require(command[0] == "train" || command[0] == "resume", command[0],
          ": several processes share a training; known are train and resume");
  Console console(line.console());
  if (line.dry_run())
    return line.end_dry_run(console, text("start ", plural(processes, "process"), " of: neurim ", join(command, " ")),
                            {});
  options.processes = static_cast<int>(processes);
  options.restarts = static_cast<int>(restarts);
  options.tell = [](const std::string& what) { std::fprintf(stderr, "neurim launch: %s\n", what.c_str()); };
  const std::string program = fs::read_symlink("/proc/self/exe").string();
  const auto with_program = [&](const Words& of) {
    Words all{program};
    all.insert(all.end(), of.begin(), of.end());
    return all;
  };
  return launch(with_program(command), options, [&](const std::string& run) { return with_program({"resume", run}); });
}

}  // namespace neurim::cli
