// Trace once, plan, replay: a function of tensors becomes a flat list of prepared launches over one arena.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "neurim/graph/op.h"

namespace neurim {

/// How a function is planned.
struct PlanOptions {
  bool training = false;  ///< batch statistics, dropout; state may be repacked to the layout that trains fastest
  /// Snapshot all state as constants: folds batch norm, packs weights; later changes are not seen.
  bool freeze = false;
  bool interpret = false;      ///< reference kernels only, op by op: the yardstick
  bool deterministic = false;  ///< the same bits for any number of threads: fixed logical pieces instead of one per
                               ///< thread
  /// bf16 or f16: products round both factors to it where kernels can, and values between such; sums stay f32, but for
  /// short ones of f16 where the machine has its arithmetic.
  DType compute_dtype = DType::f32;
  bool winograd = true;  ///< false: no convolution by Winograd's points, whose sums differ by more digits than others
  std::shared_ptr<class Tuning> tuning =
      {};              ///< kernels that were measured to be the fastest; without it those of the highest rank
  Device device = {};  ///< where the plan runs
  Tensor random = {};  ///< the key state i64(2) = {seed, step}; a replay commits step + 1 when random ops were traced
};

/// One row of a plan's report.
struct PlanRow {
  std::string op,                     ///< the names of its ops, joined by "+" where a kernel takes several at once
      where,                          ///< the path of the module that its first op lies in
      kernel,                         ///< the name of the kernel that was chosen
      layout;                         ///< the layout of its first result
  std::string anchor;                 ///< the op of these that named the kernel, and
  Types in;                           ///< its operands; none: a reorder or a copy
  DType compute_dtype = DType::f32;   ///< what its kernel rounds the factors of products to
  std::int64_t multiply_adds = 0;     ///< of all its ops, as Op::multiply_adds counts
  std::size_t bytes = 0;              ///< read and written
  double seconds = 0;                 ///< median of the profiled replays; 0 when not profiled
  std::vector<std::string> declined;  ///< the kernels of higher rank that did not take it: "kernel: why"
};

/// The share of the multiply-adds whose factors are rounded to 16 bits.
double rounded_share(const std::vector<PlanRow>& rows);

/// An immutable program and one instance of it. Copies share the instance; a busy plan throws.
class Plan {
 public:
  /// Runs with these inputs (types as planned, on the plan's device or on the CPU) and gives fresh results on its
  /// device.
  Tensors operator()(const Tensors& in) const;
  /// Runs into the caller's tensors, which lie where inputs may: allocates nothing. Inputs that are the plan's own
  /// input buffers are not copied.
  void run(std::span<const Tensor> in, std::span<const Tensor> out) const;
  /// The input and output buffers of this instance, so that a loader fills them in place.
  const Tensors& inputs() const;
  const Tensors& outputs() const;  ///< its output buffers, for run() to write into
  /// The same program and state with its own arena: one per server stream.
  Plan fork() const;

  Tensors constants() const;        ///< the stored tensors that do not change; plans share them
  std::size_t arena_bytes() const;  ///< size of the one block of memory in which an instance computes
  /// What an instance holds: that block, its input and output buffers. Not what plans share: constants and states.
  std::size_t instance_bytes() const;
  const struct Graph& graph() const;  ///< the graph after all passes
  std::vector<PlanRow> rows() const;  ///< a row for each launch, in the order of execution
  /// As rows, with the time of each task over some replays of the plan's own input buffers. State is changed as in a
  /// run.
  std::vector<PlanRow> profile(int replays) const;

 private:
  friend Plan plan(const std::function<Tensors(Tensors)>&, const Types&, const PlanOptions&);
  std::shared_ptr<struct PlanInstance> instance_;
};

/// Traces `function` with inputs of these types and plans it.
Plan plan(const std::function<Tensors(Tensors)>& function, const Types& inputs, const PlanOptions& options = {});

/// Plans a graph for inputs of these types, which its symbols take their sizes from. `options.device` is the graph's.
Plan plan(const struct Graph& graph, const Types& inputs, const PlanOptions& options = {});

/// A function that plans itself once for each signature it is called with, and keeps the plans that were used last.
/// Called with values of a trace it becomes a part of that trace. Safe from many threads: each call has an arena of its
/// own, and all plans share their constants.
class Compiled {
 public:
  /// Plans nothing yet. At most `most` signatures are kept.
  Compiled(std::function<Tensors(Tensors)> function, const PlanOptions& options, std::size_t most = 16);
  Compiled(const struct Graph& graph, const PlanOptions& options, std::size_t most = 16);  ///< the same of a graph
  Tensors operator()(const Tensors& in);  ///< runs the plan of these types; fresh results
  /// The plan of these types, made when first asked for. It runs for one thread at a time, and not while others call
  /// the operator.
  Plan plan_for(const Types& inputs);
  std::size_t size() const;            ///< how many signatures are kept
  std::size_t instance_bytes() const;  ///< of the plans that are kept; see Plan::instance_bytes

 private:
  struct Signature;
  std::shared_ptr<Signature> signature(const Types& inputs);

  std::function<Tensors(Tensors)> function_;
  PlanOptions options_;
  std::size_t most_;
  std::unique_ptr<std::mutex> mutex_;                   ///< of the list
  std::vector<std::shared_ptr<Signature>> signatures_;  ///< the last used one last
};

}  // namespace neurim
