#include "neurim/evaluate/curves.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "neurim/base/text.h"

namespace neurim {

namespace {

constexpr Color kInk{0.16, 0.18, 0.22}, kMuted{0.45, 0.48, 0.53}, kGrid{0.91, 0.92, 0.93};
constexpr Color kLines[] = {{0.12, 0.40, 0.70}, {0.90, 0.45, 0.10}, {0.17, 0.55, 0.35}, {0.55, 0.30, 0.65}};
constexpr double kWidth = 400, kHeight = 300, kLeft = 62, kRight = 22, kBelow = 54;  // of the axes, and around them
constexpr double kTitle = Canvas::kHeading + 14, kLegend = kTitle + 22, kLegendLine = 15,
                 kAbove = kLegend + kLegendLine + 22;

// An axis from `low` to `high` with a mark at every multiple of `step`.
struct Axis {
  double low, high, step;

  // What values need, widened to whole steps.
  static Axis around(double least, double greatest) {
    if (!(greatest > least)) {
      const double around = least == 0 ? 1 : std::abs(least) / 10;
      least -= around, greatest += around;
    }
    const double step = axis_step((greatest - least) / 6);
    return {std::floor(least / step) * step, std::ceil(greatest / step) * step, step};
  }
  double share(double value) const { return (value - low) / (high - low); }
  std::string label(double value, bool percent) const {
    value = std::round(value / step) * step + 0.0;  // no "-0.0"
    const double largest = std::max(std::abs(low), std::abs(high));
    if (!percent && (largest < 1e-3 || largest >= 1e9)) return significant(value);
    const double unit = percent ? 100 * step : step;
    const int decimals = std::max(0, static_cast<int>(std::ceil(-std::log10(unit) - 1e-9)));
    return fixed(percent ? 100 * value : value, decimals) + (percent ? " %" : "");
  }
};

// The point a curve is praised for, or its size where it has none.
std::size_t best_of(const Curve& curve) {
  std::size_t best = curve.values.size();
  if (curve.best == Best::none) return best;
  for (std::size_t i = 0; i < curve.values.size(); ++i) {
    const double value = curve.values[i];
    if (!std::isfinite(value)) continue;
    if (best == curve.values.size() ||
        (curve.best == Best::lowest ? value < curve.values[best] : value > curve.values[best]))
      best = i;
  }
  return best;
}

class PanelPlot {
 public:
  PanelPlot(Canvas& canvas, const Panel& panel, double offset, std::int64_t first_epoch)
      : canvas_(canvas), panel_(panel), left_(offset + kLeft), first_epoch_(first_epoch) {
    std::vector<double> values;
    std::size_t epochs = 1;
    for (const Curve& curve : panel.curves) {
      epochs = std::max(epochs, curve.values.size());
      std::copy_if(curve.values.begin(), curve.values.end(), std::back_inserter(values),
                   [](double v) { return std::isfinite(v); });
    }
    if (values.empty()) values = {0, 1};
    const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
    values_ = Axis::around(*least, panel.clipped ? axis_top(values) : *greatest);
    if (panel.percent) values_.low = std::max(values_.low, 0.0), values_.high = std::min(values_.high, 1.0);
    const double first = static_cast<double>(first_epoch), last = first + static_cast<double>(epochs) - 1;
    const double around = epochs == 1 ? 0.5 : 0;  // a single epoch stands in the middle
    epochs_ = {first - around, last + around, axis_step(std::max(1.0, static_cast<double>(epochs) / 8))};
  }

  void draw() {
    canvas_.letters({left_, kTitle}, panel_.title, {.size = 15, .color = kInk, .bold = true});
    draw_grid();
    Point legend{left_, kLegend};
    for (std::size_t i = 0; i < panel_.curves.size(); ++i) {
      const auto& values = panel_.curves[i].values;
      if (std::all_of(values.begin(), values.end(), [](double v) { return std::isnan(v); })) continue;
      const Color& color = kLines[i % std::size(kLines)];
      draw_curve(panel_.curves[i], color);
      draw_legend(panel_.curves[i], color, legend);
    }
    draw_beyond();
  }

 private:
  Point at(double epoch, double value) const {
    return {left_ + epochs_.share(epoch) * kWidth, kAbove + kHeight * (1 - values_.share(value))};
  }

  void draw_grid() {
    for (double mark = values_.low; mark <= values_.high + values_.step / 2; mark += values_.step) {
      const double y = at(epochs_.low, mark).y;
      canvas_.line({left_, y}, {left_ + kWidth, y}, kGrid);
      canvas_.letters({left_ - 8, y}, values_.label(mark, panel_.percent),
                      {.size = 11, .color = kMuted, .across = Align::end});
    }
    for (double mark = std::ceil(epochs_.low / epochs_.step) * epochs_.step; mark <= epochs_.high;
         mark += epochs_.step) {
      const double x = at(mark, values_.low).x;
      canvas_.line({x, kAbove + kHeight}, {x, kAbove + kHeight + 4}, kMuted);
      canvas_.letters({x, kAbove + kHeight + 14}, fixed(mark, 0),
                      {.size = 11, .color = kMuted, .across = Align::middle});
    }
    canvas_.line({left_, kAbove + kHeight}, {left_ + kWidth, kAbove + kHeight}, kMuted);
    canvas_.letters({left_ + kWidth / 2, kAbove + kHeight + 36}, "epoch",
                    {.size = 12, .color = kMuted, .across = Align::middle});
  }

  void draw_curve(const Curve& curve, const Color& color) {
    std::vector<Point> run;  // points without a gap between them
    auto end_run = [&] {
      if (run.size() == 1) canvas_.disc(run[0], 2.5, color);
      if (run.size() > 1) canvas_.polyline(run, color, 2);
      run.clear();
    };
    // Where the line between the values of two epochs, of which the second is beyond the axis, leaves it. From there a
    // faint one leads to the second's triangle.
    const auto leave = [&](std::size_t inside, std::size_t outside) {
      const double from = curve.values[inside], share = (values_.high - from) / (curve.values[outside] - from);
      run.push_back(at(std::lerp(epoch(inside), epoch(outside), share), values_.high));
      canvas_.line(run.back(), at(epoch(outside), values_.high), mix(color, {1, 1, 1}, 0.6));
    };
    for (std::size_t i = 0; i < curve.values.size(); ++i) {
      const double value = curve.values[i], before = i > 0 ? curve.values[i - 1] : std::nan("");
      if (is_beyond(value) && is_inside(before)) leave(i - 1, i);
      if (is_inside(value) && is_beyond(before)) leave(i, i - 1);
      if (is_inside(value))
        run.push_back(at(epoch(i), value));
      else
        end_run();
      if (is_beyond(value)) beyond_.push_back({at(epoch(i), values_.high).x, value, color});
    }
    end_run();
    if (const std::size_t best = best_of(curve); best < curve.values.size()) {
      canvas_.disc(at(epoch(best), curve.values[best]), 5.5, {1, 1, 1});
      canvas_.disc(at(epoch(best), curve.values[best]), 4, color);
    }
  }

  // Triangles at the upper end of the axes, with values above them as far as there is room.
  void draw_beyond() {
    std::stable_sort(beyond_.begin(), beyond_.end(), [](const Beyond& a, const Beyond& b) { return a.x < b.x; });
    constexpr double kLetters = 11, kSpace = 8, kFarthest = 60;
    double free = left_ - 4;
    for (const Beyond& one : beyond_) {
      canvas_.triangle({one.x, kAbove - 1}, 9, one.color);
      const std::string words = significant(one.value);
      const double width = canvas_.width_of(words, kLetters);
      const double x = std::max(free, std::min(one.x - width / 2, left_ + kWidth + kRight - 4 - width));
      if (x > one.x + kFarthest || x + width > left_ + kWidth + kRight) continue;
      canvas_.letters({x, kAbove - 10}, words, {.size = kLetters, .color = one.color});
      free = x + width + kSpace;
    }
  }

  // At `at`, or on the next line where it is too long for this one; `at` moves after it.
  void draw_legend(const Curve& curve, const Color& color, Point& at) {
    std::string words = curve.name;
    if (const std::size_t best = best_of(curve); best < curve.values.size())
      words += text(" (best ",
                    panel_.percent ? fixed(100 * curve.values[best], 2) + " %" : fixed(curve.values[best], 4),
                    ", epoch ", first_epoch_ + static_cast<std::int64_t>(best), ")");
    const double width = 21 + canvas_.width_of(words, 11);
    if (at.x > left_ && at.x + width > left_ + kWidth + kRight) at = {left_, at.y + kLegendLine};
    canvas_.line(at, {at.x + 16, at.y}, color, 3);
    canvas_.letters({at.x + 21, at.y}, words, {.size = 11, .color = kInk});
    at.x += width + 16;
  }

  double epoch(std::size_t i) const { return static_cast<double>(first_epoch_ + static_cast<std::int64_t>(i)); }

  // A value on an upper end that is a multiple of the step may be rounded to more.
  bool is_beyond(double value) const { return value > values_.high + 1e-9 * values_.step; }
  bool is_inside(double value) const { return std::isfinite(value) && !is_beyond(value); }

  // A value above the axes.
  struct Beyond {
    double x, value;
    Color color;
  };

  Canvas& canvas_;
  const Panel& panel_;
  double left_;
  std::int64_t first_epoch_;
  Axis values_{}, epochs_{};
  std::vector<Beyond> beyond_;
};

}  // namespace

double axis_top(std::vector<double> values) {
  constexpr double kLeastShare = 0.2;
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  if (values.empty()) return 1;
  std::sort(values.begin(), values.end());
  const std::size_t outliers = std::max<std::size_t>(values.size() / 10, values.size() >= 4 ? 1 : 0);
  double top = values.back();
  for (std::size_t left_out = 1; left_out <= outliers; ++left_out)
    if (const double rest = values[values.size() - 1 - left_out]; rest - values[0] < kLeastShare * (top - values[0]))
      top = rest;
  return top;
}

std::string curves_image(const Heading& heading, const std::vector<Panel>& panels, std::int64_t first_epoch) {
  constexpr double kPanel = kLeft + kWidth + kRight;
  const double width = kPanel * static_cast<double>(panels.size());
  Canvas canvas(static_cast<int>(width), static_cast<int>(kAbove + kHeight + kBelow), 2);
  canvas.heading(heading, width);
  for (std::size_t i = 0; i < panels.size(); ++i)
    PanelPlot(canvas, panels[i], static_cast<double>(i) * kPanel, first_epoch).draw();
  return canvas.png();
}

}  // namespace neurim
