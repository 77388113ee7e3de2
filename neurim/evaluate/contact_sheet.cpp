#include "neurim/evaluate/contact_sheet.h"

#include <algorithm>

#include "neurim/evaluate/canvas.h"

namespace neurim {

std::string contact_sheet(std::span<const Thumbnail> pictures, int columns, int cell) {
  constexpr int kGap = 4, kCaption = 16;
  constexpr double kLetters = 10;
  const int count = static_cast<int>(pictures.size());
  columns = std::clamp(count, 1, columns);
  const int rows = std::max(1, (count + columns - 1) / columns);
  Canvas canvas(columns * (cell + kGap) + kGap, rows * (cell + kCaption + kGap) + kGap);
  for (int i = 0; i < count; ++i) {
    const Thumbnail& picture = pictures[static_cast<std::size_t>(i)];
    const double x = kGap + i % columns * (cell + kGap), y = kGap + i / columns * (cell + kCaption + kGap);
    const double scale = cell / static_cast<double>(std::max(picture.height, picture.width));
    const double width = picture.width * scale, height = picture.height * scale;
    canvas.picture(x + (cell - width) / 2, y + (cell - height) / 2, width, height, picture.rgb, picture.height,
                   picture.width);
    canvas.letters({x + cell / 2.0, y + cell + kCaption / 2.0},
                   canvas.fitted(picture.caption, cell, kLetters), {.size = kLetters, .across = Align::middle});
  }
  return canvas.jpeg();
}

}  // namespace neurim
