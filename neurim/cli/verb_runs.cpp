#include "neurim/cli/verbs.h"
#include "neurim/neurim.h"
#include "neurim/train/run_summary.h"

namespace neurim::cli {

namespace {

/// A table for a terminal.
void print_rows(const std::vector<std::vector<std::string>>& rows, Console& console) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += row[i] + (i + 1 < row.size() ? std::string(widths[i] - row[i].size() + 2, ' ') : "");
    console.print(line);
  }
}

int list_runs(const fs::path& folder, Console& console) {
  std::vector<std::vector<std::string>> rows{{"run", "model", "data", "epochs", "best", "at epoch", "val loss"}};
  for (const fs::path& path : runs_below(folder)) {
    const RunSummary run = read_run(path);
    const auto shown = [](std::optional<double> value) { return value ? significant(*value) : std::string("-"); };
    const std::optional<double> best = run.metric(run.monitor);
    rows.push_back({path.string(), run.option("model"), run.option("data"),
                    text(run.epochs.size(), " of ", run.option("epochs")),
                    best ? text(run.monitor, ' ', significant(*best)) : "-", run.best ? text(*run.best + 1) : "-",
                    shown(run.metric("val_loss"))});
    JsonObject event{{"event", "run"},
                     {"run", path.string()},
                     {"model", run.option("model")},
                     {"data", run.option("data")},
                     {"epochs", run.epochs.size()}};
    if (best) event.add("monitor", run.monitor), event.add("value", *best), event.add("best_epoch", *run.best + 1);
    console.event(event);
  }
  if (rows.size() == 1) fail(Fault::data, folder.string(), ": holds no run; `neurim train` makes one");
  print_rows(rows, console);
  console.event({{"event", "summary"}, {"runs", rows.size() - 1}});
  return 0;
}

int compare(const fs::path& a, const fs::path& b, Console& console) {
  const RunDifference found = difference(read_run(a), read_run(b));
  const auto print = [&](const char* title, const std::vector<RunDifference::Row>& differing) {
    std::vector<std::vector<std::string>> rows{{title, a.string(), b.string()}};
    for (const auto& [name, of_a, of_b] : differing) {
      rows.push_back({name, of_a, of_b});
      console.event({{"event", title}, {"name", name}, {"a", of_a}, {"b", of_b}});
    }
    print_rows(rows, console);
  };
  print("option", found.options);
  console.print("");
  print("metric", found.metrics);
  console.print("");
  console.print(found.same_data ? "data: the same samples and contents" : "data: other samples, classes or contents");
  if (found.samples > 0)
    console.print(text("of ", plural(found.samples, "sample"), " that both answered, ", found.only_a,
                       " are right in the first alone and ", found.only_b, " in the second alone: McNemar's p ",
                       significant(found.p_value),
                       found.p_value < 0.05 ? ", they differ" : ", no difference is shown"));
  else
    console.print("no report has predictions of the same samples; `neurim val` of both writes them");
  console.event({{"event", "summary"},
                 {"same_data", found.same_data},
                 {"samples", found.samples},
                 {"only_a", found.only_a},
                 {"only_b", found.only_b},
                 {"p_value", found.p_value}});
  return 0;
}

}  // namespace

int verb_runs(const Words& words) {
  CommandLine line(
      {"runs",
       "lists runs with their best epochs; diff compares two",
       "folder a b",
       {"neurim runs", "neurim runs runs/classify", "neurim runs diff runs/classify/train runs/classify/train2"}});
  std::string folder = "runs", a, b;
  line.options("folder", folder, "where runs lie; or diff", {"project"});
  line.options("a", a, "of diff: a run");
  line.options("b", b, "of diff: the run that it is compared with");
  if (!line.parse(words)) return 0;
  initialize();
  Console console(line.console());
  if (folder != "diff") {
    require(a.empty() && b.empty(), "only diff takes further words: neurim runs diff A B");
    return list_runs(folder, console);
  }
  require(!a.empty() && !b.empty(), "diff compares two runs: neurim runs diff A B");
  return compare(a, b, console);
}

}  // namespace neurim::cli
