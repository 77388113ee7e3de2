// A data set that needs no download: drawn digits for demonstrations and tests.
#pragma once
#include <cstdint>

#include "neurim/base/file.h"

namespace neurim {

/// Draws digits as a hand with many habits would, bright on dark, and writes them as 28 x 28 gray PNG files
/// into root/train/<0..9>/ and root/val/<0..9>/, with the given numbers per class. An image depends on the
/// seed, its class and its number alone. A linear classifier stays below 95 % on them, a small convolutional
/// net does not. Throws Error(usage) when root/train or root/val exists, Error(resource) when a file cannot
/// be written; neither of the two folders appears before all images are there.
void write_digits(const fs::path& root, std::uint64_t seed, int train_per_class, int val_per_class);

}  // namespace neurim
