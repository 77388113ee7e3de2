#include "neurim/train/evaluation_report.h"

#include <algorithm>
#include <utility>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/evaluate/confusion_image.h"
#include "neurim/evaluate/drawn_names.h"
#include "neurim/evaluate/html_page.h"
#include "neurim/evaluate/report.h"
#include "neurim/evaluate/score_charts.h"
#include "neurim/train/thumbnail.h"

namespace neurim {

namespace {

constexpr int kCell = 160, kColumns = 8;

std::string percent_of(double share) { return text(fixed(100 * share, 1), '%'); }

/// A sheet of these samples, by their places; captions are the label and the answer. "" without any.
std::string sheet_of(const Predictions& predictions, const std::vector<std::size_t>& places, const Dataset& dataset,
                     Split split) {
  const std::vector<std::string> names = drawn_names(predictions.class_names());
  std::vector<Thumbnail> images;
  for (const std::size_t place : places) {
    const Prediction& one = predictions.samples()[place];
    const auto name = [&](std::int64_t c) { return names[static_cast<std::size_t>(c)]; };
    images.push_back(thumbnail(dataset, split, one.sample, kCell,
                               {name(one.label), text("as ", name(one.predicted), ' ', percent_of(one.confidence))}));
  }
  return images.empty() ? "" : contact_sheet(images, kColumns, kCell);
}

std::vector<std::size_t> worst(const Predictions& predictions, std::size_t most) {
  std::vector<std::size_t> places = predictions.mistakes();
  places.resize(std::min(most, places.size()));
  return places;
}

/// A row of samples for each of the most frequent confusions, the surest first.
std::vector<std::size_t> of_most_confused(const Evaluation& evaluation, const Predictions& predictions) {
  constexpr std::size_t kPairs = 8;
  std::vector<std::size_t> out;
  const std::vector<std::size_t> mistakes = predictions.mistakes();
  for (const Confusion& pair : evaluation.most_confused(kPairs)) {
    std::size_t count = 0;
    for (const std::size_t place : mistakes) {
      const Prediction& one = predictions.samples()[place];
      if (one.label != pair.truth || one.predicted != pair.predicted) continue;
      out.push_back(place);
      if (++count == kColumns) break;
    }
  }
  return out;
}

/// A chart by the name of its files.
struct NamedChart {
  NamedChart(std::string file, std::string said, const Canvas& canvas)
      : name(std::move(file)), shows(std::move(said)), png(canvas.png()), svg(canvas.svg()) {}
  std::string name, shows, png, svg;
};

std::vector<NamedChart> charts_of_curves(const ClassCurves& curves, const std::vector<ClassScores>& scores,
                                         const std::string& what) {
  std::vector<NamedChart> charts;
  charts.emplace_back("class_scores", "Precision, recall and F1 of classes; per_class.csv has the numbers",
                      class_scores_chart(scores, curves.class_names, what));
  charts.emplace_back("roc", "ROC curves", roc_chart(curves, what));
  charts.emplace_back("precision_recall", "Curves of precision over recall", precision_recall_chart(curves, what));
  return charts;
}

std::vector<NamedChart> charts_of(const Evaluation& evaluation, const Predictions& predictions, const ClassAreas& areas,
                                  const std::string& what) {
  const Probabilities& p = predictions.probabilities();
  std::vector<NamedChart> charts = charts_of_curves(
      {evaluation.class_names(), areas, [&](int c) { return p.curve(c); }}, evaluation.per_class(), what);
  charts.emplace_back("confusion_matrix", "Confusion matrix; confusion_matrix.csv has the numbers",
                      confusion_chart(evaluation, Cells::counts, what));
  charts.emplace_back("confusion_matrix_normalized", "Confusion matrix, rows in percent",
                      confusion_chart(evaluation, Cells::shares, what));
  charts.emplace_back("reliability", "Accuracy of answers over their confidence", reliability_chart(p, what));
  return charts;
}

using Rows = std::vector<std::vector<std::string>>;

Rows class_rows(const std::vector<ClassScores>& scores, const std::vector<std::string>& names) {
  Rows rows;
  for (std::size_t c = 0; c < scores.size(); ++c)
    rows.push_back({names[c], fixed(scores[c].precision, 4), fixed(scores[c].recall, 4), fixed(scores[c].f1, 4),
                    thousands(scores[c].support)});
  return rows;
}

Rows confusion_rows(const Evaluation& evaluation) {
  Rows rows;
  for (const Confusion& one : evaluation.most_confused(30))
    rows.push_back({evaluation.class_names()[static_cast<std::size_t>(one.truth)],
                    evaluation.class_names()[static_cast<std::size_t>(one.predicted)], thousands(one.count),
                    percent_of(one.share)});
  return rows;
}

Rows mistake_rows(const Predictions& predictions) {
  Rows rows;
  for (const std::size_t place : worst(predictions, 64)) {
    const Prediction& one = predictions.samples()[place];
    rows.push_back({one.name, predictions.class_names()[static_cast<std::size_t>(one.label)],
                    predictions.class_names()[static_cast<std::size_t>(one.predicted)], percent_of(one.confidence),
                    fixed(one.loss, 3)});
  }
  return rows;
}

void add_extras(HtmlPage& page, const EvaluationExtras& extras) {
  if (!extras.slices.empty()) {
    page.section("Slices");
    Rows rows;
    for (const DataSlice& one : extras.slices)
      rows.push_back({one.name, thousands(one.samples), percent_of(one.accuracy),
                      text(percent_of(one.interval.low), " to ", percent_of(one.interval.high)),
                      fixed(one.log_loss, 4)});
    page.table(text("By ", extras.slices_by, ", the least accurate first"),
               {extras.slices_by, "samples", "accuracy", "95 % interval", "log-loss"}, rows, 1);
  }
  if (!extras.corrupted.empty()) {
    page.section("Corruptions");
    Rows rows;
    for (const Corrupted& one : extras.corrupted)
      rows.push_back({one.kind, text(one.severity), one.changed, percent_of(one.accuracy),
                      text(percent_of(one.interval.low), " to ", percent_of(one.interval.high))});
    page.table("Accuracy with worse images", {"corruption", "severity", "change", "accuracy", "95 % interval"}, rows,
               3);
  }
}

struct Sheets {
  std::string mistakes, confused;
};

void add_metrics(HtmlPage& page, const std::vector<HeadlineMetric>& metrics, std::int64_t samples,
                 std::size_t classes) {
  page.section("Metrics");
  Rows rows;
  for (const HeadlineMetric& one : metrics) rows.push_back({one.title, shown(one)});
  page.table(text(thousands(samples), " samples, ", thousands(static_cast<std::int64_t>(classes)),
                  " classes; in brackets the 95 % interval"),
             {"metric", "value"}, rows, 1);
}

void draw(HtmlPage& page, const std::vector<NamedChart>& charts, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    for (const NamedChart& chart : charts)
      if (chart.name == name) page.image("image/png", chart.png, chart.shows);
}

/// The worst mistakes as images; captions are what lacks, with a minus, and what is said too much, with a plus.
std::string sheet_of(const MultiLabelEvaluation& evaluation, const std::vector<std::int64_t>& places,
                     const std::vector<NamedSample>& samples, const Dataset& dataset, Split split) {
  const std::vector<std::string> names = drawn_names(evaluation.class_names());
  std::vector<Thumbnail> images;
  for (const std::int64_t place : places) {
    std::vector<std::string> lacks, more;
    for (int c = 0; c < evaluation.classes(); ++c)
      if (evaluation.has(place, c) != evaluation.says(place, c))
        (evaluation.has(place, c) ? lacks : more).push_back(names[static_cast<std::size_t>(c)]);
    images.push_back(
        thumbnail(dataset, split, samples[static_cast<std::size_t>(place)].number, kCell,
                  {lacks.empty() ? "" : "- " + join(lacks, ", "), more.empty() ? "" : "+ " + join(more, ", ")}));
  }
  return images.empty() ? "" : contact_sheet(images, kColumns, kCell);
}

Rows mistake_rows(const MultiLabelEvaluation& evaluation, const std::vector<std::int64_t>& places,
                  const std::vector<NamedSample>& samples) {
  Rows rows;
  for (const std::int64_t place : places)
    rows.push_back({samples[static_cast<std::size_t>(place)].name,
                    classes_text(evaluation, classes_of_truth(evaluation, place), ", "),
                    classes_text(evaluation, classes_of_answer(evaluation, place), ", "),
                    fixed(evaluation.sample_loss(place), 3)});
  return rows;
}

/// The samples of the greatest errors; captions are what is true and what is predicted.
std::string sheet_of(const RegressionEvaluation& evaluation, const std::vector<std::int64_t>& places,
                     const std::vector<NamedSample>& samples, const Dataset& dataset, Split split) {
  std::vector<Thumbnail> images;
  for (const std::int64_t place : places) {
    std::vector<std::string> truths, said;
    for (std::size_t t = 0; t < evaluation.names().size(); ++t) {
      truths.push_back(significant(evaluation.truth(place, t)));
      said.push_back(significant(evaluation.predicted(place, t)));
    }
    images.push_back(thumbnail(dataset, split, samples[static_cast<std::size_t>(place)].number, kCell,
                               {join(truths, ", "), text("as ", join(said, ", "))}));
  }
  return images.empty() ? "" : contact_sheet(images, kColumns, kCell);
}

/// Metrics and classes, which evaluations of either kind have.
template <class Evaluator>
void add_overview(HtmlPage& page, const Evaluator& evaluation, const std::vector<HeadlineMetric>& metrics,
                  const std::vector<NamedChart>& charts) {
  add_metrics(page, metrics, evaluation.samples(), evaluation.class_names().size());
  page.section("Classes");
  draw(page, charts, {"class_scores"});
  page.table("Scores of each class", {"class", "precision", "recall", "F1", "samples"},
             class_rows(evaluation.per_class(), evaluation.class_names()), 1);
}

void write_charts(const std::vector<NamedChart>& charts, const fs::path& folder) {
  for (const NamedChart& chart : charts) {
    write_file(folder / (chart.name + ".png"), chart.png);
    write_file(folder / (chart.name + ".svg"), chart.svg);
  }
}

std::string page_of(const Evaluation& evaluation, const Predictions& predictions,
                    const std::vector<HeadlineMetric>& metrics, const std::vector<NamedChart>& charts,
                    const Sheets& sheets, const EvaluationSubject& subject, const EvaluationExtras& extras) {
  HtmlPage page("Evaluation", subject.line());
  add_overview(page, evaluation, metrics, charts);
  page.section("Confusions");
  draw(page, charts, {"confusion_matrix", "confusion_matrix_normalized"});
  page.table("The most frequent confusions", {"true", "predicted", "samples", "of the true class"},
             confusion_rows(evaluation), 2);
  if (!sheets.confused.empty())
    page.image("image/jpeg", sheets.confused, "Samples of the pairs of classes that are confused most");
  page.section("Mistakes");
  if (sheets.mistakes.empty()) page.paragraph("There are none.");
  if (!sheets.mistakes.empty()) {
    page.image("image/jpeg", sheets.mistakes, "The samples of the greatest loss; the table below names them");
    page.table("The worst answers; mistakes.csv has all", {"file", "label", "predicted", "confidence", "loss"},
               mistake_rows(predictions), 3);
  }
  page.section("Probabilities");
  draw(page, charts, {"reliability", "roc", "precision_recall"});
  add_extras(page, extras);
  return page.html();
}

}  // namespace

std::string EvaluationSubject::line() const { return text(model, " on ", data, ", ", split); }

void write_metrics(const char* task, const EvaluationSubject& subject, std::int64_t samples,
                   const std::vector<std::string>& class_names, const std::vector<HeadlineMetric>& metrics,
                   const fs::path& folder) {
  JsonObject json{{"task", task},
                  {"model", subject.model},
                  {"data", subject.data},
                  {"split", text(subject.split)},
                  {"samples", samples}};
  if (!class_names.empty()) json.add("classes", class_names);
  json.add("metrics", headline_json(metrics));
  write_file(folder / "metrics.json", json.indented());
}

void write_evaluation(const Evaluation& evaluation, const Predictions& predictions, const ClassAreas& areas,
                      const std::vector<HeadlineMetric>& metrics, const Dataset& dataset,
                      const EvaluationSubject& subject, const EvaluationExtras& extras, const fs::path& folder) {
  write_report(evaluation, folder, false);
  write_metrics("classify", subject, evaluation.samples(), evaluation.class_names(), metrics, folder);
  write_file(folder / "predictions.csv", predictions_csv(predictions));
  write_file(folder / "mistakes.csv", mistakes_csv(predictions));
  write_file(folder / "label_issues.csv", label_issues_csv(predictions));
  if (!extras.slices.empty()) write_file(folder / "slices.csv", slices_csv(extras.slices));
  if (!extras.corrupted.empty()) write_file(folder / "corruptions.csv", corruptions_csv(extras.corrupted));
  const std::vector<NamedChart> charts = charts_of(evaluation, predictions, areas, subject.line());
  write_charts(charts, folder);
  const Sheets sheets{sheet_of(predictions, worst(predictions, 64), dataset, subject.split),
                      sheet_of(predictions, of_most_confused(evaluation, predictions), dataset, subject.split)};
  if (!sheets.mistakes.empty()) write_file(folder / "mistakes.jpg", sheets.mistakes);
  if (!sheets.confused.empty()) write_file(folder / "most_confused.jpg", sheets.confused);
  write_file(folder / "report.html", page_of(evaluation, predictions, metrics, charts, sheets, subject, extras));
}

void write_evaluation(const MultiLabelEvaluation& evaluation, const std::vector<NamedSample>& names,
                      const ClassAreas& areas, const std::vector<HeadlineMetric>& metrics, const Dataset& dataset,
                      const EvaluationSubject& subject, const fs::path& folder) {
  write_report(evaluation, folder);
  write_metrics("multi-label", subject, evaluation.samples(), evaluation.class_names(), metrics, folder);
  write_file(folder / "predictions.csv", predictions_csv(evaluation, names));
  write_file(folder / "mistakes.csv", mistakes_csv(evaluation, names));
  const std::vector<NamedChart> charts = charts_of_curves(
      {evaluation.class_names(), areas, [&](int c) { return evaluation.curve(c); }}, evaluation.per_class(),
      subject.line());
  write_charts(charts, folder);
  std::vector<std::int64_t> worst = mistakes(evaluation);
  worst.resize(std::min<std::size_t>(64, worst.size()));
  const std::string sheet = sheet_of(evaluation, worst, names, dataset, subject.split);
  if (!sheet.empty()) write_file(folder / "mistakes.jpg", sheet);
  HtmlPage page("Evaluation", subject.line());
  add_overview(page, evaluation, metrics, charts);
  page.section("Mistakes");
  if (sheet.empty()) page.paragraph("There are none.");
  if (!sheet.empty()) {
    page.image("image/jpeg", sheet,
               "The samples of the greatest loss; - names classes that were not found, + those that are not there");
    page.table("The worst answers; mistakes.csv has all", {"file", "labels", "predicted", "loss"},
               mistake_rows(evaluation, worst, names), 3);
  }
  page.section("Probabilities");
  draw(page, charts, {"roc", "precision_recall"});
  write_file(folder / "report.html", page.html());
}

void write_evaluation(const RegressionEvaluation& evaluation, const std::vector<NamedSample>& names,
                      const std::vector<HeadlineMetric>& metrics, const Dataset& dataset,
                      const EvaluationSubject& subject, const fs::path& folder) {
  constexpr std::size_t kMostCharts = 8;
  write_metrics("regress", subject, evaluation.samples(), evaluation.names(), metrics, folder);
  write_file(folder / "predictions.csv", predictions_csv(evaluation, names));
  write_file(folder / "per_target.csv", per_target_csv(evaluation));
  std::vector<NamedChart> charts;
  const std::size_t targets = evaluation.names().size();
  for (std::size_t t = 0; t < std::min(kMostCharts, targets); ++t)
    charts.emplace_back(targets == 1 ? "predicted_over_true" : text("predicted_over_true_", t + 1),
                        text("What is predicted over what is true, of ", evaluation.names()[t]),
                        predicted_over_true(evaluation, t, subject.line()));
  write_charts(charts, folder);
  std::vector<std::int64_t> worst = evaluation.worst();
  worst.resize(std::min<std::size_t>(64, worst.size()));
  const std::string sheet = sheet_of(evaluation, worst, names, dataset, subject.split);
  if (!sheet.empty()) write_file(folder / "worst.jpg", sheet);
  HtmlPage page("Evaluation", subject.line());
  page.section("Metrics");
  Rows rows;
  for (const HeadlineMetric& one : metrics) rows.push_back({one.title, shown(one)});
  page.table(text(thousands(evaluation.samples()), " samples; in brackets the 95 % interval"), {"metric", "value"},
             rows, 1);
  page.section("Numbers");
  for (const NamedChart& chart : charts) page.image("image/png", chart.png, chart.shows);
  if (!sheet.empty()) {
    page.section("Greatest errors");
    page.image("image/jpeg", sheet, "What is true, and what is predicted; predictions.csv has all");
  }
  write_file(folder / "report.html", page.html());
}

}  // namespace neurim
