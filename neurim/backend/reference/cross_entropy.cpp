#include "neurim/ops/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "neurim/backend/reference/view.h"

namespace neurim {

namespace {

using reference::View;

/// What loss and gradient share: where the logits of a place lie, and what its target means.
struct Problem {
  const CrossEntropyOptions& options;
  const View &logits, &target;
  const View* weights;
  std::int64_t classes = logits.shape()[1];
  std::int64_t places = target.numel();
  std::int64_t inner = logits.shape()[0] == 0 ? Dim(1) : places / logits.shape()[0];

  double weight(std::int64_t c) const { return weights ? (*weights)[c] : 1; }
  std::int64_t at(std::int64_t place, std::int64_t c) const {
    return (place / inner * classes + c) * inner + place % inner;
  }
  std::int64_t label(std::int64_t place) const { return static_cast<const std::int64_t*>(target.data)[place]; }
  bool counts(std::int64_t place, std::uint32_t& status) const {
    if (label(place) == options.ignore_index) return false;
    const bool inside = label(place) >= 0 && label(place) < classes;
    if (!inside) status |= kStatusIndexOutOfRange;
    return inside;
  }
  double log_sum_exp(std::int64_t place) const {
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) most = std::max(most, logits[at(place, c)]);
    for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(logits[at(place, c)] - most);
    return most + std::log(sum);
  }
  /// How much class c weighs at a place: the loss is the sum over c of share * -log softmax.
  double share(std::int64_t place, std::int64_t c) const {
    const double smooth = options.label_smoothing / static_cast<double>(classes);
    return weight(c) * (smooth + (c == label(place) ? 1 - options.label_smoothing : 0));
  }
  /// By what a reduced loss is divided.
  double divisor(std::uint32_t& status) const {
    if (options.reduction != "mean") return 1;
    double sum = 0;
    for (std::int64_t place = 0; place < places; ++place)
      if (counts(place, status)) sum += weight(label(place));
    return sum;
  }
};

void cross_entropy_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t& status) {
  const Problem problem{static_cast<const CrossEntropy&>(op).options, in[0], in[1], in.size() == 3 ? &in[2] : nullptr};
  const bool reduced = problem.options.reduction != "none";
  double total = 0;
  for (std::int64_t place = 0; place < problem.places; ++place) {
    double loss = 0;
    if (problem.counts(place, status)) {
      const double normal = problem.log_sum_exp(place);
      for (std::int64_t c = 0; c < problem.classes; ++c)
        if (const double share = problem.share(place, c); share != 0)  // a class of no share may have a logit of -inf
          loss += share * (normal - in[0][problem.at(place, c)]);
    }
    total += loss;
    if (!reduced) out[0].set(place, loss);
  }
  if (reduced) out[0].set(0, total / problem.divisor(status));
}

void cross_entropy_grad_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t& status) {
  const Problem problem{static_cast<const CrossEntropyGrad&>(op).options, in[0], in[1],
                        in.size() == 4 ? &in[2] : nullptr};
  const View& dloss = in.back();
  const double divisor = problem.divisor(status);
  for (std::int64_t place = 0; place < problem.places; ++place) {
    if (!problem.counts(place, status)) {
      for (std::int64_t c = 0; c < problem.classes; ++c) out[0].set(problem.at(place, c), 0);
      continue;
    }
    const double scale = dloss[problem.options.reduction == "none" ? place : 0] / divisor;
    const double normal = problem.log_sum_exp(place);
    double shares = 0;
    for (std::int64_t c = 0; c < problem.classes; ++c) shares += problem.share(place, c);
    for (std::int64_t c = 0; c < problem.classes; ++c) {
      const std::int64_t at = problem.at(place, c);
      out[0].set(at, scale * (shares * std::exp(in[0][at] - normal) - problem.share(place, c)));
    }
  }
}

}  // namespace

void reference_cross_entropy() {
  reference::define_reference("cross_entropy", cross_entropy_body);
  reference::define_reference("cross_entropy_grad", cross_entropy_grad_body);
}

}  // namespace neurim
