#include "neurim/distributed/reduce_gradients.h"

#include "neurim/base/error.h"
#include "neurim/distributed/all_reduce.h"
#include "neurim/ops/mul.h"

namespace neurim {

namespace {

constexpr std::size_t kBucket = 16 << 20;  // bytes that are summed at once

}  // namespace

bool ReduceGradients::apply(Gradients& gradients, double samples) {
  gradients.as_sums(samples);
  Tensors bucket;
  std::vector<Tensor*> places;
  std::size_t size = 0;
  const auto reduce = [&] {
    const Tensors summed = all_reduce(bucket, group_, sent_);
    for (std::size_t i = 0; i < places.size(); ++i) *places[i] = summed[i];
    bucket.clear(), places.clear(), size = 0;
  };
  const auto put = [&](Tensor& tensor) {
    bucket.push_back(tensor);
    places.push_back(&tensor);
    size += bytes(tensor.type());
    if (size >= kBucket) reduce();
  };
  // The last weights have their gradients first.
  for (std::size_t i = gradients.all.size(); i-- > 0;)
    if (gradients.all[i]) put(gradients.all[i]);
  if (!bucket.empty()) reduce();
  gradients.samples = all_reduce({gradients.samples}, group_)[0];  // a count, which is not rounded
  return true;
}

}  // namespace neurim
