#include "neurim/cli/drawn_batch.h"

#include "neurim/core/random.h"
#include "neurim/nn/init.h"

namespace neurim::cli {

void draw_batch(const Plan& plan, std::int64_t classes) {
  const Tensors& in = plan.inputs();
  nn::fill(in[0], nn::normal(), 0, "images");
  if (in.size() == 1) return;
  Random random(0);
  std::vector<std::int64_t> labels(static_cast<std::size_t>(in[1].numel()));
  for (std::int64_t& label : labels) label = random.below(static_cast<std::uint32_t>(classes));
  in[1].write(labels.data());
}

PlanOptions training_options() { return {.training = true, .random = Tensor::full({DType::i64, {2}}, 0)}; }

}  // namespace neurim::cli
