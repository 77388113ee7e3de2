#include "neurim/evaluate/class_counts.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "neurim/base/text.h"
#include "neurim/evaluate/canvas.h"
#include "neurim/evaluate/drawn_names.h"

namespace neurim {

namespace {

using Classes = std::span<const std::size_t>;

constexpr std::size_t kMostRows = 40, kEnds = 15;
constexpr double kNames = 190, kBars = 400, kNumbers = 82, kMargin = 16, kColumns = 22;
constexpr double kRow = 20, kBarsOfRow = 15, kLetters = 11;
constexpr double kBucket = 4, kBand = 160;  // heights of a point of the curve, at most, and of all of it
constexpr Color kColors[] = {{0.16, 0.47, 0.71}, {0.93, 0.58, 0.18}, {0.45, 0.45, 0.5}}, kMuted{0.45, 0.48, 0.53};

std::vector<std::size_t> by_falling_counts(const std::vector<std::int64_t>& counts) {
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return counts[a] > counts[b]; });
  return order;
}

/// From the top to the bottom of a sheet.
class Plot {
 public:
  Plot(const std::vector<std::string>& class_names, const std::vector<ClassCounts>& splits, double height)
      : names_(drawn_names(class_names)),
        splits_(splits),
        canvas_(static_cast<int>(width()), static_cast<int>(height), 2) {
    for (const ClassCounts& split : splits)
      most_ = std::max(most_, *std::max_element(split.counts.begin(), split.counts.end()));
  }

  void heading(const std::string& data) {
    std::vector<std::string> sizes;
    for (const ClassCounts& split : splits_) sizes.push_back(text(split.split, ' ', thousands(split.samples)));
    canvas_.heading({text("Images of each class: ", data),
                     text(thousands(std::ssize(names_)), " classes, images: ", join(sizes, ", "))},
                    width());
    y_ += Canvas::kHeading;
  }

  /// Above the columns of numbers; the legend of the colours too.
  void columns() {
    for (std::size_t s = 0; s < splits_.size(); ++s) {
      const double right = right_of(s), length = canvas_.width_of(splits_[s].split, kLetters, true);
      canvas_.letters({right, y_ + 7}, splits_[s].split, {.size = kLetters, .across = Align::end, .bold = true});
      canvas_.rectangle(right - length - 15, y_ + 2, 10, 10, color(s));
    }
    y_ += kColumns;
  }

  void rows(Classes classes) {
    const double thick = std::min(11.0, std::floor(kBarsOfRow / static_cast<double>(splits_.size())));
    for (const std::size_t c : classes) {
      name(names_[c], y_ + kRow / 2, {.size = kLetters, .across = Align::end});
      double top = y_ + (kRow - thick * static_cast<double>(splits_.size())) / 2;
      for (std::size_t s = 0; s < splits_.size(); ++s, top += thick) {
        const std::int64_t count = splits_[s].counts[c];
        canvas_.rectangle(kNames, top, length_of(static_cast<double>(count)), thick - 0.5, color(s));
        number(s, y_ + kRow / 2, thousands(count));
      }
      y_ += kRow;
    }
  }

  /// Classes side by side are points of a curve, which is filled for the first split: as many to a point as its height
  /// asks for, with their mean.
  void curve(Classes classes) {
    const double height = height_of_curve(classes.size());
    const auto points = static_cast<std::size_t>(std::min(static_cast<double>(classes.size()), height / 2));
    // At the edge of a pixel, of which a unit has two: the fill has no seams.
    const auto top_of = [&](std::size_t p) {
      return y_ + std::round(2 * height * static_cast<double>(p) / static_cast<double>(points)) / 2;
    };
    name(text(thousands(std::ssize(classes)), " more"), y_ + height / 2,
         {.size = kLetters, .color = kMuted, .across = Align::end});
    for (std::size_t s = 0; s < splits_.size(); ++s) {
      std::vector<Point> line;
      for (std::size_t p = 0; p < points; ++p) {
        const std::size_t first = classes.size() * p / points, end = classes.size() * (p + 1) / points;
        double sum = 0;
        for (const std::size_t c : classes.subspan(first, end - first))
          sum += static_cast<double>(splits_[s].counts[c]);
        const double length = length_of(sum / static_cast<double>(end - first)), top = top_of(p),
                     bottom = top_of(p + 1);
        if (s == 0) canvas_.rectangle(kNames, top, length, bottom - top, mix(color(0), {1, 1, 1}, 0.5));
        line.push_back({kNames + length, top});
        line.push_back({kNames + length, bottom});
      }
      canvas_.polyline(line, color(s), 1.2);
      const auto [least, most] = std::minmax_element(classes.begin(), classes.end(), [&](std::size_t a, std::size_t b) {
        return splits_[s].counts[a] < splits_[s].counts[b];
      });
      const std::string from = thousands(splits_[s].counts[*least]), to = thousands(splits_[s].counts[*most]);
      number(s, y_ + height / 2, from == to ? from : text(from, "–", to));
    }
    y_ += height;
  }

  static double height_of_curve(std::size_t classes) { return std::min(kBand, kBucket * static_cast<double>(classes)); }

  std::string png() const { return canvas_.png(); }

 private:
  double width() const { return kNames + kBars + kNumbers * static_cast<double>(splits_.size()) + kMargin; }
  double right_of(std::size_t split) const { return kNames + kBars + kNumbers * static_cast<double>(split + 1); }
  double length_of(double count) const { return kBars * count / static_cast<double>(most_); }
  static const Color& color(std::size_t split) { return kColors[split % std::size(kColors)]; }
  void name(const std::string& words, double y, const Lettering& lettering) {
    canvas_.letters({kNames - 8, y}, canvas_.fitted(words, kNames - 8 - kMargin, kLetters), lettering);
  }
  void number(std::size_t split, double y, const std::string& words) {
    canvas_.letters({right_of(split), y}, words, {.size = kLetters, .across = Align::end});
  }

  const std::vector<std::string> names_;
  const std::vector<ClassCounts>& splits_;
  Canvas canvas_;
  std::int64_t most_ = 1;
  double y_ = 0;  // where the next part begins
};

}  // namespace

std::string class_counts_image(const std::string& data, const std::vector<std::string>& class_names,
                               const std::vector<ClassCounts>& splits) {
  const std::vector<std::size_t> order = by_falling_counts(splits[0].counts);
  const Classes all = order;
  const std::size_t between = all.size() > kMostRows ? all.size() - 2 * kEnds : 0;
  const Classes first = all.first(between > 0 ? kEnds : all.size());
  Plot plot(class_names, splits,
            Canvas::kHeading + kColumns + kRow * static_cast<double>(all.size() - between) +
                Plot::height_of_curve(between) + kMargin);
  plot.heading(data);
  plot.columns();
  plot.rows(first);
  if (between > 0) {
    plot.curve(all.subspan(kEnds, between));
    plot.rows(all.last(kEnds));
  }
  return plot.png();
}

}  // namespace neurim
