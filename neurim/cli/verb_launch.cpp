#include <algorithm>
#include <cstdio>
#include <numeric>

#include "neurim/cli/verbs.h"
#include "neurim/distributed/launch.h"
#include "neurim/train/console.h"

namespace neurim::cli {

int verb_launch(const Words& words) {
  CommandLine line({"launch",
                    "runs a command as several processes that train together; each has a share of every batch",
                    "",
                    {"neurim launch np=2 max_restarts=3 -- train data=photos model=resnet18",
                     "neurim launch hosts=node1:4,node2:4 -- train data=photos model=resnet50 batch=256",
                     "neurim launch np=2 -- resume runs/classify/train"}});
  LaunchOptions options;
  std::int64_t processes = options.processes, restarts = 0, seed = 0;
  std::string device = "cpu", hosts;
  line.options("np", processes, "processes; those of a machine share its threads", {"nproc"});
  line.options(
      "hosts", hosts,
      "machines and how many processes run on each, node1:4,node2:4, or a file with a line for each; by default all "
      "run on this machine. Others have the same program and data at the same paths");
  line.options("remote_shell", options.remote_shell, "program that runs a command on another machine, as ssh does");
  line.options("max_restarts", restarts,
               "how often the job begins again after it has lost a process: from the state that was saved last");
  line.options("address", options.address,
               "HOST:PORT at which the processes meet; by default a port of the machine of the first one");
  line.options("timeout", options.timeout, "seconds after which a process that is silent counts as lost");
  line.options("seed", seed, "taken by every verb; the command behind -- has its own");
  line.options("device", device, "taken by every verb; the command behind -- has its own");
  const auto split = std::find(words.begin(), words.end(), "--");
  if (!line.parse({words.begin(), split})) return 0;
  require(split != words.end() && split + 1 != words.end(),
          "the command is missing; give it behind --: neurim launch np=2 -- train data=photos model=resnet18");
  const Words command(split + 1, words.end());
  require(command[0] == "train" || command[0] == "resume" || command[0] == "collectives", command[0],
          ": several processes share a training; known are train, resume and collectives");
  if (!hosts.empty()) options.hosts = hosts_named(hosts);
  if (!hosts.empty() && !line.given("np"))
    processes = std::accumulate(options.hosts.begin(), options.hosts.end(), std::int64_t{0},
                                [](std::int64_t sum, const HostSlots& one) { return sum + one.slots; });
  options.processes = static_cast<int>(processes);
  Console console(line.console());
  if (line.dry_run())
    return line.end_dry_run(console, text("start ", plural(processes, "process"), " of: neurim ", join(command, " ")),
                            {});
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
