// Small images side by side, with captions.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace neurim {

/// An image with words below it.
struct Thumbnail {
  std::vector<std::uint8_t> rgb;  ///< height x width x 3
  int height = 0,                 ///< pixels
      width = 0;                  ///< pixels
  /// Such as labels: on one line where they fit, else the first and below it the rest.
  std::vector<std::string> caption;
};

/// A JPEG with the images in rows of `columns`, each scaled to fit a square cell of so many pixels: one whose sides are
/// below 64 pixels by a whole number, so that its pixels show. Lines of captions are shortened where they are too long.
std::string contact_sheet(std::span<const Thumbnail> images, int columns, int cell);

}  // namespace neurim
