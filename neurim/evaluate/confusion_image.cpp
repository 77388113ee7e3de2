#include "neurim/evaluate/confusion_image.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "neurim/base/text.h"
#include "neurim/evaluate/canvas.h"
#include "neurim/evaluate/confusion_clusters.h"
#include "neurim/evaluate/drawn_names.h"

namespace neurim {

namespace {

constexpr int kMostCells = 100;  // classes that have a row each
constexpr Color kInk{0.16, 0.18, 0.22}, kMuted{0.45, 0.48, 0.53}, kEmpty{0.965, 0.97, 0.975};
constexpr Color kBlue[] = {{0.87, 0.92, 0.97}, {0.36, 0.61, 0.83}, {0.03, 0.25, 0.50}};
constexpr Color kOrange[] = {{0.995, 0.91, 0.81}, {0.96, 0.52, 0.20}, {0.60, 0.16, 0.02}};

// Confusions are rare when a model is any good; the square root keeps them visible beside the diagonal.
Color shade(const Color (&scale)[3], double share) {
  if (share <= 0) return kEmpty;
  const double t = 2 * std::sqrt(std::min(share, 1.0));
  return t < 1 ? mix(scale[0], scale[1], t) : mix(scale[1], scale[2], t - 1);
}

bool is_dark(const Color& c) { return 0.3 * c.red + 0.59 * c.green + 0.11 * c.blue < 0.55; }

struct Matrix {
  int side;
  std::vector<double> values;  // (side, side), samples or percent
  double top = 0;              // the value of the darkest shade

  Matrix(const Evaluation& evaluation, Cells cells)
      : side(evaluation.classes()), values(static_cast<std::size_t>(side) * static_cast<std::size_t>(side)) {
    const auto scores = evaluation.per_class();
    for (int t = 0; t < evaluation.classes(); ++t)
      for (int p = 0; p < evaluation.classes(); ++p) {
        const double support = static_cast<double>(std::max<std::int64_t>(1, scores[t].support));
        const double count = static_cast<double>(evaluation.count(t, p));
        values[t * side + p] = cells == Cells::counts ? count : 100 * count / support;
      }
    top = cells == Cells::shares ? 100 : std::max(1.0, *std::max_element(values.begin(), values.end()));
  }
  double at(int t, int p) const { return values[t * side + p]; }
};

// A percentage with `decimals`; what is not none or all is not shown as such.
std::string percent(double value, int decimals) {
  const double unit = std::pow(10.0, -decimals);
  if (value > 0 && value <= unit / 2) return text('<', fixed(unit, decimals));
  if (value < 100 && value >= 100 - unit / 2) return text('>', fixed(100 - unit, decimals));
  return fixed(value, value == 0 || value == 100 ? 0 : decimals);
}

class Image {
 public:
  Image(const Evaluation& evaluation, Cells cells, const std::string& what)
      : evaluation_(evaluation),
        what_(what),
        names_(drawn_names(evaluation.class_names())),
        cells_(cells),
        matrix_(evaluation, cells),
        side_(matrix_.side) {
    cell_ = std::clamp(std::floor(side_ <= 40 ? 760.0 / side_ : 1000.0 / side_), 1.0, 104.0);
    plot_ = cell_ * side_;
    Canvas ruler(1, 1);
    number_size_ = size_of_numbers(ruler);

    name_size_ = std::clamp(cell_ * 0.85, 8.5, 12.0);
    step_ = static_cast<int>(axis_step(std::max(1.0, name_size_ * 1.12 / cell_)));
    double longest = 0;
    for (int i = 0; i < side_; i += step_)
      longest = std::max(longest, ruler.width_of(name(ruler, i, kLongestName), name_size_));
    across_ = cell_ >= 64 || longest <= cell_ - 6;
    tick_ = step_ > 1 ? 5 : 2;
    left_ = std::ceil(44 + longest + tick_);
    names_below_ = (across_ ? name_size_ + 10 : longest + 8) + tick_;
  }

  Canvas chart() {
    const double width = std::max(left_ + plot_ + 128, kLeastWidth);
    const double height = kAbove + std::max(plot_, kLeastBar) + std::max(74.0, names_below_ + 34);
    Canvas canvas(static_cast<int>(std::ceil(width)), static_cast<int>(std::ceil(height)), 2);
    draw_title(canvas, width);
    draw_cells(canvas);
    if (number_size_ >= kReadable) draw_numbers(canvas);
    draw_names(canvas);
    draw_bars(canvas);
    return canvas;
  }

 private:
  static constexpr double kAbove = 74, kLongestName = 170, kLeastCell = 2.4, kLeastBar = 140, kReadable = 7;
  static constexpr double kLeastWidth = 540;  // of the heading

  std::string number(double value) const {
    return cells_ == Cells::counts ? thousands(std::llround(value)) : percent(value, cell_ >= 40 ? 1 : 0);
  }

  // The largest size at which every number fits its cell.
  double size_of_numbers(Canvas& ruler) const {
    const double size = std::min(15.0, cell_ * 0.42);
    if (size < kReadable) return 0;
    std::string widest;
    for (const double value : matrix_.values)
      if (const std::string one = number(value); one.size() > widest.size()) widest = one;
    return std::min(size, size * (cell_ - 5) / ruler.width_of(widest, size, true));
  }

  std::string name(Canvas& canvas, int i, double limit) const { return canvas.fitted(names_[i], limit, name_size_); }

  Color color(int t, int p) const { return shade(t == p ? kBlue : kOrange, matrix_.at(t, p) / matrix_.top); }
  Point centre(int t, int p) const { return {left_ + (p + 0.5) * cell_, kAbove + (t + 0.5) * cell_}; }

  void draw_title(Canvas& canvas, double width) const {
    const Interval sure = evaluation_.accuracy_interval();
    canvas.heading(
        {cells_ == Cells::counts ? "Confusion matrix" : "Confusion matrix, rows in percent",
         text(what_, what_.empty() ? "" : ": ", thousands(evaluation_.classes()), " classes, ",
              thousands(evaluation_.samples()), " samples, accuracy ", fixed(100 * evaluation_.accuracy(), 2),
              " % (95 % interval ", fixed(100 * sure.low, 2), "–", fixed(100 * sure.high, 2), " %)")},
        width);
  }

  // Cells of a pixel or two would be lost to the eye: they are drawn larger, the greatest values on top.
  void draw_cells(Canvas& canvas) const {
    const double gap = cell_ >= 24 ? 1.5 : cell_ >= 7 ? 0.5 : 0, size = std::max(cell_ - gap, kLeastCell);
    canvas.rectangle(left_, kAbove, plot_, plot_, kEmpty);
    for (int i = 1; i < side_ && gap > 0; ++i) {
      canvas.rectangle(left_, kAbove + i * cell_ - gap / 2, plot_, gap, {1, 1, 1});
      canvas.rectangle(left_ + i * cell_ - gap / 2, kAbove, gap, plot_, {1, 1, 1});
    }
    std::vector<int> order;
    for (int i = 0; i < side_ * side_; ++i)
      if (matrix_.at(i / side_, i % side_) > 0) order.push_back(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return matrix_.at(a / side_, a % side_) < matrix_.at(b / side_, b % side_); });
    for (const int i : order) {
      const Point middle = centre(i / side_, i % side_);
      canvas.rectangle(middle.x - size / 2, middle.y - size / 2, size, size, color(i / side_, i % side_));
    }
    canvas.frame(left_ - 0.5, kAbove - 0.5, plot_ + 1, plot_ + 1, {0.8, 0.82, 0.85});
  }

  void draw_numbers(Canvas& canvas) const {
    for (int t = 0; t < side_; ++t)
      for (int p = 0; p < side_; ++p) {
        const double value = matrix_.at(t, p);
        if (value == 0 && side_ > 20) continue;
        const Color ink = value == 0 ? mix(kMuted, kEmpty, 0.5) : is_dark(color(t, p)) ? Color{1, 1, 1} : kInk;
        canvas.letters(
            centre(t, p), number(value),
            {.size = number_size_, .color = ink, .across = Align::middle, .bold = t == p && number_size_ >= 10});
      }
  }

  // Every step-th name, such that lines keep apart. Wide columns have theirs across, narrow ones upwards.
  void draw_names(Canvas& canvas) const {
    const double end = kAbove + plot_;
    for (int i = 0; i < side_; i += step_) {
      const Point at = centre(i, i);
      if (step_ > 1) {
        canvas.line({left_ - tick_, at.y}, {left_ - 1, at.y}, kMuted);
        canvas.line({at.x, end + 1}, {at.x, end + tick_}, kMuted);
      }
      canvas.letters({left_ - tick_ - 4, at.y}, name(canvas, i, kLongestName),
                     {.size = name_size_, .color = kInk, .across = Align::end});
      if (across_)
        canvas.letters({at.x, end + tick_ + 4 + name_size_ * 0.6}, name(canvas, i, cell_ - 6),
                       {.size = name_size_, .color = kInk, .across = Align::middle});
      else
        canvas.letters({at.x, end + tick_ + 4}, name(canvas, i, kLongestName),
                       {.size = name_size_, .color = kInk, .across = Align::end, .upwards = true});
    }
    canvas.letters({20, kAbove + plot_ / 2}, "true class",
                   {.size = 13, .color = kMuted, .across = Align::middle, .upwards = true});
    canvas.letters({left_ + plot_ / 2, end + names_below_ + 14}, "predicted class",
                   {.size = 13, .color = kMuted, .across = Align::middle});
  }

  // Two bars, for correct and for confused cells, over one scale.
  void draw_bars(Canvas& canvas) const {
    constexpr double kWidth = 15;
    const double length = std::floor(std::clamp(plot_, kLeastBar, 420.0));
    const double correct = std::ceil(left_ + plot_) + 30, confused = correct + kWidth + 3, marks = confused + kWidth;
    for (int i = 0; i < static_cast<int>(length); ++i) {
      const double share = 1 - (i + 0.5) / length;
      canvas.rectangle(correct, kAbove + i, kWidth, 1, shade(kBlue, share));
      canvas.rectangle(confused, kAbove + i, kWidth, 1, shade(kOrange, share));
    }
    const double step = cells_ == Cells::shares ? 20 : axis_step(std::max(1.0, matrix_.top / 6));
    for (double value = 0; value <= matrix_.top; value += step) {
      const double y = kAbove + length * (1 - value / matrix_.top);
      canvas.line({marks + 1, y}, {marks + 5, y}, kMuted);
      canvas.letters({marks + 9, y}, text(thousands(std::llround(value)), cells_ == Cells::shares ? " %" : ""),
                     {.size = 11, .color = kInk});
    }
    const Lettering under{.size = 11, .color = kMuted, .across = Align::end, .upwards = true};
    canvas.letters({correct + kWidth / 2, kAbove + length + 10}, "correct", under);
    canvas.letters({confused + kWidth / 2, kAbove + length + 10}, "confused", under);
  }

  const Evaluation& evaluation_;
  const std::string& what_;
  std::vector<std::string> names_;
  Cells cells_;
  Matrix matrix_;
  int side_;
  double cell_ = 0, plot_ = 0;              // sides of a cell and of the matrix, in units of the canvas
  double number_size_ = 0, name_size_ = 0;  // of the fonts
  int step_ = 1;                            // between named classes
  bool across_ = false;                     // the columns' names
  double tick_ = 0, left_ = 0, names_below_ = 0;
};

}  // namespace

Canvas confusion_chart(const Evaluation& evaluation, Cells cells, const std::string& what) {
  if (evaluation.classes() > kMostCells) return cluster_chart(evaluation, cells, what);
  return Image(evaluation, cells, what).chart();
}

}  // namespace neurim
