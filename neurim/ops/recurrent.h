// Recurrent layers: one direction of one layer over all time steps.
#pragma once
#include "neurim/graph/op.h"

namespace neurim {

/// What one direction of one layer takes: T steps of N sequences with I features, H hidden units, P outputs
/// (H without projection) and G gates, stacked in PyTorch's order: i, f, g, o of the LSTM (G = 4), r, z, n of
/// the GRU (G = 3), the one of the simple network (G = 1). All of one floating dtype.
struct RecurrentInputs {
  Tensor x;               ///< (T,N,I)
  Tensor weight_ih;       ///< (G*H,I)
  Tensor weight_hh;       ///< (G*H,P)
  Tensor bias_ih,         ///< (G*H); undefined, as bias_hh is then: 0
      bias_hh;            ///< (G*H)
  Tensor weight_hr = {};  ///< LSTM: (P,H), P < H; the output is its product with o * tanh(c) (Sak et al.,
                          ///< 2014, arXiv:1402.1128)
  Tensor peephole = {};   ///< LSTM: (3*H), what c adds to i, f and o (Gers et al., JMLR 3, 2002)
  Tensor h0 = {},         ///< output before the first step, (N,P); undefined: 0
      c0 = {};            ///< LSTM: cell state before the first step, (N,H); given exactly when h0 is
  Tensor lengths = {};    ///< i64(N) in [1,T]: steps from a sequence's length on are padding; undefined: T
};

/// Long short-term memory (Hochreiter and Schmidhuber, 1997; with forget gates, Gers et al., 2000) -> outputs
/// (T,N,P), last h (N,P), last c (N,H). `reverse` walks from the last step to the first; outputs stay at
/// their step. Outputs at padding are 0 and leave the states as they are. A length outside [1,T] sets
/// kStatusIndexOutOfRange and counts as 0. Throws Error(usage) when sizes do not go together.
Tensors lstm(const RecurrentInputs& in, bool reverse = false);

/// Gated recurrent unit (Cho et al., 2014, arXiv:1406.1078) -> outputs (T,N,H), last h (N,H); padding as for
/// lstm. With `reset_after` n = tanh(W x + b + r * (V h + c)), as cuDNN and PyTorch have it (ONNX's
/// linear_before_reset = 1); without, n = tanh(W x + b + V (r * h) + c), as in the paper.
Tensors gru(const RecurrentInputs& in, bool reverse = false, bool reset_after = true);

/// h = f(W x + b + V h + c) (Elman, 1990) with the nonlinearity f "tanh" or "relu" -> outputs (T,N,H), last
/// h (N,H); padding as for lstm.
Tensors rnn(const RecurrentInputs& in, bool reverse = false, const std::string& nonlinearity = "tanh");

/// The kind of a recurrent layer.
enum class Cell : std::uint8_t { lstm, gru, rnn };
int gate_count(Cell cell);  ///< G of RecurrentInputs

/// The attributes of recurrent ops.
struct RecurrentOptions {
  bool reverse = false;               ///< from the last step to the first
  bool reset_after = true;            ///< of the GRU
  std::string nonlinearity = "tanh";  ///< of the simple network
  bool bias = false,                  ///< whether there are bias_ih and bias_hh
      projection = false,             ///< whether there is weight_hr
      peephole = false,               ///< whether there is the input peephole
      state = false,                  ///< whether there is h0, and of the LSTM c0
      lengths = false;                ///< whether there is the input lengths
};

/// Base of the recurrent ops. Their optional inputs are there when the options say so.
class RecurrentOp : public Op {
 public:
  const Cell cell;           ///< the kind of layer
  RecurrentOptions options;  ///< the attributes
  /// An op of that cell.
  explicit RecurrentOp(Cell kind) : cell(kind) {}
  void fields(Fields& f) override;
  bool checks_data() const override { return true; }
};

/// Inputs (x, weight_ih, weight_hh[, bias_ih, bias_hh][, weight_hr][, peephole][, h0[, c0]][, lengths]) ->
/// (y, h[, c]): a linear layer over all steps and a recurrence.
class Recurrent final : public RecurrentOp {
 public:
  using RecurrentOp::RecurrentOp;  ///< of a cell
  std::string_view name() const override;
  Types infer(std::span<const Type> in) const override;
  Tensors decompose(std::span<const Tensor> in) const override;
  Tensors grad(const Gradient& g) const override;
  std::int64_t multiply_adds(std::span<const Type> in) const override;
  Onnx onnx() const override;
  void write_onnx(OnnxNode& node) const override;
  std::vector<Sample> samples() const override;
};

}  // namespace neurim
