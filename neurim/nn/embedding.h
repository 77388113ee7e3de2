// Vectors that stand for numbers, and a form of two inputs.
#pragma once
#include <optional>

#include "neurim/nn/module.h"
#include "neurim/ops/common/list_field.h"

namespace neurim::nn {

/// indices (…), i64 or i32 in [0, num) -> (…,dim): row i of the parameter weight(num,dim) for each index i.
struct Embedding {
  /// Options.
  struct Config {
    std::optional<std::int64_t> padding_idx = std::nullopt;  ///< its row begins as 0 and is not learnt; -1: the last

    void fields(Fields& f) { list_field(f, "padding_idx", padding_idx); }
  };

  Embedding(std::int64_t num, std::int64_t dim);  ///< without padding_idx
  /// Throws Error(usage) when num or dim is below 1 and for a padding_idx outside [-num, num).
  Embedding(std::int64_t num, std::int64_t dim, const Config& config);
  void parts(Parts& p);
  Tensor operator()(const Tensor& indices) const;  ///< indices (…); gives (…,dim)

  Config config;  ///< as given, but with padding_idx in [0, num)
  Tensor weight;  ///< (num,dim), drawn from N(0, 1)

 private:
  Init init() const;
};

/// x1(…,in1) and x2(…,in2) -> (…,out): x1 weight[o] x2 + bias[o]; parameters weight(out,in1,in2) and
/// bias(out).
struct Bilinear {
  /// Options.
  struct Config {
    bool bias = true;  ///< adds bias(out) to the result
  };

  Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out);  ///< with bias
  /// Throws Error(usage) when one of the sizes is below 1.
  Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out, const Config& config);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x1, const Tensor& x2) const;  ///< x1 (…,in1) and x2 (…,in2); gives (…,out)

  Config config;  ///< as given
  Tensor weight,  ///< (out,in1,in2)
      bias;       ///< (out), or undefined without bias
};

}  // namespace neurim::nn
