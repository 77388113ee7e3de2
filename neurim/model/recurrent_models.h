// Recurrent networks by name: forecasters of series, and models of texts.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/model/model.h"

namespace neurim {

/// The names of the networks: gru, lstm and rnn, as the layers of nn/recurrent.h.
std::vector<std::string> recurrent_model_names();
bool is_recurrent_model(std::string_view name);  ///< whether it is the name of one

/// The size of a recurrent network.
struct RecurrentModelOptions {
  std::int64_t hidden_size = 64;          ///< units of a layer
  std::int64_t num_layers = 1;            ///< one upon the other
  std::optional<std::uint64_t> seed = 0;  ///< of the weights: as in ModelOptions
};

/// What a forecaster sees of a step, and what it says of the steps that follow.
struct ForecasterColumns {
  std::vector<double> mean,  ///< of each column: what brings its values near to [-1, 1]
      std;                   ///< the same
  std::int64_t target = 0;   ///< which of them is forecast
  std::int64_t horizon = 1;  ///< how many of its next values
};

/// x (N,T,columns) -> (N,horizon), both f64 or both f32 and in the units of the series: the last value of the target,
/// and what a linear layer on the last state of the network adds to it. So it begins near the naive forecast, and
/// a level that it never met in training does not throw it off. The network computes in f32 with what is scaled: f64
/// keeps what changes beside a large level, f32 rounds it. Tensors: mean, std (f64, kept, not learnt), rnn.*, head.*.
/// Throws Error(usage) for an unknown name, with the nearest known one, and for sizes below 1.
Model create_forecaster(std::string_view name, const ForecasterColumns& columns,
                        const RecurrentModelOptions& options = {});

/// x i64(N,T), numbers of characters in [0, characters) -> logits f32(N,T,characters) of the character after
/// each, which depend on it and the ones before. Tensors: embedding.weight, rnn.*, head.*. Throws as
/// create_forecaster does.
Model create_language_model(std::string_view name, std::int64_t characters, const RecurrentModelOptions& options = {});

}  // namespace neurim
