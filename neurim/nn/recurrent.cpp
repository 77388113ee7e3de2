#include "neurim/nn/recurrent.h"

#include <cmath>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/dropout.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/transpose.h"

namespace neurim::nn {

namespace {

/// As PyTorch draws all weights and biases of its recurrent layers.
Init by_hidden_size(std::int64_t hidden) {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  return uniform(-bound, bound);
}

/// (N,…) of every direction -> (directions,N,…).
Tensor stacked(const Tensors& each) {
  Tensors all;
  for (const Tensor& tensor : each) all.push_back(reshape(tensor, {1, tensor.size(0), tensor.size(1)}));
  return all.size() == 1 ? all[0] : concat(all, 0);
}

}  // namespace

RecurrentLayers::RecurrentLayers(Cell cell, std::string_view who, std::int64_t in, std::int64_t hidden,
                                 const Options& o)
    : cell_(cell), who_(who), hidden_(hidden), options_(o) {
  require(in > 0 && hidden > 0 && o.num_layers > 0, who, ": features (", in, "), hidden units (", hidden,
          ") and layers (", o.num_layers, ") must be 1 or more");
  require(o.proj_size >= 0 && o.proj_size < hidden, who, ": proj_size ", o.proj_size,
          " has to be less than the hidden size ", hidden, ", or 0 for no projection");
  require(o.dropout >= 0 && o.dropout <= 1, who, ": dropout is ", o.dropout, ", has to lie in [0, 1]");
  require(o.dropout == 0 || o.num_layers > 1, who,
          ": dropout acts between layers, and there is one; give num_layers=2 or more, or dropout=0");
  require(o.nonlinearity == "tanh" || o.nonlinearity == "relu", who, ": nonlinearity is \"", o.nonlinearity,
          "\", has to be tanh or relu");
  const std::int64_t gates = gate_count(cell) * hidden, outputs = o.proj_size ? o.proj_size : hidden;
  const Init init = by_hidden_size(hidden);
  for (std::int64_t layer = 0; layer < o.num_layers; ++layer)
    for (int direction = 0; direction < 1 + o.bidirectional; ++direction) {
      const std::int64_t features = layer == 0 ? in : outputs * (1 + o.bidirectional);
      Direction& d = directions_.emplace_back();
      d.weight_ih = parameter({gates, features}, init);
      d.weight_hh = parameter({gates, outputs}, init);
      if (o.bias) d.bias_ih = parameter({gates}, init), d.bias_hh = parameter({gates}, init);
      if (o.proj_size) d.weight_hr = parameter({outputs, hidden}, init);
      if (o.peephole) d.peephole = parameter({3 * hidden}, init);
    }
}

void RecurrentLayers::parts(Parts& p) {
  const Init init = by_hidden_size(hidden_);
  const std::size_t sides = options_.bidirectional ? 2 : 1;
  for (std::size_t i = 0; i < directions_.size(); ++i) {
    Direction& d = directions_[i];
    const std::string suffix = text("_l", i / sides, i % sides ? "_reverse" : "");
    p("weight_ih" + suffix, d.weight_ih, init)("weight_hh" + suffix, d.weight_hh, init);
    p("bias_ih" + suffix, d.bias_ih, init)("bias_hh" + suffix, d.bias_hh, init);
    p("weight_hr" + suffix, d.weight_hr, init)("peephole" + suffix, d.peephole, init);
  }
}

Tensor RecurrentLayers::state_of(const Tensor& given, std::size_t i, std::string_view what, const Shape& each) const {
  if (!given) return {};
  const auto count = static_cast<std::int64_t>(directions_.size()), at = static_cast<std::int64_t>(i);
  require(given.shape() == Shape{count, each[0], each[1]}, who_, ": the initial ", what, " is ", given.shape(),
          ", expected (layers*directions,batch,units) ", Shape{count, each[0], each[1]});
  return reshape(slice(given, {at}, {at + 1}), each);
}

Tensors RecurrentLayers::run(const RecurrentInputs& in, bool reverse) const {
  if (cell_ == Cell::lstm) return lstm(in, reverse);
  return cell_ == Cell::gru ? gru(in, reverse, options_.reset_after) : rnn(in, reverse, options_.nonlinearity);
}

RecurrentOutput RecurrentLayers::operator()(const Tensor& x, const RecurrentState& initial,
                                            const Tensor& lengths) const {
  const bool swap = options_.batch_first;
  require(x.rank() == 3, who_, ": takes x ", swap ? "(batch,steps,features)" : "(steps,batch,features)", ", got ",
          x.shape());
  require(cell_ != Cell::lstm || static_cast<bool>(initial.h) == static_cast<bool>(initial.c), who_,
          ": the initial h and c are given together or not at all");
  require(cell_ == Cell::lstm || !initial.c, who_, ": has no state c, which is the LSTM's");
  const Dim batch = x.size(swap ? 0 : 1);
  const std::int64_t outputs = options_.proj_size ? options_.proj_size : hidden_;
  const std::size_t sides = options_.bidirectional ? 2 : 1;
  Tensor y = swap ? transpose(x, {1, 0, 2}) : x;
  Tensors last_h, last_c;
  for (std::size_t first = 0; first < directions_.size(); first += sides) {
    if (first > 0 && options_.dropout > 0) y = dropout(y, options_.dropout);
    Tensors both;
    for (std::size_t i = first; i < first + sides; ++i) {
      const Direction& d = directions_[i];
      const Tensors out = run(
          {y, d.weight_ih, d.weight_hh, d.bias_ih, d.bias_hh, d.weight_hr, d.peephole,
           state_of(initial.h, i, "h", {batch, outputs}), state_of(initial.c, i, "c", {batch, hidden_}), lengths},
          i > first);
      both.push_back(out[0]);
      last_h.push_back(out[1]);
      if (cell_ == Cell::lstm) last_c.push_back(out[2]);
    }
    y = sides == 1 ? both[0] : concat(both, -1);
  }
  return {swap ? transpose(y, {1, 0, 2}) : y, {stacked(last_h), cell_ == Cell::lstm ? stacked(last_c) : Tensor()}};
}

LSTM::LSTM(std::int64_t in, std::int64_t hidden) : LSTM(in, hidden, Config{}) {}
LSTM::LSTM(std::int64_t in, std::int64_t hidden, const Config& c)
    : RecurrentLayers(Cell::lstm, "LSTM", in, hidden,
                      {.num_layers = c.num_layers,
                       .bias = c.bias,
                       .batch_first = c.batch_first,
                       .dropout = c.dropout,
                       .bidirectional = c.bidirectional,
                       .proj_size = c.proj_size,
                       .peephole = c.peephole}) {}

GRU::GRU(std::int64_t in, std::int64_t hidden) : GRU(in, hidden, Config{}) {}
GRU::GRU(std::int64_t in, std::int64_t hidden, const Config& c)
    : RecurrentLayers(Cell::gru, "GRU", in, hidden,
                      {.num_layers = c.num_layers,
                       .bias = c.bias,
                       .batch_first = c.batch_first,
                       .dropout = c.dropout,
                       .bidirectional = c.bidirectional,
                       .reset_after = c.reset_after}) {}

RNN::RNN(std::int64_t in, std::int64_t hidden) : RNN(in, hidden, Config{}) {}
RNN::RNN(std::int64_t in, std::int64_t hidden, const Config& c)
    : RecurrentLayers(Cell::rnn, "RNN", in, hidden,
                      {.num_layers = c.num_layers,
                       .bias = c.bias,
                       .batch_first = c.batch_first,
                       .dropout = c.dropout,
                       .bidirectional = c.bidirectional,
                       .nonlinearity = c.nonlinearity}) {}

}  // namespace neurim::nn
