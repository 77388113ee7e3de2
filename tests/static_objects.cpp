// Objects at namespace scope are made before the library's own and destroyed after them: the exit status says whether
// that goes well.
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>

#include "neurim/neurim.h"

namespace {

using namespace neurim;

Tensor tensor;
std::optional<Model> model;
std::unique_ptr<Optimizer> optimizer;
std::unique_ptr<Plan> kept;
std::unique_ptr<Compiled> compiled;

/// Runs a plan when main has ended.
struct Late {
  std::optional<Plan> plan;
  ~Late() {
    if (plan)
      std::printf("%zu results\n", (*plan)({Tensor::full({DType::f32, {1, 1, 28, 28}}, 1)})[0].values<float>().size());
  }
} late;

}  // namespace

int main(int argc, char** argv) {
  const std::string_view kind = argc > 1 ? argv[1] : "";
  initialize();
  const Type image{DType::f32, {1, 1, 28, 28}};
  if (kind == "tensor")
    tensor = Tensor::full({DType::f32, {4}}, 1);
  else
    model = create_model("lenet5");
  if (kind == "optimizer") optimizer = std::make_unique<SGD>(named_parameters(*model), SGD::Config{.lr = 0.1});
  if (kind == "plan") kept = std::make_unique<Plan>(inference_plan(*model, image));
  if (kind == "compiled") {
    compiled = std::make_unique<Compiled>([](const Tensors& in) -> Tensors { return {(*model)(in[0])}; },
                                          PlanOptions{});
    (*compiled)({Tensor::full(image, 1)});
  }
  if (kind == "late") late.plan.emplace(inference_plan(*model, image));
  std::puts("end of main");
}
