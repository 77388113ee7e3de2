#include "neurim/cli/drawn_batch.h"

#include "neurim/core/random.h"
#include "neurim/nn/init.h"

namespace neurim::cli {

std::vector<float> drawn_numbers(std::size_t count) {
  Random random(0);
  std::vector<float> numbers(count);
  for (float& number : numbers) number = static_cast<float>(random.normal());
  return numbers;
}

void draw_batch(const Plan& plan, std::int64_t classes) {
  Random random(0);
  for (const Tensor& in : plan.inputs()) {
    if (in.dtype() == DType::f32) {
      nn::fill(in, nn::normal(), 0, "images");
      continue;
    }
    std::vector<std::int64_t> labels(static_cast<std::size_t>(in.numel()));
    for (std::int64_t& label : labels) label = random.below(static_cast<std::uint32_t>(classes));
    in.write(labels.data());
  }
}

PlanOptions training_options(Device device, PlanOptions options) {
  options.training = true;
  options.device = device;
  options.random = Tensor::full({DType::i64, {2}}, 0, device);
  return options;
}

}  // namespace neurim::cli
