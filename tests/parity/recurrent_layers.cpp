// Runs the recurrent modules, with every combination of options, for recurrent_layers_test.py to compare with
// PyTorch's:
// recurrent_layers FILE.safetensors
// Prints a JSON list of the options of each case and the names of its weights. The file holds, for case i,
// the inputs "i.x", "i.h0", "i.c0", "i.lengths", the weights "i.weight.<name>", the results "i.out0" …
// (outputs, last h, last c), the gradients "i.dout0" … that these are given, and the gradients "i.d.<name of
// an input or a weight>" that follow.
#include <iostream>
#include <nlohmann/json.hpp>

#include "neurim/neurim.h"
#include "tests/op_table.h"

namespace neurim {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kSteps = 5, kBatch = 3, kFeatures = 4, kHidden = 20, kProjected = 7;

struct Case {
  std::int64_t layers;
  bool bidirectional, lengths, states, bias, batch_first;
  std::string cell = {};
  bool projection = false, peephole = false, reset_after = true;
  std::string nonlinearity = "tanh";

  Json json() const {
    return {{"cell", cell},
            {"layers", layers},
            {"bidirectional", bidirectional},
            {"lengths", lengths},
            {"states", states},
            {"bias", bias},
            {"batch_first", batch_first},
            {"projection", projection},
            {"peephole", peephole},
            {"reset_after", reset_after},
            {"nonlinearity", nonlinearity}};
  }
};

Tensor random_tensor(const Shape& shape, Random& random) {
  const Type type{DType::f32, shape};
  return op_table::from_doubles(type, op_table::numbers(type, {}, random));
}

class Cases {
 public:
  template <class Module>
  void add(const Case& c, Module module) {
    initialise(module, rows_.size());
    Random random(rows_.size());
    const std::int64_t states = c.layers * (c.bidirectional ? 2 : 1);
    const Shape x = c.batch_first ? Shape{kBatch, kSteps, kFeatures} : Shape{kSteps, kBatch, kFeatures};
    std::vector<std::pair<std::string, Tensor>> in{{"x", random_tensor(x, random)}};
    if (c.states) in.emplace_back("h0", random_tensor({states, kBatch, c.projection ? kProjected : kHidden}, random));
    if (c.states && c.cell == "LSTM") in.emplace_back("c0", random_tensor({states, kBatch, kHidden}, random));
    const std::int64_t lengths[] = {3, 5, 1};

    const auto forward = [&](const Tensors& given) {
      nn::RecurrentState initial;
      if (c.states) initial.h = given[1];
      if (c.states && c.cell == "LSTM") initial.c = given[2];
      const nn::RecurrentOutput out = module(given[0], initial,
                                             c.lengths ? Tensor::from(Shape{kBatch}, lengths) : Tensor());
      Tensors all{out.y, out.last.h};
      if (out.last.c) all.push_back(out.last.c);
      return all;
    };
    Tensors given;
    for (const auto& [name, tensor] : in) given.push_back(tensor), keep(name, tensor);
    if (c.lengths) keep("lengths", Tensor::from(Shape{kBatch}, lengths));
    const Tensors out = plan(forward, op_table::types_of(given))(given);
    const std::size_t count = given.size();
    for (std::size_t i = 0; i < out.size(); ++i) {
      given.push_back(random_tensor(out[i].shape(), random));
      keep(text("out", i), out[i]);
      keep(text("dout", i), given.back());
    }

    const Parameters weights = named_parameters(module);
    const auto backward = [&](const Tensors& all) {
      const auto end = all.begin() + static_cast<std::ptrdiff_t>(count);
      Tensors wrt(all.begin(), end);
      for (const Parameter& weight : weights) wrt.push_back(weight.tensor);
      const Tensors seeds(end, all.end());
      return gradients(forward(all), wrt, seeds);
    };
    const Tensors d = plan(backward, op_table::types_of(given), {.training = true})(given);
    for (std::size_t i = 0; i < count; ++i) keep("d." + in[i].first, d[i]);
    for (std::size_t i = 0; i < weights.size(); ++i) {
      keep("weight." + weights[i].name, weights[i].tensor);
      keep("d." + weights[i].name, d[count + i]);
    }
    Json row = c.json();
    for (const Parameter& weight : weights) row["weights"].push_back(weight.name);
    rows_.push_back(row);
  }

  void write(const fs::path& path) const {
    write_safetensors(path, tensors_);
    std::cout << rows_ << '\n';
  }

 private:
  void keep(const std::string& what, const Tensor& tensor) {
    tensors_.emplace_back(text(rows_.size(), '.', what), tensor);
  }
  Json rows_ = Json::array();
  std::vector<std::pair<std::string, Tensor>> tensors_;
};

/// Each kind of network with these options.
void add_kinds(Cases& cases, Case c) {
  c.cell = "LSTM";
  for (const bool projection : {false, true})
    for (const bool peephole : {false, true}) {
      c.projection = projection, c.peephole = peephole;
      cases.add(c, nn::LSTM(kFeatures, kHidden,
                            {.num_layers = c.layers,
                             .bias = c.bias,
                             .batch_first = c.batch_first,
                             .bidirectional = c.bidirectional,
                             .proj_size = projection ? kProjected : 0,
                             .peephole = peephole}));
    }
  c.projection = c.peephole = false;
  c.cell = "GRU";
  for (const bool reset_after : {false, true}) {
    c.reset_after = reset_after;
    cases.add(c, nn::GRU(kFeatures, kHidden,
                         {.num_layers = c.layers,
                          .bias = c.bias,
                          .batch_first = c.batch_first,
                          .bidirectional = c.bidirectional,
                          .reset_after = reset_after}));
  }
  c.cell = "RNN";
  for (const std::string nonlinearity : {"tanh", "relu"}) {
    c.nonlinearity = nonlinearity;
    cases.add(c, nn::RNN(kFeatures, kHidden,
                         {.num_layers = c.layers,
                          .nonlinearity = nonlinearity,
                          .bias = c.bias,
                          .batch_first = c.batch_first,
                          .bidirectional = c.bidirectional}));
  }
}

void add_all(Cases& cases) {
  for (const std::int64_t layers : {1, 2})
    for (const bool bidirectional : {false, true})
      for (const bool lengths : {false, true})
        for (const bool states : {false, true})
          for (const bool bias : {false, true})
            for (const bool batch_first : {false, true})
              add_kinds(cases, {layers, bidirectional, lengths, states, bias, batch_first});
}

}  // namespace
}  // namespace neurim

int main(int argc, char** argv) {
  using namespace neurim;
  try {
    require(argc == 2, "usage: recurrent_layers FILE.safetensors");
    initialize();
    Cases cases;
    add_all(cases);
    cases.write(argv[1]);
  } catch (const std::exception& error) {
    std::cerr << "recurrent_layers: " << error.what() << '\n';
    return 1;
  }
}
