#include "neurim/evaluate/report.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <system_error>
#include <utility>

#include "neurim/base/error.h"
#include "neurim/evaluate/confusion_image.h"
#include "neurim/evaluate/csv.h"
#include "neurim/evaluate/letters.h"

namespace neurim {

std::string confusion_matrix_csv(const Evaluation& evaluation) {
  std::string out = "true\\predicted";
  for (const std::string& name : evaluation.class_names()) out += ',' + csv_field(name);
  out += '\n';
  for (int t = 0; t < evaluation.classes(); ++t) {
    out += csv_field(evaluation.class_names()[t]);
    for (int p = 0; p < evaluation.classes(); ++p) append(out, ','), append(out, evaluation.count(t, p));
    out += '\n';
  }
  return out;
}

std::string per_class_csv(const Evaluation& evaluation) {
  std::string out = "class,precision,recall,f1,support\n";
  const auto scores = evaluation.per_class();
  for (std::size_t c = 0; c < scores.size(); ++c)
    out += text(csv_field(evaluation.class_names()[c]), ',', scores[c].precision, ',', scores[c].recall, ',',
                scores[c].f1, ',', scores[c].support, '\n');
  return out;
}

std::string per_class_csv(const MultiLabelEvaluation& evaluation) {
  std::string out = "class,threshold,average_precision,precision,recall,f1,support\n";
  const auto scores = evaluation.per_class();
  const auto precisions = evaluation.areas().average_precision;
  for (std::size_t c = 0; c < scores.size(); ++c)
    out += text(csv_field(evaluation.class_names()[c]), ',', evaluation.thresholds()[c], ',',
                std::isnan(precisions[c]) ? "" : text(precisions[c]), ',', scores[c].precision, ',', scores[c].recall,
                ',', scores[c].f1, ',', scores[c].support, '\n');
  return out;
}

std::string most_confused_csv(const Evaluation& evaluation, std::size_t limit) {
  std::string out = "true,predicted,count,share_of_true\n";
  const auto& names = evaluation.class_names();
  for (const Confusion& one : evaluation.most_confused(limit))
    out += text(csv_field(names[one.truth]), ',', csv_field(names[one.predicted]), ',', one.count, ',', one.share,
                '\n');
  return out;
}

namespace {

/// The table of per_class_table without its last line.
std::string scores_table(const std::vector<std::string>& names, const std::vector<ClassScores>& scores,
                         const std::vector<std::pair<std::string, ClassScores>>& averages, std::size_t max_rows) {
  constexpr std::size_t kLongestName = 32;

  std::vector<std::size_t> weakest;  // classes with samples, lowest F1 first
  for (std::size_t c = 0; c < scores.size(); ++c)
    if (scores[c].support > 0) weakest.push_back(c);
  std::stable_sort(weakest.begin(), weakest.end(), [&](auto a, auto b) { return scores[a].f1 < scores[b].f1; });

  std::vector<std::size_t> shown(scores.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  const bool all = shown.size() <= max_rows;
  if (!all) shown.assign(weakest.begin(), weakest.begin() + static_cast<long>(std::min(max_rows, weakest.size())));

  // A tenth of the classes is marked, unless they are no weaker than the rest.
  std::vector<bool> marked(scores.size());
  const double mean = average_of(scores, Average::macro).f1;
  for (std::size_t i = 0; i < std::clamp<std::size_t>(weakest.size() / 10, 1, 10) && i < weakest.size(); ++i)
    marked[weakest[i]] = scores[weakest[i]].f1 < mean;

  std::size_t width = std::string_view("weighted average").size();
  for (const std::size_t c : shown) width = std::max(width, std::min(kLongestName, columns_of(names[c])));

  auto padded = [](const std::string& field, std::size_t columns) {
    return std::string(columns - std::min(columns, field.size()), ' ') + field;
  };
  auto row = [&](const std::string& name, const ClassScores& s, const char* mark) {
    const std::string short_name = elided(name, width, columns_of);
    return text(short_name, std::string(width - columns_of(short_name), ' '), padded(fixed(s.precision, 4), 11),
                padded(fixed(s.recall, 4), 9), padded(fixed(s.f1, 4), 9), padded(text(s.support), 10), mark, '\n');
  };
  std::string out = text("class", std::string(width - 5, ' '), "  precision   recall       f1   support\n");
  for (const std::size_t c : shown)
    out += row(names[c], scores[c], marked[c] && all ? "  < weakest" : scores[c].support == 0 ? "  (no samples)" : "");
  if (!all) out += text("(the ", shown.size(), " weakest of ", scores.size(), " classes; per_class.csv has all)\n");
  out += text(std::string(width + 39, '-'), '\n');
  for (const auto& [name, average] : averages) out += row(name, average, "");
  return out;
}

}  // namespace

std::string per_class_table(const Evaluation& evaluation, std::size_t max_rows) {
  const Interval sure = evaluation.accuracy_interval();
  return text(scores_table(evaluation.class_names(), evaluation.per_class(),
                           {{"macro average", evaluation.average(Average::macro)},
                            {"weighted average", evaluation.average(Average::weighted)}},
                           max_rows),
              "accuracy ", fixed(100 * evaluation.accuracy(), 2), " % (95 % interval ", fixed(100 * sure.low, 2),
              " to ", fixed(100 * sure.high, 2), " %), ", evaluation.correct(), " of ", evaluation.samples(),
              " samples\n");
}

std::string per_class_table(const MultiLabelEvaluation& evaluation, std::size_t max_rows) {
  return text(scores_table(evaluation.class_names(), evaluation.per_class(),
                           {{"macro average", evaluation.average(Average::macro)},
                            {"weighted average", evaluation.average(Average::weighted)},
                            {"micro average", evaluation.average(Average::micro)}},
                           max_rows),
              "every class right of ", fixed(100 * evaluation.exact_match(), 2), " % of ", evaluation.samples(),
              " samples, mAP ", fixed(100 * evaluation.mean_average_precision(), 2), " %\n");
}

void write_report(const Evaluation& evaluation, const fs::path& folder, bool images) {
  make_folder(folder);
  write_file(folder / "confusion_matrix.csv", confusion_matrix_csv(evaluation));
  write_file(folder / "per_class.csv", per_class_csv(evaluation));
  write_file(folder / "most_confused.csv", most_confused_csv(evaluation));
  if (!images) return;
  write_file(folder / "confusion_matrix.png", confusion_chart(evaluation, Cells::counts).png());
  write_file(folder / "confusion_matrix_normalized.png", confusion_chart(evaluation, Cells::shares).png());
}

void write_report(const MultiLabelEvaluation& evaluation, const fs::path& folder) {
  make_folder(folder);
  write_file(folder / "per_class.csv", per_class_csv(evaluation));
}

}  // namespace neurim
