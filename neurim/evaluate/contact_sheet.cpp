#include "neurim/evaluate/contact_sheet.h"

#include <algorithm>

#include "neurim/base/text.h"
#include "neurim/evaluate/canvas.h"

namespace neurim {

namespace {

constexpr int kLetters = 14, kLine = 19, kGap = 6;

std::vector<std::string> lines_of(const std::vector<std::string>& caption, int limit) {
  Canvas ruler(1, 1);
  std::vector<std::string> lines{join(caption, " | ")};
  if (caption.size() > 1 && ruler.width_of(lines[0], kLetters) > limit)
    lines = {caption[0], join({caption.begin() + 1, caption.end()}, " | ")};
  for (std::string& line : lines) line = ruler.fitted(line, limit, kLetters);
  return lines;
}

void draw(Canvas& canvas, const Thumbnail& image, int x, int y, int cell) {
  constexpr int kSmall = 64;
  const int longest = std::max(image.height, image.width);
  const bool small = longest < kSmall && longest <= cell;
  const int whole = cell / longest;
  const double scale = small ? whole : cell / static_cast<double>(longest);
  const double width = image.width * scale, height = image.height * scale;
  canvas.image(x + static_cast<int>((cell - width) / 2), y + static_cast<int>((cell - height) / 2), width, height,
               image.rgb, image.height, image.width, !small);
}

}  // namespace

std::string contact_sheet(std::span<const Thumbnail> images, int columns, int cell) {
  const int count = static_cast<int>(images.size());
  columns = std::clamp(count, 1, columns);
  const int rows = std::max(1, (count + columns - 1) / columns);
  std::vector<std::vector<std::string>> captions;
  for (const Thumbnail& image : images) captions.push_back(lines_of(image.caption, cell - kGap));
  const bool two = std::any_of(captions.begin(), captions.end(), [](const auto& lines) { return lines.size() > 1; });
  const int across = cell + kGap, down = cell + (two ? 2 : 1) * kLine + kGap;
  Canvas canvas(columns * across + kGap, rows * down + kGap);
  for (int i = 0; i < count; ++i) {
    const int x = kGap + i % columns * across, y = kGap + i / columns * down;
    draw(canvas, images[i], x, y, cell);
    double line = y + cell + kLine / 2.0;
    for (const std::string& words : captions[i]) {
      canvas.letters({x + cell / 2.0, line}, words, {.size = kLetters, .across = Align::middle});
      line += kLine;
    }
  }
  return canvas.jpeg();
}

}  // namespace neurim
