// JPEGs whose rows of blocks can be got at without decoding what lies before them.
//
// A restart marker (ITU-T T.81, F.1.1.5.2) after each row of blocks makes the rows independent of each other:
// the image that some of them make up is a JPEG with the same header, another height, and only their bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace neurim {

/// Where the rows of blocks of a JPEG lie in its bytes.
struct JpegRows {
  std::uint32_t block_height = 0;      ///< pixels of a row of blocks
  std::vector<std::uint32_t> offsets;  ///< of the first byte of each row, and of the byte after the last
};

/// The same image, coefficient for coefficient, as a baseline JPEG with a restart marker after each row of
/// blocks; of the segments that do not matter for its blocks only EXIF's orientation stays. Throws as Decoder does
/// where the file is damaged; gives "" for one that cannot be written so (more than 65,535 blocks a row, inks, sampling
/// factors of separate scans).
std::string with_jpeg_rows(std::span<const std::byte> bytes, JpegRows& rows);

/// Writes to `cut` the JPEG of the rows of blocks [first, last) of an image of with_jpeg_rows. Its height is
/// that of whole rows, or what remains of `height` at the bottom.
void cut_jpeg_rows(std::span<const std::byte> bytes, std::span<const std::uint32_t> offsets, std::uint32_t block_height,
                   int height, int first, int last, std::vector<std::byte>& cut);

}  // namespace neurim
