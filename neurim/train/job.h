// The processes that train a model together.
#pragma once
#include <memory>
#include <string>

#include "neurim/distributed/all_reduce.h"
#include "neurim/model/model.h"
#include "neurim/optim/optimizer.h"

namespace neurim {

/// This process's part in a training. Each rank has a share of every batch; rank 0 prints and writes.
class Job {
 public:
  /// A training of one process.
  Job();
  explicit Job(std::shared_ptr<ProcessGroup> group);  ///< of the processes of a group

  ProcessGroup& group() const { return *group_; }  ///< the processes
  std::int64_t number() const { return number_; }  ///< of the group, for ops
  int rank() const { return group_->rank(); }      ///< of this process
  int size() const { return group_->size(); }      ///< how many processes there are
  bool alone() const { return size() == 1; }       ///< whether this is the only one
  bool writes() const { return rank() == 0; }      ///< whether files and the console are this process's
  /// The same job in teams of so many ranks, which have one model together: ranks that follow each other. Each team, a
  /// replica, has a share of every batch. Throws Error(usage) where the ranks are no whole teams. `option` is what asks
  /// for them. An operation of all ranks.
  Job in_teams(const char* option, int ranks) const;
  int replica() const { return rank() / team_; }             ///< the number of this rank's team
  int replicas() const { return size() / team_; }            ///< how many of them share batches
  std::int64_t team_number() const { return team_number_; }  ///< of the group of a team, for ops
  /// Of the group of ranks of one place in their teams, which sums gradients beside other ops.
  std::int64_t data_number() const { return data_number_; }
  double waited() const { return group_waited(data_number_); }  ///< for those sums, seconds

  /// Into how many parts each rank takes its share of a batch. Deterministic trainings have four parts at least in all,
  /// so that 1, 2 and 4 processes do the same.
  int parts(bool deterministic) const;

  /// Throws Error(usage) on all ranks where a line "name: value" of the texts is not that of rank 0; it names the rank,
  /// the line and both values.
  void check_same(const std::string& what, const std::string& text) const;
  /// The text of rank 0.
  std::string of_first(const std::string& text) const;
  /// The tensor becomes that of the root rank.
  void broadcast(const Tensor& tensor, int root) const;
  /// All tensors of the module become those of rank 0.
  void broadcast(ModuleRef module) const;
  /// f32 tensors become their means over the ranks of a group.
  static void average(const Tensors& tensors, ProcessGroup& group);
  /// The weights and the state of the optimizer become their means over the ranks.
  void average(Optimizer& optimizer) const;
  /// Of a sharded optimizer: drops the state of weights that other ranks own; `owners` of each weight.
  void keep_own(Optimizer& optimizer, const std::vector<int>& owners) const;
  /// Of a sharded optimizer: rank 0 gets the state of all weights. All ranks call it, then keep_own.
  void collect(Optimizer& optimizer, const std::vector<int>& owners) const;
  /// States, such as a batch norm's statistics, become their means over the ranks, which have seen different samples.
  void average_states(const Model& model) const;

 private:
  std::shared_ptr<ProcessGroup> group_;
  int team_ = 1;  // ranks of one
  GroupNumber number_, team_number_, data_number_;
};

}  // namespace neurim
