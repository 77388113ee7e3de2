// Training curves as an image.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "neurim/evaluate/canvas.h"

namespace neurim {

enum class Best { none, lowest, highest };

struct Curve {
  std::string name;            ///< in the legend
  std::vector<double> values;  ///< one per epoch; NaN where there is none
  Best best = Best::none;      ///< marks this point of the curve
};

struct Panel {
  std::string title;
  std::vector<Curve> curves;
  bool percent = false;  ///< values are shares in [0, 1], shown in percent
  bool clipped = false;  ///< the axis ends at axis_top; a triangle with the value stands for each one beyond
};

/// The greatest of the values that an axis needs: outliers stay out of it, where the others would be left with less
/// than a fifth of its height. At most a tenth of the values are outliers, of four to nine at most one, of fewer none;
/// what is not finite does not count. 1 without values.
double axis_top(std::vector<double> values);

/// A PNG with the heading and below it the panels side by side over the epochs, each with a grid, a legend and its best
/// points marked. A point between two gaps is drawn as a dot, a curve without values not at all. The first value of
/// every curve belongs to `first_epoch`.
std::string curves_image(const Heading& heading, const std::vector<Panel>& panels, std::int64_t first_epoch = 1);

}  // namespace neurim
