// Paths that may be patterns.
#pragma once
#include <string>
#include <vector>

#include "neurim/base/file.h"

namespace neurim {

/// How many of the path's bytes, up to and with a slash, lead to what is there as it is written: what stands in them is
/// a name, whatever characters it has.
std::size_t written_part(const std::string& path);

/// What a path with *, ? and sets such as [0-9] stands for, in the order of the names. Folders that are there as they
/// are written are no pattern, and brackets are first taken for those of names.
std::vector<fs::path> paths_of_pattern(const std::string& pattern);

}  // namespace neurim
