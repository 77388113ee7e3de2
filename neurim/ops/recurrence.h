// What a recurrent layer does step by step: all of it but the products with its inputs and the gradients of
// its weights, which are matrix products over all steps at once. See recurrent.h for the sizes and meanings.
// Internal: not part of neurim.h.
#pragma once
#include "neurim/ops/recurrent.h"

namespace neurim {

/// The sizes of a recurrence.
struct RecurrenceSize {
  Dim steps,            ///< T
      batch;            ///< N
  std::int64_t hidden,  ///< H
      outputs;          ///< P
  int gates;            ///< G
};

/// Inputs (gates(T,N,G*H), weight_hh[, bias_hh (GRU)][, weight_hr][, peephole][, h0[, c0]][, lengths]) -> (y,
/// h[, c]) and what the gradient needs: of the LSTM the gates after their nonlinearities and c of every step
/// (T,N,H), of the GRU the gates likewise and (T,N,H) what r multiplied (`reset_after`) or r * h. `gates`
/// come in as W x + b, where b has both biases but for the GRU.
class Recurrence final : public RecurrentOp {
 public:
  using RecurrentOp::RecurrentOp;  ///< of a cell
  std::string_view name() const override;
  Types infer(std::span<const Type> in) const override;
  std::int64_t multiply_adds(std::span<const Type> in) const override;
  Alias alias(int out, int in) const override;
  std::string data_fault(std::span<const Tensor> in) const override;
  std::vector<Sample> samples() const override;

  /// Where inputs and outputs stand; -1: not there.
  struct Places {
    int gates = -1, weight_hh = -1, bias_hh = -1, weight_hr = -1, peephole = -1, h0 = -1, c0 = -1, lengths = -1;
    int inputs = 0;
    int y = -1, h = -1, c = -1, out_gates = -1, saved = -1;
    int outputs = 0;
  };
  Places places() const;  ///< as the options say
  /// infer() in the name of the op that a recurrence is part of.
  Types infer_for(const Op& whole, std::span<const Type> in) const;
};

/// Inputs (weight_hh[, weight_hr][, peephole][, h0[, c0]][, lengths], y[, gates, saved], dy, dh[, dc]), the
/// saved ones as Recurrence gives them -> (dgates(T,N,G*H), dh0, [dc0], [dhidden(T,N,G*H)], [dprojected(T,N,P)],
/// [dpeephole(N,3*H)], [dbias(N,G*H), of the GRU (N,4*H)]), 0 at padding: dhidden of the GRU is the gradient of V h +
/// c; dprojected of the projection that of its result; dbias, where there is a bias, each sequence's sum of dgates over
/// the steps, and of the GRU of dhidden's gate n after it.
class RecurrenceGrad final : public RecurrentOp {
 public:
  using RecurrentOp::RecurrentOp;  ///< of a cell
  std::string_view name() const override;
  Types infer(std::span<const Type> in) const override;
  std::int64_t multiply_adds(std::span<const Type> in) const override;
  Alias alias(int out, int in) const override;
  std::vector<Sample> samples() const override;

  /// Where inputs and outputs stand; -1: not there.
  struct Places {
    int weight_hh = -1, weight_hr = -1, peephole = -1, h0 = -1, c0 = -1, lengths = -1;
    int y = -1, gates = -1, saved = -1, dy = -1, dh = -1, dc = -1;
    int inputs = 0;
    int dgates = -1, dh0 = -1, dc0 = -1, dhidden = -1, dprojected = -1, dpeephole = -1, dbias = -1;
    int outputs = 0;
  };
  Places places() const;  ///< as the options say
};

RecurrenceSize recurrence_size(const Recurrence& op, std::span<const Type> in);  ///< from the types of the op's inputs
RecurrenceSize recurrence_size(const RecurrenceGrad& op, std::span<const Type> in);  ///< the same

/// The multiply-adds of all steps with weight_hh and, with a projection, weight_hr; those of the gradient are as many.
std::int64_t step_multiply_adds(const RecurrenceSize& size, bool projection);

/// An op of that cell with these attributes.
std::shared_ptr<Recurrence> make_recurrence(Cell cell, const RecurrentOptions& options);
/// The same of the gradient.
std::shared_ptr<RecurrenceGrad> make_recurrence_grad(Cell cell, const RecurrentOptions& options);

/// The attributes with which the ops of a cell are tested, and the sizes beside each.
struct RecurrentRow {
  std::int64_t steps, batch, inputs, hidden, outputs;
  RecurrentOptions options;
};
std::vector<RecurrentRow> recurrent_rows(Cell cell);  ///< the rows of a cell

}  // namespace neurim
