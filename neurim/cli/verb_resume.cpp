#include "neurim/cli/interrupt.h"
#include "neurim/cli/summary.h"
#include "neurim/cli/verbs.h"
#include "neurim/neurim.h"

namespace neurim::cli {

int verb_resume(const Words& words) {
  CommandLine line({"resume",
                    "goes on with a run where it was stopped, with the same result as if it had not been",
                    "run",
                    {"neurim resume runs/classify/train", "neurim resume runs/classify/train epochs=60",
                     "neurim resume run=runs/classify/train2 --json"}});
  std::string run, device = "auto";
  std::optional<std::int64_t> epochs, seed;
  line.options("run", run, "folder of the run");
  line.options("epochs", epochs, "epochs in all; the schedule of the learning rate is then one of that length");
  line.options("seed", seed, "taken by every verb; a run keeps the one that it was begun with");
  line.options("device", device, "where to compute: cpu; auto: where the run was");
  if (!line.parse(words)) return 0;
  require(!run.empty(), "the run is missing; give its folder: neurim resume runs/classify/train");
  initialize();
  const Job job = join_training(place_of_process());
  Console console(job.writes() ? line.console() : Console::Options{.quiet = true});
  const Interrupt interrupt;
  const TrainResult result = resume(run, epochs, control_of(interrupt, console, line.dry_run(), job),
                                    device == "auto" ? "" : device);
  return line.dry_run() ? close_dry_run(result, line, console) : close_run(result, interrupt, console);
}

}  // namespace neurim::cli
