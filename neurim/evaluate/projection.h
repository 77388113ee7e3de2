// Points of many dimensions in a plane.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "neurim/evaluate/canvas.h"

namespace neurim {

/// `points` (n, dimensions) on their two principal components, (n) points: the directions in which they differ most.
/// The sign of each is such that its largest entry is above 0.
std::vector<Point> principal_components(std::span<const float> points, std::size_t dimensions);

/// t-SNE of `points` (n, dimensions): places where neighbours stay neighbours (van der Maaten and Hinton, JMLR 9,
/// 2008), exact, which takes time and memory by the square of n. Begins at the principal components; the same points
/// give the same places.
std::vector<Point> tsne(std::span<const float> points, std::size_t dimensions, double perplexity = 30);

/// Points coloured by their class, with a legend; of more than 12 classes the 11 most frequent and the others.
Canvas scatter_chart(const std::string& title, const std::string& details, const std::vector<Point>& points,
                     const std::vector<std::int64_t>& labels, const std::vector<std::string>& class_names);

}  // namespace neurim
