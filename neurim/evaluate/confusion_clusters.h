// The confusion matrix of many classes as a chart.
#pragma once
#include "neurim/evaluate/confusion_image.h"

namespace neurim {

/// The classes such that those stand side by side that are confused most (single linkage by the number of confusions).
std::vector<int> clustered_order(const Evaluation& evaluation);

/// Clusters of classes in place of classes: how many samples of one are taken for another class of the same or of
/// another cluster, beside the accuracy of each, and the most frequent confusions by name.
Canvas cluster_chart(const Evaluation& evaluation, Cells cells, const std::string& what);

}  // namespace neurim
