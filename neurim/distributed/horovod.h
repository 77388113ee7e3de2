// Functions in the style of Horovod's, for programs that make steps themselves. What carries the numbers is the
// project's own, or MPI; Horovod itself is not needed.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "neurim/nn/module.h"
#include "neurim/optim/optimizer.h"

namespace neurim::hvd {

// NOLINTBEGIN(readability-identifier-naming): Horovod's names
/// How tensors of several ranks become one.
enum class ReduceOp : std::uint8_t { Average, Sum, Min, Max, Product };
// NOLINTEND(readability-identifier-naming)

/// What numbers are rounded to on their way.
struct Compression {
  static constexpr DType none = DType::f32, fp16 = DType::f16, bf16 = DType::bf16;
};

/// Finds the other processes: see place_of_process(). Other functions throw Error(usage) before. Honours
/// HOROVOD_FUSION_THRESHOLD (bytes of gradients that are summed at once; 64 MiB), HOROVOD_TIMELINE (a file),
/// HOROVOD_STALL_CHECK_TIME_SECONDS (60; after which an operation that waits is named on stderr; 0: never) and
/// HOROVOD_STALL_SHUTDOWN_TIME_SECONDS (after which it fails).
void init();
void shutdown();        ///< forgets the job
bool is_initialized();  ///< whether init() was called
int rank();             ///< of this process among all
int size();             ///< how many processes there are
int local_rank();       ///< of this process among those of this machine
int local_size();       ///< how many those are
std::string backend();  ///< what carries messages: "self", "tcp", "mpi"

/// Of f32 or f64 tensors of one shape and name on all ranks; a new tensor. Errors name both ranks where they differ.
Tensor allreduce(const Tensor& tensor, ReduceOp op = ReduceOp::Average, DType compression = Compression::none);
/// Of several at once.
Tensors grouped_allreduce(const Tensors& tensors, ReduceOp op = ReduceOp::Average,
                          DType compression = Compression::none);
/// The tensors of all ranks one after the other along axis 0, of which the lengths may differ.
Tensor allgather(const Tensor& tensor);
/// The tensor of the root rank.
Tensor broadcast(const Tensor& tensor, int root_rank = 0);
/// Along axis 0: splits[r] rows go to rank r; what comes back is what each rank has for this one, in their order. No
/// splits: equal parts.
Tensor alltoall(const Tensor& tensor, const std::vector<std::int64_t>& splits = {});
/// Rows of the sum or mean along axis 0, as equal a share as can be for each rank.
Tensor reducescatter(const Tensor& tensor, ReduceOp op = ReduceOp::Average);
void barrier();  ///< returns when all ranks have called it
/// See JoinableGroup::join.
int join();

/// An operation in the background; others may follow before it ends, in the same order on all ranks.
class Handle;
Handle allreduce_async(const Tensor& tensor, ReduceOp op = ReduceOp::Average, DType compression = Compression::none);
bool poll(const Handle& handle);           ///< whether it has ended
Tensor synchronize(const Handle& handle);  ///< waits for its result

/// All tensors of a module become those of the root rank: its parameters, or an optimizer's state.
void broadcast_parameters(ModuleRef module, int root_rank = 0);
/// The same of an optimizer's state.
void broadcast_optimizer_state(Optimizer& optimizer, int root_rank = 0);

/// The optimizer, whose steps have the gradients of all ranks from now on: their mean over all samples. To be called
/// before steps are recorded. `backward_passes_per_step`: batches whose gradients are added up for a step, the last of
/// which is the one that Optimizer::hold(false) records.
template <class Optim>  // NOLINTNEXTLINE(readability-identifier-naming): Horovod's
std::unique_ptr<Optim> DistributedOptimizer(std::unique_ptr<Optim> optimizer, DType compression = Compression::none,
                                            int backward_passes_per_step = 1);
/// What it does to the optimizer.
void distribute(Optimizer& optimizer, DType compression, int backward_passes_per_step);

class Handle {
 private:
  friend Handle allreduce_async(const Tensor&, ReduceOp, DType);
  friend bool poll(const Handle&);
  friend Tensor synchronize(const Handle&);
  struct State;
  std::shared_ptr<State> state_;
};

template <class Optim>
std::unique_ptr<Optim> DistributedOptimizer(std::unique_ptr<Optim> optimizer, DType compression,
                                            int backward_passes_per_step) {
  distribute(*optimizer, compression, backward_passes_per_step);
  return optimizer;
}

}  // namespace neurim::hvd
