#include "neurim/ops/ctc_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "neurim/backend/reference/view.h"

namespace neurim {

namespace {

using reference::View;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// log(e^a + e^b + e^c).
double log_sum(double a, double b, double c = -kInfinity) {
  if (a == -kInfinity && b == -kInfinity && c == -kInfinity) return a;
  const double most = std::max({a, b, c});
  return most + std::log(std::exp(a - most) + std::exp(b - most) + std::exp(c - most));
}

/// One sequence of the batch: its steps, and its labels with a blank before, between and after them.
class Sequence {
 public:
  /// `from`: where its labels begin.
  Sequence(std::span<const View> in, std::int64_t blank, std::int64_t n, std::int64_t from)
      : log_probs_(in[0]), n_(n), steps_(in[2].integer(n)), states_{blank} {
    const std::int64_t room = in[1].shape().rank() == 2 ? in[1].shape()[1] : Dim(in[1].numel() - from);
    const std::int64_t labels = in[3].integer(n);
    fits_ = steps_ >= 0 && steps_ <= log_probs_.shape()[0] && labels >= 0 && labels <= room;
    for (std::int64_t i = 0; fits_ && i < labels; ++i) {
      const std::int64_t label = in[1].integer(from + i);
      fits_ = label >= 0 && label < log_probs_.shape()[2] && label != blank;
      states_.insert(states_.end(), {label, blank});
    }
  }

  bool fits() const { return fits_; }  ///< lengths and labels are in their ranges
  std::int64_t steps() const { return steps_; }
  std::int64_t states() const { return static_cast<std::int64_t>(states_.size()); }
  std::int64_t label(std::int64_t s) const { return states_[s]; }
  /// Where the log probability of class c at step t lies.
  std::int64_t at(std::int64_t t, std::int64_t c) const {
    return (t * log_probs_.shape()[1] + n_) * log_probs_.shape()[2] + c;
  }
  double log_prob(std::int64_t t, std::int64_t s) const { return log_probs_[at(t, label(s))]; }
  /// Whether state s may follow s - 2: the blank between two different labels may be left out.
  bool skips(std::int64_t s) const { return s >= 2 && label(s) != label(s - 2); }

  /// For every step and state, the log probability of all paths that lead there.
  std::vector<double> forward() const {
    std::vector<double> alpha(static_cast<std::size_t>(steps_ * states()), -kInfinity);
    for (std::int64_t t = 0; t < steps_; ++t)
      for (std::int64_t s = 0; s < states(); ++s) {
        double sum = s < 2 ? 0 : -kInfinity;
        if (t > 0) {
          const double* before = alpha.data() + (t - 1) * states();
          sum = log_sum(before[s], s >= 1 ? before[s - 1] : -kInfinity, skips(s) ? before[s - 2] : -kInfinity);
        }
        alpha[t * states() + s] = sum + log_prob(t, s);
      }
    return alpha;
  }

  /// -log of the probability of the labels: paths end in the last label or the blank after it.
  double loss(const std::vector<double>& alpha) const {
    if (steps_ == 0) return states() == 1 ? 0 : kInfinity;
    const double* end = alpha.data() + alpha.size();
    return -(states() == 1 ? end[-1] : log_sum(end[-1], end[-2]));
  }

  /// Moves beta, the log probability of all ways on from each state after step t + 1, to after step t.
  void backward(std::int64_t t, std::vector<double>& beta) const {
    if (t == steps_ - 1) {
      for (std::int64_t s = 0; s < states(); ++s) beta[s] = s >= states() - 2 ? 0 : -kInfinity;
      return;
    }
    for (std::int64_t s = 0; s < states(); ++s) {
      const auto on = [&](std::int64_t next, bool possible) {
        return possible ? beta[next] + log_prob(t + 1, next) : -kInfinity;
      };
      beta[s] = log_sum(on(s, true), on(s + 1, s + 1 < states()), on(s + 2, s + 2 < states() && skips(s + 2)));
    }
  }

 private:
  const View& log_probs_;
  std::int64_t n_, steps_;
  std::vector<std::int64_t> states_;
  bool fits_;
};

/// Calls visit(n, sequence) for each sequence of the batch whose lengths and labels are in their ranges.
template <class Visit>
void each_sequence(std::span<const View> in, std::int64_t blank, std::uint32_t& status, Visit visit) {
  const bool side_by_side = in[1].shape().rank() == 2;
  std::int64_t from = 0;
  for (std::int64_t n = 0; n < in[0].shape()[1]; ++n) {
    const Sequence sequence(in, blank, n, side_by_side ? n * in[1].shape()[1] : Dim(from));
    if (!sequence.fits()) {
      status |= kStatusIndexOutOfRange;
      return;
    }
    visit(n, sequence);
    from += (sequence.states() - 1) / 2;
  }
}

void zero(const View& view) {
  for (std::int64_t i = 0; i < view.numel(); ++i) view.set(i, 0);
}

void ctc_loss_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t& status) {
  const auto& ctc = static_cast<const CtcLoss&>(op);
  zero(out[0]);
  each_sequence(in, ctc.blank, status, [&](std::int64_t n, const Sequence& sequence) {
    const double loss = sequence.loss(sequence.forward());
    out[0].set(n, ctc.zero_infinity && loss == kInfinity ? 0 : loss);
  });
}

void ctc_loss_grad_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t& status) {
  const auto& ctc = static_cast<const CtcLossGrad&>(op);
  zero(out[0]);
  std::vector<double> beta, share(static_cast<std::size_t>(in[0].shape()[2]));
  each_sequence(in, ctc.blank, status, [&](std::int64_t n, const Sequence& sequence) {
    const std::vector<double> alpha = sequence.forward();
    const double loss = sequence.loss(alpha), dloss = in[4][n];
    if (ctc.zero_infinity && loss == kInfinity) return;
    beta.resize(static_cast<std::size_t>(sequence.states()));
    for (std::int64_t t = sequence.steps(); t-- > 0;) {
      sequence.backward(t, beta);
      // How probable each class is at this step, given the labels.
      for (std::int64_t s = 0; s < sequence.states(); ++s) share[sequence.label(s)] = 0;
      for (std::int64_t s = 0; s < sequence.states(); ++s)
        share[sequence.label(s)] += std::exp(alpha[t * sequence.states() + s] + beta[s] + loss);
      for (std::int64_t s = 0; s < sequence.states(); ++s)
        out[0].set(sequence.at(t, sequence.label(s)), -dloss * share[sequence.label(s)]);
    }
  });
}

}  // namespace

void reference_ctc_loss() {
  reference::define_reference("ctc_loss", ctc_loss_body);
  reference::define_reference("ctc_loss_grad", ctc_loss_grad_body);
}

}  // namespace neurim
