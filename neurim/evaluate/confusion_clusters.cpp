#include "neurim/evaluate/confusion_clusters.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "neurim/base/text.h"
#include "neurim/evaluate/drawn_names.h"

namespace neurim {

namespace {

constexpr Color kClusterInk{0.16, 0.18, 0.22}, kClusterMuted{0.45, 0.48, 0.53}, kNothing{0.965, 0.97, 0.975};
constexpr Color kRight[] = {{0.87, 0.92, 0.97}, {0.03, 0.25, 0.50}};
constexpr Color kWrong[] = {{0.995, 0.91, 0.81}, {0.96, 0.52, 0.20}, {0.60, 0.16, 0.02}};
constexpr int kMostClusters = 50;

Color wrong_color(double share) {
  if (share <= 0) return kNothing;
  const double t = 2 * std::sqrt(std::min(share, 1.0));  // the few that are frequent would hide all others
  return t < 1 ? mix(kWrong[0], kWrong[1], t) : mix(kWrong[1], kWrong[2], t - 1);
}

/// What is counted of clusters of equal size.
struct Clusters {
  std::vector<int> order;        // of the classes
  int size, count;               // classes of each, and how many there are
  std::vector<double> confused;  // (count, count) samples, or percent of the row's
  std::vector<double> accuracy;  // of each
  double top = 1;

  Clusters(const Evaluation& e, Cells cells)
      : order(clustered_order(e)),
        size((e.classes() + kMostClusters - 1) / kMostClusters),
        count((e.classes() + size - 1) / size),
        confused(static_cast<std::size_t>(count) * static_cast<std::size_t>(count)),
        accuracy(static_cast<std::size_t>(count)) {
    for (int row = 0; row < count; ++row) {
      double samples = 0, right = 0;
      for (int t = row * size; t < std::min(e.classes(), (row + 1) * size); ++t)
        for (int p = 0; p < e.classes(); ++p) {
          const auto number = static_cast<double>(
              e.count(order[static_cast<std::size_t>(t)], order[static_cast<std::size_t>(p)]));
          samples += number;
          if (p == t) right += number;
          if (p != t) at(row, p / size) += number;
        }
      accuracy[static_cast<std::size_t>(row)] = samples > 0 ? right / samples : 0;
      for (int column = 0; column < count && cells == Cells::shares; ++column)
        at(row, column) *= samples > 0 ? 100 / samples : 0;
    }
    top = std::max(cells == Cells::shares ? 0.01 : 1.0, *std::max_element(confused.begin(), confused.end()));
  }
  double& at(int row, int column) { return confused[static_cast<std::size_t>(row * count + column)]; }
};

}  // namespace

std::vector<int> clustered_order(const Evaluation& evaluation) {
  struct Pair {
    std::int64_t count;
    int a, b;
  };
  const int classes = evaluation.classes();
  std::vector<Pair> pairs;
  for (int a = 0; a < classes; ++a)
    for (int b = a + 1; b < classes; ++b)
      if (const std::int64_t count = evaluation.count(a, b) + evaluation.count(b, a); count > 0)
        pairs.push_back({count, a, b});
  std::stable_sort(pairs.begin(), pairs.end(), [](const Pair& x, const Pair& y) { return x.count > y.count; });
  std::vector<std::vector<int>> clusters(static_cast<std::size_t>(classes));
  std::vector<std::size_t> home(static_cast<std::size_t>(classes));  // of each class
  for (std::size_t c = 0; c < clusters.size(); ++c) clusters[c] = {static_cast<int>(c)}, home[c] = c;
  for (const auto& [count, a, b] : pairs) {
    const std::size_t to = home[static_cast<std::size_t>(a)], from = home[static_cast<std::size_t>(b)];
    if (to == from) continue;
    for (const int c : clusters[from]) home[static_cast<std::size_t>(c)] = to;
    clusters[to].insert(clusters[to].end(), clusters[from].begin(), clusters[from].end());
    clusters[from].clear();
  }
  std::vector<int> order;
  for (const auto& cluster : clusters) order.insert(order.end(), cluster.begin(), cluster.end());
  return order;
}

Canvas cluster_chart(const Evaluation& evaluation, Cells cells, const std::string& what) {
  constexpr double kAbove = Canvas::kHeading + 30, kNames = 250, kCell = 14, kList = 380, kGap = 26;
  Clusters clusters(evaluation, cells);
  const std::vector<std::string> names = drawn_names(evaluation.class_names());
  const double plot = kCell * clusters.count, strip = kNames + plot + 12, list = strip + kCell + kGap;
  const double width = list + kList, height = kAbove + std::max(plot, 300.0) + 60;
  Canvas canvas(static_cast<int>(width), static_cast<int>(height), 2);
  const Interval sure = evaluation.accuracy_interval();
  canvas.heading({cells == Cells::counts ? "Confusions between clusters of classes"
                                         : "Confusions between clusters of classes, in percent of the row",
                  text(what, what.empty() ? "" : ": ", thousands(evaluation.classes()), " classes, ",
                       thousands(evaluation.samples()), " samples, accuracy ", fixed(100 * evaluation.accuracy(), 2),
                       " % (95 % interval ", fixed(100 * sure.low, 2), "–", fixed(100 * sure.high, 2), " %)")},
                 width);
  for (int row = 0; row < clusters.count; ++row) {
    const double y = kAbove + row * kCell;
    const auto first = static_cast<std::size_t>(row * clusters.size);
    const auto last = std::min(first + static_cast<std::size_t>(clusters.size), names.size()) - 1;
    const auto name = [&](std::size_t place) { return names[static_cast<std::size_t>(clusters.order[place])]; };
    const std::string words = first == last ? name(first) : text(name(first), " … ", name(last));
    canvas.letters({kNames - 30, y + kCell / 2}, canvas.fitted(words, kNames - 80, 9.5),
                   {.size = 9.5, .color = kClusterInk, .across = Align::end});
    canvas.letters({kNames - 6, y + kCell / 2}, text(row + 1),
                   {.size = 9.5, .color = kClusterMuted, .across = Align::end});
    for (int column = 0; column < clusters.count; ++column)
      canvas.rectangle(kNames + column * kCell + 0.5, y + 0.5, kCell - 1, kCell - 1,
                       wrong_color(clusters.at(row, column) / clusters.top));
    canvas.rectangle(strip, y + 0.5, kCell, kCell - 1,
                     mix(kRight[0], kRight[1], clusters.accuracy[static_cast<std::size_t>(row)]));
    if (row % 5 == 4 || row == 0)
      canvas.letters({kNames + (row + 0.5) * kCell, kAbove + plot + 12}, text(row + 1),
                     {.size = 9.5, .color = kClusterMuted, .across = Align::middle});
  }
  canvas.letters(
      {kNames + plot / 2, kAbove + plot + 32},
      text("cluster of the predicted class; the darkest cell is ",
           cells == Cells::counts ? thousands(std::llround(clusters.top)) + " samples" : fixed(clusters.top, 1) + " %"),
      {.size = 12, .color = kClusterMuted, .across = Align::middle});
  canvas.letters({strip + kCell / 2, kAbove - 10}, "accuracy",
                 {.size = 10, .color = kClusterMuted, .across = Align::middle});
  canvas.letters({list, kAbove - 10}, "The most frequent confusions: true, predicted, samples",
                 {.size = 11, .color = kClusterInk, .bold = true});
  double y = kAbove + 10;
  for (const Confusion& one : evaluation.most_confused(static_cast<std::size_t>((height - kAbove - 40) / 17))) {
    const std::string words = text(names[static_cast<std::size_t>(one.truth)], " → ",
                                   names[static_cast<std::size_t>(one.predicted)]);
    canvas.letters({list, y}, canvas.fitted(words, kList - 70, 11), {.color = kClusterInk});
    canvas.letters({list + kList - 20, y}, thousands(one.count), {.color = kClusterMuted, .across = Align::end});
    y += 17;
  }
  return canvas;
}

}  // namespace neurim
