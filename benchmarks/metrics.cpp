// Measures what metrics cost beside inference: metrics [images=512] [classes=1000] [batch=32] [imgsz=224] [threads=2].
// ResNet-18 runs batch by batch; after each its answers are counted. Then come the areas, the intervals, and all that
// `neurim val` prints. A line of JSON tells the seconds of each and the share of metrics beside the bare runs.
#include <chrono>

#include "benchmarks/program.h"
#include "neurim/core/random.h"
#include "neurim/evaluate/headline.h"
#include "neurim/evaluate/predictions.h"
#include "neurim/model/inference.h"
#include "neurim/model/zoo.h"

namespace neurim {
namespace {

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void main_of(const std::vector<std::string>& words) {
  std::map<std::string, std::int64_t, std::less<>> options{
      {"images", 512}, {"classes", 1000}, {"batch", 32}, {"imgsz", 224}, {"threads", 2}};
  read_counts(words, options, 0);
  initialize();
  set_threads(options["threads"]);
  const std::int64_t batch = options["batch"], classes = options["classes"], size = options["imgsz"];
  const Model model = create_model("resnet18", {.num_classes = classes});
  const Type images{DType::f32, {batch, 3, size, size}};
  const Plan plan = inference_plan(model, images);
  const Tensor input = random_uniform(images.shape, -2, 2);
  plan({input});

  const std::vector<std::string> names(static_cast<std::size_t>(classes), "class");
  Evaluation evaluation(names);
  Predictions predictions(names);
  Random random(0);
  double running = 0, counting = 0;
  std::vector<float> logits(static_cast<std::size_t>(batch * classes));
  std::vector<std::int64_t> labels(static_cast<std::size_t>(batch));
  for (std::int64_t first = 0; first < options["images"]; first += batch) {
    Tensor out;
    running += seconds_of([&] { out = plan({input})[0]; });
    out.read(logits.data());
    for (float& logit : logits) logit += static_cast<float>(random.normal());  // answers that differ
    for (std::int64_t& label : labels)
      label = static_cast<std::int64_t>(random.uniform() * static_cast<double>(classes));
    counting += seconds_of([&] {
      evaluation.add(logits, labels);
      for (std::int64_t i = 0; i < batch; ++i)
        predictions.add_logits(
            first + i, "image",
            std::span(logits).subspan(static_cast<std::size_t>(i * classes), static_cast<std::size_t>(classes)),
            labels[static_cast<std::size_t>(i)]);
    });
  }
  const double telling = seconds_of(
      [&] { headline_metrics(evaluation, predictions.probabilities(), predictions.probabilities().areas()); });
  std::cout
      << JsonObject{{"images", options["images"]}, {"classes", classes}, {"run_s", running},
                    {"count_s", counting},         {"tell_s", telling},  {"share", (counting + telling) / running}}
             .line()
      << '\n';
}

}  // namespace
}  // namespace neurim

int main(int argc, char** argv) { return neurim::run_program(argc, argv, neurim::main_of); }
