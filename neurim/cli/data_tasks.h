// The tasks of `neurim data`. Each returns the exit code of the process.
#pragma once
#include "neurim/cli/command_line.h"

namespace neurim::cli {

int data_convert(const Words& words);
int data_dedupe(const Words& words);
int data_download(const Words& words);
int data_pack(const Words& words);
int data_preview(const Words& words);
int data_scan(const Words& words);
int data_split(const Words& words);
int data_stats(const Words& words);

}  // namespace neurim::cli
