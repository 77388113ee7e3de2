// Fully connected layer.
#pragma once
#include "neurim/nn/module.h"

namespace neurim::nn {

/// x(…,in) -> (…,out); parameters weight(out,in) and bias(out).
struct Linear {
  /// Options; the names follow PyTorch's.
  struct Config {
    bool bias = true;                ///< adds bias(out) to the result
    InitRule init = fan_in_uniform,  ///< of the weight
        bias_init = fan_in_uniform;  ///< of the bias

    void fields(Fields& f) { f("bias", bias)("init", init)("bias_init", bias_init); }
  };

  Linear(std::int64_t in, std::int64_t out);                        ///< with the default Config
  Linear(std::int64_t in, std::int64_t out, const Config& config);  ///< throws Error(usage) when in or out is below 1
  void parts(Parts& p);
  Tensor operator()(const Tensor& x) const;  ///< x (…,in); gives (…,out)

  Config config;  ///< as given
  Tensor weight,  ///< (out,in)
      bias;       ///< (out), or undefined without bias
};

}  // namespace neurim::nn
