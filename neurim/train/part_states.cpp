#include "neurim/train/part_states.h"

namespace neurim {

PartStates::PartStates(const Model& model) {
  for (const Parameter& parameter : named_parameters(model))
    if (parameter.role == Role::state && parameter.tensor.dtype() == DType::f32) states_.push_back(parameter.tensor);
}

void PartStates::begin() {
  before_.clear(), of_parts_.clear();
  for (const Tensor& state : states_) before_.push_back(state.values<float>());
}

void PartStates::end_part() {
  std::vector<float>& part = of_parts_.emplace_back();
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const std::vector<float> made = states_[i].values<float>();
    part.insert(part.end(), made.begin(), made.end());
    states_[i].write(before_[i].data());
  }
}

void PartStates::finish(const Job& job, std::size_t parts) {
  std::size_t count = 0;
  for (const std::vector<float>& state : before_) count += state.size();
  for (std::vector<float>& part : of_parts_) part.push_back(1);
  of_parts_.resize(parts, std::vector<float>(count + 1));
  for (const auto& [into, other] : combine_order(parts))
    for (std::size_t i = 0; i <= count; ++i) of_parts_[into][i] += of_parts_[other][i];
  std::vector<float>& sums = of_parts_[0];
  job.group().all_reduce(sums);
  const float all = sums.back();
  std::size_t at = 0;
  for (std::size_t i = 0; i < states_.size(); at += before_[i++].size()) {
    std::vector<float> mean(before_[i].size());
    for (std::size_t k = 0; k < mean.size(); ++k) mean[k] = sums[at + k] / all;
    states_[i].write(mean.data());
  }
}

}  // namespace neurim
