// Dates and times as tables write them.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace neurim {

/// A date, or a date and a time of day.
struct Moment {
  std::int64_t microseconds = 0;  ///< since 1970
  std::int64_t month = 0;         ///< since the year 0
  bool last_of_month = false;
  std::int64_t day = 0, of_day = 0;  ///< of the month; microseconds since midnight
};

/// What 03/04/2024 means.
enum class DateOrder : std::uint8_t { month_first, day_first };

/// Reads 2024-03-31, 2024/3/31, 20240331, 31.03.2024, 31-Mar-24, "Sunday, March 31, 2024", 2024-03, 202403, 03/2024,
/// 2024Q1, "Q1 2024", 2024-W05, 2024M03 and, in the given order, 03/31/2024, each also with a time of day after it
/// ("T10:00:05.5Z", " 10:00 PM", " 10:00+02:00"). Nothing where the word is another one.
std::optional<Moment> moment_of(std::string_view word, DateOrder order);

}  // namespace neurim
