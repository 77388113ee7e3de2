#include "neurim/train/slices.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "neurim/base/error.h"
#include "neurim/base/file.h"
#include "neurim/base/text.h"
#include "neurim/data/decode.h"
#include "neurim/evaluate/csv.h"
#include "neurim/train/thumbnail.h"

namespace neurim {

namespace {

constexpr std::size_t kRanges = 4, kMostNumbers = 20, kMostTexts = 1000;

std::string number(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  return whole ? text(static_cast<std::int64_t>(value)) : significant(value);
}

/// The names of ranges that hold as many of the values each, for each value.
std::vector<std::string> in_ranges(const std::vector<double>& values) {
  std::vector<double> rising = values;
  std::sort(rising.begin(), rising.end());
  std::vector<double> ends;  // the last value of each range
  for (std::size_t i = 1; i <= kRanges; ++i)
    if (const double end = rising[(rising.size() * i + kRanges - 1) / kRanges - 1]; ends.empty() || end > ends.back())
      ends.push_back(end);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const double least = i == 0 ? rising[0] : *std::upper_bound(rising.begin(), rising.end(), ends[i - 1]);
    names.push_back(least == ends[i] ? number(least) : text(number(least), " to ", number(ends[i])));
  }
  std::vector<std::string> out;
  for (const double value : values)
    out.push_back(names[static_cast<std::size_t>(std::lower_bound(ends.begin(), ends.end(), value) - ends.begin())]);
  return out;
}

double brightness_of(const Dataset& dataset, Split split, std::int64_t sample) {
  const Thumbnail small = thumbnail(dataset, split, sample, 64, {});
  double sum = 0;
  for (const std::uint8_t value : small.rgb) sum += value;
  return sum / static_cast<double>(small.rgb.size());
}

double pixels_of(const Dataset& dataset, Split split, std::int64_t sample) {
  std::vector<std::byte> buffer;
  Decoder decoder;
  const ImageHeader& header = decoder.open(dataset.read(split, sample, buffer));
  return static_cast<double>(header.height) * static_cast<double>(header.width);
}

std::optional<double> number(const std::string& cell) {
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  const bool whole = error == std::errc() && end == cell.data() + cell.size() && std::isfinite(value);
  return whole ? std::optional(value) : std::nullopt;
}

std::vector<std::string> of_column(const std::string& by, const std::vector<std::string>& cells) {
  const std::set<std::string> different(cells.begin(), cells.end());
  if (different.size() <= kMostNumbers) return cells;
  std::vector<double> values;
  for (const std::string& cell : cells)
    if (const auto value = number(cell)) values.push_back(*value);
  if (values.size() == cells.size()) return in_ranges(values);
  if (different.size() > kMostTexts)
    fail(Fault::data, "slice_by=", by, ": the column has ", different.size(), " different texts, more than the ",
         kMostTexts, " that can be slices; name another one");
  return cells;
}

}  // namespace

std::vector<DataSlice> slices_by(const std::string& by, const Predictions& predictions, const Dataset& dataset,
                                 Split split, const std::function<std::string(const std::string& name)>& column) {
  std::vector<std::string> names;
  std::vector<double> values;
  for (const Prediction& one : predictions.samples()) {
    if (by == "size")
      values.push_back(pixels_of(dataset, split, one.sample));
    else if (by == "brightness")
      values.push_back(brightness_of(dataset, split, one.sample));
    else if (by == "folder")
      names.push_back(fs::path(one.name).parent_path().string());
    else
      names.push_back(column(one.name));
  }
  if (values.empty() && by != "folder") names = of_column(by, names);
  if (!values.empty()) names = in_ranges(values);
  std::map<std::string, std::pair<DataSlice, SampleMean>> found;
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto& [slice, loss] = found[names[i]];
    slice.name = names[i];
    ++slice.samples;
    slice.right += predictions.samples()[i].right();
    loss.add(predictions.samples()[i].loss);
  }
  std::vector<DataSlice> slices;
  for (auto& [name, of] : found) {
    auto& [slice, loss] = of;
    slice.accuracy = static_cast<double>(slice.right) / static_cast<double>(slice.samples);
    slice.interval = wilson(slice.right, slice.samples);
    slice.log_loss = loss.mean();
    slices.push_back(slice);
  }
  std::stable_sort(slices.begin(), slices.end(),
                   [](const DataSlice& a, const DataSlice& b) { return a.accuracy < b.accuracy; });
  return slices;
}

std::string slices_csv(const std::vector<DataSlice>& slices) {
  std::string out = "slice,samples,accuracy,low,high,log_loss\n";
  for (const DataSlice& one : slices)
    out += text(csv_field(one.name), ',', one.samples, ',', one.accuracy, ',', one.interval.low, ',', one.interval.high,
                ',', one.log_loss, '\n');
  return out;
}

}  // namespace neurim
