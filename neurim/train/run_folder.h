// The folder of a run.
#pragma once
#include <string>
#include <vector>

#include "neurim/base/file.h"
#include "neurim/data/dataset.h"
#include "neurim/train/metrics.h"

namespace neurim {

/// The folder of the runs of a task: runs/classify, runs/forecast, runs/language.
std::string default_project(TaskKind task);

/// Where the reports on the models of a run stand, each of which has a folder: they are many, and part of it. Also of a
/// project.
fs::path reports_folder(const fs::path& run);

/// Makes project/name, or with a number behind the name where that exists (train2, train3, …). With exist_ok
/// the existing one is taken. Throws Error(resource).
fs::path make_run_folder(const fs::path& project, const std::string& name, bool exist_ok = false);

/// What make_run_folder would make, found out without making it.
fs::path run_folder_to_make(const fs::path& project, const std::string& name, bool exist_ok = false);

/// A run folder for one process alone: see FileLock.
class RunLock {
 public:
  /// Throws Error(resource) at once where another process has it. `leave_trace`: whether the folder may get the file
  /// that the lock is on.
  explicit RunLock(const fs::path& run, bool leave_trace = true) : lock_(run / ".lock", run, leave_trace) {}

 private:
  FileLock lock_;
};

/// Where a new run in the folder writes before it has something to show for: the folder, or, so that the files of an
/// earlier run there last that long, a folder inside, which is made. For who has its RunLock.
fs::path place_of_new_run(const fs::path& folder);
/// Moves the files of that place into the folder, and removes those of the earlier run there with its reports; what
/// others put there stays.
void replace_run(const fs::path& folder, const fs::path& place);

/// Throws Error(usage) where the folder has a folder in the place of a file that a run writes.
void check_no_folders(const fs::path& folder);

/// Throws Error(usage) where the data are a file that a run or a report in the folder would replace.
void check_data_apart(const std::string& data, const fs::path& folder);

/// Data are remembered as they were typed. Throws Error(data) where a relative path of theirs leads nowhere from here;
/// `where` is the file that names it, `fix` what helps.
void check_remembered_data(const std::string& data, const fs::path& where, std::string_view fix);

/// How many samples of each class the splits have, and digests of which samples those are and of what
/// they hold (content_fingerprint), as JSON.
std::string data_json(const Dataset& dataset);

/// Whether the split has the samples and classes that one had when the run in the folder was begun, by their names.
/// Throws Error(data) where the folder does not say.
bool is_split_of_run(const fs::path& run, const Dataset& dataset, Split split);

}  // namespace neurim
