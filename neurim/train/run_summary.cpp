#include "neurim/train/run_summary.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/data/sources/table.h"
#include "neurim/evaluate/intervals.h"
#include "neurim/train/metrics.h"

namespace neurim {

namespace {

using Json = nlohmann::json;

std::string unquoted(const std::string& value) {
  const bool quoted = value.size() >= 2 && value.front() == '"' && value.back() == '"';
  return quoted ? value.substr(1, value.size() - 2) : value;
}

std::map<std::string, std::string> options_of(const std::string& yaml) {
  std::map<std::string, std::string> options;
  std::istringstream lines(yaml);
  for (std::string line; std::getline(lines, line);)
    if (const std::size_t colon = line.find(": "); colon != std::string::npos && line[0] != '#')
      options[line.substr(0, colon)] = unquoted(line.substr(colon + 2));
  return options;
}

/// A line that a run is just writing may be cut off; what stands before it counts.
std::vector<std::map<std::string, double>> epochs_of(const fs::path& file) {
  std::vector<std::map<std::string, double>> epochs;
  if (!is_there(file)) return epochs;
  std::istringstream lines(read_file(file));
  for (std::string line; std::getline(lines, line);) {
    const Json event = Json::parse(line, nullptr, false);
    if (event.is_discarded() || !event.is_object() || event.value("event", "") != "epoch") continue;
    std::map<std::string, double>& epoch = epochs.emplace_back();
    for (const auto& [name, value] : event.items())
      if (value.is_number()) epoch[name] = value.get<double>();
  }
  return epochs;
}

/// Whether each sample of the newest report with predictions is answered rightly, by its name and label.
std::map<std::string, bool> answers_of(const fs::path& run) {
  fs::path newest;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(run / "reports", error))
    if (const fs::path file = entry.path() / "predictions.csv"; fs::exists(file))
      if (newest.empty() || fs::last_write_time(file) > fs::last_write_time(newest)) newest = file;
  std::map<std::string, bool> answers;
  if (newest.empty()) return answers;
  const Table table = read_table(newest.string());
  const auto file = table.find({"file"}), right = table.find({"correct"});
  if (!file || !right) fail(Fault::data, newest.string(), ": has no columns file and correct");
  for (const Table::Row& row : table.rows) answers[Table::cell(row, *file)] = Table::cell(row, *right) == "1";
  return answers;
}

}  // namespace

Monitor monitor_of(const std::map<std::string, std::string>& options, const std::map<std::string, double>& epoch) {
  const auto in_epoch = [](const TaskMetric& one) {
    return std::string_view(one.name) == "loss" ? "val_loss" : one.name;
  };
  const auto known = [&](const TaskInfo* task) {  // of its metrics; those that were not computed are in no file
    return std::count_if(task->metrics.begin(), task->metrics.end(),
                         [&](const TaskMetric& one) { return epoch.count(in_epoch(one)) > 0; });
  };
  const TaskInfo* const task = *std::max_element(
      tasks().begin(), tasks().end(), [&](const TaskInfo* a, const TaskInfo* b) { return known(a) < known(b); });
  const auto given = options.find("monitor");
  const std::string name = given == options.end() || given->second == "auto" ? task->monitor : given->second;
  const TaskMetric* const found = task->find(name);
  if (found && known(task) > 1) return {in_epoch(*found), found->lower_is_better};
  return {"train_loss", true};
}

std::string RunSummary::option(const std::string& name) const {
  const auto found = options.find(name);
  return found == options.end() ? "" : found->second;
}

std::optional<double> RunSummary::metric(const std::string& name) const {
  if (!best) return std::nullopt;
  const auto found = epochs[*best].find(name);
  return found == epochs[*best].end() ? std::nullopt : std::optional(found->second);
}

std::map<std::string, std::string> options_of_run(const fs::path& run) {
  return is_there(run / "args.yaml") ? options_of(read_file(run / "args.yaml")) : std::map<std::string, std::string>();
}

RunSummary read_run(const fs::path& folder) {
  if (!is_there(folder / "args.yaml")) fail(Fault::data, folder.string(), ": is no run folder, as it has no args.yaml");
  RunSummary run{.folder = folder,
                 .options = options_of(read_file(folder / "args.yaml")),
                 .epochs = epochs_of(folder / "metrics.jsonl"),
                 .data = is_there(folder / "data.json") ? read_file(folder / "data.json") : "",
                 .best = {},
                 .monitor = {}};
  if (run.epochs.empty()) return run;
  const auto [monitor, lower] = monitor_of(run.options, run.epochs[0]);
  run.monitor = monitor;
  for (std::size_t i = 0; i < run.epochs.size(); ++i) {
    const auto value = run.epochs[i].find(monitor);
    if (value == run.epochs[i].end() || std::isnan(value->second)) continue;
    const double best = run.best ? run.epochs[*run.best].at(monitor) : value->second;
    if (!run.best || (lower ? value->second < best : value->second > best)) run.best = i;
  }
  return run;
}

std::vector<fs::path> runs_below(const fs::path& folder) {
  if (!is_there(folder)) fail(Fault::data, folder.string(), ": there is no such folder; check the path");
  std::vector<fs::path> runs;
  if (is_there(folder / "args.yaml")) runs.push_back(folder);
  std::error_code error;
  for (auto entry = fs::recursive_directory_iterator(folder, fs::directory_options::skip_permission_denied, error);
       entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (error) break;
    if (!entry->is_directory(error) || !is_there(entry->path() / "args.yaml")) continue;
    runs.push_back(entry->path());
    entry.disable_recursion_pending();
  }
  std::sort(runs.begin(), runs.end());
  return runs;
}

RunDifference difference(const RunSummary& a, const RunSummary& b) {
  RunDifference out;
  std::set<std::string> names;
  for (const RunSummary* run : {&a, &b})
    for (const auto& [name, value] : run->options) names.insert(name);
  for (const std::string& name : names)
    if (a.option(name) != b.option(name)) out.options.push_back({name, a.option(name), b.option(name)});
  names.clear();
  for (const RunSummary* run : {&a, &b})
    if (run->best)
      for (const auto& [name, value] : run->epochs[*run->best]) names.insert(name);
  const auto shown = [](std::optional<double> value) { return value ? significant(*value) : std::string(); };
  for (const std::string& name : names) out.metrics.push_back({name, shown(a.metric(name)), shown(b.metric(name))});
  out.same_data = a.data == b.data;
  const std::map<std::string, bool> of_a = answers_of(a.folder), of_b = answers_of(b.folder);
  for (const auto& [name, right] : of_a)
    if (const auto other = of_b.find(name); other != of_b.end())
      ++out.samples, out.only_a += right && !other->second, out.only_b += !right && other->second;
  out.p_value = mcnemar(out.only_a, out.only_b);
  return out;
}

}  // namespace neurim
