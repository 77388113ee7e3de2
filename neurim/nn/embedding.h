// Vectors that stand for numbers, and a form of two inputs.
#pragma once
#include <optional>

#include "neurim/nn/module.h"
#include "neurim/ops/common/list_field.h"

namespace neurim::nn {

/// indices (…), i64 or i32 in [0, num) -> (…,dim): row i of the parameter weight(num,dim) for each index i.
struct Embedding {
  struct Config {
    std::optional<std::int64_t> padding_idx = std::nullopt;  ///< its row begins as 0 and is not learnt

    void fields(Fields& f) { list_field(f, "padding_idx", padding_idx); }
  };

  Embedding(std::int64_t num, std::int64_t dim);
  Embedding(std::int64_t num, std::int64_t dim, const Config& config);
  void parts(Parts& p);
  Tensor operator()(const Tensor& indices) const;

  Config config;
  Tensor weight;

 private:
  Init init() const;
};

/// x1(…,in1) and x2(…,in2) -> (…,out): x1 weight[o] x2 + bias[o]; parameters weight(out,in1,in2) and
/// bias(out).
struct Bilinear {
  struct Config {
    bool bias = true;
  };

  Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out);
  Bilinear(std::int64_t in1, std::int64_t in2, std::int64_t out, const Config& config);
  void parts(Parts& p);
  Tensor operator()(const Tensor& x1, const Tensor& x2) const;

  Config config;
  Tensor weight, bias;
};

}  // namespace neurim::nn
