#include "neurim/backend/cpu/common/conv_norm.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "neurim/backend/cpu/common/physical.h"
#include "neurim/ops/batch_norm.h"

namespace neurim::cpu {

namespace {

constexpr std::int64_t kLanes = 16;

}  // namespace

bool ConvNorm::read(const KernelRequest& request, const ConvPattern& pattern) {
  if (!read_places(request, pattern)) return false;
  // Forward, the steps after the norm; in the gradient, those between it and the data gradient.
  const std::size_t begin = forward_ ? *pattern.norm + 1 : static_cast<std::size_t>(request.anchor) + 1,
                    end = forward_ ? request.steps.size() : *pattern.norm;
  const AddRelu read = read_add_relu(request, begin, end, request.steps[begin - 1].out[0], !forward_);
  const int known = forward_ ? 3 + (y_out_ >= 0)
                             : (conv_out_ >= 0) + (y_out_ >= 0) + (dgamma_out_ >= 0) + (dbeta_out_ >= 0);
  if (read.end != end || known != static_cast<int>(request.out.size())) return false;
  relu_ = read.relu;
  add_in_ = read.add >= 0 ? request.place_in(read.add) : -1;
  mask_in_ = read.mask >= 0 ? request.place_in(read.mask) : -1;
  read_rounding(request);
  return true;
}

/// Finds the operands and results of the convolution and the norm among the arguments, with or without other steps.
bool ConvNorm::read_places(const KernelRequest& request, const ConvPattern& pattern) {
  if (!pattern.norm) return false;
  forward_ = pattern.direction == Direction::forward;
  const auto steps = request.steps;
  const Step &conv = steps[request.anchor], &norm = steps[*pattern.norm];
  const auto in = [&](const Step& step, std::size_t i) { return request.place_in(step.in[i]); };
  const auto out = [&](const Step& step, std::size_t i) { return request.place_out(step.out[i]); };
  x_in_ = in(conv, 0), weight_in_ = in(conv, 1), bias_in_ = pattern.bias;
  if (forward_) {
    eps_ = static_cast<const BatchNormTrain&>(*norm.op).eps;
    gamma_in_ = in(norm, 1), beta_in_ = in(norm, 2);
    conv_out_ = out(conv, 0), mean_out_ = out(norm, 1), var_out_ = out(norm, 2), y_out_ = out(steps.back(), 0);
    const bool wanted = y_out_ >= 0 || steps.size() == *pattern.norm + 1;  // the statistics alone may be
    return norm.in[0] == conv.out[0] && conv_out_ >= 0 && mean_out_ >= 0 && var_out_ >= 0 && wanted;
  }
  eps_ = static_cast<const BatchNormGrad&>(*norm.op).eps;
  raw_in_ = in(norm, 1), gamma_in_ = in(norm, 2), mean_in_ = in(norm, 3), var_in_ = in(norm, 4);
  conv_out_ = out(steps[steps.size() - 2], 0);  // the gradient before the norm, when others read it too
  y_out_ = out(norm, 0), dgamma_out_ = out(norm, 1), dbeta_out_ = out(norm, 2);
  return norm.in[0] == steps[steps.size() - 2].out[0] && norm.in[1] != norm.in[0] && y_out_ >= 0 && raw_in_ >= 0;
}

/// Sets the storage of all operands.
void ConvNorm::read_rounding(const KernelRequest& request) {
  const auto in = [&](int number) { return number >= 0 ? request.input(number).layout.storage : StorageDtype::exact; };
  const auto out = [&](int number) {
    return number >= 0 ? request.output(number).layout.storage : StorageDtype::exact;
  };
  raw_rounded_ = out(conv_out_ >= 0 ? conv_out_ : y_out_), steps_rounded_ = out(steps_out_), y_rounded_ = out(y_out_);
  add_rounded_ = in(add_in_), mask_rounded_ = in(mask_in_), factor_rounded_ = in(raw_in_);
}

bool ConvNorm::read_any(KernelRequest& request, const ConvPattern& pattern) {
  if (ConvNorm known; known.read(request, pattern) && known.forward_) {  // its affine pass does the rest too
    *this = known;
    return true;
  }
  if (!read_places(request, pattern)) return request.why = "takes batch norm in training, or its gradient", false;
  const std::size_t first = static_cast<std::size_t>(request.anchor) + (forward_ ? 2 : 1),
                    last = request.steps.size() - (forward_ ? 0 : 1);
  steps_out_ = forward_ ? request.place_out(request.steps[first - 1].out[0]) : memory_of(request, first - 1);
  read_rounding(request);
  return first == last || steps_.emplace().read(request, first, last, forward_ ? y_rounded_ : raw_rounded_);
}

const std::vector<std::int64_t>& ConvNorm::cut(const KernelRequest& request, std::int64_t images, std::int64_t least) {
  const std::int64_t tasks = std::min(images, request.tasks_for(images, least));
  reduction_tasks_ = static_cast<int>(std::min<std::int64_t>(images, request.chunks));
  for (std::int64_t i = 0; i <= tasks; ++i) begin_.push_back(images * i / tasks);
  return begin_;
}

void ConvNorm::ask_scratch(KernelRequest& request) {
  const Shape& y = request.output(forward_ ? conv_out_ : y_out_).type.shape;
  channels_ = y[1];
  pixels_ = y[2] * y[3];
  sums_ = whole_lines(blocks() * sizeof(ChannelSums));
  coefficients_ = whole_lines(3 * blocks() * kLanes * sizeof(float));
  request.scratch = static_cast<std::size_t>(tasks()) * sums_ +
                    static_cast<std::size_t>(reduction_tasks_) * coefficients_;
}

ChannelSums* ConvNorm::sums(const Args& args, int task) const {
  return reinterpret_cast<ChannelSums*>(static_cast<char*>(args.scratch) + static_cast<std::size_t>(task) * sums_);
}

float* ConvNorm::coefficients(const Args& args, int join) const {
  char* first = static_cast<char*>(args.scratch) + static_cast<std::size_t>(tasks()) * sums_;
  return reinterpret_cast<float*>(first + static_cast<std::size_t>(join) * coefficients_);
}

ConvEpilogue ConvNorm::begin(const Args& args, int task) const {
  ChannelSums* total = sums(args, task);
  std::memset(static_cast<void*>(total), 0, sums_);
  if (forward_) return {.bias = at(args.in, bias_in_), .rounds = raw_rounded_, .sums = total, .first = true};
  for (std::int64_t channel = 0; channel < channels_; ++channel)
    total[channel / kLanes].pivot[channel % kLanes] = at(args.in, mean_in_)[channel];
  return {.add = at(args.in, add_in_),
          .rounds = raw_rounded_,
          .add_rounded = add_rounded_,
          .mask = at(args.in, mask_in_),
          .mask_most = relu_.most,
          .factor = at(args.in, raw_in_),
          .mask_rounded = mask_rounded_,
          .factor_rounded = factor_rounded_,
          .sums = total};
}

/// Joins the tasks' sums of one channel, in order: the mean of what was summed and the sum of squares about it (Chan,
/// Golub and LeVeque, 1983).
void ConvNorm::join_moments(const Args& args, std::int64_t channel, double& mean, double& squares) const {
  double count = 0;
  mean = squares = 0;
  for (int task = 0; task < tasks(); ++task) {
    const ChannelSums& total = sums(args, task)[channel / kLanes];
    const auto lane = static_cast<std::size_t>(channel % kLanes);
    const double n = static_cast<double>((begin_[static_cast<std::size_t>(task) + 1] - begin_[task]) * pixels_);
    const double task_mean = total.pivot[lane] + total.sum[lane] / n;
    const double task_squares = std::max(0.0, total.product[lane] - total.sum[lane] * total.sum[lane] / n);
    const double delta = task_mean - mean;
    count += n;
    mean += delta * n / count;
    squares += task_squares + delta * delta * n * (count - n) / count;
  }
}

void ConvNorm::finish(const Args& args, int join) const {
  float* a = coefficients(args, join);
  float *b = a + blocks() * kLanes, *c = b + blocks() * kLanes;
  for (float* each : {a, b, c}) std::fill(each + channels_, each + blocks() * kLanes, 0.0f);  // the padding stays zero
  const double pixels = static_cast<double>(begin_.back() * pixels_);
  for (std::int64_t channel = 0; channel < channels_; ++channel) {
    const double gamma = at(args.in, gamma_in_)[channel];
    if (forward_) {
      double mean = 0, squares = 0;
      join_moments(args, channel, mean, squares);
      const double var = squares / pixels, scale = gamma / std::sqrt(var + eps_);
      a[channel] = static_cast<float>(scale);
      b[channel] = static_cast<float>(at(args.in, beta_in_)[channel] - mean * scale);
      if (join == 0)
        at(args.out, mean_out_)[channel] = static_cast<float>(mean),
                     at(args.out, var_out_)[channel] = static_cast<float>(var);
    } else {
      double sum = 0, product = 0;  // Σ dy and Σ dy (x - mean)
      for (int task = 0; task < tasks(); ++task) {
        sum += sums(args, task)[channel / kLanes].sum[channel % kLanes];
        product += sums(args, task)[channel / kLanes].product[channel % kLanes];
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
  if (y_out_ < 0) return;
  // What was written last is still in a cache, and the next reader begins with the first images.
  for (std::int64_t image = task_begin(begin_.back(), reduction_tasks_, join + 1) - 1;
       image >= task_begin(begin_.back(), reduction_tasks_, join); --image)
    for (std::int64_t block = 0; block < blocks(); ++block)
      write(args, a + block * kLanes, b + block * kLanes, c + block * kLanes,
            (image * blocks() + block) * pixels_ * kLanes);
}

/// y of a plane of pixels, from element `place` on.
void ConvNorm::write(const Args& args, const float* a, const float* b, const float* c, std::int64_t place) const {
  AffineBlock affine{.x = element(raw(args), place, raw_rounded_),
                     .z = forward_ ? nullptr : element(at(args.in, raw_in_), place, factor_rounded_),
                     .add = forward_ ? element(at(args.in, add_in_), place, add_rounded_) : nullptr,
                     .y = element(at(args.out, y_out_), place, y_rounded_),
                     .x_rounded = raw_rounded_,
                     .z_rounded = factor_rounded_,
                     .add_rounded = add_rounded_,
                     .y_rounded = y_rounded_};
  const bool steps = steps_ && forward_;
  if (!steps)
    return NEURIM_DISPATCH(affine_block)(affine, a, b, forward_ ? nullptr : c, forward_ ? relu_ : Relu{}, pixels_);
  constexpr std::int64_t kPiece = 256;  // pixels, which stay in the first-level cache
  alignas(64) float made[kPiece * kLanes];
  for (std::int64_t pixel = 0; pixel < pixels_; pixel += kPiece) {
    const std::int64_t count = std::min(kPiece, pixels_ - pixel), begin = place + pixel * kLanes;
    const bool kept = steps_out_ >= 0;
    affine.x = element(raw(args), begin, raw_rounded_);
    affine.y = kept ? element(at(args.out, steps_out_), begin, steps_rounded_) : made;
    affine.y_rounded = kept ? steps_rounded_ : StorageDtype::exact;
    NEURIM_DISPATCH(affine_block)(affine, a, b, nullptr, {}, count);
    steps_->run(args, kept ? at(args.out, steps_out_) : made - begin, at(args.out, y_out_), begin,
                begin + count * kLanes);
  }
}

}  // namespace neurim::cpu
