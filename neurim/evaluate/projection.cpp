#include "neurim/evaluate/projection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "neurim/base/text.h"
#include "neurim/core/random.h"
#include "neurim/evaluate/drawn_names.h"

namespace neurim {

namespace {

/// Two colour-blind safe sets (Okabe and Ito; Tol), and gray for the rest.
constexpr Color kClassColors[] = {{0.00, 0.45, 0.70}, {0.84, 0.37, 0.00}, {0.00, 0.62, 0.45}, {0.80, 0.47, 0.65},
                                  {0.34, 0.71, 0.91}, {0.90, 0.62, 0.00}, {0.55, 0.53, 0.10}, {0.20, 0.13, 0.53},
                                  {0.53, 0.13, 0.33}, {0.07, 0.47, 0.20}, {0.87, 0.80, 0.47}, {0.60, 0.60, 0.60}};

std::vector<double> centred(std::span<const float> points, std::size_t dimensions) {
  const std::size_t n = points.size() / dimensions;
  std::vector<double> out(points.begin(), points.end());
  for (std::size_t d = 0; d < dimensions; ++d) {
    double mean = 0;
    for (std::size_t i = 0; i < n; ++i) mean += out[i * dimensions + d] / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) out[i * dimensions + d] -= mean;
  }
  return out;
}

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// The shares of neighbours by the squared distances from one point, so that their entropy is that of `perplexity`
/// equal ones.
void neighbours(std::span<double> shares, std::size_t self, double perplexity) {
  const std::vector<double> distances(shares.begin(), shares.end());
  double low = 0, high = std::numeric_limits<double>::infinity(), precision = 1;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < distances.size(); ++j)
    if (j != self) least = std::min(least, distances[j]);
  for (int step = 0; step < 64; ++step) {
    double sum = 0, weighted = 0;
    for (std::size_t j = 0; j < distances.size(); ++j) {
      shares[j] = j == self ? 0 : std::exp(-(distances[j] - least) * precision);
      sum += shares[j], weighted += shares[j] * (distances[j] - least);
    }
    for (double& share : shares) share /= sum;
    const double entropy = std::log(sum) + precision * weighted / sum;
    if (std::abs(entropy - std::log(perplexity)) < 1e-5) return;
    (entropy > std::log(perplexity) ? low : high) = precision;
    precision = std::isinf(high) ? precision * 2 : (low + high) / 2;
  }
}

}  // namespace

std::vector<Point> principal_components(std::span<const float> points, std::size_t dimensions) {
  const std::size_t n = points.size() / dimensions;
  const std::vector<double> x = centred(points, dimensions);
  std::vector<std::vector<double>> axes;
  std::vector<Point> out(n);
  for (int component = 0; component < 2; ++component) {
    Random random(static_cast<std::uint64_t>(component) + 1);
    std::vector<double> axis(dimensions), next(dimensions);
    for (double& value : axis) value = random.normal();
    // Powers of the covariance, without the first component for the second.
    for (int step = 0; step < 200; ++step) {
      for (const auto& other : axes) {
        const double along = dot(axis, other);
        for (std::size_t d = 0; d < dimensions; ++d) axis[d] -= along * other[d];
      }
      const double length = std::sqrt(dot(axis, axis));
      if (length < 1e-12) break;
      for (double& value : axis) value /= length;
      std::fill(next.begin(), next.end(), 0);
      for (std::size_t i = 0; i < n; ++i) {
        const auto row = std::span(x).subspan(i * dimensions, dimensions);
        const double along = dot(row, axis);
        for (std::size_t d = 0; d < dimensions; ++d) next[d] += along * row[d];
      }
      std::swap(axis, next);
    }
    const double length = std::sqrt(dot(axis, axis));
    const double most = *std::max_element(axis.begin(), axis.end(),
                                          [](double a, double b) { return std::abs(a) < std::abs(b); });
    for (double& value : axis) value = length < 1e-12 ? 0 : value / (most < 0 ? -length : length);
    for (std::size_t i = 0; i < n; ++i)
      (component == 0 ? out[i].x : out[i].y) = dot(std::span(x).subspan(i * dimensions, dimensions), axis);
    axes.push_back(axis);
  }
  return out;
}

std::vector<Point> tsne(std::span<const float> points, std::size_t dimensions, double perplexity) {
  const std::size_t n = points.size() / dimensions;
  std::vector<Point> place = principal_components(points, dimensions);
  if (n < 4) return place;
  perplexity = std::min(perplexity, static_cast<double>(n - 1) / 3);
  const std::vector<double> x = centred(points, dimensions);
  std::vector<double> p(n * n);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < i; ++j) {
      double distance = 0;
      for (std::size_t d = 0; d < dimensions; ++d)
        distance += std::pow(x[i * dimensions + d] - x[j * dimensions + d], 2);
      p[i * n + j] = p[j * n + i] = distance;
    }
  for (std::size_t i = 0; i < n; ++i) neighbours(std::span(p).subspan(i * n, n), i, perplexity);
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < i; ++j)
      p[i * n + j] = p[j * n + i] = std::max(1e-12, (p[i * n + j] + p[j * n + i]) / (2 * static_cast<double>(n)));
  double spread = 1e-12;
  for (const Point& one : place) spread = std::max({spread, std::abs(one.x), std::abs(one.y)});
  for (Point& one : place) one = {one.x / spread * 1e-2, one.y / spread * 1e-2};
  constexpr int kSteps = 500, kEarly = 150;
  const double rate = std::max(50.0, static_cast<double>(n) / 12 / 4);
  std::vector<Point> moved(n), gains(n, {1, 1}), slope(n);
  std::vector<double> q(n * n);
  for (int step = 0; step < kSteps; ++step) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const double across = place[i].x - place[j].x, down = place[i].y - place[j].y;
        sum += 2 * (q[i * n + j] = 1 / (1 + across * across + down * down));
      }
    const double exaggeration = step < kEarly ? 12 : 1;
    std::fill(slope.begin(), slope.end(), Point{});
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const double near = q[i * n + j], pull = 4 * (exaggeration * p[i * n + j] - near / sum) * near;
        const double across = pull * (place[i].x - place[j].x), down = pull * (place[i].y - place[j].y);
        slope[i].x += across, slope[i].y += down, slope[j].x -= across, slope[j].y -= down;
      }
    const double momentum = step < kEarly ? 0.5 : 0.8;
    const auto follow = [&](double& at, double& speed, double& gain, double by) {
      gain = std::max(0.01, (by > 0) == (speed > 0) ? gain * 0.8 : gain + 0.2);
      speed = momentum * speed - rate * gain * by;
      at += speed;
    };
    for (std::size_t i = 0; i < n; ++i) {
      follow(place[i].x, moved[i].x, gains[i].x, slope[i].x);
      follow(place[i].y, moved[i].y, gains[i].y, slope[i].y);
    }
  }
  return place;
}

Canvas scatter_chart(const std::string& title, const std::string& details, const std::vector<Point>& points,
                     const std::vector<std::int64_t>& labels, const std::vector<std::string>& class_names) {
  constexpr double kSide = 620, kLeft = 20, kAbove = Canvas::kHeading + 10, kLegend = 240;
  constexpr std::size_t kColors = std::size(kClassColors);
  Canvas canvas(static_cast<int>(kLeft + kSide + kLegend), static_cast<int>(kAbove + kSide + 20), 2);
  canvas.heading({title, details}, kLeft + kSide + kLegend);
  canvas.frame(kLeft, kAbove, kSide, kSide, {0.85, 0.87, 0.9});
  std::vector<std::size_t> counts(class_names.size()), order(class_names.size()), color(class_names.size());
  for (const std::int64_t label : labels) ++counts[static_cast<std::size_t>(label)];
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (order.size() > kColors)
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return counts[a] > counts[b]; });
  const std::size_t own = order.size() > kColors ? kColors - 1 : order.size();
  for (std::size_t i = 0; i < order.size(); ++i) color[order[i]] = std::min(i, own == order.size() ? i : own);
  const auto range = [&](double Point::*along) {
    const auto [least, most] = std::minmax_element(points.begin(), points.end(),
                                                   [&](const Point& a, const Point& b) { return a.*along < b.*along; });
    return points.empty() ? std::pair(0.0, 1.0)
                          : std::pair((*least).*along, std::max((*most).*along, (*least).*along + 1e-12));
  };
  const auto [left, right] = range(&Point::x);
  const auto [low, high] = range(&Point::y);
  const double radius = points.size() > 2000 ? 2 : points.size() > 300 ? 3 : 4.5;
  for (std::size_t i = 0; i < points.size(); ++i) {
    Color ink = kClassColors[color[static_cast<std::size_t>(labels[i])]];
    ink.alpha = 0.75;
    canvas.disc({kLeft + 12 + (points[i].x - left) / (right - left) * (kSide - 24),
                 kAbove + 12 + (1 - (points[i].y - low) / (high - low)) * (kSide - 24)},
                radius, ink);
  }
  const std::vector<std::string> names = drawn_names(class_names);
  const double x = kLeft + kSide + 20;
  for (std::size_t i = 0; i < own; ++i) {
    canvas.disc({x + 5, kAbove + 10 + static_cast<double>(i) * 20}, 5, kClassColors[i]);
    canvas.letters({x + 18, kAbove + 10 + static_cast<double>(i) * 20},
                   canvas.fitted(names[order[i]], kLegend - 50, 11), {});
  }
  if (own < order.size()) {
    canvas.disc({x + 5, kAbove + 10 + static_cast<double>(own) * 20}, 5, kClassColors[kColors - 1]);
    canvas.letters({x + 18, kAbove + 10 + static_cast<double>(own) * 20},
                   text("the other ", order.size() - own, " classes"), {});
  }
  return canvas;
}

}  // namespace neurim
