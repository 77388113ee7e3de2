#include "neurim/train/results_csv.h"

#include <charconv>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>

#include "neurim/base/error.h"

namespace neurim {

namespace {

/// A column after epoch and step, and its metric.
struct Column {
  std::string name;
  std::function<double&(EpochResult&)> metric;
};

/// In the order of the file.
std::vector<Column> columns_of(const TaskInfo& task) {
  const auto plain = [](std::string name, double EpochResult::*metric) {
    return Column{std::move(name), [metric](EpochResult& row) -> double& { return row.*metric; }};
  };
  std::vector<Column> columns{
      plain("seconds", &EpochResult::seconds),
      plain(task.rate, &EpochResult::samples_per_second),
      plain("data_pct", &EpochResult::data_pct),
      plain("learning_rate", &EpochResult::learning_rate),
      plain("train_loss", &EpochResult::train_loss),
      plain(text("train_", task.train_metric), &EpochResult::train_metric),
  };
  for (const TaskMetric& metric : task.metrics)
    columns.push_back(
        {text("val_", metric.name), [name = metric.name](EpochResult& row) -> double& { return row.val[name]; }});
  return columns;
}

std::string header(const std::vector<Column>& columns) {
  std::string out = "epoch,step";
  for (const Column& column : columns) out += text(',', column.name);
  return out;
}

template <class Number>
bool parse(std::string_view field, Number& number) {
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
  return error == std::errc() && end == field.data() + field.size();
}

bool parse(const std::vector<std::string>& fields, const std::vector<Column>& columns, EpochResult& row) {
  if (fields.size() != 2 + columns.size() || !parse(fields[0], row.epoch) || !parse(fields[1], row.step)) return false;
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (!fields[i + 2].empty() && !parse(fields[i + 2], columns[i].metric(row))) return false;
  return true;
}

/// A curve of `metric` over the epochs, with gaps for missing rows.
template <class Metric>
std::vector<double> curve_of(const std::vector<EpochResult>& rows, const Metric& metric) {
  std::vector<double> values;
  if (rows.empty()) return values;
  values.assign((rows.back().epoch - rows.front().epoch + 1), EpochResult::kNone);
  for (const EpochResult& row : rows) values[row.epoch - rows.front().epoch] = metric(row);
  return values;
}

}  // namespace

std::vector<EpochResult> read_results(const fs::path& path, std::int64_t epochs_done, const TaskInfo& task) {
  std::vector<EpochResult> rows;
  if (epochs_done == 0 || !fs::exists(path)) return rows;
  const std::vector<Column> columns = columns_of(task);
  const std::vector<std::string> lines = split(read_text(path), '\n');
  if (lines[0] != header(columns))
    fail(Fault::data, path.string(), ": line 1: expected the columns ", header(columns),
         "; move this file away to resume");
  for (std::size_t i = 1; i < lines.size() && !lines[i].empty(); ++i) {
    EpochResult row;
    row.val = Metrics(task);
    if (!parse(split(lines[i], ','), columns, row) || (!rows.empty() && row.epoch <= rows.back().epoch))
      fail(Fault::data, path.string(), ": line ", i + 1, ": not a row of results; mend it or move this file away");
    if (row.epoch <= epochs_done) rows.push_back(row);
  }
  return rows;
}

ResultsCsv::ResultsCsv(fs::path path, std::int64_t epochs_done, const TaskInfo& task)
    : path_(std::move(path)), task_(&task), rows_(read_results(path_, epochs_done, task)) {
  write();
}

void ResultsCsv::append(const EpochResult& result) {
  NEURIM_ASSERT(rows_.empty() || result.epoch > rows_.back().epoch);
  rows_.push_back(result);
  try {
    write();
  } catch (...) {
    rows_.pop_back();
    throw;
  }
}

void ResultsCsv::write() const {
  const std::vector<Column> columns = columns_of(*task_);
  std::string out = header(columns) + '\n';
  for (EpochResult row : rows_) {
    out += text(row.epoch, ',', row.step);
    for (const Column& column : columns) {
      const double metric = column.metric(row);
      out += ',';
      if (!std::isnan(metric)) out += text(metric);
    }
    out += '\n';
  }
  write_file(path_, out);
}

std::vector<Panel> results_panels(const std::vector<EpochResult>& rows, std::int64_t classes) {
  const auto training = [&](double EpochResult::*metric) {
    return curve_of(rows, [&](const EpochResult& row) { return row.*metric; });
  };
  const auto validation = [&](const char* metric) {
    return curve_of(rows, [&](const EpochResult& row) { return row.val[metric]; });
  };
  const Panel loss{
      .title = "Loss",
      .curves = {{"training", training(&EpochResult::train_loss)}, {"validation", validation("loss"), Best::lowest}},
      .clipped = true};
  const TaskInfo& task = rows.empty() ? classify_task() : rows.front().val.task();
  Panel evaluated{.title = task.curves_title, .percent = task.percent, .clipped = !task.percent};
  for (const MetricCurve& curve : task.curves) {
    if (curve.classes > 0 && classes <= curve.classes) continue;
    Curve drawn{curve.title, *curve.metric == 0 ? training(&EpochResult::train_metric) : validation(curve.metric)};
    if (curve.marks_best) drawn.best = task.find(curve.metric)->lower_is_better ? Best::lowest : Best::highest;
    evaluated.curves.push_back(std::move(drawn));
  }
  const Panel rate{.title = "Learning rate",
                   .curves = {{"at the end of each epoch", training(&EpochResult::learning_rate)}}};
  return {loss, evaluated, rate};
}

std::string results_image(const Heading& heading, const std::vector<EpochResult>& rows, std::int64_t classes) {
  return curves_image(heading, results_panels(rows, classes), rows.empty() ? 1 : rows.front().epoch);
}

}  // namespace neurim
