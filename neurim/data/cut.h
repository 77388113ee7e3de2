// Cutting val and test splits out of training.
#pragma once
#include <cstdint>
#include <span>

#include "neurim/data/source.h"

namespace neurim {

/// The classes of an item, in rising order.
std::span<const std::int64_t> classes_of(const Listing& listing, std::int64_t item);

/// Moves this share of each class, at least one sample where it has two, from train to `to`; or, where there
/// are groups or label sets, nearly this share of each. Keeps in training what of a class would have nothing there
/// otherwise, where a split can, and notes it.
void split_off(Listing& listing, Split to, double share, std::uint64_t seed);

/// Makes part `fold` of `folds` the val split, without what of a class would have nothing in training otherwise.
/// Without groups the items of each class, shuffled, are dealt out one by one, and the next class goes on where the
/// last one ended.
void choose_fold(Listing& listing, int folds, int fold, std::uint64_t seed);

}  // namespace neurim
