// Small pictures side by side, with captions.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace neurim {

struct Thumbnail {
  std::vector<std::uint8_t> rgb;  ///< height x width x 3
  int height = 0, width = 0;
  std::string caption;  ///< one line, shortened where it is too long
};

/// A JPEG with the pictures in rows of `columns`, each scaled to fit a square cell of so many pixels.
std::string contact_sheet(std::span<const Thumbnail> pictures, int columns, int cell);

}  // namespace neurim
