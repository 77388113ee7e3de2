#include "neurim/distributed/reduce_gradients.h"

#include <algorithm>

#include "neurim/distributed/all_reduce.h"
#include "neurim/ops/mul.h"

namespace neurim {

void in_buckets(const Tensors& tensors, const std::function<void(const std::vector<std::size_t>& which)>& visit,
                std::size_t of_bucket) {
  constexpr std::size_t kLeast = 1 << 20;
  const auto size_of = [](const Tensor& tensor) { return tensor ? bytes(tensor.type()) : 0; };
  std::size_t left = 0;  // bytes in no bucket yet
  for (const Tensor& tensor : tensors) left += size_of(tensor);
  std::vector<std::size_t> bucket;
  std::size_t size = 0, most = 0;
  for (std::size_t i = tensors.size(); i-- > 0;) {
    if (!tensors[i]) continue;
    if (bucket.empty()) most = std::min(of_bucket, std::max(kLeast, left / 3));
    bucket.push_back(i);
    size += size_of(tensors[i]);
    left -= size_of(tensors[i]);
    if (size < most) continue;
    visit(bucket);
    bucket.clear(), size = 0;
  }
  if (!bucket.empty()) visit(bucket);
}

bool ReduceGradients::apply(Gradients& gradients, double samples) {
  gradients.as_sums(samples);
  std::vector<std::vector<std::size_t>> buckets;
  std::vector<BegunSums> begun;
  in_buckets(
      gradients.all,
      [&](const std::vector<std::size_t>& bucket) {
        Tensors all;
        for (const std::size_t i : bucket) all.push_back(gradients.all[i]);
        begun.push_back(all_reduce_begin(all, group_, sent_));
        buckets.push_back(bucket);
      },
      of_bucket_);
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const Tensors summed = all_reduce_end(begun[b]);
    for (std::size_t k = 0; k < summed.size(); ++k) gradients.all[buckets[b][k]] = summed[k];
  }
  gradients.samples = all_reduce({gradients.samples}, group_)[0];  // a count, which is not rounded
  return true;
}

}  // namespace neurim
