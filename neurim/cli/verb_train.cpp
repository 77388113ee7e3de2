#include "neurim/cli/interrupt.h"
#include "neurim/cli/summary.h"
#include "neurim/cli/verbs.h"
#include "neurim/neurim.h"

namespace neurim::cli {

int verb_train(const Words& words) {
  CommandLine line(
      {"train",
       "trains a model on your images, series or text; options that are left out are chosen, and --verbose prints them",
       "model data",
       {"neurim train data=photos model=resnet18",
        "neurim train data=sales.csv target=sold model=lstm window=28 horizon=7 season=7",
        "neurim train --data photos --model resnet50 --epochs 60 --lr 0.05 --name second"}});
  TrainOptions options;
  options.visit(line.options);
  line.add_verbose();
  if (!line.parse(words)) return 0;
  initialize();
  const Job job = join_training(place_of_process());
  Console console(job.writes() ? line.console() : Console::Options{.quiet = true});
  const Interrupt interrupt;
  const TrainResult result = train(options, control_of(interrupt, console, line.dry_run(), job));
  return line.dry_run() ? close_dry_run(result, line, console) : close_run(result, interrupt, console);
}

}  // namespace neurim::cli
