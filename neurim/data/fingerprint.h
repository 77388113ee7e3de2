// Telling data sets apart.
#pragma once
#include <string>

#include "neurim/data/dataset.h"

namespace neurim {

/// SHA-256 of which samples a split has, in order, and of which class each is: equal for equal splits, wherever
/// the data lie. Knows the samples by their names, not by their pixels.
std::string fingerprint(const Dataset& dataset, Split split);

}  // namespace neurim
