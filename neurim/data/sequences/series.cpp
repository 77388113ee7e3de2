#include "neurim/data/sequences/series.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/data/sequences/time_order.h"
#include "neurim/data/sources/table.h"

namespace neurim {
namespace {

/// The columns to take: the target, and those in which there are numbers. The others, such as dates, are noted.
std::vector<std::size_t> columns_with_numbers(const Table& table, const std::string& target,
                                              std::vector<std::string>& notes) {
  std::vector<std::size_t> taken;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const bool any = std::any_of(table.rows.begin(), table.rows.end(),
                                 [&](const auto& row) { return number_of(Table::cell(row, i)).has_value(); });
    if (any || (!target.empty() && table.columns[i] == target))
      taken.push_back(i);
    else if (!table.rows.empty())
      notes.push_back(text("the column ", table.columns[i], " holds no numbers ('", Table::cell(table.rows[0], i),
                           "') and is left out"));
  }
  return taken;
}

}  // namespace

std::optional<double> number_of(std::string_view cell) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!cell.empty() && blank(cell.front())) cell.remove_prefix(1);
  while (!cell.empty() && blank(cell.back())) cell.remove_suffix(1);
  if (cell.starts_with('+') && !cell.starts_with("+-")) cell.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error == std::errc::invalid_argument || end != cell.data() + cell.size()) return {};
  if (error == std::errc::result_out_of_range)
    value = std::strtod(std::string(cell).c_str(), nullptr);  // 0 or infinite
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::int64_t Series::column(const std::string& name) const {
  const auto found = std::find(columns.begin(), columns.end(), lower(name));
  require(found != columns.end(), path, ": no column of numbers is called ", name, "; there are ", join(columns, ", "));
  return found - columns.begin();
}

Series read_series(const std::string& path, const std::vector<std::string>& columns, const std::string& target) {
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
  if (columns.empty()) taken = columns_with_numbers(table, lower(target), series.notes);
  if (taken.empty() || table.rows.empty())
    fail(Fault::data, path, ": holds no numbers; a series is a table with a column of numbers and a row a step");
  for (const std::size_t i : taken) {
    table.find({table.columns[i]});  // throws where two are called so
    series.columns.push_back(table.columns[i]);
  }
  series.values.reserve(table.rows.size() * taken.size());
  for (const Table::Row& row : table.rows)
    for (const std::size_t i : taken) {
      const std::string& cell = Table::cell(row, i);
      const std::optional<double> value = number_of(cell);
      if (!value && cell.empty())
        fail(Fault::data, table.at(row), ": the column ", table.columns[i],
             " holds nothing where a finite number is needed; fill it in or remove the row");
      if (!value)
        fail(Fault::data, table.at(row), ": the column ", table.columns[i], " holds '", cell,
             "' where a finite number is needed; write it as 1234.5, -0.5 or 2e-6: with a point for decimals, without "
             "separators of "
             "thousands, units, signs of a currency or a percent");
      series.values.push_back(*value);
    }
  const std::string forecast = target.empty() && taken.size() == 1 ? series.columns[0] : lower(target);
  for (std::string& note : notes_on_time(table, forecast)) series.notes.push_back(std::move(note));
  return series;
}

Scaling scaling_of(const Series& series, std::int64_t steps) {
  require(steps >= 1 && steps <= series.steps(), series.path, ": statistics over ", steps, " of ", series.steps(),
          " steps");
  const auto width = static_cast<std::size_t>(series.width());
  const auto count = static_cast<std::size_t>(steps);
  Scaling scaling{std::vector<double>(width), std::vector<double>(width)};
  for (std::size_t c = 0; c < width; ++c) {
    const auto value = [&](std::size_t t) { return series.values[t * width + c]; };
    double largest = 0;
    for (std::size_t t = 0; t < count; ++t) largest = std::max(largest, std::abs(value(t)));
    // In a power of two near the largest value no sum and no square is too large; and as distances from the first one
    // they are exactly 0 where the column never changes.
    const double unit = largest > 0 ? std::exp2(std::ilogb(largest)) : 1, first = value(0) / unit;
    double sum = 0, squares = 0;
    for (std::size_t t = 0; t < count; ++t) sum += value(t) / unit - first;
    const double mean = sum / static_cast<double>(steps);
    for (std::size_t t = 0; t < count; ++t) {
      const double off = value(t) / unit - first - mean;
      squares += off * off;
    }
    const double std = unit * std::sqrt(squares / static_cast<double>(steps));
    scaling.mean[c] = unit * (first + mean);
    scaling.std[c] = std::isnormal(std) ? std : 1;
  }
  return scaling;
}

void copy_steps(const Series& series, std::int64_t first, std::int64_t count, std::span<const std::int64_t> columns,
                double* out) {
  NEURIM_ASSERT(first >= 0 && count >= 0 && first + count <= series.steps());
  for (std::int64_t t = first; t < first + count; ++t)
    for (const std::int64_t c : columns) *out++ = series.values[t * series.width() + c];
}

}  // namespace neurim
