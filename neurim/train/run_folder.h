// The folder of a run.
#pragma once
#include <string>

#include "neurim/base/file.h"
#include "neurim/data/dataset.h"
#include "neurim/train/figures.h"

namespace neurim {

/// The folder of the runs of a task: runs/classify, runs/forecast, runs/language.
std::string default_project(TaskKind task);

/// Makes project/name, or with a number behind the name where that exists (train2, train3, …). With exist_ok
/// the existing one is taken. Throws Error(resource).
fs::path make_run_folder(const fs::path& project, const std::string& name, bool exist_ok = false);

/// What make_run_folder would make, found out without making it.
fs::path run_folder_to_make(const fs::path& project, const std::string& name, bool exist_ok = false);

/// How many samples of each class the splits have, and digests of which samples those are and of what
/// they hold (content_fingerprint), as JSON.
std::string data_json(const Dataset& dataset);

/// Whether the split has the samples and classes that one had when the run in the folder was begun, by their names.
/// Throws Error(data) where the folder does not say.
bool is_split_of_run(const fs::path& run, const Dataset& dataset, Split split);

}  // namespace neurim
