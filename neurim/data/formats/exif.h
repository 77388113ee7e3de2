// The one thing of EXIF that changes what an image shows: its orientation.
#pragma once
#include <cstddef>
#include <span>

#include "neurim/data/image.h"

namespace neurim {

/// The orientation, 1 to 8, that a TIFF-structured EXIF block states (CIPA DC-008, tag 0x0112 of the first
/// directory), also after the prefix of JPEG's segment, which some writers put before it in other formats. 1, upright,
/// where the block is damaged or says nothing.
int exif_orientation(std::span<const std::byte> tiff);

/// Where the box of an upright image lies in the stored one, which has this height and width.
Box stored_box(const Box& upright, int orientation, int height, int width);
/// The inverse of stored_box, with the height and width of the stored image too.
Box upright_box(const Box& stored, int orientation, int height, int width);

/// Writes `stored` turned upright into `upright`. Orientations 5 to 8 swap height and width.
void turn_upright(const Image& stored, int orientation, Image& upright);

}  // namespace neurim
