// Whether something could be written, found out without writing anything.
#pragma once
#include <vector>

#include "neurim/base/file.h"

namespace neurim {

/// Throws Error(resource) where write_file could not write `path`: it is a folder, or its folder is missing
/// or closed.
void check_can_write(const fs::path& path);

/// Throws Error(resource) where the folder could not be made, with the missing ones above it, and written
/// into.
void check_can_make(const fs::path& folder);

/// Throws Error(usage) where `out`, which is to be written, is one of these files, which are read.
void check_no_input(const fs::path& out, const std::vector<fs::path>& inputs);

}  // namespace neurim
