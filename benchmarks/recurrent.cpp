// Measures training steps of a network of two recurrent layers: recurrent MODEL [batch=64] [steps=64]
// [threads=2] MODEL (lstm or gru) reads 128 features a step into 256 hidden units and tells ten classes from
// its last output. Speaks the line protocol of peers/serve.py, so that benchmarks/compare lets it take turns
// with its peers.
#include <sys/resource.h>

#include <charconv>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "neurim/neurim.h"

namespace neurim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kFeatures = 128, kHidden = 256, kClasses = 10;

/// A planned training step of a module like nn::LSTM.
template <class Module>
Plan training_plan(Module& net, nn::Linear& classes, SGD& optimizer, std::int64_t batch, std::int64_t steps) {
  const Plan step = plan(
      [&](const Tensors& in) -> Tensors {
        const Tensor last = slice(net(in[0]).y, {-1}, {steps}, {1});
        const Tensor loss = cross_entropy(classes(reshape(last, {batch, kHidden})), in[1]);
        optimizer.step(gradients(std::span(&loss, 1), optimizer.weights()));
        return {loss};
      },
      {{DType::f32, {batch, steps, kFeatures}}, {DType::i64, {batch}}}, {.training = true});
  step.inputs()[0].assign(random_uniform({batch, steps, kFeatures}, -2, 2));
  step.inputs()[1].assign(cast(floor(random_uniform({batch}, 0, kClasses - 0.001)), DType::i64));
  return step;
}

int serve(const Plan& step, const std::string& model, std::int64_t batch) {
  using Clock = std::chrono::steady_clock;
  const auto say = [](const Json& answer) { std::cout << answer.dump() << std::endl; };
  const std::string key = text("bs", batch);
  say({{"ready", 1},
       {"base", {{"case", model}, {"peer", "neurim"}, {"version", version()}}},
       {"keys", {{key, batch}}}});
  for (std::string request; std::getline(std::cin, request);) {
    std::istringstream words(request);
    std::string verb, asked;
    double seconds = 0;
    words >> verb;
    if (verb.empty() || verb == "quit") break;
    words >> asked >> seconds;
    require(verb == "go" && asked == key && words, "cannot answer '", request, "'; send 'go ", key,
            " SECONDS' or 'quit'");
    std::vector<double> times;
    double spent = 0;
    while (times.empty() || spent < seconds) {
      const Clock::time_point begin = Clock::now();
      step.run(step.inputs(), step.outputs());
      times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
      spent += times.back();
    }
    say({{"times", times}});
  }
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  say({{"peak_rss_mib", static_cast<double>(usage.ru_maxrss) / 1024}});
  return 0;
}

template <class Module>
int run(const std::string& model, std::int64_t batch, std::int64_t steps) {
  Module net(kFeatures, kHidden, {.num_layers = 2, .batch_first = true});
  nn::Linear classes(kHidden, kClasses);
  Parameters weights = named_parameters(net);
  for (const Parameter& p : named_parameters(classes))
    weights.push_back({"classes." + p.name, p.tensor, p.role, p.init});
  SGD optimizer(weights, {.lr = 1e-3, .momentum = 0.9});
  return serve(training_plan(net, classes, optimizer, batch, steps), model, batch);
}

int main_of(const std::vector<std::string>& words) {
  require(!words.empty() && (words[0] == "lstm" || words[0] == "gru"),
          "usage: recurrent lstm|gru [batch=64] [steps=64] [threads=2]");
  std::map<std::string, std::int64_t, std::less<>> options{{"batch", 64}, {"steps", 64}, {"threads", 2}};
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t equals = std::min(words[i].find('='), words[i].size() - 1);
    const auto at = options.find(words[i].substr(0, equals));
    const char *begin = words[i].data() + equals + 1, *end = words[i].data() + words[i].size();
    require(at != options.end() && std::from_chars(begin, end, at->second).ptr == end && begin < end &&
                at->second > 0,
            "'", words[i], "' is none of batch=N, steps=N, threads=N with N of 1 or more");
  }
  initialize();
  set_threads(options["threads"]);
  return words[0] == "lstm" ? run<nn::LSTM>("lstm", options["batch"], options["steps"])
                            : run<nn::GRU>("gru", options["batch"], options["steps"]);
}

}  // namespace
}  // namespace neurim

int main(int argc, char** argv) {
  try {
    return neurim::main_of({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "recurrent: " << error.what() << '\n';
    return 1;
  }
}
