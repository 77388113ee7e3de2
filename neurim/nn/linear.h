// Fully connected layer.
#pragma once
#include "neurim/nn/module.h"

namespace neurim::nn {

/// x(…,in) -> (…,out); parameters weight(out,in) and bias(out).
struct Linear {
  struct Config {
    bool bias = true;
    InitRule init = fan_in_uniform, bias_init = fan_in_uniform;

    void fields(Fields& f) { f("bias", bias)("init", init)("bias_init", bias_init); }
  };

  Linear(std::int64_t in, std::int64_t out);
  Linear(std::int64_t in, std::int64_t out, const Config& config);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;

  Config config;
  Tensor weight, bias;
};

}  // namespace neurim::nn
