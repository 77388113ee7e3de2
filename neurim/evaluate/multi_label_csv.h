// The answers of a classifier of any number of classes a sample as files.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/evaluate/multi_label.h"

namespace neurim {

/// A sample by its number in the split and what it is called, such as a path.
struct NamedSample {
  std::int64_t number = 0;  ///< from 0
  std::string name;         ///< "photos/a.png"
};

/// The names of classes with `between` between them, "" without any.
std::string classes_text(const MultiLabelEvaluation& evaluation, const std::vector<int>& classes,
                         std::string_view between);
std::vector<int> classes_of_truth(const MultiLabelEvaluation& evaluation, std::int64_t place);   ///< that it has
std::vector<int> classes_of_answer(const MultiLabelEvaluation& evaluation, std::int64_t place);  ///< that are said

/// The places of the samples with a wrong class, by falling loss; of equal ones in their order.
std::vector<std::int64_t> mistakes(const MultiLabelEvaluation& evaluation);

/// Columns file, labels, predicted, loss and correct; of up to 100 classes also the probability of each, "p:" and its
/// name. `names` are those of the samples in their order.
std::string predictions_csv(const MultiLabelEvaluation& evaluation, const std::vector<NamedSample>& names);
/// Columns file, labels, predicted and loss of mistakes().
std::string mistakes_csv(const MultiLabelEvaluation& evaluation, const std::vector<NamedSample>& names);

}  // namespace neurim
