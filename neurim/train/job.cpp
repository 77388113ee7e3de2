#include "neurim/train/job.h"

#include <algorithm>

#include "neurim/base/error.h"
#include "neurim/distributed/shards.h"

namespace neurim {

Job::Job() : group_(self_group()) {}

Job::Job(std::shared_ptr<ProcessGroup> group) : group_(std::move(group)) {
  if (alone()) return;
  number_ = GroupNumber(group_);
  data_number_ = group_->many_threads() ? GroupNumber(std::make_shared<AsyncGroup>(group_->duplicate())) : number_;
}

Job Job::in_teams(const char* option, int ranks) const {
  Job job = *this;
  check_same("options", text("processes of a team=", ranks));
  if (ranks == 1) return job;
  require(size() % ranks == 0, option, " is ", ranks, ", and there ", size() == 1 ? "is " : "are ", size(),
          size() == 1 ? " process" : " processes", ", in which there is no whole number of teams; start ", ranks,
          " of them, or a multiple: neurim launch np=", ranks, " -- …");
  job.team_ = ranks;
  std::vector<int> team, same_place;
  for (int rank = group_->rank() / ranks * ranks; std::ssize(team) < ranks; ++rank) team.push_back(rank);
  for (int rank = group_->rank() % ranks; rank < size(); rank += ranks) same_place.push_back(rank);
  job.team_number_ = GroupNumber(group_->subgroup(team));
  std::shared_ptr<ProcessGroup> data = group_->subgroup(same_place);
  job.data_number_ = data->many_threads() ? GroupNumber(std::make_shared<AsyncGroup>(data)) : GroupNumber(data);
  return job;
}

int Job::parts(bool deterministic) const {
  constexpr int kLeast = 4;
  int parts = 1;
  while (deterministic && team_ == 1 && parts * size() < kLeast) parts *= 2;
  return parts;
}

void Job::check_same(const std::string& what, const std::string& text) const {
  if (alone()) return;
  const std::vector<std::string> all = group_->all_gather(text);
  const std::vector<std::string> first = split(all[0], '\n');
  for (int rank = 1; rank < size(); ++rank) {
    const std::vector<std::string> other = split(all[static_cast<std::size_t>(rank)], '\n');
    for (std::size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
      const auto line = [&](const std::vector<std::string>& lines) { return i < lines.size() ? lines[i] : "nothing"; };
      require(line(first) == line(other), what, " differ: rank 0 has ", line(first), ", rank ", rank, " has ",
              line(other), "; start all ranks alike");
    }
  }
}

std::string Job::of_first(const std::string& text) const {
  return alone() ? text : group_->all_gather(writes() ? text : "")[0];
}

void Job::broadcast(const Tensor& tensor, int root) const {
  std::vector<std::byte> data(bytes(tensor.type()));
  tensor.read(data.data());
  group_->broadcast(data, root);
  if (rank() != root) tensor.write(data.data());
}

void Job::broadcast(ModuleRef module) const {
  if (alone()) return;
  for (const Parameter& parameter : named_parameters(module)) broadcast(parameter.tensor, 0);
}

void Job::average(const Tensors& tensors, ProcessGroup& group) {
  if (group.size() == 1 || tensors.empty()) return;
  std::vector<float> all;
  for (const Tensor& tensor : tensors) {
    const std::vector<float> values = tensor.values<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  group.all_reduce(all);
  for (float& value : all) value /= static_cast<float>(group.size());
  const float* at = all.data();
  for (const Tensor& tensor : tensors) {
    tensor.write(at);
    at += std::int64_t{tensor.numel()};
  }
}

void Job::average(Optimizer& optimizer) const {
  Tensors all = optimizer.weights();
  for (const Parameter& state : named_parameters(optimizer))
    if (state.tensor.dtype() == DType::f32) all.push_back(state.tensor);
  average(all, *group_);
}

void Job::keep_own(Optimizer& optimizer, const std::vector<int>& owners) const {
  std::vector<bool> kept;
  for (const int owner : owners) kept.push_back(owner == rank() % (team_ == 1 ? size() : team_));
  optimizer.keep(kept);
}

void Job::collect(Optimizer& optimizer, const std::vector<int>& owners) const {
  for (const Optimizer::Buffer& buffer : optimizer.all_buffers()) {
    const int owner = owners[buffer.weight];
    if (owner == 0 || (rank() != 0 && rank() != owner)) continue;
    std::vector<std::byte> data(bytes(buffer.tensor.type()));
    if (rank() == owner) {
      buffer.tensor.read(data.data());
      group_->send(data, 0);
    } else {
      group_->receive(data, owner);
      buffer.tensor.write(data.data());
    }
  }
}

void Job::average_states(const Model& model) const {
  Tensors states;
  for (const Parameter& parameter : named_parameters(model))
    if (parameter.role == Role::state && parameter.tensor.dtype() == DType::f32) states.push_back(parameter.tensor);
  average(states, *group_);
}

}  // namespace neurim
