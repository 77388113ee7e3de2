#include "neurim/evaluate/curves.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "neurim/base/text.h"
#include "neurim/evaluate/canvas.h"

namespace neurim {

namespace {

constexpr Color kInk{0.16, 0.18, 0.22}, kMuted{0.45, 0.48, 0.53}, kGrid{0.91, 0.92, 0.93};
constexpr Color kLines[] = {{0.12, 0.40, 0.70}, {0.90, 0.45, 0.10}, {0.17, 0.55, 0.35}, {0.55, 0.30, 0.65}};
constexpr double kWidth = 460, kHeight = 300, kLeft = 62, kRight = 22, kAbove = 62, kBelow = 54;

// An axis from `low` to `high` with a mark at every multiple of `step`.
struct Axis {
  double low, high, step;

  // What values need, widened to whole steps.
  static Axis around(double least, double greatest) {
    if (!(greatest > least)) {
      const double around = std::max(1e-3, std::abs(least) / 10);
      least -= around, greatest += around;
    }
    const double step = axis_step((greatest - least) / 6);
    return {std::floor(least / step) * step, std::ceil(greatest / step) * step, step};
  }
  double share(double value) const { return (value - low) / (high - low); }
  std::string label(double value, bool percent) const {
    value = std::round(value / step) * step + 0.0;  // no "-0.0"
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
    double least = std::numeric_limits<double>::infinity(), greatest = -least;
    std::size_t epochs = 1;
    for (const Curve& curve : panel.curves) {
      epochs = std::max(epochs, curve.values.size());
      for (const double value : curve.values)
        if (std::isfinite(value)) least = std::min(least, value), greatest = std::max(greatest, value);
    }
    if (least > greatest) least = 0, greatest = 1;
    values_ = Axis::around(least, greatest);
    if (panel.percent) values_.low = std::max(values_.low, 0.0), values_.high = std::min(values_.high, 1.0);
    const double first = static_cast<double>(first_epoch), last = first + static_cast<double>(epochs) - 1;
    const double around = epochs == 1 ? 0.5 : 0;  // a single epoch stands in the middle
    epochs_ = {first - around, last + around, axis_step(std::max(1.0, static_cast<double>(epochs) / 8))};
  }

  void draw() {
    canvas_.letters({left_, 22}, panel_.title, {.size = 15, .color = kInk, .bold = true});
    draw_grid();
    double legend = left_;
    for (std::size_t i = 0; i < panel_.curves.size(); ++i) {
      const auto& values = panel_.curves[i].values;
      if (std::none_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); })) continue;
      const Color& color = kLines[i % std::size(kLines)];
      draw_curve(panel_.curves[i], color);
      legend = draw_legend(panel_.curves[i], color, legend);
    }
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
    for (std::size_t i = 0; i < curve.values.size(); ++i)
      if (std::isfinite(curve.values[i]))
        run.push_back(at(epoch(i), curve.values[i]));
      else
        end_run();
    end_run();
    if (const std::size_t best = best_of(curve); best < curve.values.size()) {
      canvas_.disc(at(epoch(best), curve.values[best]), 5.5, {1, 1, 1});
      canvas_.disc(at(epoch(best), curve.values[best]), 4, color);
    }
  }

  double draw_legend(const Curve& curve, const Color& color, double x) {
    std::string words = curve.name;
    if (const std::size_t best = best_of(curve); best < curve.values.size())
      words += text(" (best ",
                    panel_.percent ? fixed(100 * curve.values[best], 2) + " %" : fixed(curve.values[best], 4),
                    ", epoch ", first_epoch_ + static_cast<std::int64_t>(best), ")");
    canvas_.line({x, 44}, {x + 16, 44}, color, 3);
    canvas_.letters({x + 21, 44}, words, {.size = 11, .color = kInk});
    return x + 21 + canvas_.width_of(words, 11) + 16;
  }

  double epoch(std::size_t i) const {
    return static_cast<double>(first_epoch_ + static_cast<std::int64_t>(i));
  }

  Canvas& canvas_;
  const Panel& panel_;
  double left_;
  std::int64_t first_epoch_;
  Axis values_{}, epochs_{};
};

}  // namespace

std::string curves_picture(const std::vector<Panel>& panels, std::int64_t first_epoch) {
  constexpr double kPanel = kLeft + kWidth + kRight;
  Canvas canvas(static_cast<int>(kPanel * static_cast<double>(panels.size())),
                static_cast<int>(kAbove + kHeight + kBelow), 2);
  for (std::size_t i = 0; i < panels.size(); ++i)
    PanelPlot(canvas, panels[i], static_cast<double>(i) * kPanel, first_epoch).draw();
  return canvas.png();
}

}  // namespace neurim
