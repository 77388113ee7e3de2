// Measures training steps of a network of two recurrent layers: recurrent MODEL [batch=64] [steps=64] [threads=2]
// [precision=f32|bf16|fp16]. MODEL (lstm or gru) reads 128 features a step into 256 hidden units and tells ten classes
// from its last output. Speaks the line protocol of peers/serve.py, so that benchmarks/compare lets it take turns with
// its peers.
#include "benchmarks/program.h"
#include "neurim/cli/measure.h"

namespace neurim {
namespace {

constexpr std::int64_t kFeatures = 128, kHidden = 256, kClasses = 10;

/// A planned training step of a module like nn::LSTM.
template <class Module>
Plan training_plan(Module& net, nn::Linear& classes, SGD& optimizer, std::int64_t batch, std::int64_t steps,
                   DType products) {
  const Plan step = plan(
      [&](const Tensors& in) -> Tensors {
        const Tensor last = slice(net(in[0]).y, {-1}, {steps}, {1});
        const Tensor loss = cross_entropy(classes(reshape(last, {batch, kHidden})), in[1]);
        optimizer.minimize(loss);
        return {loss};
      },
      {{DType::f32, {batch, steps, kFeatures}}, {DType::i64, {batch}}}, {.training = true, .compute_dtype = products});
  step.inputs()[0].assign(random_uniform({batch, steps, kFeatures}, -2, 2));
  step.inputs()[1].assign(cast(floor(random_uniform({batch}, 0, kClasses - 0.001)), DType::i64));
  return step;
}

template <class Module>
void run(const std::string& model, std::int64_t batch, std::int64_t steps, DType products) {
  Module net(kFeatures, kHidden, {.num_layers = 2, .batch_first = true});
  nn::Linear classes(kHidden, kClasses);
  Parameters weights = named_parameters(net);
  for (const Parameter& p : named_parameters(classes))
    weights.push_back({"classes." + p.name, p.tensor, p.role, p.init});
  SGD optimizer(weights, {.lr = 1e-3, .momentum = 0.9});
  if (products == DType::f16) optimizer.scale_losses();
  const Plan step = training_plan(net, classes, optimizer, batch, steps, products);
  cli::serve({{"case", model}, {"peer", "neurim"}, {"version", version()}}, batch,
             [&] { step.run(step.inputs(), step.outputs()); });
}

void main_of(const std::vector<std::string>& given) {
  std::vector<std::string> words = given;
  std::string precision = "f32";
  std::erase_if(words, [&](const std::string& word) {
    return word.starts_with("precision=") && (precision = word.substr(10), true);
  });
  require(!words.empty() && (words[0] == "lstm" || words[0] == "gru"),
          "usage: recurrent lstm|gru [batch=64] [steps=64] [threads=2] [precision=f32|bf16|fp16]");
  const DType products = compute_dtype_named(precision);
  std::map<std::string, std::int64_t, std::less<>> options{{"batch", 64}, {"steps", 64}, {"threads", 2}};
  read_counts(words, options);
  initialize();
  set_threads(options["threads"]);
  words[0] == "lstm" ? run<nn::LSTM>("lstm", options["batch"], options["steps"], products)
                     : run<nn::GRU>("gru", options["batch"], options["steps"], products);
}

}  // namespace
}  // namespace neurim

int main(int argc, char** argv) { return neurim::run_program(argc, argv, neurim::main_of); }
