#include "neurim/train/run_folder.h"

#include <algorithm>

#include "neurim/base/error.h"
#include "neurim/base/json.h"
#include "neurim/base/writable.h"
#include "neurim/data/fingerprint.h"

namespace neurim {

namespace {

fs::path numbered(const fs::path& project, const std::string& name, int number) {
  constexpr std::size_t kMost = 240;  // bytes: file systems take 255, and a number may follow
  require(name.size() <= kMost, "name has ", name.size(), " bytes, which no folder can be called; it has at most ",
          kMost);
  return project / (number == 1 ? name : text(name, number));
}

/// Whether something has that name, even a dangling link.
bool is_taken(const fs::path& run) {
  std::error_code error;
  return fs::exists(fs::symlink_status(run, error));
}

/// Whether a run writes a file of this name into its folder.
bool is_of_run(std::string_view name) {
  constexpr std::string_view kNames[] = {"args.yaml",
                                         "env.json",
                                         "data.json",
                                         "tuning.json",
                                         "model.toml",
                                         "log.txt",
                                         "results.csv",
                                         "results.png",
                                         "metrics.jsonl",
                                         "labels.png",
                                         "confusion_matrix.csv",
                                         "confusion_matrix.png",
                                         "confusion_matrix_normalized.png",
                                         "most_confused.csv",
                                         "per_class.csv",
                                         "forecasts.csv"};
  if (std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames)) return true;
  constexpr std::string_view kBatch = "train_batch", kImage = ".jpg";
  return name.starts_with("events.out.tfevents.") ||
         (name.starts_with(kBatch) &&
          name.find_first_not_of("0123456789", kBatch.size()) == name.size() - kImage.size() && name.ends_with(kImage));
}

/// Whether a report has a file of this name: those of val and of embed.
bool is_of_report(std::string_view name) {
  constexpr std::string_view kNames[] = {"report.html",     "metrics.json",     "predictions.csv",   "mistakes.csv",
                                         "mistakes.jpg",    "label_issues.csv", "most_confused.jpg", "slices.csv",
                                         "corruptions.csv", "features.npy",     "samples.csv",       "neighbours.csv",
                                         "duplicates.csv"};
  constexpr std::string_view kCharts[] = {"confusion_matrix",
                                          "confusion_matrix_normalized",
                                          "class_scores",
                                          "roc",
                                          "precision_recall",
                                          "reliability",
                                          "pca",
                                          "tsne"};
  const auto is_chart = [&](std::string_view chart) {
    return name.starts_with(chart) && (name.substr(chart.size()) == ".png" || name.substr(chart.size()) == ".svg");
  };
  return is_of_run(name) || std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         std::any_of(std::begin(kCharts), std::end(kCharts), is_chart);
}

/// And into its weights/ folder.
bool is_of_weights(std::string_view name) {
  constexpr std::string_view kNames[] = {"best.safetensors", "last.safetensors",     "last.opt.safetensors",
                                         "next.safetensors", "next.opt.safetensors", "model.json",
                                         "labels.txt"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

/// The run's files, those in weights/ first. `folders`: instead, folders that have the name of such a file.
std::vector<fs::path> files_of_run(const fs::path& folder, bool folders = false) {
  std::vector<fs::path> files;
  const auto add = [&](const fs::path& part, bool (*is_its_own)(std::string_view)) {
    std::error_code missing;
    for (const fs::directory_entry& entry : fs::directory_iterator(part, missing))
      if (entry.is_directory() == folders && is_its_own(entry.path().filename().string()))
        files.push_back(entry.path());
  };
  add(folder / "weights", is_of_weights);
  add(folder, is_of_run);
  std::error_code missing;
  for (const fs::directory_entry& report : fs::directory_iterator(reports_folder(folder), missing))
    add(report.path(), is_of_report);
  return files;
}

}  // namespace

std::string default_project(const TaskInfo& task) { return text("runs/", task.folder); }

fs::path reports_folder(const fs::path& run) { return (run / "reports").lexically_normal(); }

fs::path reports_of_weights(const fs::path& weights, const TaskInfo& task) {
  const fs::path run = (weights / "../..").lexically_normal();
  return reports_folder(is_there(run / "args.yaml") ? run : fs::path(default_project(task)));
}

fs::path make_run_folder(const fs::path& project, const std::string& name, bool exist_ok) {
  make_folder(project);
  for (int number = 1;; ++number) {
    const fs::path run = numbered(project, name, number);
    std::error_code error;
    // Creating the folder claims it: two runs that start at once get two folders.
    if (fs::create_directory(run, error)) return run;
    if (error && !is_taken(run)) fail(Fault::resource, run.string(), ": cannot make the folder: ", error.message());
    if (exist_ok) return run;
  }
}

fs::path run_folder_to_make(const fs::path& project, const std::string& name, bool exist_ok) {
  check_can_make(project);
  int number = 1;
  while (!exist_ok && is_taken(numbered(project, name, number))) ++number;
  return numbered(project, name, number);
}

fs::path place_of_new_run(const fs::path& folder) {
  const fs::path inside = folder / ".new";
  std::error_code ignored;
  fs::remove_all(inside, ignored);  // of a process that died
  std::vector<fs::path> old = files_of_run(folder);
  if (old.empty()) return folder;
  old.push_back(folder / "weights");
  for (const fs::path& each : old)  // renaming replaces a link, not its target
    if (fs::is_symlink(fs::symlink_status(each, ignored)))
      fail(Fault::usage, each.string(),
           ": is a link, and exist_ok replaces the files of a run; remove it, or choose another name");
  make_folder(inside);
  return inside;
}

void check_no_folders(const fs::path& folder) {
  for (const fs::path& each : files_of_run(folder, true))
    fail(Fault::usage, each.string(),
         ": is a folder, and the run writes a file of that name; remove it, or choose another name");
}

void check_data_apart(const std::string& data, const fs::path& folder) {
  for (const fs::path& file : files_of_run(folder)) check_no_input(file, {data});
}

void replace_run(const fs::path& folder, const fs::path& place) {
  std::vector<fs::path> old = files_of_run(folder);
  make_folder(folder / "weights");
  for (const fs::path& file : files_of_run(place)) {
    const fs::path to = folder / file.lexically_relative(place);
    move_file(file, to);
    std::erase(old, to);
  }
  std::error_code ignored;
  for (const fs::path& file : old) {
    fs::remove(file, ignored);
    if (file.parent_path() != folder) fs::remove(file.parent_path(), ignored);  // only if it is empty
  }
  fs::remove(reports_folder(folder), ignored);
  fs::remove_all(place, ignored);
}

void check_remembered_data(const std::string& data, const fs::path& where, std::string_view fix) {
  const bool pattern = data.find_first_of("{*") != std::string::npos;
  if (fs::path(data).is_absolute() || pattern || is_there(data)) return;
  fail(Fault::data, data, ": there is no such folder or file; ", where.string(),
       " names it, relative to the folder of the training: ", fix);
}

std::string data_json(const Dataset& dataset) {
  JsonObject splits;
  const ContentPrint contents = content_fingerprint(dataset);
  for (const Split split : kSplits) {
    JsonObject counts;
    const std::vector<std::int64_t> of_class = dataset.class_counts(split);
    for (std::size_t c = 0; c < of_class.size(); ++c) counts.add(dataset.class_names()[c], of_class[c]);
    splits.add(name(split), JsonObject{{"samples", dataset.size(split)},
                                       {"classes", counts},
                                       {"sha256", fingerprint(dataset, split)},
                                       {contents.whole ? "bytes_sha256" : "sizes_and_times_sha256",
                                        contents.splits[static_cast<std::size_t>(split)]}});
  }
  return splits.indented();
}

bool is_split_of_run(const fs::path& run, const Dataset& dataset, Split split) {
  return read_text(run / "data.json").find(fingerprint(dataset, split)) != std::string::npos;
}

}  // namespace neurim
