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

/// How a plan is made.
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
  Device device = {};  ///< where it runs
  Tensor random = {};  ///< the key state i64(2) = {seed, step}; a replay commits step + 1 when random ops were traced
};

/// One row of a plan's report.
struct PlanRow {
  /// Op: its ops; where: the nearest names of its tensors; kernel; layout: of its results.
  std::string op, where, kernel, layout;
  std::string anchor;                 ///< the op of these that named the kernel, and
  Types in;                           ///< its operands; none: a reorder or a copy
  DType compute_dtype = DType::f32;   ///< what its kernel rounds the factors of products to
  std::int64_t multiply_adds = 0;     ///< of all its ops, as Op::multiply_adds counts
  std::size_t bytes = 0;              ///< read and written
  double seconds = 0;                 ///< median of the profiled replays; 0 when not profiled
  std::vector<std::string> declined;  ///< kernels that declined, with their reasons
};

/// The share of the multiply-adds whose factors are rounded to 16 bits.
double rounded_share(const std::vector<PlanRow>& rows);

/// An immutable program and one instance of it. Copies share the instance; a busy plan throws.
class Plan {
 public:
  /// Runs with these inputs (types as planned, on the plan's device or on the CPU) and gives fresh results on its
  /// device.
  Tensors operator()(const Tensors& in) const;
  /// Runs into the caller's tensors, on the device or the CPU as inputs: allocates nothing. Inputs that are the plan's
  /// own input buffers are not copied.
  void run(std::span<const Tensor> in, std::span<const Tensor> out) const;
  /// The input and output buffers of this instance, so that a loader fills them in place.
  const Tensors& inputs() const;
  const Tensors& outputs() const;  ///< the results of the last run; each run overwrites them
  /// The same program and state with its own arena: one per server stream.
  Plan fork() const;

  std::size_t arena_bytes() const;    ///< memory of the intermediate results
  const struct Graph& graph() const;  ///< the graph after all passes
  std::vector<PlanRow> rows() const;  ///< one row for each task of the plan
  /// As rows, with the time of each task over some replays of the plan's own input buffers. State is changed as in a
  /// run.
  std::vector<PlanRow> profile(int replays) const;

 private:
  friend Plan plan(const std::function<Tensors(Tensors)>&, const Types&, const PlanOptions&);
  std::shared_ptr<struct PlanInstance> instance_;
};

/// Traces `function` with inputs of these types and plans it.
Plan plan(const std::function<Tensors(Tensors)>& function, const Types& inputs, const PlanOptions& options = {});

/// A function that plans itself once for each signature it is called with. Called with values of a trace it becomes a
/// part of that trace.
class Compiled {
 public:
  /// A function of tensors, planned when it is first called with inputs of new types.
  Compiled(std::function<Tensors(Tensors)> function, const PlanOptions& options);
  Tensors operator()(const Tensors& in);      ///< Runs the plan for these inputs; returns copies of its outputs.
  const Plan& plan_for(const Types& inputs);  ///< The plan for inputs of these types; makes it if there is none.

 private:
  std::function<Tensors(Tensors)> function_;
  PlanOptions options_;
  std::vector<std::pair<Types, Plan>> plans_;
};

}  // namespace neurim
