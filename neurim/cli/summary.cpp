#include "neurim/cli/summary.h"

#include <cmath>
#include <cstdlib>

#include "neurim/base/shell.h"
#include "neurim/core/device.h"
#include "neurim/distributed/launch.h"

namespace neurim::cli {

JsonObject summary_json(const Metrics& metrics, const fs::path& run, const fs::path& model) {
  JsonObject json{{"event", "summary"}};
  for (const TaskMetric& one : metrics.task().metrics) json.add(one.name, metrics[one.name]);
  json.add("samples", metrics.samples);
  json.add("run", run.string());
  json.add("model", model.string());
  return json;
}

std::string metrics_line(const Metrics& metrics) {
  std::string line;
  for (const ResultMetric& one : metrics.task().results) {
    const double value = metrics[one.metric];
    if (one.own && !(value > 0)) continue;
    line += text(line.empty() ? "" : "  ", one.title, ' ',
                 one.decimals < 0 ? significant(value) : fixed(one.percent ? value * 100 : value, one.decimals));
    if (one.own) line += text(" (ours ", fixed(metrics[one.own] / value, 3), " of it)");
  }
  return text(line, "  loss ", fixed(metrics.loss(), 4));
}

TrainControl control_of(const Interrupt& interrupt, Console& console, bool dry_run, const Job& job) {
  const char* const file = job.writes() ? std::getenv(kRunFileVariable) : nullptr;
  return {.console = &console,
          .stop = &interrupt.signal(),
          .dry_run = dry_run,
          .saved =
              [&interrupt, launcher = file ? fs::path(file) : fs::path()](const fs::path& run) {
                interrupt.saved(run);
                if (!launcher.empty()) write_file(launcher, run.string());
              },
          .job = job};
}

Job join_training(const Place& place) {
  if (place.size == 1) return {};
  set_threads(std::max<std::int64_t>(1, threads() / place.local_size));
  return Job(join_job(place));
}

int close_run(const TrainResult& result, const Interrupt& interrupt, Console& console) {
  const std::string run = result.run.string();
  if (result.stopped) {
    console.print(text("Stopped after ", result.epochs, result.epochs == 1 ? " finished epoch" : " finished epochs",
                       ", the state is saved. Go on with: neurim resume ", shell_word(run)));
    console.event({{"event", "stopped"}, {"run", run}, {"epochs", result.epochs}});
    return interrupt.exit_code();
  }
  if (!std::isnan(result.metrics.loss()))
    console.print(text("Best: epoch ", result.best_epoch, "  ", metrics_line(result.metrics), "  (",
                       plural(result.metrics.samples, result.metrics.task().sample), ")"));
  console.print(text("Saved ", run, "  ·  next: neurim export model=", shell_word(run), " format=onnx"));
  JsonObject summary = summary_json(result.metrics, result.run, result.model);
  summary.add("validation", result.validation);
  console.event(summary);
  return 0;
}

int close_dry_run(const TrainResult& result, const CommandLine& line, Console& console) {
  const std::int64_t left = result.all_epochs - result.epochs;
  return line.end_dry_run(console,
                          text("train ", plural(left, "epoch"), " of ", plural(result.steps, "step"),
                               result.epochs > 0 ? text(" after the ", result.epochs, " that are done, in ") : " into ",
                               result.run.string()),
                          {{"run", result.run.string()},
                           {"epochs", left},
                           {"epochs_done", result.epochs},
                           {"steps_an_epoch", result.steps},
                           {"validation", result.validation}});
}

}  // namespace neurim::cli
