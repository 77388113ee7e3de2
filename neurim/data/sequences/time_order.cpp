#include "neurim/data/sequences/time_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "neurim/base/text.h"
#include "neurim/data/sequences/moment.h"
#include "neurim/data/sequences/series.h"

namespace neurim {
namespace {

constexpr double kUsual = 0.75;  // of the steps, from which on numbers count
const std::vector<std::string> kTimes{"date",  "time", "timestamp", "datetime", "ds",   "t",      "step",
                                      "index", "day",  "week",      "month",    "year", "period", "hour",
                                      "ts",    "id",   "nr",        "no",       "row",  "n",      "i"};

/// The time of the rows that have one.
struct Times {
  std::string name;                // of the column, or the columns
  std::vector<double> at;          // in `unit`
  std::vector<std::size_t> rows;   // of each
  std::vector<std::string> words;  // of each, as the table has it
  enum Unit { number, microseconds, months } unit = number;
  std::optional<std::size_t> without;  // the first row that has none
};

bool even(double step, double usual) { return std::abs(step - usual) <= 1e-3 * std::abs(usual); }

/// The median; 0 of none.
double usual_of(std::vector<double> steps) {
  if (steps.empty()) return 0;
  const auto middle = steps.begin() + std::ssize(steps) / 2;
  std::nth_element(steps.begin(), middle, steps.end());
  return *middle;
}

std::vector<double> steps_of(const std::vector<double>& at) {
  std::vector<double> steps;
  for (std::size_t i = 1; i < at.size(); ++i) steps.push_back(at[i] - at[i - 1]);
  return steps;
}

std::int64_t uneven(const std::vector<double>& steps) {
  const double usual = usual_of(steps);
  return std::count_if(steps.begin(), steps.end(), [&](double step) { return !even(step, usual); });
}

/// The rows' times as dates; the order of day and month is the one of which more are dates, or else whose steps are
/// more even.
Times dates_of(const std::string& name, const std::vector<std::string>& words) {
  Times best;
  std::int64_t least = 0;
  for (const DateOrder order : {DateOrder::month_first, DateOrder::day_first}) {
    std::vector<Moment> moments;
    Times times{.name = name};
    for (std::size_t row = 0; row < words.size(); ++row) {
      const std::optional<Moment> moment = moment_of(words[row], order);
      if (!moment && !times.without) times.without = row;
      if (!moment) continue;
      moments.push_back(*moment);
      times.rows.push_back(row);
      times.words.push_back(words[row]);
    }
    const auto all = [&](const auto& is) { return std::all_of(moments.begin(), moments.end(), is); };
    const bool same_day = all([&](const Moment& m) { return m.day == moments[0].day; }) ||
                          all([](const Moment& m) { return m.last_of_month; });
    const bool monthly = same_day && all([&](const Moment& m) { return m.of_day == moments[0].of_day; });
    times.unit = monthly ? Times::months : Times::microseconds;
    for (const Moment& m : moments) times.at.push_back(static_cast<double>(monthly ? m.month : m.microseconds));
    const std::int64_t odd = uneven(steps_of(times.at));
    if (best.name.empty() || times.at.size() > best.at.size() || (times.at.size() == best.at.size() && odd < least))
      best = std::move(times), least = odd;
  }
  return best;
}

std::vector<std::string> cells_of(const Table& table, std::size_t column) {
  std::vector<std::string> cells;
  for (const Table::Row& row : table.rows) cells.push_back(Table::cell(row, column));
  return cells;
}

bool is_hour(const std::string& cell) { return !cell.empty() && cell.size() <= 2 && number_of(cell).value_or(-1) >= 0; }

/// The words with what the first column of hours or times of day says after them, where there is one.
std::vector<std::string> with_time_of_day(const Table& table, const std::vector<std::string>& days) {
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    std::vector<std::string> words = cells_of(table, i);
    const bool hours = table.columns[i] == "hour" && std::all_of(words.begin(), words.end(), is_hour);
    if (!hours && words[0].find(':') == std::string::npos) continue;
    for (std::size_t row = 0; row < words.size(); ++row)
      words[row] = text(days[row], ' ', words[row], hours ? ":00" : "");
    if (moment_of(words[0], DateOrder::day_first) || moment_of(words[0], DateOrder::month_first)) return words;
  }
  return days;
}

/// The rows' times as numbers, where all have one and they count: most steps are the same, or they are when sorted.
std::optional<Times> count_of(const Table& table, std::size_t column) {
  Times times{.name = table.columns[column]};
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const std::string& cell = Table::cell(table.rows[row], column);
    const std::optional<double> value = number_of(cell);
    if (!value) return {};
    times.at.push_back(*value);
    times.rows.push_back(row);
    times.words.push_back(cell);
  }
  const auto counts = [](std::vector<double> steps) {
    std::erase(steps, 0.0);  // of several series in one table
    return steps.size() >= 3 && static_cast<double>(uneven(steps)) <= (1 - kUsual) * static_cast<double>(steps.size());
  };
  if (counts(steps_of(times.at))) return times;
  std::vector<double> sorted = times.at;
  std::sort(sorted.begin(), sorted.end());
  const std::vector<double> steps = steps_of(sorted);
  const bool each_once = std::find(steps.begin(), steps.end(), 0.0) == steps.end();
  return each_once && counts(steps) ? std::optional(times) : std::nullopt;
}

std::optional<Times> times_of(const Table& table, std::string_view target) {
  const auto is_date = [](const std::string& cell) {
    const bool digits = number_of(cell).has_value();  // 20240131, 202401: of years that series are of
    if (digits && ((cell.size() != 8 && cell.size() != 6) || cell < "19" || cell >= "21")) return false;
    return moment_of(cell, DateOrder::day_first) || moment_of(cell, DateOrder::month_first);
  };
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i] == target || !is_date(Table::cell(table.rows[0], i))) continue;
    const std::vector<std::string> cells = cells_of(table, i);
    if (2 * std::count_if(cells.begin(), cells.end(), is_date) > std::ssize(cells))
      return dates_of(table.columns[i], with_time_of_day(table, cells));
  }
  const auto place = [&](std::string_view name) {
    return std::find(table.columns.begin(), table.columns.end(), name) - table.columns.begin();
  };
  const std::size_t none = table.columns.size(), year = place("year"), month = place("month"), day = place("day");
  if (year < none && month < none) {
    std::vector<std::string> words;
    for (const Table::Row& row : table.rows)
      words.push_back(text(Table::cell(row, year), '-', Table::cell(row, month), day < none ? "-" : "",
                           day < none ? Table::cell(row, day) : ""));
    if (moment_of(words[0], DateOrder::day_first))
      return dates_of(text("year, month", day < none ? ", day" : ""), with_time_of_day(table, words));
  }
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const bool called_so = std::find(kTimes.begin(), kTimes.end(), table.columns[i]) != kTimes.end();
    if (table.columns[i] == target || (i > 0 && !called_so)) continue;
    if (std::optional<Times> times = count_of(table, i)) return times;
  }
  return {};
}

/// A step in words: "1 day", "15 minutes", "3 months".
std::string step_in_words(double step, Times::Unit unit) {
  if (unit == Times::number) return text(step);
  const auto whole = static_cast<std::int64_t>(step);
  if (unit == Times::months) return whole % 12 == 0 ? plural(whole / 12, "year") : plural(whole, "month");
  for (const auto& [size, name] : {std::pair{86'400'000'000, "day"}, std::pair{3'600'000'000, "hour"},
                                   std::pair{60'000'000L, "minute"}, std::pair{1'000'000L, "second"}})
    if (whole % size == 0) return plural(whole / size, name);
  return text(step / 1e6, " seconds");
}

}  // namespace

std::vector<std::string> notes_on_time(const Table& table, std::string_view target) {
  std::vector<std::string> notes;
  if (table.rows.size() < 2) return notes;
  const std::optional<Times> found = times_of(table, target);
  if (!found) return notes;
  const Times& times = *found;
  const std::string column = text("the time (", times.name, ") ");
  const auto line = [&](std::size_t i) { return table.rows[times.rows[i]].line; };
  const auto more = [](std::int64_t count, std::string_view what) {
    return count > 1 ? text(", and ", count - 1, " more such ", what, count > 2 ? "s" : "") : std::string();
  };
  if (times.without) notes.push_back(text(column, "is none in line ", table.rows[*times.without].line, "; fill it in"));

  std::vector<std::size_t> falls;
  for (std::size_t i = 1; i < times.at.size(); ++i)
    if (times.at[i] < times.at[i - 1]) falls.push_back(i);
  if (!falls.empty() && falls.size() + 1 == times.at.size())
    notes.push_back(
        text(column, "descends; is the newest row the first? A series begins with the oldest: sort the rows"));
  else if (!falls.empty())
    notes.push_back(text(column, "falls in line ", line(falls[0]), " (", times.words[falls[0] - 1], ", then ",
                         times.words[falls[0]], ")", more(std::ssize(falls), "line"),
                         "; rows are taken as steps in the order of time: sort them, or make a table of each series"));

  std::vector<std::size_t> order(times.at.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return times.at[a] < times.at[b]; });
  std::vector<std::size_t> again, once;  // places in `order`; `once`: the first row of each time
  std::vector<double> steps;             // from one of `once` to the next
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && times.at[order[i]] == times.at[order[i - 1]]) {
      again.push_back(i);
      continue;
    }
    if (!once.empty()) steps.push_back(times.at[order[i]] - times.at[order[once.back()]]);
    once.push_back(i);
  }
  if (!again.empty())
    notes.push_back(text(column, "has ", times.words[order[again[0]]], " twice, in lines ", line(order[again[0] - 1]),
                         " and ", line(order[again[0]]), more(std::ssize(again), "row"),
                         "; a row is a step: keep one of them, or make a table of each series"));
  const double usual = usual_of(steps);
  const std::int64_t odd = uneven(steps);
  if (steps.size() < 3 || odd == 0) return notes;
  if (2 * odd > std::ssize(steps)) {
    notes.push_back(text(column, "has uneven steps, from ",
                         step_in_words(*std::min_element(steps.begin(), steps.end()), times.unit), " to ",
                         step_in_words(*std::max_element(steps.begin(), steps.end()), times.unit),
                         "; rows are taken as even steps: make one row of each hour, day or the like"));
    return notes;
  }
  std::size_t first = 0;
  while (even(steps[first], usual)) ++first;
  const std::size_t before = order[once[first]], behind = order[once[first + 1]];
  notes.push_back(text(column, steps[first] > usual ? "has a gap before line " : "has a shorter step before line ",
                       line(behind), " (", times.words[before], ", then ", times.words[behind], "; most steps are ",
                       step_in_words(usual, times.unit), ")", more(odd, "step"),
                       "; rows are taken as even steps: fill in those that are missing"));
  return notes;
}

}  // namespace neurim
