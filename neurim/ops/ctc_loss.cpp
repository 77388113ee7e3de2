#include "neurim/ops/ctc_loss.h"

#include "neurim/base/error.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/div.h"
#include "neurim/ops/losses/reduction.h"
#include "neurim/ops/maximum.h"

namespace neurim {

namespace {

/// Checks all inputs but dlosses; the result is the type of the losses.
Type losses_type(const Op& op, std::int64_t blank, std::span<const Type> in) {
  const Shape& x = in[0].shape;
  check_floating(op, in[0], "log_probs");
  require(x.rank() == 3, op.name(), ": takes log_probs (T,N,C), got ", x);
  require(blank >= 0 && blank < x[2], op.name(), ": blank is class ", blank, ", but log_probs ", x, " have ", x[2],
          " classes");
  const Shape& targets = in[1].shape;
  require(in[1].dtype == DType::i64 && (targets.rank() == 1 || (targets.rank() == 2 && targets[0] == x[1])), op.name(),
          ": targets are ", in[1], ", log_probs ", x, " expect labels i64(", x[1],
          ",S), or all of them as i64(sum of the lengths)");
  const Type lengths{DType::i64, {x[1]}};
  require(in[2] == lengths, op.name(), ": input_lengths are ", in[2], ", log_probs ", x, " expect ", lengths);
  require(in[3] == lengths, op.name(), ": target_lengths are ", in[3], ", log_probs ", x, " expect ", lengths);
  return {in[0].dtype, {x[1]}};
}

/// What is wrong with the lengths or the labels of such inputs.
std::string ctc_fault(std::int64_t blank, std::span<const Tensor> in) {
  std::string fault = outside("the input length", in[2], 0, in[0].size(0) + 1);
  if (fault.empty()) fault = outside("the target length", in[3], 0, in[1].size(-1) + 1);
  if (!fault.empty()) return fault;
  return text("a label is the blank ", blank, " or not in [0,", in[0].size(2),
              "), or there are fewer than the target lengths say");
}

/// Targets side by side and one after the other, the blank first and last, inputs that are too short.
template <class O>
std::vector<Sample> ctc_samples(bool with_dlosses) {
  std::vector<Sample> all;
  for (const Shape& targets : {Shape{4, 3}, Shape{12}})
    for (const bool short_inputs : {false, true}) {
      auto op = std::make_shared<O>();
      op->blank = targets.rank() == 1 ? 4 : 0;
      op->zero_infinity = short_inputs;
      const double first_label = op->blank == 0 ? 1 : 0;
      Sample sample{op,
                    {{DType::f32, {9, 4, 5}}, {DType::i64, targets}, {DType::i64, {4}}, {DType::i64, {4}}},
                    {{-3, 0}, {first_label, first_label + 4}, {short_inputs ? 1. : 6., 10}, {0, 4}}};
      if (with_dlosses) sample.in.push_back({DType::f32, {4}});
      all.push_back(sample);
    }
  return all;
}

}  // namespace

Types CtcLoss::infer(std::span<const Type> in) const {
  check_count(*this, in, 4, 4);
  return {losses_type(*this, blank, in)};
}

Types CtcLossGrad::infer(std::span<const Type> in) const {
  check_count(*this, in, 5, 5);
  const Type losses = losses_type(*this, blank, in);
  require(in[4] == losses, name(), ": dlosses are ", in[4], ", the losses are ", losses);
  return {in[0]};
}

std::string CtcLoss::data_fault(std::span<const Tensor> in) const { return ctc_fault(blank, in); }
std::string CtcLossGrad::data_fault(std::span<const Tensor> in) const { return ctc_fault(blank, in); }

Tensors CtcLoss::grad(const Gradient& g) const {
  auto op = std::make_shared<CtcLossGrad>();
  op->blank = blank;
  op->zero_infinity = zero_infinity;
  Tensors in(g.in.begin(), g.in.end());
  in.push_back(g.dout[0]);
  return {apply1(op, in), Tensor(), Tensor(), Tensor()};
}

std::vector<Sample> CtcLoss::samples() const { return ctc_samples<CtcLoss>(false); }
std::vector<Sample> CtcLossGrad::samples() const { return ctc_samples<CtcLossGrad>(true); }

Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CtcOptions& options) {
  check_reduction("ctc_loss", options.reduction);
  auto op = std::make_shared<CtcLoss>();
  op->blank = options.blank;
  op->zero_infinity = options.zero_infinity;
  Tensor losses = apply1(op, {wide(log_probs), targets, input_lengths, target_lengths});
  if (options.reduction == "mean")
    losses = losses / cast(maximum(target_lengths, scalar_like(target_lengths, 1)), losses.dtype());
  return reduced(losses, options.reduction, log_probs.dtype());
}

void define_ctc_loss() {
  define<CtcLoss>();
  define<CtcLossGrad>();
}

}  // namespace neurim
