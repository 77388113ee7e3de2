#include "neurim/data/sequences/series.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/data/sources/table.h"

namespace neurim {
namespace {

std::optional<float> number(std::string_view cell) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!cell.empty() && blank(cell.front())) cell.remove_prefix(1);
  while (!cell.empty() && blank(cell.back())) cell.remove_suffix(1);
  if (cell.starts_with('+')) cell.remove_prefix(1);
  float value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || !std::isfinite(value)) return {};
  return value;
}

/// Whether later rows have smaller texts throughout, as dates have in a table whose newest row is the first.
bool descends(const Table& table, std::size_t column) {
  const auto rises = [&](const auto& a, const auto& b) {
    return Table::cell(a, column) <= Table::cell(b, column);
  };
  return table.rows.size() > 1 &&
         std::adjacent_find(table.rows.begin(), table.rows.end(), rises) == table.rows.end();
}

/// The columns to take; those that hold no number at all, such as dates, are left out and noted.
std::vector<std::size_t> columns_with_numbers(const Table& table, std::vector<std::string>& notes) {
  std::vector<std::size_t> taken;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const bool any = std::any_of(table.rows.begin(), table.rows.end(),
                                 [&](const auto& row) { return number(Table::cell(row, i)).has_value(); });
    if (any) {
      taken.push_back(i);
      continue;
    }
    notes.push_back(text("the column ", table.columns[i], " holds no numbers and is left out"));
    if (descends(table, i))
      notes.push_back(text("the column ", table.columns[i],
                           " descends; is the newest row the first? A series begins with the oldest"));
  }
  return taken;
}

}  // namespace

std::int64_t Series::column(const std::string& name) const {
  const auto found = std::find(columns.begin(), columns.end(), lower(name));
  require(found != columns.end(), path, ": no column of numbers is called ", name, "; there are ",
          join(columns, ", "));
  return found - columns.begin();
}

Series read_series(const std::string& path, const std::vector<std::string>& columns) {
  const Table table = read_table(path);
  if (table.empty_line > 0)
    fail(Fault::data, path, ":", table.empty_line, ": is empty where a row is a step; fill it in or remove the line");
  Series series;
  series.path = path;
  std::vector<std::size_t> taken;
  for (const std::string& name : columns) {
    const auto found = table.find({lower(name)});
    if (!found) fail(Fault::data, path, ": has no column ", name, "; there are ", join(table.columns, ", "));
    taken.push_back(*found);
  }
  if (columns.empty()) taken = columns_with_numbers(table, series.notes);
  if (taken.empty() || table.rows.empty())
    fail(Fault::data, path,
         ": holds no numbers; a series is a table with a column of numbers and a row a step");
  for (const std::size_t i : taken) series.columns.push_back(table.columns[i]);
  series.values.reserve(table.rows.size() * taken.size());
  for (const Table::Row& row : table.rows)
    for (const std::size_t i : taken) {
      const std::string& cell = Table::cell(row, i);
      const std::optional<float> value = number(cell);
      if (!value)
        fail(Fault::data, table.at(row), ": the column ", table.columns[i], " holds ",
             cell.empty() ? "nothing" : text('\'', cell, '\''),
             " where a finite number is needed; fill it in or remove the row");
      series.values.push_back(*value);
    }
  return series;
}

Scaling scaling_of(const Series& series, std::int64_t steps) {
  require(steps >= 1 && steps <= series.steps(), series.path, ": statistics over ", steps, " of ",
          series.steps(), " steps");
  const auto width = static_cast<std::size_t>(series.width());
  const auto count = static_cast<std::size_t>(steps);
  Scaling scaling{std::vector<double>(width), std::vector<double>(width)};
  for (std::size_t c = 0; c < width; ++c) {
    double sum = 0, squares = 0;
    for (std::size_t t = 0; t < count; ++t) sum += series.values[t * width + c];
    const double mean = sum / static_cast<double>(steps);
    for (std::size_t t = 0; t < count; ++t) {
      const double off = series.values[t * width + c] - mean;
      squares += off * off;
    }
    const double deviation = std::sqrt(squares / static_cast<double>(steps));
    scaling.mean[c] = mean;
    scaling.deviation[c] = deviation > 0 ? deviation : 1;
  }
  return scaling;
}

void copy_steps(const Series& series, std::int64_t first, std::int64_t count,
                std::span<const std::int64_t> columns, float* out) {
  NEURIM_ASSERT(first >= 0 && count >= 0 && first + count <= series.steps());
  for (std::int64_t t = first; t < first + count; ++t)
    for (const std::int64_t c : columns)
      *out++ = series.values[static_cast<std::size_t>(t * series.width() + c)];
}

}  // namespace neurim
