// The tasks of `neurim data`. Each returns the exit code of the process.
#pragma once
#include "neurim/cli/command_line.h"

namespace neurim::cli {

inline constexpr std::size_t kNamed = 20;  ///< findings that are listed for people; --json gives all

/// What a task is to write must not lie in the folder of the data, where it would be taken for data, and if
/// `fresh` be a file that is not there yet. Throws Error(usage).
void check_target(const std::string& out, const std::string& data, bool fresh = true);

int data_convert(const Words& words);
int data_dedupe(const Words& words);
int data_download(const Words& words);
int data_pack(const Words& words);
int data_preview(const Words& words);
int data_scan(const Words& words);
int data_split(const Words& words);
int data_stats(const Words& words);

}  // namespace neurim::cli
