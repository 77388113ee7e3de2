// Whether the rows of a table are one even step of time after another.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "neurim/data/sources/table.h"

namespace neurim {

/// What a user should know of the time of the rows, a line each: that it falls, stands twice, has gaps or uneven steps.
/// The time is the first column of dates (with a column of hours or times of day beside it), or the columns year and
/// month, or numbers that count: the first column, or one that is called as times are. `target` is none of them.
/// Nothing where no column is a time, and where all is well.
std::vector<std::string> notes_on_time(const Table& table, std::string_view target);

}  // namespace neurim
