#include "neurim/data/sequences/moment.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>

#include "neurim/base/text.h"

namespace neurim {
namespace {

constexpr std::int64_t kSecond = 1'000'000, kDay = 86'400 * kSecond;
constexpr std::array<std::string_view, 12> kMonths{"january",   "february", "march",    "april",
                                                   "may",       "june",     "july",     "august",
                                                   "september", "october",  "november", "december"};

/// Takes a text of small letters apart from its beginning on.
class Scanner {
 public:
  explicit Scanner(std::string_view word) : rest_(word) {}

  struct Number {
    std::int64_t value = 0;
    std::size_t width = 0;  // digits
  };
  /// Digits, no more than any date has.
  std::optional<Number> number() {
    Number found;
    while (found.width < rest_.size() && found.width < 9 && is_digit(rest_[found.width]))
      found.value = 10 * found.value + (rest_[found.width++] - '0');
    rest_.remove_prefix(found.width);
    return found.width > 0 ? std::optional(found) : std::nullopt;
  }
  /// "mar" or "march", and a dot or comma after it.
  std::optional<std::int64_t> month() {
    std::size_t size = 0;
    while (size < rest_.size() && rest_[size] >= 'a' && rest_[size] <= 'z') ++size;
    for (std::size_t i = 0; size >= 3 && i < kMonths.size(); ++i) {
      if (!kMonths[i].starts_with(rest_.substr(0, size))) continue;
      rest_.remove_prefix(size);
      take(".");
      return static_cast<std::int64_t>(i) + 1;
    }
    return {};
  }
  /// "wed" or "wednesday", and what separates it from the date.
  void pass_weekday() {
    for (const std::string_view day : {"mon", "tue", "wed", "thu", "fri", "sat", "sun"})
      if (rest_.starts_with(day)) {
        rest_.remove_prefix(std::min(rest_.find_first_of(" .,"), rest_.size()));
        rest_.remove_prefix(std::min(rest_.find_first_not_of(" .,"), rest_.size()));
        return;
      }
  }
  bool take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  bool take_one_of(std::string_view characters, char& taken) {
    if (rest_.empty() || characters.find(rest_[0]) == std::string_view::npos) return false;
    taken = rest_[0];
    rest_.remove_prefix(1);
    return true;
  }
  void pass_blanks() {
    while (take(" ")) {
    }
  }
  bool ended() const { return rest_.empty(); }

 private:
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  std::string_view rest_;
};

struct Date {
  std::int64_t year = 0, month = 1, day = 1;
};

/// A part of a date: a number of so many digits, or a month by its name.
struct Part {
  std::int64_t value = 0;
  std::size_t width = 0;  // 0: a name
};

std::optional<Date> date_of(const std::array<Part, 3>& parts, std::size_t count, char separator, DateOrder order) {
  const auto year = [](const Part& part) -> std::int64_t {
    return part.width == 4 ? part.value : part.width == 2 ? part.value + (part.value < 70 ? 2000 : 1900) : -1;
  };
  const auto [a, b, c] = parts;
  if (count == 1 && a.width == 8) return Date{a.value / 10'000, a.value / 100 % 100, a.value % 100};
  if (count == 1 && a.width == 6) return Date{a.value / 100, a.value % 100, 1};
  if (count == 2 && a.width == 4 && b.width <= 2) return Date{a.value, b.value, 1};
  if (count == 2 && b.width == 4 && a.width <= 2) return Date{b.value, a.value, 1};
  if (count == 2 && a.width == 0) return Date{year(b), a.value, 1};
  if (count < 3) return {};
  if (a.width == 4) return c.width <= 2 ? std::optional(Date{a.value, b.value, c.value}) : std::nullopt;
  if (a.width > 2 || b.width > 2) return {};
  if (a.width == 0) return Date{year(c), a.value, b.value};
  if (b.width == 0 || separator == '.' || order == DateOrder::day_first) return Date{year(c), b.value, a.value};
  return Date{year(c), a.value, b.value};
}

/// What follows a year in 2024Q1, 2024-W05 and 2024M01.
std::optional<Date> take_part_of_year(Scanner& scan, std::int64_t year) {
  Scanner ahead = scan;
  char ignored = 0;
  ahead.take_one_of("- ", ignored);
  char kind = 0;
  if (!ahead.take_one_of("qwm", kind)) return {};
  const auto number = ahead.number();
  if (!number || number->value < 1 || number->value > (kind == 'q' ? 4 : kind == 'm' ? 12 : 53)) return {};
  scan = ahead;
  if (kind != 'w') return Date{year, kind == 'q' ? 3 * number->value - 2 : number->value, 1};
  const std::chrono::sys_days fourth = std::chrono::year(static_cast<int>(year)) / 1 / 4;  // always in the first week
  const std::chrono::sys_days monday = fourth - (std::chrono::weekday(fourth) - std::chrono::Monday);
  const std::chrono::year_month_day day = monday + std::chrono::days(7 * (number->value - 1));
  return Date{static_cast<int>(day.year()), static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day())};
}

/// The date that the text begins with, but for what follows.
std::optional<Date> take_date(Scanner& scan, DateOrder order) {
  scan.pass_weekday();
  if (Scanner quarter = scan; quarter.take("q")) {  // Q1 2024
    char ignored = 0;
    const auto number = quarter.number();
    if (!number || number->value < 1 || number->value > 4 || !quarter.take_one_of("-/ ", ignored)) return {};
    const auto year = quarter.number();
    if (!year || year->width != 4) return {};
    scan = quarter;
    return Date{year->value, 3 * number->value - 2, 1};
  }
  std::array<Part, 3> parts;
  std::size_t count = 0;
  char separator = 0;
  while (count < parts.size()) {
    Part& part = parts[count];
    if (const auto number = scan.number()) {
      part = {number->value, number->width};
    } else if (const auto month = scan.month()) {
      part = {*month, 0};
    } else {
      return {};
    }
    ++count;
    if (count == 1 && part.width == 4)
      if (const auto date = take_part_of_year(scan, part.value)) return date;
    if (count == parts.size() || part.width >= 6) break;
    const Scanner before = scan;
    if (!scan.take_one_of("-/. ,", separator)) break;
    scan.pass_blanks();
    // "2024-03 10:00": what follows is a time of day.
    Scanner ahead = scan;
    if (ahead.number() && ahead.take(":")) {
      scan = before;
      break;
    }
  }
  return date_of(parts, count, separator, order);
}

/// The microseconds since midnight, less the distance from UTC; 0 where nothing follows the date.
std::optional<std::int64_t> take_time(Scanner& scan) {
  scan.take(",");
  if (!scan.take("t")) scan.pass_blanks();
  if (scan.ended()) return 0;
  std::array<std::int64_t, 3> clock{};
  for (std::size_t i = 0; i < clock.size(); ++i) {
    const auto number = scan.number();
    if (!number || number->width > 2) return {};
    clock[i] = number->value;
    if (i == 0 && !scan.take(":")) return {};
    if (i == 1 && !scan.take(":")) break;
  }
  std::int64_t time = ((clock[0] * 60 + clock[1]) * 60 + clock[2]) * kSecond;
  if (scan.take(".") || scan.take(",")) {
    const auto fraction = scan.number();
    if (!fraction) return {};
    double share = static_cast<double>(fraction->value);
    for (std::size_t i = 0; i < fraction->width; ++i) share /= 10;
    time += static_cast<std::int64_t>(share * kSecond);
  }
  if (clock[0] > 24 || clock[1] > 59 || clock[2] > 60) return {};
  scan.pass_blanks();
  if (const bool evening = scan.take("pm"); evening || scan.take("am"))
    time += (evening ? clock[0] < 12 : clock[0] == 12) ? (evening ? kDay / 2 : -kDay / 2) : 0;
  if (scan.take("z") || scan.take("utc") || scan.take("gmt") || scan.ended())
    return scan.ended() ? std::optional(time) : std::nullopt;
  char sign = 0;
  if (!scan.take_one_of("+-", sign)) return {};
  const auto hours = scan.number();
  if (!hours || (hours->width != 2 && hours->width != 4)) return {};
  std::int64_t away = hours->width == 4 ? hours->value / 100 * 60 + hours->value % 100 : hours->value * 60;
  if (scan.take(":")) {
    const auto minutes = scan.number();
    if (!minutes || hours->width == 4) return {};
    away += minutes->value;
  }
  if (!scan.ended()) return {};
  return time - (sign == '-' ? -away : away) * 60 * kSecond;
}

}  // namespace

std::optional<Moment> moment_of(std::string_view word, DateOrder order) {
  const std::string small = lower(trimmed(word));
  Scanner scan(small);
  const std::optional<Date> date = take_date(scan, order);
  if (!date || date->year < 1000 || date->year > 9999) return {};
  const std::chrono::year_month_day day{std::chrono::year(static_cast<int>(date->year)),
                                        std::chrono::month(static_cast<unsigned>(date->month)),
                                        std::chrono::day(static_cast<unsigned>(date->day))};
  if (date->month > 12 || date->day > 31 || !day.ok()) return {};
  const std::optional<std::int64_t> time = take_time(scan);
  if (!time) return {};
  const std::int64_t days = std::chrono::sys_days(day).time_since_epoch().count();
  return Moment{.microseconds = days * kDay + *time,
                .month = date->year * 12 + date->month - 1,
                .last_of_month = (day.year() / day.month() / std::chrono::last).day() == day.day(),
                .day = date->day,
                .of_day = *time};
}

}  // namespace neurim
