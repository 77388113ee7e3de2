#include "neurim/evaluate/multi_label_csv.h"

#include <algorithm>

#include "neurim/base/text.h"
#include "neurim/evaluate/csv.h"

namespace neurim {

namespace {

/// The first columns of a sample's row.
std::string sample_fields(const MultiLabelEvaluation& evaluation, const std::vector<NamedSample>& names,
                          std::int64_t place) {
  return text(csv_field(names[static_cast<std::size_t>(place)].name), ',',
              csv_field(classes_text(evaluation, classes_of_truth(evaluation, place), "|")), ',',
              csv_field(classes_text(evaluation, classes_of_answer(evaluation, place), "|")), ',',
              evaluation.sample_loss(place));
}

}  // namespace

std::string classes_text(const MultiLabelEvaluation& evaluation, const std::vector<int>& classes,
                         std::string_view between) {
  std::vector<std::string> names;
  for (const int c : classes) names.push_back(evaluation.class_names()[static_cast<std::size_t>(c)]);
  return join(names, between);
}

std::vector<int> classes_of_truth(const MultiLabelEvaluation& evaluation, std::int64_t place) {
  std::vector<int> out;
  for (int c = 0; c < evaluation.classes(); ++c)
    if (evaluation.has(place, c)) out.push_back(c);
  return out;
}

std::vector<int> classes_of_answer(const MultiLabelEvaluation& evaluation, std::int64_t place) {
  std::vector<int> out;
  for (int c = 0; c < evaluation.classes(); ++c)
    if (evaluation.says(place, c)) out.push_back(c);
  return out;
}

std::vector<std::int64_t> mistakes(const MultiLabelEvaluation& evaluation) {
  std::vector<std::pair<double, std::int64_t>> wrong;
  for (std::int64_t i = 0; i < evaluation.samples(); ++i)
    if (!evaluation.right(i)) wrong.emplace_back(evaluation.sample_loss(i), i);
  std::stable_sort(wrong.begin(), wrong.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<std::int64_t> places;
  for (const auto& [loss, place] : wrong) places.push_back(place);
  return places;
}

std::string predictions_csv(const MultiLabelEvaluation& evaluation, const std::vector<NamedSample>& names) {
  constexpr int kMostColumns = 100;
  const bool all = evaluation.classes() <= kMostColumns;
  std::string out = "file,labels,predicted,loss,correct";
  if (all)
    for (const std::string& name : evaluation.class_names()) out += ',' + csv_field("p:" + name);
  out += '\n';
  for (std::int64_t i = 0; i < evaluation.samples(); ++i) {
    out += text(sample_fields(evaluation, names, i), ',', evaluation.right(i) ? 1 : 0);
    if (all)
      for (int c = 0; c < evaluation.classes(); ++c) append(out, ','), append(out, evaluation.probability(i, c));
    out += '\n';
  }
  return out;
}

std::string mistakes_csv(const MultiLabelEvaluation& evaluation, const std::vector<NamedSample>& names) {
  std::string out = "file,labels,predicted,loss\n";
  for (const std::int64_t place : mistakes(evaluation)) out += sample_fields(evaluation, names, place) + '\n';
  return out;
}

}  // namespace neurim
