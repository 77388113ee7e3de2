// Training curves as a picture.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace neurim {

enum class Best { none, lowest, highest };

struct Curve {
  std::string name;
  std::vector<double> values;  ///< one per epoch; NaN where there is none
  Best best = Best::none;      ///< marks this point of the curve
};

struct Panel {
  std::string title;
  std::vector<Curve> curves;
  bool percent = false;  ///< values are shares in [0, 1], shown in percent
};

/// A PNG with the panels side by side over the epochs, each with a grid, a legend and its best points marked.
/// A point between two gaps is drawn as a dot, a curve without values not at all. The first value of every
/// curve belongs to `first_epoch`.
std::string curves_picture(const std::vector<Panel>& panels, std::int64_t first_epoch = 1);

}  // namespace neurim
