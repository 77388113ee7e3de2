#include "neurim/evaluate/class_counts.h"

#include <algorithm>
#include <numeric>

#include "neurim/base/text.h"
#include "neurim/evaluate/canvas.h"
#include "neurim/evaluate/drawn_names.h"

namespace neurim {

std::string class_counts_picture(const std::vector<std::string>& class_names,
                                 const std::vector<ClassCounts>& splits) {
  constexpr std::size_t kMostRows = 60;
  constexpr double kBar = 9, kGap = 7, kNames = 150, kBars = 480, kNumbers = 60, kTop = 34;
  constexpr double kLetters = 11;
  const Color colors[] = {{0.16, 0.47, 0.71}, {0.93, 0.58, 0.18}, {0.45, 0.45, 0.5}};

  // The rows by falling counts of the first split, where not all of them fit; else in the order of classes.
  std::vector<std::size_t> rows(class_names.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  const bool all = rows.size() <= kMostRows;
  if (!all) {
    std::stable_sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) {
      return splits[0].counts[a] > splits[0].counts[b];
    });
    rows.erase(rows.begin() + kMostRows / 2, rows.end() - kMostRows / 2);
  }
  std::int64_t most = 1;
  for (const ClassCounts& split : splits)
    most = std::max(most, *std::max_element(split.counts.begin(), split.counts.end()));

  const double row_height = kBar * static_cast<double>(splits.size()) + kGap;
  const double height = kTop + row_height * static_cast<double>(rows.size()) + kGap;
  Canvas canvas(static_cast<int>(kNames + kBars + kNumbers), static_cast<int>(height), 2);
  double x = kNames;
  for (std::size_t s = 0; s < splits.size(); ++s) {
    canvas.rectangle(x, kTop / 2 - 5, 10, 10, colors[s % std::size(colors)]);
    canvas.letters({x + 15, kTop / 2}, splits[s].split, {.size = kLetters, .bold = true});
    x += 15 + canvas.width_of(splits[s].split, kLetters, true) + 20;
  }
  if (!all)
    canvas.letters({x, kTop / 2},
                   text("the ", kMostRows / 2, " most and the ", kMostRows / 2, " least frequent of ",
                        thousands(std::ssize(class_names)), " classes"),
                   {.size = kLetters});
  const std::vector<std::string> names = drawn_names(class_names);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const double y = kTop + row_height * static_cast<double>(r);
    canvas.letters({kNames - 8, y + (row_height - kGap) / 2},
                   canvas.fitted(names[rows[r]], kNames - 16, kLetters),
                   {.size = kLetters, .across = Align::end});
    for (std::size_t s = 0; s < splits.size(); ++s) {
      const std::int64_t count = splits[s].counts[rows[r]];
      const double length = kBars * static_cast<double>(count) / static_cast<double>(most);
      const double top = y + kBar * static_cast<double>(s);
      canvas.rectangle(kNames, top, length, kBar - 1, colors[s % std::size(colors)]);
      canvas.letters({kNames + length + 4, top + kBar / 2}, std::to_string(count), {.size = kBar});
    }
  }
  return canvas.png();
}

}  // namespace neurim
