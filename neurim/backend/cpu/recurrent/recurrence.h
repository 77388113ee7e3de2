// Recurrences over f32 sequences. A task owns whole sequences, so that no step waits for another task; the
// product with the state and the arithmetic of the gates are done tile by tile, in registers.
#pragma once
#include "neurim/backend/cpu/common/panels.h"

namespace neurim::cpu {

enum class RecurrentCell : std::uint8_t { lstm, gru, gru_reset_before, rnn_tanh, rnn_relu };

inline constexpr std::int64_t kRowsTogether = 64;  ///< at most so many sequences walk together

/// A packed weight; none has no size.
struct Factor {
  Panels panels;
  const float* packed = nullptr;
  explicit operator bool() const { return panels.size > 0; }
};

/// What both directions of differentiation know; absent operands are null. For the meanings see
/// ops/recurrence.h.
struct RecurrentPass {
  RecurrentCell cell;
  bool reverse;
  std::int64_t steps, batch, hidden, outputs;
  std::int64_t gates_row;  ///< floats from each row of out_gates, or of gates, dgates and dhidden, to the next; zeros
                           ///< behind its gates
  const float *peephole, *h0, *c0;
  const std::int64_t* lengths;
  const float* zeros;     ///< as many as the longest row
  Factor weight, second;  ///< second: of the projection, or of gate n where the reset comes before
  StorageDtype pairs;     ///< what both factors of the products are rounded to
  float* rows;            ///< room for what is multiplied: kRowsTogether rows in blocks of 16, or as many as there are

  /// The steps of sequence n; a length that cannot be counts as 0.
  std::int64_t length(std::int64_t n) const {
    if (!lengths) return steps;
    return lengths[n] < 1 || lengths[n] > steps ? 0 : lengths[n];
  }
};

struct RecurrentForward : RecurrentPass {
  const float *gates, *bias;
  /// What the gates are made of where they do not come ready, and `gates` is null: x(steps, batch, features) times this
  /// weight, plus `bias`.
  const float* x;
  Factor inputs;
  float *y, *h, *c, *out_gates, *saved;
  float* inner;  ///< (batch, hidden): what is projected
};

struct RecurrentBackward : RecurrentPass {
  const float *y, *gates, *saved, *dy, *dh, *dc;
  float *dgates, *dh0, *dc0, *dhidden, *dprojected, *dpeephole, *dbias;
};

/// Sequences [first, last).
NEURIM_EACH_ISA(void run_recurrence(const RecurrentForward& pass, std::int64_t first, std::int64_t last))
NEURIM_EACH_ISA(void run_recurrence_grad(const RecurrentBackward& pass, std::int64_t first, std::int64_t last))

}  // namespace neurim::cpu
