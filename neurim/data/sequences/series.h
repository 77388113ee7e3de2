// Series of numbers over time.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace neurim {

/// A table of numbers: a row a step, in the order of time.
struct Series {
  std::string path;                  ///< for messages
  std::vector<std::string> columns;  ///< the names, in lower case
  std::vector<double> values;        ///< steps x columns
  std::vector<std::string> notes;    ///< what a user should know, one line each

  std::int64_t width() const { return static_cast<std::int64_t>(columns.size()); }  ///< columns
  /// Rows.
  std::int64_t steps() const { return columns.empty() ? 0 : static_cast<std::int64_t>(values.size()) / width(); }
  /// Which column has this name. Throws Error(usage) with the names there are.
  std::int64_t column(const std::string& name) const;
};

/// The finite number that a cell is, as programs write it: digits, a point for decimals, an exponent. What is nearer to
/// 0 than any double is 0.
std::optional<double> number_of(std::string_view cell);

/// Reads a CSV, TSV or JSON Lines file whose rows are in the order of time; where they are not one even step after
/// another, notes say so (see time_order.h). `columns` names those to take; where it is empty, the target and all in
/// which there are numbers, and the notes name the others. Names are in lower case. Throws Error(data) with file, line
/// and column on a cell that is missing or no number_of, on an empty line between rows, where two columns have a name
/// that is taken, and where nothing is left.
Series read_series(const std::string& path, const std::vector<std::string>& columns = {},
                   const std::string& target = "");

/// Mean and std (of the population) of each column. A column that never changes has the
/// std 1.
struct Scaling {
  std::vector<double> mean,  ///< of each column
      std;                   ///< of each column, above 0
};
/// Over the first `steps` steps: those of training, so that nothing of what is to be forecast is known.
Scaling scaling_of(const Series& series, std::int64_t steps);

/// Copies `count` steps from `first` of the named columns to `out` (count x columns.size()).
void copy_steps(const Series& series, std::int64_t first, std::int64_t count, std::span<const std::int64_t> columns,
                double* out);

}  // namespace neurim
