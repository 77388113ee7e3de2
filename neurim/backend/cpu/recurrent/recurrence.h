// Recurrences over f32 sequences. A task owns whole sequences, so no time step waits for another task. The product with
// the state and the gates' arithmetic are computed tile by tile in registers.
#pragma once
#include "neurim/backend/cpu/common/panels.h"

namespace neurim::cpu {

enum class RecurrentCell : std::uint8_t { lstm, gru, gru_reset_before, rnn_tanh, rnn_relu };

inline constexpr std::int64_t kRowsTogether = 64;  ///< the most sequences of a task that are processed together

/// A packed weight; of size 0 if there is none.
struct Factor {
  Panels panels;
  const float* packed = nullptr;
  explicit operator bool() const { return panels.size > 0; }
};

/// The arguments of both the forward and the backward pass; absent ones are null. See ops/recurrence.h for their
/// meaning.
struct RecurrentPass {
  RecurrentCell cell;
  bool reverse;
  std::int64_t steps, batch, hidden, outputs;
  std::int64_t gates_row;  ///< floats between rows of out_gates, or of gates, dgates and dhidden; the padding is zero
  const float *peephole, *h0, *c0;
  const std::int64_t* lengths;
  const float* zeros;     ///< a row of zeros, as long as the longest row
  Factor weight, second;  ///< second: the projection, or gate n of a GRU that applies the reset gate first
  StorageDtype pairs;     ///< storage of both factors of the products
  float* rows;            ///< workspace for the left factors: up to kRowsTogether rows in blocks of 16

  /// The steps of sequence n. A length that is not a number of steps counts as 0.
  std::int64_t length(std::int64_t n) const {
    if (!lengths) return steps;
    return lengths[n] < 1 || lengths[n] > steps ? 0 : lengths[n];
  }
};

struct RecurrentForward : RecurrentPass {
  const float *gates, *bias;
  /// If `gates` is null, they are computed here: x(steps, batch, features) times this weight, plus `bias`.
  const float* x;
  Factor inputs;
  float *y, *h, *c, *out_gates, *saved;
  float* inner;  ///< (batch, hidden): the input of the projection
};

struct RecurrentBackward : RecurrentPass {
  const float *y, *gates, *saved, *dy, *dh, *dc;
  float *dgates, *dh0, *dc0, *dhidden, *dprojected, *dpeephole, *dbias;
};

/// Runs sequences [first, last).
NEURIM_EACH_ISA(void run_recurrence(const RecurrentForward& pass, std::int64_t first, std::int64_t last))
NEURIM_EACH_ISA(void run_recurrence_grad(const RecurrentBackward& pass, std::int64_t first, std::int64_t last))

}  // namespace neurim::cpu
