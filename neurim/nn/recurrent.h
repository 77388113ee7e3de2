// Recurrent networks of one or more layers in one or both directions: LSTM, GRU and the simple RNN.
#pragma once
#include <string>
#include <vector>

#include "neurim/nn/module.h"
#include "neurim/ops/recurrent.h"

namespace neurim::nn {

/// States before the first step or after the last, by layer and direction (the forward one first):
/// h (layers*directions,N,P) and, of the LSTM, c (layers*directions,N,H). An undefined one is 0.
struct RecurrentState {
  Tensor h,  ///< (layers*directions,N,P), what the cells give
      c;     ///< (layers*directions,N,H), the LSTM's cells; undefined for GRU and RNN
};

/// What a recurrent module gives: the outputs of the last layer (T,N,directions*P), or (N,T,directions*P) for
/// batch_first, and the states after the last step of each sequence.
struct RecurrentOutput {
  Tensor y;             ///< (T,N,directions*P), or (N,T,directions*P) for batch_first
  RecurrentState last;  ///< the states after the last step of each sequence
};

/// What LSTM, GRU and RNN share. Sizes are those of ops/recurrent.h: T steps, N sequences, H hidden units, P
/// outputs. Weights, of layer k: weight_ih_l<k>(G*H,I), weight_hh_l<k>(G*H,P), bias_ih_l<k>(G*H) and
/// bias_hh_l<k>(G*H), weight_hr_l<k>(P,H) with a projection, peephole_l<k>(3*H); the same with "_reverse" for
/// the other direction. Names, order and layout are PyTorch's, so that weights exchange; it has no peepholes.
class RecurrentLayers {
 public:
  /// x (T,N,features), or (N,T,features) for batch_first. `lengths` i64(N) in [1,T] says how many steps of
  /// each sequence count; outputs after them are 0, and the reverse direction begins at the last one that
  /// counts. In a trace for training, elements of what a layer hands to the next are zeroed with probability
  /// `dropout`.
  RecurrentOutput operator()(const Tensor& x, const RecurrentState& initial = {}, const Tensor& lengths = {}) const;
  void parts(Parts& p);

 protected:
  /// The options of all three; each has a Config of its own, which says what they mean.
  struct Options {
    std::int64_t num_layers = 1;        ///< as in LSTM::Config
    bool bias = true,                   ///< as in LSTM::Config
        batch_first = false;            ///< as in LSTM::Config
    double dropout = 0;                 ///< as in LSTM::Config
    bool bidirectional = false;         ///< as in LSTM::Config
    std::int64_t proj_size = 0;         ///< as in LSTM::Config
    bool peephole = false,              ///< as in LSTM::Config
        reset_after = true;             ///< as in GRU::Config
    std::string nonlinearity = "tanh";  ///< as in RNN::Config
  };
  /// `who` begins the errors. Throws Error(usage) when a size or an option cannot be.
  RecurrentLayers(Cell cell, std::string_view who, std::int64_t in, std::int64_t hidden, const Options& options);

 private:
  /// The weights of one direction of one layer.
  struct Direction {
    Tensor weight_ih, weight_hh, bias_ih, bias_hh, weight_hr, peephole;
  };
  /// The initial state of direction number `i`: undefined when none is given.
  Tensor state_of(const Tensor& given, std::size_t i, std::string_view what, const Shape& each) const;
  Tensors run(const RecurrentInputs& in, bool reverse) const;

  Cell cell_;
  std::string_view who_;
  std::int64_t hidden_;
  Options options_;
  std::vector<Direction> directions_;  ///< of every layer, the forward one first
};

/// Long short-term memory.
struct LSTM : RecurrentLayers {
  /// Options; names and defaults are PyTorch's, but for peephole.
  struct Config {
    std::int64_t num_layers = 1;  ///< each takes the outputs of the one before
    bool bias = true,             ///< adds bias_ih and bias_hh
        batch_first = false;      ///< x and y are (N,T,…), not (T,N,…)
    double dropout = 0;           ///< between layers
    bool bidirectional = false;   ///< a second direction, from the last step to the first
    std::int64_t proj_size = 0;   ///< P when not 0; less than the hidden size
    bool peephole = false;        ///< the gates see c too

    void fields(Fields& f) {
      f("num_layers", num_layers)("bias", bias)("batch_first", batch_first)("dropout", dropout);
      f("bidirectional", bidirectional)("proj_size", proj_size)("peephole", peephole);
    }
  };
  LSTM(std::int64_t in, std::int64_t hidden);  ///< in features, hidden units; with the default Config
  /// Throws Error(usage) when a size is below 1 or an option cannot be.
  LSTM(std::int64_t in, std::int64_t hidden, const Config& config);
};

/// Gated recurrent unit.
struct GRU : RecurrentLayers {
  /// Options; names and defaults are PyTorch's, but for reset_after.
  struct Config {
    std::int64_t num_layers = 1;  ///< each takes the outputs of the one before
    bool bias = true,             ///< adds bias_ih and bias_hh
        batch_first = false;      ///< x and y are (N,T,…), not (T,N,…)
    double dropout = 0;           ///< between layers
    bool bidirectional = false;   ///< a second direction, from the last step to the first
    bool reset_after = true;      ///< the reset gate acts after the product with the state, as in PyTorch

    void fields(Fields& f) {
      f("num_layers", num_layers)("bias", bias)("batch_first", batch_first)("dropout", dropout);
      f("bidirectional", bidirectional)("reset_after", reset_after);
    }
  };
  GRU(std::int64_t in, std::int64_t hidden);  ///< in features, hidden units; with the default Config
  /// Throws Error(usage) when a size is below 1 or an option cannot be.
  GRU(std::int64_t in, std::int64_t hidden, const Config& config);
};

/// The simple recurrent network, h = f(W x + b + V h + c).
struct RNN : RecurrentLayers {
  /// Options; names and defaults are PyTorch's.
  struct Config {
    std::int64_t num_layers = 1;        ///< each takes the outputs of the one before
    std::string nonlinearity = "tanh";  ///< or "relu"
    bool bias = true,                   ///< adds bias_ih and bias_hh
        batch_first = false;            ///< x and y are (N,T,…), not (T,N,…)
    double dropout = 0;                 ///< between layers
    bool bidirectional = false;         ///< a second direction, from the last step to the first

    void fields(Fields& f) {
      f("num_layers", num_layers)("nonlinearity", nonlinearity)("bias", bias)("batch_first", batch_first);
      f("dropout", dropout)("bidirectional", bidirectional);
    }
  };
  RNN(std::int64_t in, std::int64_t hidden);  ///< in features, hidden units; with the default Config
  /// Throws Error(usage) when a size is below 1 or an option cannot be.
  RNN(std::int64_t in, std::int64_t hidden, const Config& config);
};

}  // namespace neurim::nn
