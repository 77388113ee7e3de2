// The options of a training that several processes share.
#pragma once
#include <cstdint>
#include <string>

#include "neurim/core/types.h"
#include "neurim/train/options.h"

namespace neurim {

/// When the ranks of a job exchange what they have learnt.
struct Sync {
  /// See ParallelOptions::sync: bsp, ssp:S, local:K.
  enum class Kind : std::uint8_t { together, stale, local };
  Kind kind = Kind::together;  ///< which of them
  std::int64_t steps = 0;      ///< stale: by which a rank may be ahead; local: after which weights are averaged
};

/// They have an effect where several processes train; see docs/guides/distributed.md.
struct ParallelOptions {
  /// bsp: each step has the gradients of all; ssp:S: a rank may be S steps ahead of the sums that it has seen; local:K:
  /// each rank steps by itself, and every K steps weights become means.
  std::string sync = "bsp";
  std::string compress = "none";  ///< bf16, f16: what gradients are rounded to on their way

  /// 1: each rank keeps the optimizer's state of some weights, steps those, and gets the others; 2: it has the summed
  /// gradients of those alone, too.
  std::int64_t zero = 0;
  std::int64_t pipeline = 1;      ///< stages of the model, of a process each
  std::int64_t microbatches = 4;  ///< into which a pipeline takes its share of a batch
  std::string schedule = "1f1b";  ///< of a pipeline; gpipe: all micro-batches go forward before the first goes back
  std::int64_t tensor = 1;        ///< processes that compute wide layers together
  bool sync_bn = false;           ///< batch norm takes the statistics of the samples of all ranks

  void visit(Options& options);  ///< lists them
  /// Throws Error(usage) on values that no job could use, beside these of TrainOptions: deterministic, and the dtype of
  /// precision.
  void check(bool deterministic, DType compute_dtype) const;
  /// The options that are given and have no effect in one process: "zero=1"; "": none.
  std::string idle() const;
  Sync how() const;    ///< `sync`
  DType sent() const;  ///< `compress`
};

}  // namespace neurim
