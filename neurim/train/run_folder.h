// Run folders.
#pragma once
#include <string>
#include <vector>

#include "neurim/base/file.h"
#include "neurim/data/dataset.h"
#include "neurim/train/metrics.h"

namespace neurim {

/// The default folder of a task's runs: runs/classify, runs/forecast, runs/language.
std::string default_project(const TaskInfo& task);

/// The folder of a run's or a project's reports.
fs::path reports_folder(const fs::path& run);

/// Where reports on weights go: into the reports of their run or, of others, of the task's project.
fs::path reports_of_weights(const fs::path& weights, const TaskInfo& task);

/// Creates project/name, or the name with a number if it exists (train2, train3, ...). With exist_ok an existing one is
/// used. Throws Error(resource).
fs::path make_run_folder(const fs::path& project, const std::string& name, bool exist_ok = false);

/// The folder that make_run_folder would create.
fs::path run_folder_to_make(const fs::path& project, const std::string& name, bool exist_ok = false);

/// Locks a run folder for one process: see FileLock.
class RunLock {
 public:
  /// Throws Error(resource) at once if another process has it. `leave_trace`: whether the lock's file may be created in
  /// the folder.
  explicit RunLock(const fs::path& run, bool leave_trace = true) : lock_(run / ".lock", run, leave_trace) {}

 private:
  FileLock lock_;
};

/// Where a new run writes until it has a result: the folder itself or, to keep the files of an earlier run there, a new
/// folder inside. The caller has its RunLock.
fs::path place_of_new_run(const fs::path& folder);
/// Moves the files of that place into the folder, and removes those of the earlier run with its reports. Other files
/// stay.
void replace_run(const fs::path& folder, const fs::path& place);

/// Throws Error(usage) if a folder has the name of a file that a run writes.
void check_no_folders(const fs::path& folder);

/// Throws Error(usage) if the data are a file that a run or report in the folder would replace.
void check_data_apart(const std::string& data, const fs::path& folder);

/// Data are recorded as they were given. Throws Error(data) if a relative path does not exist from here; `where` is the
/// file with the record, `fix` the advice.
void check_remembered_data(const std::string& data, const fs::path& where, std::string_view fix);

/// The number of samples of each class in the splits, and hashes of their names and contents (content_fingerprint), as
/// JSON.
std::string data_json(const Dataset& dataset);

/// Whether the split has the samples and classes, by name, that it had when the run began. Throws Error(data) if the
/// folder does not say.
bool is_split_of_run(const fs::path& run, const Dataset& dataset, Split split);

}  // namespace neurim
