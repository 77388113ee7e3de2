#include "neurim/train/results_csv.h"

#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "neurim/base/error.h"
#include "neurim/evaluate/curves.h"

namespace neurim {

namespace {

struct Column {
  const char* name;
  double EpochResult::* figure;
};

// After epoch and step, in the order of the file.
constexpr Column kColumns[] = {
    {"seconds", &EpochResult::seconds},
    {"images_per_second", &EpochResult::images_per_second},
    {"data_pct", &EpochResult::data_pct},
    {"learning_rate", &EpochResult::learning_rate},
    {"train_loss", &EpochResult::train_loss},
    {"train_top1", &EpochResult::train_top1},
    {"val_loss", &EpochResult::val_loss},
    {"val_top1", &EpochResult::val_top1},
    {"val_top5", &EpochResult::val_top5},
    {"val_f1_macro", &EpochResult::val_f1_macro},
};

std::string header() {
  std::string out = "epoch,step";
  for (const Column& column : kColumns) out += text(',', column.name);
  return out;
}

template <class Number>
bool parse(std::string_view field, Number& number) {
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
  return error == std::errc() && end == field.data() + field.size();
}

bool parse(const std::vector<std::string>& fields, EpochResult& row) {
  if (fields.size() != 2 + std::size(kColumns) || !parse(fields[0], row.epoch) || !parse(fields[1], row.step))
    return false;
  for (std::size_t i = 0; i < std::size(kColumns); ++i)
    if (!fields[i + 2].empty() && !parse(fields[i + 2], row.*kColumns[i].figure)) return false;
  return true;
}

std::vector<double> column_of(const std::vector<EpochResult>& rows, double EpochResult::* figure) {
  std::vector<double> values;
  if (rows.empty()) return values;
  values.assign(static_cast<std::size_t>(rows.back().epoch - rows.front().epoch + 1), EpochResult::kNone);
  for (const EpochResult& row : rows)
    values[static_cast<std::size_t>(row.epoch - rows.front().epoch)] = row.*figure;
  return values;
}

}  // namespace

ResultsCsv::ResultsCsv(fs::path path, std::int64_t epochs_done) : path_(std::move(path)) {
  if (epochs_done > 0 && fs::exists(path_)) {
    const std::vector<std::string> lines = split(read_file(path_), '\n');
    if (lines[0] != header())
      fail(Fault::data, path_.string(), ": line 1: expected the columns ", header(),
           "; move this file away to resume");
    for (std::size_t i = 1; i < lines.size() && !lines[i].empty(); ++i) {
      EpochResult row;
      if (!parse(split(lines[i], ','), row) || (!rows_.empty() && row.epoch <= rows_.back().epoch))
        fail(Fault::data, path_.string(), ": line ", i + 1,
             ": not a row of results; mend it or move this file away");
      if (row.epoch <= epochs_done) rows_.push_back(row);
    }
  }
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
  std::string out = header() + '\n';
  for (const EpochResult& row : rows_) {
    out += text(row.epoch, ',', row.step);
    for (const Column& column : kColumns) {
      const double figure = row.*column.figure;
      out += ',';
      if (!std::isnan(figure)) out += text(figure);
    }
    out += '\n';
  }
  write_file(path_, out);
}

std::string results_picture(const std::vector<EpochResult>& rows) {
  return curves_picture({{"Loss",
                          {{"training", column_of(rows, &EpochResult::train_loss)},
                           {"validation", column_of(rows, &EpochResult::val_loss), Best::lowest}}},
                         {"Accuracy",
                          {{"training", column_of(rows, &EpochResult::train_top1)},
                           {"validation", column_of(rows, &EpochResult::val_top1), Best::highest},
                           {"top-5", column_of(rows, &EpochResult::val_top5)}},
                          true}},
                        rows.empty() ? 1 : rows.front().epoch);
}

}  // namespace neurim
