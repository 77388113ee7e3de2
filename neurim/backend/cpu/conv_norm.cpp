#include "neurim/backend/cpu/conv_norm.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "neurim/ops/batch_norm.h"

namespace neurim::cpu {

namespace {

constexpr std::int64_t kLanes = 16;

int place(std::span<const int> list, int value) {
  const auto at = std::find(list.begin(), list.end(), value);
  return at == list.end() ? -1 : static_cast<int>(at - list.begin());
}

/// The operand of a two-operand step that is not `value`.
int other(const Step& step, int value) { return step.in[0] == value ? step.in[1] : step.in[0]; }

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

bool ConvNorm::read(const Site& site) { return site.op().name() == "conv2d" ? read_forward(site) : read_backward(site); }

/// Reads {conv2d, batch_norm_train[, add][, relu_]}.
bool ConvNorm::read_forward(const Site& site) {
  const auto steps = site.steps;
  if (steps.size() < 2 || steps[0].in.size() != 2 || steps[1].op->name() != "batch_norm_train") return false;
  if (steps[1].in[0] != steps[0].out[0]) return false;
  forward_ = true;
  eps_ = static_cast<const BatchNormTrain&>(*steps[1].op).eps;
  int value = steps[1].out[0];
  for (std::size_t s = 2; s < steps.size(); ++s) {
    if (steps[s].op->name() == "add" && add_in_ < 0 && !relu_ && other(steps[s], value) != value) {
      add_in_ = place(site.in, other(steps[s], value));
      if (add_in_ < 0 || site.input(add_in_).type != site.values[static_cast<std::size_t>(value)].type) return false;
    } else if (steps[s].op->name() == "relu" && !relu_) {
      relu_ = true;
    } else {
      return false;
    }
    value = steps[s].out[0];
  }
  x_in_ = place(site.in, steps[0].in[0]);
  weight_in_ = place(site.in, steps[0].in[1]);
  gamma_in_ = place(site.in, steps[1].in[1]);
  beta_in_ = place(site.in, steps[1].in[2]);
  conv_out_ = place(site.out, steps[0].out[0]);
  mean_out_ = place(site.out, steps[1].out[1]);
  var_out_ = place(site.out, steps[1].out[2]);
  y_out_ = place(site.out, value);
  const int known = (conv_out_ >= 0) + (mean_out_ >= 0) + (var_out_ >= 0) + (y_out_ >= 0);
  return conv_out_ >= 0 && mean_out_ >= 0 && var_out_ >= 0 && y_out_ >= 0 && known == static_cast<int>(site.out.size());
}

/// Reads {conv2d_input_grad[, add][, relu_grad], batch_norm_grad}.
bool ConvNorm::read_backward(const Site& site) {
  const auto steps = site.steps;
  if (steps.size() < 2 || steps.back().op->name() != "batch_norm_grad") return false;
  forward_ = false;
  int value = steps[0].out[0];
  for (std::size_t s = 1; s + 1 < steps.size(); ++s) {
    if (steps[s].op->name() == "add" && add_in_ < 0 && gate_in_ < 0 && other(steps[s], value) != value) {
      add_in_ = place(site.in, other(steps[s], value));
      if (add_in_ < 0 || site.input(add_in_).type != site.values[static_cast<std::size_t>(value)].type) return false;
    } else if (steps[s].op->name() == "relu_grad" && gate_in_ < 0 && steps[s].in[1] == value && steps[s].in[0] != value) {
      gate_in_ = place(site.in, steps[s].in[0]);
      if (gate_in_ < 0) return false;
    } else {
      return false;
    }
    value = steps[s].out[0];
  }
  const Step& norm = steps.back();
  if (norm.in[0] != value || norm.in[1] == value) return false;
  eps_ = static_cast<const BatchNormGrad&>(*norm.op).eps;
  x_in_ = place(site.in, steps[0].in[0]);
  weight_in_ = place(site.in, steps[0].in[1]);
  raw_in_ = place(site.in, norm.in[1]);
  gamma_in_ = place(site.in, norm.in[2]);
  mean_in_ = place(site.in, norm.in[3]);
  var_in_ = place(site.in, norm.in[4]);
  conv_out_ = place(site.out, value);  // the gradient before the norm, when others read it too
  y_out_ = place(site.out, norm.out[0]);
  dgamma_out_ = place(site.out, norm.out[1]);
  dbeta_out_ = place(site.out, norm.out[2]);
  const int known = (conv_out_ >= 0) + (y_out_ >= 0) + (dgamma_out_ >= 0) + (dbeta_out_ >= 0);
  return y_out_ >= 0 && raw_in_ >= 0 && known == static_cast<int>(site.out.size());
}

const std::vector<std::int64_t>& ConvNorm::cut(const Site& site, std::int64_t images) {
  const std::int64_t parts = std::min<std::int64_t>(images, site.chunks);
  for (std::int64_t i = 0; i <= parts; ++i) begin_.push_back(images * i / parts);
  return begin_;
}

void ConvNorm::ask_scratch(Site& site, std::size_t own) {
  const Shape& y = site.output(y_out_).type.shape;
  channels_ = y[1];
  pixels_ = y[2] * y[3];
  own_ = aligned(own);
  sums_ = aligned(static_cast<std::size_t>(blocks()) * sizeof(ChannelSums));
  coefficients_ = aligned(static_cast<std::size_t>(3 * channels_) * sizeof(float));
  site.scratch = static_cast<std::size_t>(parts()) * (own_ + sums_ + coefficients_);
}

ChannelSums* ConvNorm::sums(const Args& args, int part) const {
  char* first = static_cast<char*>(args.scratch) + static_cast<std::size_t>(parts()) * own_;
  return reinterpret_cast<ChannelSums*>(first + static_cast<std::size_t>(part) * sums_);
}

float* ConvNorm::coefficients(const Args& args, int join) const {
  char* first = static_cast<char*>(args.scratch) + static_cast<std::size_t>(parts()) * (own_ + sums_);
  return reinterpret_cast<float*>(first + static_cast<std::size_t>(join) * coefficients_);
}

ConvEpilogue ConvNorm::begin(const Args& args, int part) const {
  ChannelSums* total = sums(args, part);
  std::memset(static_cast<void*>(total), 0, sums_);
  if (forward_) return {.sums = total, .first = true};
  for (std::int64_t b = 0; b < blocks(); ++b)
    std::memcpy(total[b].pivot, at(args.in, mean_in_) + b * kLanes, sizeof total[b].pivot);
  return {.add = at(args.in, add_in_), .gate = at(args.in, gate_in_), .factor = at(args.in, raw_in_), .sums = total};
}

/// Joins the parts' sums of one channel, in order: the mean of what was summed and the sum of squares about it (Chan,
/// Golub and LeVeque, 1983).
void ConvNorm::join_moments(const Args& args, std::int64_t channel, double& mean, double& squares) const {
  double count = 0;
  mean = squares = 0;
  for (int part = 0; part < parts(); ++part) {
    const ChannelSums& total = sums(args, part)[channel / kLanes];
    const auto lane = static_cast<std::size_t>(channel % kLanes);
    const double n = static_cast<double>((begin_[static_cast<std::size_t>(part) + 1] - begin_[static_cast<std::size_t>(part)]) * pixels_);
    const double part_mean = total.pivot[lane] + total.sum[lane] / n;
    const double part_squares = std::max(0.0, total.product[lane] - total.sum[lane] * total.sum[lane] / n);
    const double delta = part_mean - mean;
    count += n;
    mean += delta * n / count;
    squares += part_squares + delta * delta * n * (count - n) / count;
  }
}

void ConvNorm::finish(const Args& args, int join) const {
  float* a = coefficients(args, join);
  float *b = a + channels_, *c = b + channels_;
  const double pixels = static_cast<double>(begin_.back() * pixels_);
  for (std::int64_t channel = 0; channel < channels_; ++channel) {
    const double gamma = at(args.in, gamma_in_)[channel];
    if (forward_) {
      double mean = 0, squares = 0;
      join_moments(args, channel, mean, squares);
      const double var = squares / pixels, scale = gamma / std::sqrt(var + eps_);
      a[channel] = static_cast<float>(scale);
      b[channel] = static_cast<float>(at(args.in, beta_in_)[channel] - mean * scale);
      if (join == 0) at(args.out, mean_out_)[channel] = static_cast<float>(mean), at(args.out, var_out_)[channel] = static_cast<float>(var);
    } else {
      double sum = 0, product = 0;  // Σ dy and Σ dy (x - mean)
      for (int part = 0; part < parts(); ++part) {
        sum += sums(args, part)[channel / kLanes].sum[channel % kLanes];
        product += sums(args, part)[channel / kLanes].product[channel % kLanes];
      }
      const double mean = at(args.in, mean_in_)[channel], inverse = 1 / std::sqrt(at(args.in, var_in_)[channel] + eps_);
      // dx = gamma inverse (dy - sum / n - (x - mean) inverse² product / n)
      const double slope = -gamma * inverse * inverse * inverse * product / pixels;
      a[channel] = static_cast<float>(gamma * inverse);
      c[channel] = static_cast<float>(slope);
      b[channel] = static_cast<float>(-gamma * inverse * sum / pixels - slope * mean);
      if (join == 0) {
        if (dgamma_out_ >= 0) at(args.out, dgamma_out_)[channel] = static_cast<float>(product * inverse);
        if (dbeta_out_ >= 0) at(args.out, dbeta_out_)[channel] = static_cast<float>(sum);
      }
    }
  }
  for (std::int64_t image = begin_[static_cast<std::size_t>(join)]; image < begin_[static_cast<std::size_t>(join) + 1]; ++image)
    for (std::int64_t block = 0; block < blocks(); ++block) {
      const std::int64_t place = (image * blocks() + block) * pixels_ * kLanes;
      auto here = [&](const float* base) { return base ? base + place : nullptr; };
      NEURIM_DISPATCH(affine_block)(raw(args) + place, a + block * kLanes, b + block * kLanes, forward_ ? nullptr : here(at(args.in, raw_in_)),
             forward_ ? nullptr : c + block * kLanes, forward_ ? here(at(args.in, add_in_)) : nullptr, relu_,
             at(args.out, y_out_) + place, pixels_);
    }
}

}  // namespace neurim::cpu
