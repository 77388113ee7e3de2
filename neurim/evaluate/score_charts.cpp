#include "neurim/evaluate/score_charts.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "neurim/base/text.h"
#include "neurim/evaluate/drawn_names.h"

namespace neurim {

namespace {

constexpr Color kScoreInk{0.16, 0.18, 0.22}, kScoreMuted{0.45, 0.48, 0.53}, kScoreGrid{0.91, 0.92, 0.93};
// Told apart with any colour vision (Okabe and Ito, "Color Universal Design", 2008).
constexpr Color kScoreColors[] = {{0.00, 0.45, 0.70}, {0.84, 0.37, 0.00}, {0.00, 0.62, 0.45},
                                  {0.80, 0.47, 0.65}, {0.34, 0.71, 0.91}, {0.90, 0.62, 0.00}};
constexpr int kMostCurves = static_cast<int>(std::size(kScoreColors));

/// A square from 0 to 1 in both directions, with room for a legend on its right.
class UnitSquare {
 public:
  static constexpr double kLeft = 70, kAbove = Canvas::kHeading + 16, kSide = 400, kLegend = 250, kBelow = 60;

  UnitSquare(const std::string& title, const std::string& details, const std::string& across, const std::string& up)
      : canvas_(static_cast<int>(kLeft + kSide + kLegend), static_cast<int>(kAbove + kSide + kBelow), 2) {
    canvas_.heading({title, details}, kLeft + kSide + kLegend);
    for (int tenths = 0; tenths <= 10; tenths += 2) {
      const double share = tenths / 10.0;
      canvas_.line(at(0, share), at(1, share), kScoreGrid);
      canvas_.line(at(share, 0), at(share, 1), kScoreGrid);
      canvas_.letters({kLeft - 8, at(0, share).y}, fixed(share, 1), {.color = kScoreMuted, .across = Align::end});
      canvas_.letters({at(share, 0).x, at(0, 0).y + 14}, fixed(share, 1),
                      {.color = kScoreMuted, .across = Align::middle});
    }
    canvas_.letters({kLeft + kSide / 2, at(0, 0).y + 38}, across,
                    {.size = 13, .color = kScoreMuted, .across = Align::middle});
    canvas_.letters({22, kAbove + kSide / 2}, up,
                    {.size = 13, .color = kScoreMuted, .across = Align::middle, .upwards = true});
  }

  Point at(double x, double y) const { return {kLeft + x * kSide, kAbove + (1 - y) * kSide}; }

  /// The curve through points of the square, less those that are within half a unit of the one before.
  void curve(const std::vector<Point>& points, const Color& color) {
    std::vector<Point> drawn;
    for (std::size_t i = 0; i < points.size(); ++i) {
      const Point one = at(points[i].x, points[i].y);
      const bool near = !drawn.empty() && std::hypot(one.x - drawn.back().x, one.y - drawn.back().y) < 0.5;
      if (!near || i + 1 == points.size()) drawn.push_back(one);
    }
    canvas_.polyline(drawn, color, 2);
  }

  void legend(const std::string& words, const Color& color) {
    const double x = kLeft + kSide + 20;
    canvas_.line({x, legend_}, {x + 16, legend_}, color, 3);
    canvas_.letters({x + 22, legend_}, canvas_.fitted(words, kLegend - 50, 11), {.color = kScoreInk});
    legend_ += 18;
  }

  void note(const std::string& words) {
    canvas_.letters({kLeft + kSide + 20, legend_ + 6}, words, {.color = kScoreMuted});
    legend_ += 18;
  }

  Canvas& canvas() { return canvas_; }

 private:
  Canvas canvas_;
  double legend_ = kAbove + 8;
};

/// The classes whose curves are drawn: the weakest by this metric, which is NaN where there is no curve.
std::vector<int> drawn_classes(const std::vector<double>& metric, int first) {
  std::vector<int> out;
  for (int c = first; c < static_cast<int>(metric.size()); ++c)
    if (!std::isnan(metric[static_cast<std::size_t>(c)])) out.push_back(c);
  if (std::ssize(out) <= kMostCurves) return out;
  std::stable_sort(out.begin(), out.end(), [&](int a, int b) {
    return metric[static_cast<std::size_t>(a)] < metric[static_cast<std::size_t>(b)];
  });
  out.resize(kMostCurves);
  return out;
}

/// Draws curves of classes. `points` gives that of a class, in the square.
void draw_curves(UnitSquare& square, const std::vector<std::string>& class_names, const std::vector<double>& metric,
                 const char* of, int first, const std::function<std::vector<Point>(int)>& points) {
  const std::vector<std::string> names = drawn_names(class_names);
  const std::vector<int> drawn = drawn_classes(metric, first);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const auto c = static_cast<std::size_t>(drawn[i]);
    square.curve(points(drawn[i]), kScoreColors[i]);
    square.legend(text(names[c], "  ", fixed(metric[c], 4)), kScoreColors[i]);
  }
  const auto known = std::count_if(metric.begin(), metric.end(), [](double value) { return !std::isnan(value); });
  if (first == 0 && known > std::ssize(drawn))
    square.note(text("the ", drawn.size(), " of least ", of, " of ", known, " classes"));
  if (drawn.empty()) square.note("no class has samples and others have, too");
}

std::string share_text(double share) { return std::isnan(share) ? "none" : fixed(share, 4); }

const char* mean_of(const ClassCurves& curves) { return curves.areas.first == 0 ? "mean " : ""; }

}  // namespace

Canvas roc_chart(const ClassCurves& curves, const std::string& what) {
  UnitSquare square("ROC curve",
                    text(what, ", ", mean_of(curves), "area ", share_text(curves.areas.mean_roc_auc.value)),
                    "false positive rate", "true positive rate");
  square.canvas().line(square.at(0, 0), square.at(1, 1), mix(kScoreMuted, {1, 1, 1}, 0.5));
  draw_curves(square, curves.class_names, curves.areas.roc_auc, "area", curves.areas.first, [&](int c) {
    std::vector<Point> points;
    const std::vector<CurvePoint> curve = curves.of(c);
    for (const CurvePoint& one : curve)
      points.push_back({static_cast<double>(one.false_positives) / static_cast<double>(curve.back().false_positives),
                        static_cast<double>(one.true_positives) / static_cast<double>(curve.back().true_positives)});
    return points;
  });
  return std::move(square.canvas());
}

Canvas precision_recall_chart(const ClassCurves& curves, const std::string& what) {
  UnitSquare square(
      "Precision and recall",
      text(what, ", ", mean_of(curves), "average precision ", share_text(curves.areas.mean_average_precision.value)),
      "recall", "precision");
  draw_curves(square, curves.class_names, curves.areas.average_precision, "average precision", curves.areas.first,
              [&](int c) {
                std::vector<Point> points;
                const std::vector<CurvePoint> curve = curves.of(c);
                for (std::size_t i = 1; i < curve.size(); ++i)
                  points.push_back(
                      {static_cast<double>(curve[i].true_positives) / static_cast<double>(curve.back().true_positives),
                       static_cast<double>(curve[i].true_positives) /
                           static_cast<double>(curve[i].true_positives + curve[i].false_positives)});
                points.insert(points.begin(), {0, points.front().y});
                return points;
              });
  return std::move(square.canvas());
}

Canvas reliability_chart(const Probabilities& p, const std::string& what) {
  UnitSquare square("Reliability",
                    text(what, ", expected calibration error ", share_text(p.calibration_error().mean())), "confidence",
                    "accuracy");
  constexpr int kBins = 10;
  const std::vector<ReliabilityBin> bins = p.reliability(kBins);
  std::int64_t most = 1;
  for (const ReliabilityBin& bin : bins) most = std::max(most, bin.samples);
  for (int i = 0; i <= kBins; ++i) {
    const ReliabilityBin& bin = bins[static_cast<std::size_t>(i)];
    if (bin.samples == 0) continue;
    // Those of confidence 1 are at the end.
    const double left = i == kBins ? 0.985 : i / static_cast<double>(kBins),
                 width = (i == kBins ? 0.015 : 1.0 / kBins) * UnitSquare::kSide;
    const Point top = square.at(left, bin.accuracy);
    square.canvas().rectangle(top.x + 1, top.y, width - 2, bin.accuracy * UnitSquare::kSide, kScoreColors[4]);
    const double height = 60.0 * static_cast<double>(bin.samples) / static_cast<double>(most);
    square.canvas().rectangle(top.x + width / 4, square.at(0, 0).y - height, width / 2, height,
                              {0.3, 0.32, 0.36, 0.55});
  }
  square.canvas().line(square.at(0, 0), square.at(1, 1), kScoreMuted, 1.5);
  for (const ReliabilityBin& bin : bins)
    if (bin.samples > 0) square.canvas().disc(square.at(bin.confidence, bin.accuracy), 4, kScoreColors[1]);
  square.legend("accuracy of the answers", kScoreColors[4]);
  square.legend("at their mean confidence", kScoreColors[1]);
  square.legend(text("samples, ", thousands(most), " at most"), {0.3, 0.32, 0.36, 0.55});
  square.legend("honest confidence", kScoreMuted);
  return std::move(square.canvas());
}

Canvas class_scores_chart(const std::vector<ClassScores>& scores, const std::vector<std::string>& class_names,
                          const std::string& what) {
  constexpr std::size_t kMost = 40;
  constexpr double kRow = 30, kName = 180, kBar = 420, kAbove = Canvas::kHeading + 34;
  const std::vector<std::string> names = drawn_names(class_names);
  std::vector<std::size_t> order;
  for (std::size_t c = 0; c < scores.size(); ++c)
    if (scores[c].support > 0) order.push_back(c);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return scores[a].f1 < scores[b].f1; });
  const std::size_t all = order.size();
  order.resize(std::min(kMost, all));
  const double left = kName + 30, width = left + kBar + 140;
  Canvas canvas(static_cast<int>(width), static_cast<int>(kAbove + kRow * static_cast<double>(order.size()) + 40), 2);
  canvas.heading(
      {all > kMost ? text("The ", kMost, " weakest of ", all, " classes") : "Classes, the weakest first", what}, width);
  constexpr const char* kNames[] = {"precision", "recall", "F1"};
  for (int i = 0; i < 3; ++i) {
    canvas.rectangle(left + i * 100, kAbove - 26, 12, 10, kScoreColors[i]);
    canvas.letters({left + i * 100 + 17, kAbove - 21}, kNames[i], {.color = kScoreInk});
  }
  const double end = kAbove + kRow * static_cast<double>(order.size());
  for (int fifths = 0; fifths <= 5; ++fifths) {
    const double x = left + kBar * fifths / 5;
    canvas.line({x, kAbove - 4}, {x, end}, kScoreGrid);
    canvas.letters({x, end + 14}, fixed(fifths / 5.0, 1), {.color = kScoreMuted, .across = Align::middle});
  }
  for (std::size_t row = 0; row < order.size(); ++row) {
    const ClassScores& one = scores[order[row]];
    const double y = kAbove + kRow * static_cast<double>(row);
    canvas.letters({left - 8, y + kRow / 2 - 2}, canvas.fitted(names[order[row]], kName, 11),
                   {.color = kScoreInk, .across = Align::end});
    const double values[] = {one.precision, one.recall, one.f1};
    for (int i = 0; i < 3; ++i)
      canvas.rectangle(left, y + 2 + i * 8, std::max(1.0, kBar * values[i]), 7, kScoreColors[i]);
    canvas.letters({left + kBar + 10, y + kRow / 2 - 2}, text(fixed(one.f1, 3), "  n ", thousands(one.support)),
                   {.color = kScoreMuted});
  }
  return canvas;
}

Canvas predicted_over_true(const RegressionEvaluation& evaluation, std::size_t target, const std::string& what) {
  constexpr double kLeft = 90, kAbove = Canvas::kHeading + 16, kSide = 440, kRight = 30, kBelow = 60;
  constexpr Color kDot{0.00, 0.45, 0.70, 0.5};
  Canvas canvas(static_cast<int>(kLeft + kSide + kRight), static_cast<int>(kAbove + kSide + kBelow), 2);
  const std::string name = canvas.fitted(evaluation.names()[target], 300, 13);
  canvas.heading({text(name, ", predicted over true"), what}, kLeft + kSide + kRight);
  double low = 0, high = 1;
  for (std::int64_t i = 0; i < evaluation.samples(); ++i) {
    const double is = evaluation.truth(i, target), says = evaluation.predicted(i, target);
    if (i == 0) low = high = is;
    low = std::min({low, is, says}), high = std::max({high, is, says});
  }
  const double step = axis_step(std::max((high - low) / 5, std::max({std::abs(low), std::abs(high), 1e-30}) * 1e-6));
  low = std::floor(low / step) * step, high = std::max(low + step, std::ceil(high / step) * step);
  const auto at = [&](double truth, double predicted) {
    return Point{kLeft + (truth - low) / (high - low) * kSide, kAbove + (high - predicted) / (high - low) * kSide};
  };
  const auto marks = static_cast<int>(std::lround((high - low) / step));
  for (int mark = 0; mark <= marks; ++mark) {
    const double value = low + mark * step;
    const std::string words = significant(std::abs(value) < step * 1e-6 ? 0 : value);
    canvas.line(at(low, value), at(high, value), kScoreGrid);
    canvas.line(at(value, low), at(value, high), kScoreGrid);
    canvas.letters({kLeft - 8, at(low, value).y}, words, {.color = kScoreMuted, .across = Align::end});
    canvas.letters({at(value, low).x, kAbove + kSide + 14}, words, {.color = kScoreMuted, .across = Align::middle});
  }
  canvas.line(at(low, low), at(high, high), kScoreMuted, 1.5);
  for (std::int64_t i = 0; i < evaluation.samples(); ++i)
    canvas.disc(at(evaluation.truth(i, target), evaluation.predicted(i, target)), 2.5, kDot);
  canvas.letters({kLeft + kSide / 2, kAbove + kSide + 38}, "true",
                 {.size = 13, .color = kScoreMuted, .across = Align::middle});
  canvas.letters({22, kAbove + kSide / 2}, "predicted",
                 {.size = 13, .color = kScoreMuted, .across = Align::middle, .upwards = true});
  return canvas;
}

}  // namespace neurim
