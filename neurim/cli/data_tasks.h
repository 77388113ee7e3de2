// The tasks of `neurim data`. Each returns the exit code of the process.
#pragma once
#include "neurim/cli/command_line.h"

namespace neurim::cli {

inline constexpr std::size_t kNamed = 20;  ///< findings listed in the text; --json lists all

/// Checks that the output is not in the data's folder, where it would be read as data, and, if `fresh`, does not exist
/// yet. Throws Error(usage).
void check_target(const std::string& out, const std::string& data, bool fresh = true);

int data_convert(const Words& words);
int data_dedupe(const Words& words);
int data_download(const Words& words);
int data_label_issues(const Words& words);
int data_pack(const Words& words);
int data_preview(const Words& words);
int data_scan(const Words& words);
int data_split(const Words& words);
int data_stats(const Words& words);

}  // namespace neurim::cli
