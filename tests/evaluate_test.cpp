// Figures against hand-counted cases and scikit-learn 1.9.1 (zero_division=0) and SciPy (binomtest, Wilson's
// interval).
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "neurim/base/error.h"
#include "neurim/core/random.h"
#include "neurim/evaluate/calibration.h"
#include "neurim/evaluate/class_counts.h"
#include "neurim/evaluate/confusion_clusters.h"
#include "neurim/evaluate/confusion_image.h"
#include "neurim/evaluate/csv.h"
#include "neurim/evaluate/drawn_names.h"
#include "neurim/evaluate/evaluation.h"
#include "neurim/evaluate/html_page.h"
#include "neurim/evaluate/letters.h"
#include "neurim/evaluate/multi_label.h"
#include "neurim/evaluate/projection.h"
#include "neurim/evaluate/report.h"
#include "tests/errors.h"
#include "tests/images.h"

namespace neurim {
namespace {

using Counts = std::vector<std::vector<int>>;

Evaluation evaluation_of(const Counts& counts, std::vector<std::string> names = {}) {
  if (names.empty())
    for (std::size_t c = 0; c < counts.size(); ++c) names.push_back(text("c", c));
  Evaluation evaluation(names);
  std::vector<std::int64_t> predicted, labels;
  for (std::size_t t = 0; t < counts.size(); ++t)
    for (std::size_t p = 0; p < counts.size(); ++p)
      for (int i = 0; i < counts[t][p]; ++i) {
        labels.push_back(static_cast<std::int64_t>(t));
        predicted.push_back(static_cast<std::int64_t>(p));
      }
  evaluation.add_predictions(predicted, labels);
  return evaluation;
}

// c3 is never true, c4 is never predicted, c5 is neither.
const Counts kCounts = {{13, 2, 1, 4, 0, 0}, {3, 9, 0, 1, 0, 0}, {0, 5, 21, 2, 0, 0},
                        {0, 0, 0, 0, 0, 0},  {1, 3, 2, 1, 0, 0}, {0, 0, 0, 0, 0, 0}};

void expect_scores(const ClassScores& got, const ClassScores& expected) {
  EXPECT_NEAR(got.precision, expected.precision, 1e-12);
  EXPECT_NEAR(got.recall, expected.recall, 1e-12);
  EXPECT_NEAR(got.f1, expected.f1, 1e-12);
  EXPECT_EQ(got.support, expected.support);
}

fs::path scratch(const char* name) {
  const fs::path folder = fs::path(testing::TempDir()) / text("neurim_evaluate_", name);
  fs::remove_all(folder);
  return folder;
}

TEST(Evaluation, ScoresOfScikitLearnWithEmptyClasses) {
  const Evaluation evaluation = evaluation_of(kCounts);
  const ClassScores expected[] = {
      {0.7647058823529411, 0.65, 0.7027027027027027, 20},
      {0.47368421052631576, 0.6923076923076923, 0.5625, 13},
      {0.875, 0.75, 0.8076923076923077, 28},
      {0, 0, 0, 0},
      {0, 0, 0, 7},
      {0, 0, 0, 0},
  };
  const auto scores = evaluation.per_class();
  ASSERT_EQ(scores.size(), 6u);
  for (std::size_t c = 0; c < 6; ++c) expect_scores(scores[c], expected[c]);
  expect_scores(evaluation.average(Average::macro), {0.3522316821465428, 0.34871794871794876, 0.34548250173250167, 68});
  expect_scores(evaluation.average(Average::micro), {0.6323529411764706, 0.6323529411764706, 0.6323529411764706, 68});
  expect_scores(evaluation.average(Average::weighted),
                {0.6757648879985431, 0.6323529411764706, 0.6467932157270394, 68});
  EXPECT_NEAR(evaluation.accuracy(), 0.6323529411764706, 1e-12);
}

TEST(Evaluation, WilsonInterval) {
  const Interval some = evaluation_of(kCounts).accuracy_interval();
  EXPECT_NEAR(some.low, 0.5135563563911616, 1e-12);
  EXPECT_NEAR(some.high, 0.7369953486476433, 1e-12);
  const Interval all = evaluation_of({{2, 0}, {0, 3}}).accuracy_interval();
  EXPECT_NEAR(all.low, 0.5655175352168251, 1e-12);
  EXPECT_NEAR(all.high, 1, 1e-12);
  const Interval none = evaluation_of({{0, 3}, {4, 0}}).accuracy_interval();
  EXPECT_NEAR(none.low, 0, 1e-12);
  EXPECT_NEAR(none.high, 0.35433043506668743, 1e-12);
}

TEST(Evaluation, TopKFromLogits) {
  // scikit-learn's top_k_accuracy_score: 0.25 for k of 1 to 4.
  const std::vector<float> logits = {0,    3.7f, 7.4f, 1,    4.7f, 8.4f, 2,    5.7f, 9.4f, 3,    6.7f, 0.3f, 4,    7.7f,
                                     1.3f, 5,    8.7f, 2.3f, 6,    9.7f, 3.3f, 7,    0.6f, 4.3f, 8,    1.6f, 5.3f, 9,
                                     2.6f, 6.3f, 10,   3.6f, 7.3f, 0.9f, 4.6f, 8.3f, 1.9f, 5.6f, 9.3f, 2.9f};
  const std::vector<std::int64_t> labels = {0, 3, 1, 4, 2, 0, 3, 1};
  Evaluation evaluation({"a", "b", "c", "d", "e"});
  evaluation.add(logits, labels);
  for (const int k : {1, 2, 3, 4}) EXPECT_EQ(evaluation.top_k(k), 0.25) << k;
  for (const int k : {5, 6, 100}) EXPECT_EQ(evaluation.top_k(k), 1) << k;
  EXPECT_EQ(evaluation.accuracy(), 0.25);
  const Counts confusion = {{0, 0, 2, 0, 0}, {0, 0, 0, 2, 0}, {0, 0, 0, 0, 1}, {1, 0, 0, 1, 0}, {0, 0, 0, 0, 1}};
  for (int t = 0; t < 5; ++t)
    for (int p = 0; p < 5; ++p) EXPECT_EQ(evaluation.count(t, p), confusion[t][p]) << t << ' ' << p;
}

TEST(Evaluation, TiesRankTheLowerIndexFirst) {
  Evaluation evaluation({"a", "b", "c"});
  const float logits[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 2, 2};
  const std::int64_t labels[] = {0, 1, 2, 2};
  evaluation.add(logits, labels);
  EXPECT_EQ(evaluation.count(0, 0), 1);
  EXPECT_EQ(evaluation.count(1, 0), 1);
  EXPECT_EQ(evaluation.count(2, 0), 1);
  EXPECT_EQ(evaluation.count(2, 1), 1);
  EXPECT_EQ(evaluation.top_k(1), 0.25);
  EXPECT_EQ(evaluation.top_k(2), 0.75);  // the third sample ranks third
  EXPECT_EQ(evaluation.top_k(3), 1);
}

TEST(Evaluation, InfiniteLogitsRank) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  Evaluation evaluation({"a", "b"});
  const float logits[] = {-kInf, 0, -kInf, -kInf, kInf, 3};
  const std::int64_t labels[] = {1, 0, 0};
  evaluation.add(logits, labels);
  EXPECT_EQ(evaluation.accuracy(), 1);
}

TEST(Evaluation, NothingSeen) {
  const Evaluation evaluation({"a", "b"});
  EXPECT_EQ(evaluation.accuracy(), 0);
  EXPECT_TRUE(std::isnan(evaluation.top_k(5)));
  EXPECT_TRUE(std::isnan(evaluation.loss()));
  EXPECT_EQ(evaluation.accuracy_interval().low, 0);
  EXPECT_EQ(evaluation.accuracy_interval().high, 1);
  expect_scores(evaluation.average(Average::weighted), {});
  EXPECT_NE(per_class_table(evaluation).find("(no samples)"), std::string::npos);
  EXPECT_FALSE(confusion_chart(evaluation, Cells::shares).png().empty());
}

/// Logits of two classes whose larger softmax is `confidence`, for the class `answer`.
std::vector<float> sure_of(double confidence, int answer) {
  const auto gap = static_cast<float>(std::log(confidence / (1 - confidence)));
  return answer == 0 ? std::vector<float>{gap, 0} : std::vector<float>{0, gap};
}

TEST(Reject, KeepsTheAskedShareOfTheCorrectAnswers) {
  Evaluation evaluation({"a", "b"});
  const auto add = [&](Evaluation& to, double confidence, bool right) {
    const std::int64_t label[] = {right ? 0 : 1};
    to.add(sure_of(confidence, 0), label);
  };
  for (int i = 0; i < 10; ++i) add(evaluation, 0.90005 + 0.01 * i, true);  // 0.90005 … 0.99005
  for (const double wrong : {0.6, 0.7, 0.8, 0.95}) add(evaluation, wrong, false);
  EXPECT_EQ(evaluation.reject_threshold(1), 0.9);  // in steps of 0.0001
  EXPECT_EQ(evaluation.reject_threshold(0.95), 0.9);
  EXPECT_EQ(evaluation.reject_threshold(0.9), 0.91);
  EXPECT_EQ(evaluation.reject_threshold(0.5), 0.95);
  EXPECT_EQ(evaluation.reject_threshold(0), 0.99);
  EXPECT_DOUBLE_EQ(evaluation.kept(0.9).coverage, 11. / 14);
  EXPECT_DOUBLE_EQ(evaluation.kept(0.9).accuracy, 10. / 11);
  EXPECT_DOUBLE_EQ(evaluation.kept(0.945).coverage, 6. / 14);
  EXPECT_DOUBLE_EQ(evaluation.kept(0).accuracy, evaluation.accuracy());
  EXPECT_EQ(evaluation.kept(0).coverage, 1);
  EXPECT_EQ(evaluation.kept(1).coverage, 0);
  EXPECT_EQ(evaluation.kept(1).accuracy, 0);
  EXPECT_THROW(evaluation.reject_threshold(1.1), Error);

  Evaluation wrong({"a", "b"});
  add(wrong, 0.7, false);
  EXPECT_TRUE(std::isnan(wrong.reject_threshold(0.95)));
  wrong.merge(evaluation);
  EXPECT_EQ(wrong.reject_threshold(0.5), 0.95);
  EXPECT_DOUBLE_EQ(wrong.kept(0.9).coverage, 11. / 15);
}

// Three classes: distinct logits, ties, and one that no sample has.
MultiLabelEvaluation multi_label_example() {
  MultiLabelEvaluation evaluation({"a", "b", "c"});
  const float logits[] = {0, 1, -1, 3, 1, -2, 2, 0, 1, 1, -1, -3};
  const float targets[] = {0, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0};
  evaluation.add(std::span(logits).first(6), std::span(targets).first(6));
  evaluation.add(std::span(logits).subspan(6), std::span(targets).subspan(6));
  return evaluation;
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

TEST(MultiLabel, AveragePrecisionByHand) {
  const MultiLabelEvaluation evaluation = multi_label_example();
  const std::vector<double> precisions = evaluation.areas().average_precision;
  // a: yes at ranks 1 and 3: (1/1 + 2/3) / 2. b: a tie of a yes and a no, then a yes: (1/2 + 2/3) / 2.
  EXPECT_DOUBLE_EQ(precisions[0], 5. / 6);
  EXPECT_DOUBLE_EQ(precisions[1], 7. / 12);
  EXPECT_TRUE(std::isnan(precisions[2]));
  EXPECT_DOUBLE_EQ(evaluation.mean_average_precision(), 17. / 24);
  EXPECT_EQ(evaluation.samples(), 4);
}

TEST(MultiLabel, ScoresAtAHalf) {
  const MultiLabelEvaluation evaluation = multi_label_example();
  // Said at 0 and above: a of all four, b of the first three, c of the third.
  const auto scores = evaluation.per_class();
  expect_scores(scores[0], {0.5, 1, 2. / 3, 2});
  expect_scores(scores[1], {2. / 3, 1, 0.8, 2});
  expect_scores(scores[2], {0, 0, 0, 0});
  expect_scores(evaluation.average(Average::macro), {7. / 18, 2. / 3, 22. / 45, 4});
  expect_scores(evaluation.average(Average::micro), {0.5, 1, 2. / 3, 4});
  expect_scores(evaluation.average(Average::weighted), {7. / 12, 1, 11. / 15, 4});
  EXPECT_EQ(evaluation.exact_match(), 0.25);  // the last
}

TEST(MultiLabel, ThresholdsOfTheBestF1) {
  MultiLabelEvaluation evaluation = multi_label_example();
  evaluation.fit_thresholds();
  // a: F1 is 2/3, 1/2, 4/5, 2/3 for the first 1, 2, 3, 4 of 3, 2, 1, 0. b: 1/2 of the tie, then 4/5, 2/3.
  EXPECT_DOUBLE_EQ(evaluation.thresholds()[0], (sigmoid_of(1) + sigmoid_of(0)) / 2);
  EXPECT_DOUBLE_EQ(evaluation.thresholds()[1], (sigmoid_of(0) + sigmoid_of(-1)) / 2);
  EXPECT_EQ(evaluation.thresholds()[2], 0.5);
  EXPECT_DOUBLE_EQ(evaluation.per_class()[0].f1, 0.8);
  EXPECT_DOUBLE_EQ(evaluation.per_class()[1].f1, 0.8);
  evaluation.set_thresholds({0.9, 0.7, 0.99});
  EXPECT_DOUBLE_EQ(evaluation.per_class()[0].recall, 0.5);
  EXPECT_EQ(evaluation.exact_match(), 0.25);  // the first
  EXPECT_THROW(evaluation.set_thresholds({0.5}), Error);

  MultiLabelEvaluation even({"a"});
  const float logits[] = {8, 1, -1, -8}, targets[] = {1, 0, 1, 0};
  even.add(logits, targets);  // F1 is 2/3, 1/2, 4/5, 2/3
  even.fit_thresholds();
  EXPECT_DOUBLE_EQ(even.thresholds()[0], (sigmoid_of(-1) + sigmoid_of(-8)) / 2);
  // Of yes, no, no, yes the first alone and all have an F1 of 2/3: the threshold nearest to a half is taken.
  for (const bool high : {false, true}) {
    MultiLabelEvaluation ties({"a"});
    const float low_logits[] = {3, 2, -1, -4}, high_logits[] = {6, 5, 1, 0.5}, truths[] = {1, 0, 0, 1};
    ties.add(high ? high_logits : low_logits, truths);
    ties.fit_thresholds();
    EXPECT_DOUBLE_EQ(ties.thresholds()[0], high ? sigmoid_of(0.5) / 2 : (sigmoid_of(3) + sigmoid_of(2)) / 2);
  }
}

TEST(MultiLabel, ReportsAndRefusals) {
  MultiLabelEvaluation evaluation = multi_label_example();
  const std::string csv = per_class_csv(evaluation);
  EXPECT_NE(csv.find("\nb,0.5,0.5833333333333333,0.6666666666666666,1,0.8,2\nc,0.5,,0,0,0,0\n"), std::string::npos)
      << csv;
  const std::string table = per_class_table(evaluation);
  EXPECT_NE(table.find("micro average"), std::string::npos);
  EXPECT_NE(table.find("of 25.00 % of 4 samples, mAP 70.83 %"), std::string::npos) << table;
  const fs::path folder = scratch("multi_label");
  write_report(evaluation, folder);
  EXPECT_EQ(read_file(folder / "per_class.csv"), csv);
  const float logits[] = {1, 2, 3}, broken[] = {1, 2, std::nanf("")}, targets[] = {0, 1, 1};
  EXPECT_THROW(evaluation.add(logits, std::span(targets).first(2)), Error);
  EXPECT_THROW(evaluation.add(std::span(logits).first(2), std::span(targets).first(2)), Error);
  EXPECT_THROW(evaluation.add(broken, targets), Error);
  EXPECT_EQ(evaluation.samples(), 4);
  EXPECT_TRUE(std::isnan(evaluation.loss()));
  evaluation.add_loss(2, 1);
  evaluation.add_loss(0.5, 3);
  EXPECT_DOUBLE_EQ(evaluation.loss(), 0.875);
  EXPECT_THROW(MultiLabelEvaluation({}), Error);
  EXPECT_EQ(MultiLabelEvaluation({"a"}).exact_match(), 0);
  EXPECT_TRUE(std::isnan(MultiLabelEvaluation({"a"}).mean_average_precision()));
}

TEST(Evaluation, MergeIsTheSameAsOneObject) {
  const float logits[] = {0.1f, 0.9f, 0.3f, 0.5f, 0.2f, 0.7f, 0.8f, 0.1f, 0.4f};
  const std::int64_t labels[] = {1, 2, 0};
  Evaluation whole({"a", "b", "c"}), first({"a", "b", "c"}), second({"a", "b", "c"});
  whole.add(logits, labels);
  whole.add_loss(3, 3);
  first.add(std::span(logits).first(3), std::span(labels).first(1));
  first.add_loss(1, 1);
  second.add(std::span(logits).subspan(3), std::span(labels).subspan(1));
  second.add_loss(4, 2);
  first.merge(second);
  EXPECT_EQ(confusion_matrix_csv(first), confusion_matrix_csv(whole));
  EXPECT_EQ(first.samples(), 3);
  for (const int k : {1, 2, 3}) EXPECT_EQ(first.top_k(k), whole.top_k(k));
  EXPECT_DOUBLE_EQ(first.loss(), 3);  // (1 + 2 * 4) / 3
  EXPECT_THROW(first.merge(Evaluation({"a", "b", "d"})), Error);
}

TEST(Evaluation, RefusesWhatDoesNotFitAndAddsNothing) {
  Evaluation evaluation({"a", "b"});
  const float logits[] = {1, 2, 3, 4};
  const float broken[] = {1, 2, 3, std::nanf("")};
  const std::int64_t labels[] = {0, 1}, negative[] = {0, -1}, large[] = {0, 2}, one[] = {0};
  EXPECT_THROW(evaluation.add(logits, one), Error);
  EXPECT_THROW(evaluation.add(logits, negative), Error);
  EXPECT_THROW(evaluation.add(logits, large), Error);
  EXPECT_THROW(evaluation.add(broken, labels), Error);
  EXPECT_THROW(evaluation.add_predictions(large, labels), Error);
  EXPECT_THROW(evaluation.top_k(0), Error);
  EXPECT_THROW(Evaluation({"alone"}), Error);
  EXPECT_EQ(evaluation.samples(), 0);
  EXPECT_EQ(evaluation.correct(), 0);
}

TEST(Evaluation, MostConfusedFirst) {
  const auto worst = evaluation_of(kCounts).most_confused(4);
  const Confusion expected[] = {{2, 1, 5, 5.0 / 28}, {0, 3, 4, 4.0 / 20}, {1, 0, 3, 3.0 / 13}, {4, 1, 3, 3.0 / 7}};
  ASSERT_EQ(worst.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(worst[i].truth, expected[i].truth) << i;
    EXPECT_EQ(worst[i].predicted, expected[i].predicted) << i;
    EXPECT_EQ(worst[i].count, expected[i].count) << i;
    EXPECT_DOUBLE_EQ(worst[i].share, expected[i].share) << i;
  }
}

TEST(Report, Csv) {
  const Evaluation evaluation = evaluation_of({{3, 1}, {0, 2}}, {"a, \"b\"", "c"});
  EXPECT_EQ(confusion_matrix_csv(evaluation), "true\\predicted,\"a, \"\"b\"\"\",c\n\"a, \"\"b\"\"\",3,1\nc,0,2\n");
  EXPECT_EQ(per_class_csv(evaluation),
            "class,precision,recall,f1,support\n"
            "\"a, \"\"b\"\"\",1,0.75,0.8571428571428571,4\n"
            "c,0.6666666666666666,1,0.8,2\n");
  EXPECT_EQ(most_confused_csv(evaluation), "true,predicted,count,share_of_true\n\"a, \"\"b\"\"\",c,1,0.25\n");
  EXPECT_EQ(csv_field("plain"), "plain");
  EXPECT_EQ(csv_field("two\nlines"), "\"two\nlines\"");
}

TEST(Report, TableAlignsAndMarksTheWeakest) {
  const Evaluation evaluation = evaluation_of({{9, 1, 0}, {4, 6, 0}, {0, 0, 10}},
                                              {"Übergroß", "犬", "a name that is far too long for a table row"});
  EXPECT_EQ(per_class_table(evaluation),
            "class                             precision   recall       f1   support\n"
            "Übergroß                             0.6923   0.9000   0.7826        10\n"
            "犬                                   0.8571   0.6000   0.7059        10  < weakest\n"
            "a name that is far to… table row     1.0000   1.0000   1.0000        10\n"
            "-----------------------------------------------------------------------\n"
            "macro average                        0.8498   0.8333   0.8295        30\n"
            "weighted average                     0.8498   0.8333   0.8295        30\n"
            "accuracy 83.33 % (95 % interval 66.44 to 92.66 %), 25 of 30 samples\n");
  const std::string weakest = per_class_table(evaluation, 1);
  EXPECT_NE(weakest.find("犬"), std::string::npos);
  EXPECT_EQ(weakest.find("Über"), std::string::npos);
  EXPECT_NE(weakest.find("the 1 weakest of 3 classes"), std::string::npos);
}

TEST(Report, PerfectResultsMarkNothing) {
  EXPECT_EQ(per_class_table(evaluation_of({{5, 0}, {0, 5}})).find("weakest"), std::string::npos);
}

TEST(Report, WritesEveryFile) {
  const fs::path folder = scratch("report") / "below";
  const Evaluation evaluation = evaluation_of(kCounts);
  write_report(evaluation, folder);
  EXPECT_EQ(read_file(folder / "confusion_matrix.csv"), confusion_matrix_csv(evaluation));
  EXPECT_EQ(read_file(folder / "per_class.csv"), per_class_csv(evaluation));
  EXPECT_EQ(read_file(folder / "most_confused.csv"), most_confused_csv(evaluation));
  EXPECT_EQ(read_file(folder / "confusion_matrix.png"), confusion_chart(evaluation, Cells::counts).png());
  EXPECT_EQ(read_file(folder / "confusion_matrix_normalized.png"), confusion_chart(evaluation, Cells::shares).png());
}

// Width and height of a PNG, after a check of its signature.
std::pair<unsigned, unsigned> size_of(const std::string& png) {
  EXPECT_TRUE(starts_with(png, "\x89PNG\r\n\x1a\n"));
  auto number = [&](std::size_t at) {
    unsigned value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(png.at(at + i));
    return value;
  };
  return {number(16), number(20)};
}

TEST(ExactSum, NoOrderChangesABit) {
  const std::vector<double> values{1e300, 1, -1e300, 1e-300, 3.5, -2.25, 1e-308, 5e-324, -1e17, 0.1, 1e17, -0.0};
  ExactSum forwards, backwards, halves;
  for (const double value : values) forwards.add(value);
  for (std::size_t i = values.size(); i-- > 0;) backwards.add(values[i]);
  for (std::size_t i = 0; i < values.size(); i += 2) halves.add(values[i]);
  ExactSum others;
  for (std::size_t i = 1; i < values.size(); i += 2) others.add(values[i]);
  halves.merge(others);
  EXPECT_EQ(forwards.value(), 1 + 3.5 - 2.25 + 0.1);
  EXPECT_EQ(backwards.value(), forwards.value());
  EXPECT_EQ(halves.value(), forwards.value());
  ExactSum thirds;
  for (int i = 0; i < 1000; ++i) thirds.add_product(1.0 / 3, 3), thirds.add(-1);
  EXPECT_EQ(thirds.value(), 1000 * std::fma(1.0 / 3, 3.0, -1.0));
  ExactSum carried;
  carried.add(0x1p53), carried.add(1);
  EXPECT_EQ(carried.value(), 0x1p53);  // to the even one
  EXPECT_EQ(carried.rest(), 1);
  carried.add(0x1p-1000);
  EXPECT_EQ(carried.value(), 0x1p53 + 2);
  carried.add(-0x1p54);
  EXPECT_EQ(carried.value(), -0x1p53 + 1);
  ExactSum endless;
  endless.add(INFINITY);
  EXPECT_EQ(endless.value(), INFINITY);
  endless.add(-INFINITY);
  EXPECT_TRUE(std::isnan(endless.value()));
}

// scipy.stats.binomtest, and a t-table's normal interval.
TEST(Intervals, OfMeansPairsAndDraws) {
  EXPECT_NEAR(mcnemar(3, 11), 0.057373046875, 1e-12);
  EXPECT_NEAR(mcnemar(50, 20), 0.00044028500651396835, 1e-9);
  EXPECT_EQ(mcnemar(0, 0), 1);
  EXPECT_EQ(mcnemar(4, 4), 1);
  SampleMean mean;
  for (const double value : {1.0, 2.0, 4.0, 9.0}) mean.add(1e9 + value);
  EXPECT_NEAR(mean.variance(), 12.666666666666666, 1e-9);
  EXPECT_NEAR(mean.interval().high - mean.mean(), 1.959963984540054 * std::sqrt(12.666666666666666 / 4), 1e-6);
  const Evaluation many = evaluation_of({{800, 200}, {100, 900}});
  const Evaluation::Metric balanced[] = {&Evaluation::balanced_accuracy};
  const Interval drawn = many.intervals(balanced)[0], known = many.accuracy_interval();
  EXPECT_NEAR(drawn.low, known.low, 0.004);
  EXPECT_NEAR(drawn.high, known.high, 0.004);
  const Interval again = many.intervals(balanced)[0];
  EXPECT_EQ(drawn.low, again.low);
}

TEST(Calibration, FindsTheTemperatureThatWasThere) {
  Random random(5);
  Predictions sure({"a", "b", "c"});
  for (int i = 0; i < 20000; ++i) {
    std::vector<float> logits(3);
    for (float& logit : logits) logit = static_cast<float>(random.normal());
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit);
    double left = random.uniform() * sum;  // labels as likely as the logits say
    std::int64_t label = 0;
    while (label < 2 && (left -= std::exp(logits[static_cast<std::size_t>(label)])) > 0) ++label;
    for (float& logit : logits) logit *= 2.5f;
    sure.add_logits(i, text(i), logits, label);
  }
  const double temperature = fitted_temperature(sure);
  EXPECT_NEAR(temperature, 2.5, 0.1);
  const Predictions honest = tempered(sure, temperature);
  EXPECT_LT(honest.probabilities().calibration_error().mean(), 0.015);
  EXPECT_GT(sure.probabilities().calibration_error().mean(), 0.1);
  EXPECT_NEAR(fitted_temperature(honest), 1, 1e-4);
  EXPECT_THROW(fitted_temperature(Predictions({"a", "b"})), Error);
}

TEST(Predictions, NaNNamesTheSample) {
  Predictions predictions({"a", "b"});
  const std::vector<float> logits{1, NAN};
  EXPECT_NE(error_of([&] { predictions.add_logits(7, "cat.png", logits, 0); }, Fault::failure).find("cat.png: "),
            std::string::npos);
  EXPECT_TRUE(predictions.samples().empty());
}

TEST(Clusters, ClassesThatAreConfusedStandSideBySide) {
  Evaluation evaluation(std::vector<std::string>(120, "c"));
  std::vector<std::int64_t> labels, predicted;
  for (std::int64_t i = 0; i < 60; ++i)  // i and i + 60 are confused
    for (int count = 0; count <= i % 7; ++count) labels.push_back(i), predicted.push_back(i + 60);
  evaluation.add_predictions(predicted, labels);
  const std::vector<int> order = clustered_order(evaluation);
  EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), 120u);
  for (std::size_t i = 0; i + 1 < order.size(); i += 2) EXPECT_EQ(std::abs(order[i] - order[i + 1]), 60);
}

TEST(HtmlPage, WordsAreNoTags) {
  HtmlPage page("<script>", "a & b");
  page.section("\"x\" 'y'");
  page.table("<td>", {"<i>"}, {{"</table>"}}, 0);
  page.image("image/png", "bytes", "\"><script>");
  const std::string html = page.html();
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(html.find("<i>"), std::string::npos);
  EXPECT_NE(html.find("&lt;/table&gt;"), std::string::npos);
  EXPECT_NE(html.find("a &amp; b"), std::string::npos);
}

TEST(Projection, ClustersStayApart) {
  Random random(2);
  std::vector<float> points;
  for (int i = 0; i < 90; ++i)
    for (int d = 0; d < 8; ++d) points.push_back(static_cast<float>(random.normal() + (d == i % 3 ? 12 : 0)));
  for (const std::vector<Point>& places : {principal_components(points, 8), tsne(points, 8)}) {
    ASSERT_EQ(places.size(), 90u);
    int near = 0;
    for (std::size_t i = 0; i < 90; ++i) {
      std::size_t best = i == 0 ? 1 : 0;
      const auto distance = [&](std::size_t j) {
        return std::hypot(places[i].x - places[j].x, places[i].y - places[j].y);
      };
      for (std::size_t j = 0; j < 90; ++j)
        if (j != i && distance(j) < distance(best)) best = j;
      near += best % 3 == i % 3;
    }
    EXPECT_GE(near, 88);
  }
}

TEST(Image, ConfusionMatrixFromTwoToManyClasses) {
  for (const int classes : {2, 3, 45, 101, 1003}) {
    std::vector<std::string> names;
    for (int c = 0; c < classes; ++c) names.push_back(text(c, " ", std::string(c % 7 == 0 ? 300 : 3, 'n')));
    Evaluation evaluation(names);
    std::vector<std::int64_t> labels, predicted;
    for (int i = 0; i < 2 * classes; ++i) labels.push_back(i % classes), predicted.push_back((i + i % 3) % classes);
    evaluation.add_predictions(predicted, labels);
    for (const Cells cells : {Cells::counts, Cells::shares}) {
      const auto [width, height] = size_of(confusion_chart(evaluation, cells).png());
      EXPECT_GE(width, 400u);
      EXPECT_GE(height, 200u);
      EXPECT_LE(width, 3000u);  // long names are shortened
      EXPECT_LE(height, 3000u);
    }
  }
}

TEST(Image, NamesOfAnyBytes) {
  const Evaluation evaluation = evaluation_of({{1, 2}, {0, 4}}, {"\xFF\xFE broken \xC3", std::string("nul\0here", 8)});
  EXPECT_GT(size_of(confusion_chart(evaluation, Cells::counts).png()).first, 0u);
}

// The name of the first one is a letter of no font.
TEST(Image, NumbersStandForNamesThatCannotBeDrawn) {
  const std::vector<std::string> names{"\U0010FFFD", "cat", "\u0642\u0628\u0639\u0629", "\u05DB\u05DC\u05D1", "hat"};
  const std::vector<std::string> numbers{"#0", "cat", "#2", "#3", "hat"};
  EXPECT_EQ(drawn_names(names), numbers);
  expect_words(drawn_names_note(names).value_or(""),
               {"3 class names that the font cannot draw", "#0 for \U0010FFFD", "per_class.csv"});
  EXPECT_FALSE(drawn_names_note(numbers));
  const Counts counts(5, {1, 2, 3, 4, 5});
  for (const Cells cells : {Cells::counts, Cells::shares})
    EXPECT_EQ(confusion_chart(evaluation_of(counts, names), cells).png(),
              confusion_chart(evaluation_of(counts, numbers), cells).png());
  const std::vector<ClassCounts> splits{{"train", {1, 2, 3, 4, 5}}};
  EXPECT_EQ(class_counts_image("photos", names, splits), class_counts_image("photos", numbers, splits));
}

TEST(Letters, ElideInTheMiddle) {
  const auto count = [](std::string_view part) { return letters_of(part).size(); };
  EXPECT_EQ(elided("short", std::size_t{5}, count), "short");
  EXPECT_EQ(elided("abcdefghij", std::size_t{7}, count), "abcd…ij");
  EXPECT_EQ(elided("äöüäöüäöüä", std::size_t{4}, count), "äö…ä");
}

TEST(Letters, Utf8) {
  EXPECT_EQ(utf8(letters_of("aä犬😀")), "aä犬😀");
  EXPECT_EQ(utf8(letters_of("a\xC3")), "a\uFFFD");                    // cut off
  EXPECT_EQ(utf8(letters_of("\xC0\xAF")), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(utf8(letters_of("\xED\xA0\x80")), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(utf8(letters_of("\n")), "\uFFFD");
  EXPECT_EQ(columns_of("aä犬"), 4u);
}

}  // namespace
}  // namespace neurim
