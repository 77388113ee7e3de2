// What the tasks of a plan reach of what the machine allows (Williams, Waterman and Patterson, "Roofline",
// CACM'09).
#pragma once
#include <string>
#include <vector>

#include "neurim/compile/plan.h"
#include "neurim/hardware/peaks.h"

namespace neurim {

/// The least time that a piece of work takes, and what keeps it from taking less.
struct Roof {
  std::string bound;  ///< "fp32", "fp16", "bf16" or "int8", the arithmetic, or a level of memory: "L2", "L3", "DRAM"
  double seconds = 0;
  bool arithmetic = false;
};

/// The longer of two times: that of the multiply-adds at the peak of f32, with `products` of bf16, f16 or i8 at that of
/// those if it is higher, and that of `bytes` at the bandwidth of the nearest level from L2 on which holds them all,
/// otherwise of the last. Both rates are those of all the threads that `peaks` were measured with, at work at once, and
/// a level holds what the caches of all of them do. Bytes count as if they were read, which is the faster way. Throws
/// Error(failure) when `peaks` have no bandwidth.
Roof roof(std::int64_t multiply_adds, std::size_t bytes, const Peaks& peaks, DType compute_dtype = DType::f32);

struct Roofline {
  struct Task {
    PlanRow row;
    std::string kind;  ///< the name of its Kind
    Roof roof;
  };
  /// Tasks of one kind, added up. "memory-bound": those whose data take longer than their arithmetic. The
  /// others go by their first op: "3x3" and "1x1" (forward, two axes, one group), "other convolutions",
  /// "weight gradients" and "data gradients" of convolutions (a transposed convolution is one), "matrix
  /// products".
  struct Kind {
    std::string name;
    int tasks = 0;
    std::int64_t multiply_adds = 0;
    std::size_t bytes = 0;
    double roof = 0, seconds = 0;
  };
  std::vector<Task> tasks;
  std::vector<Kind> kinds;  ///< those that have tasks
  Kind all;                 ///< "all"
};

/// Lays profiled rows of a plan under the roof. Multiply-adds are counted term by term: a kernel that does
/// with fewer, such as Winograd's, may pass it.
Roofline roofline(const std::vector<PlanRow>& rows, const Peaks& peaks);

}  // namespace neurim
