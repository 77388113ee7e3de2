// Data parallel training: gradients are those of all ranks' samples.
#pragma once
#include <functional>

#include "neurim/optim/gradient_transform.h"

namespace neurim {

inline constexpr std::size_t kBucketBytes = 16 << 20;  ///< of gradients that are summed at once

/// Calls visit(which) for tensors that go over the wire at once, in pieces of about so many bytes, the last ones first:
/// they are those whose gradients are known first. Pieces become smaller towards the end, as nothing hides the last
/// one: each is a third of what is left, from 1 MiB on. Undefined tensors are left out.
void in_buckets(const Tensors& tensors, const std::function<void(const std::vector<std::size_t>& which)>& visit,
                std::size_t of_bucket = kBucketBytes);

/// Sums the gradients of all ranks, each weighed by its samples, so that the step has the mean over the samples of all,
/// as of one batch of them. Behind AccumulateGradients, before what looks at the numbers.
class ReduceGradients final : public GradientTransform {
 public:
  /// `group`: see GroupNumber. `sent`: see ProcessGroup::all_reduce.
  explicit ReduceGradients(std::int64_t group, DType sent = DType::f32, std::size_t of_bucket = kBucketBytes)
      : group_(group), sent_(sent), of_bucket_(of_bucket) {}
  bool apply(Gradients& gradients, double samples) override;

 private:
  std::int64_t group_;
  DType sent_;
  std::size_t of_bucket_;
};

}  // namespace neurim
