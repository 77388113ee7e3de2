// Convolution regions of our own. Forward: convolution, batch norm in training, residual add, relu. Backward: the data
// gradient of a convolution, added gradients, relu's gate, batch norm's gradient. Both in two phases: the convolution with
// the channel sums in its epilogue, each part a run of images; then, with the sums joined in fixed order, one affine pass.
#include "neurim/backend/cpu/conv2d.h"
#include "neurim/backend/cpu/physical.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "neurim/graph/kernel.h"
#include "neurim/ops/batch_norm.h"
#include "neurim/ops/conv.h"

namespace neurim::cpu {

namespace {

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kStaged = 160 * 1024;  // floats of padded images that a part keeps in its second-level cache

/// The site's steps by role; -1 where a step is absent. Numbers of `*_in` index Site::in, those of `*_out` Site::out.
struct Pattern {
  bool forward = true, relu = false, norm = false;
  int x_in = -1, weight_in = -1;             // the convolution's operands
  int add_in = -1, gate_in = -1;             // residual or second gradient; relu's output
  int gamma_in = -1, beta_in = -1;           // forward norm
  int raw_in = -1, mean_in = -1, var_in = -1;  // backward norm: its x, mean, var (and gamma_in)
  int conv_out = -1, y_out = -1, mean_out = -1, var_out = -1;
  int dgamma_out = -1, dbeta_out = -1;
  double eps = 0;
};

int place(std::span<const int> list, int value) {
  const auto at = std::find(list.begin(), list.end(), value);
  return at == list.end() ? -1 : static_cast<int>(at - list.begin());
}

/// The operand of a two-operand step that is not `value`.
int other(const Step& step, int value) { return step.in[0] == value ? step.in[1] : step.in[0]; }

/// Reads {conv2d, batch_norm_train[, add][, relu]}.
bool read_forward(const Site& site, Pattern& p) {
  const auto steps = site.steps;
  if (steps.size() < 2 || steps[0].in.size() != 2 || steps[1].op->name() != "batch_norm_train") return false;
  if (steps[1].in[0] != steps[0].out[0]) return false;
  p.forward = p.norm = true;
  p.eps = static_cast<const BatchNormTrain&>(*steps[1].op).eps;
  int value = steps[1].out[0];
  for (std::size_t s = 2; s < steps.size(); ++s) {
    if (steps[s].op->name() == "add" && p.add_in < 0 && !p.relu && other(steps[s], value) != value) {
      p.add_in = place(site.in, other(steps[s], value));
      if (p.add_in < 0 || site.input(p.add_in).type != site.values[static_cast<std::size_t>(value)].type) return false;
    } else if (steps[s].op->name() == "relu" && !p.relu) {
      p.relu = true;
    } else {
      return false;
    }
    value = steps[s].out[0];
  }
  p.x_in = place(site.in, steps[0].in[0]);
  p.weight_in = place(site.in, steps[0].in[1]);
  p.gamma_in = place(site.in, steps[1].in[1]);
  p.beta_in = place(site.in, steps[1].in[2]);
  p.conv_out = place(site.out, steps[0].out[0]);
  p.mean_out = place(site.out, steps[1].out[1]);
  p.var_out = place(site.out, steps[1].out[2]);
  p.y_out = place(site.out, value);
  const int known = (p.conv_out >= 0) + (p.mean_out >= 0) + (p.var_out >= 0) + (p.y_out >= 0);
  return p.conv_out >= 0 && p.mean_out >= 0 && p.var_out >= 0 && p.y_out >= 0 && known == static_cast<int>(site.out.size());
}

/// Reads {conv2d_input_grad[, add][, relu_grad], batch_norm_grad}.
bool read_backward(const Site& site, Pattern& p) {
  const auto steps = site.steps;
  if (steps.size() < 2 || steps.back().op->name() != "batch_norm_grad") return false;
  p.forward = false;
  p.norm = true;
  int value = steps[0].out[0];
  for (std::size_t s = 1; s + 1 < steps.size(); ++s) {
    if (steps[s].op->name() == "add" && p.add_in < 0 && p.gate_in < 0 && other(steps[s], value) != value) {
      p.add_in = place(site.in, other(steps[s], value));
      if (p.add_in < 0 || site.input(p.add_in).type != site.values[static_cast<std::size_t>(value)].type) return false;
    } else if (steps[s].op->name() == "relu_grad" && p.gate_in < 0 && steps[s].in[1] == value && steps[s].in[0] != value) {
      p.gate_in = place(site.in, steps[s].in[0]);
      if (p.gate_in < 0) return false;
    } else {
      return false;
    }
    value = steps[s].out[0];
  }
  const Step& norm = steps.back();
  if (norm.in[0] != value || norm.in[1] == value) return false;
  p.eps = static_cast<const BatchNormGrad&>(*norm.op).eps;
  p.x_in = place(site.in, steps[0].in[0]);
  p.weight_in = place(site.in, steps[0].in[1]);
  p.raw_in = place(site.in, norm.in[1]);
  p.gamma_in = place(site.in, norm.in[2]);
  p.mean_in = place(site.in, norm.in[3]);
  p.var_in = place(site.in, norm.in[4]);
  p.conv_out = place(site.out, value);  // the gradient before the norm, when others read it too
  p.y_out = place(site.out, norm.out[0]);
  p.dgamma_out = place(site.out, norm.out[1]);
  p.dbeta_out = place(site.out, norm.out[2]);
  const int known = (p.conv_out >= 0) + (p.y_out >= 0) + (p.dgamma_out >= 0) + (p.dbeta_out >= 0);
  return p.y_out >= 0 && p.raw_in >= 0 && known == static_cast<int>(site.out.size());
}

/// The convolution that runs: of x forward; of dy with the weights walked backwards for the data gradient.
struct Problem {
  std::int64_t images = 0, in = 0, out = 0, in_h = 0, in_w = 0, out_h = 0, out_w = 0, kernel_h = 0, kernel_w = 0;
  std::int64_t stride_h = 1, stride_w = 1, top = 0, left = 0, bottom = 0, right = 0;
  std::int64_t padded_h() const { return in_h + top + bottom; }
  std::int64_t padded_w() const { return in_w + left + right; }
  bool padded() const { return top || left || bottom || right; }
  std::int64_t padded_image() const { return in * padded_h() * padded_w(); }
};

const char* read_problem(const Site& site, const Pattern& p, Problem& problem) {
  const Shape& x = site.input(p.x_in).type.shape;
  const Shape& w = site.input(p.weight_in).type.shape;
  const Shape& y = site.output(p.y_out).type.shape;
  const Conv2dOptions& options = p.forward ? static_cast<const Conv2d&>(site.op()).options
                                           : static_cast<const Conv2dInputGrad&>(site.op()).options;
  if (options.groups != 1 || options.dilation != std::array<std::int64_t, 2>{1, 1}) return "takes no groups and no dilation";
  problem = {x[0], x[1], y[1], x[2], x[3], y[2], y[3], w[2], w[3]};
  if (options.stride[1] > 2) return "takes strides 1 and 2";
  if (problem.in % kLanes || problem.out % kLanes) return "takes channels by 16";
  const auto& pad = options.pad;
  if (p.forward) {
    problem.stride_h = options.stride[0], problem.stride_w = options.stride[1];
    problem.top = pad[0], problem.left = pad[1], problem.bottom = pad[2], problem.right = pad[3];
  } else {
    if (options.stride != std::array<std::int64_t, 2>{1, 1}) return "takes data gradients at stride 1";
    problem.top = w[2] - 1 - pad[0], problem.left = w[3] - 1 - pad[1];
    problem.bottom = w[2] - 1 - pad[2], problem.right = w[3] - 1 - pad[3];
    if (std::min({problem.top, problem.left, problem.bottom, problem.right}) < 0) return "takes no padding beyond the kernel";
  }
  if (problem.images == 0 || problem.out_h * problem.out_w == 0) return "has no pixels";
  if (problem.out_w < 8) return "keeps too few sums in flight on maps narrower than 8";  // oneDNN and a norm of its own are a third faster
  if (problem.padded() && problem.padded_image() > 3 * kStaged) return "a padded image does not fit the second-level cache";
  return nullptr;
}

bool wants(Site& site) {
  for (const Spec& spec : site.values)
    if (spec.type.dtype != DType::f32) return decline(site, "takes f32 only"), false;
  Pattern p;
  const bool forward = site.op().name() == "conv2d";
  if (forward ? !read_forward(site, p) : !read_backward(site, p))
    return decline(site, forward ? "takes a convolution with batch norm in training" : "takes a data gradient with batch norm's"), false;
  Problem problem;
  if (const char* reason = read_problem(site, p, problem)) return decline(site, reason), false;
  for (Spec& spec : site.values) spec.layout = spec.type.shape.rank() == 4 ? kBlocked : Layout{};
  Spec& weight = site.values[static_cast<std::size_t>(site.in[static_cast<std::size_t>(p.weight_in)])];
  weight.layout = forward ? forward_weights(weight.type) : gradient_weights(weight.type);
  return true;
}

/// A prepared region.
struct Region {
  Pattern p;
  Problem problem;
  ConvGeometry geometry;
  std::int64_t weight_base = 0;  ///< floats to the first tap that is walked
  std::vector<std::int64_t> begin;  ///< image runs of the parts, and of the joins
  std::int64_t group = 1;        ///< images staged together
  std::size_t staged_bytes = 0, sums_bytes = 0, coefficients_bytes = 0;  ///< of scratch: for each part, each part, each join
  decltype(&portable::conv_image) conv;
  decltype(&portable::affine_block) affine;

  std::int64_t in_blocks() const { return problem.in / kLanes; }
  std::int64_t out_blocks() const { return problem.out / kLanes; }
  std::int64_t parts() const { return static_cast<std::int64_t>(begin.size()) - 1; }
  std::int64_t out_pixels() const { return problem.out_h * problem.out_w; }

  float* staged(const Args& args, int part) const {
    return reinterpret_cast<float*>(static_cast<char*>(args.scratch) + static_cast<std::size_t>(part) * staged_bytes);
  }
  ChannelSums* sums(const Args& args, int part) const {
    return reinterpret_cast<ChannelSums*>(static_cast<char*>(args.scratch) + static_cast<std::size_t>(parts()) * staged_bytes +
                                          static_cast<std::size_t>(part) * sums_bytes);
  }
  float* coefficients(const Args& args, int join) const {
    return reinterpret_cast<float*>(static_cast<char*>(args.scratch) +
                                    static_cast<std::size_t>(parts()) * (staged_bytes + sums_bytes) +
                                    static_cast<std::size_t>(join) * coefficients_bytes);
  }
  static float* at(std::span<void* const> list, int number) {
    return number < 0 ? nullptr : static_cast<float*>(list[static_cast<std::size_t>(number)]);
  }
  /// Where the convolution's own results go.
  float* raw(const Args& args) const { return at(args.out, p.conv_out >= 0 ? p.conv_out : p.y_out); }

  static void run(const void* self, const Args& args, int part) noexcept {
    const auto& region = *static_cast<const Region*>(self);
    const int parts = static_cast<int>(region.parts());
    part < parts ? region.convolve(args, part) : region.finish(args, part - parts);
  }

  void stage(const float* image, float* padded) const {
    const std::int64_t row = problem.in_w * kLanes, wide = problem.padded_w() * kLanes;
    for (std::int64_t block = 0; block < in_blocks(); ++block) {
      float* to = padded + block * geometry.x_block;
      std::memset(to, 0, static_cast<std::size_t>(problem.top * wide) * sizeof(float));
      to += problem.top * wide;
      for (std::int64_t h = 0; h < problem.in_h; ++h, to += wide, image += row) {
        std::memset(to, 0, static_cast<std::size_t>(problem.left * kLanes) * sizeof(float));
        std::memcpy(to + problem.left * kLanes, image, static_cast<std::size_t>(row) * sizeof(float));
        std::memset(to + problem.left * kLanes + row, 0, static_cast<std::size_t>(problem.right * kLanes) * sizeof(float));
      }
      std::memset(to, 0, static_cast<std::size_t>(problem.bottom * wide) * sizeof(float));
    }
  }

  void convolve(const Args& args, int part) const {
    const std::int64_t x_image = problem.in * problem.in_h * problem.in_w, y_image = problem.out * out_pixels();
    const float* x = at(args.in, p.x_in);
    const float* weight = at(args.in, p.weight_in) + weight_base;
    ChannelSums* total = sums(args, part);
    std::memset(static_cast<void*>(total), 0, sums_bytes);
    if (!p.forward)
      for (std::int64_t b = 0; b < out_blocks(); ++b)
        std::memcpy(total[b].pivot, at(args.in, p.mean_in) + b * kLanes, sizeof total[b].pivot);
    const std::int64_t first = begin[static_cast<std::size_t>(part)], last = begin[static_cast<std::size_t>(part) + 1];
    for (std::int64_t image = first; image < last; image += group) {
      const std::int64_t count = std::min(group, last - image);
      if (problem.padded())
        for (std::int64_t i = 0; i < count; ++i)
          stage(x + (image + i) * x_image, staged(args, part) + i * problem.padded_image());
      for (std::int64_t b = 0; b < out_blocks(); b += 2) {
        const int blocks = b + 1 < out_blocks() ? 2 : 1;
        for (std::int64_t i = 0; i < count; ++i) {
          const std::int64_t place = (image + i) * y_image + b * geometry.y_block;
          auto here = [&](const float* base) { return base ? base + place : nullptr; };
          ConvEpilogue epilogue;
          if (!p.forward) epilogue = {here(at(args.in, p.add_in)), here(at(args.in, p.gate_in)), here(at(args.in, p.raw_in)), nullptr, false};
          epilogue.sums = total + b;
          epilogue.first = p.forward && image + i == first;
          conv(geometry, problem.padded() ? staged(args, part) + i * problem.padded_image() : x + (image + i) * x_image,
               weight + b * geometry.w_block, raw(args) + place, blocks, epilogue);
        }
      }
    }
  }

  /// Joins the parts' sums of one channel, in order: the mean of what was summed and the sum of squares about it (Chan,
  /// Golub and LeVeque, 1983).
  void join_moments(const Args& args, std::int64_t channel, double& mean, double& squares) const {
    double count = 0;
    mean = squares = 0;
    for (int part = 0; part < static_cast<int>(parts()); ++part) {
      const ChannelSums& total = sums(args, part)[channel / kLanes];
      const auto lane = static_cast<std::size_t>(channel % kLanes);
      const double n = static_cast<double>((begin[static_cast<std::size_t>(part) + 1] - begin[static_cast<std::size_t>(part)]) * out_pixels());
      const double part_mean = total.pivot[lane] + total.sum[lane] / n;
      const double part_squares = std::max(0.0, total.product[lane] - total.sum[lane] * total.sum[lane] / n);
      const double delta = part_mean - mean;
      count += n;
      mean += delta * n / count;
      squares += part_squares + delta * delta * n * (count - n) / count;
    }
  }

  void finish(const Args& args, int join) const {
    float* a = coefficients(args, join);
    float *b = a + problem.out, *c = b + problem.out;
    const double pixels = static_cast<double>(problem.images * out_pixels());
    for (std::int64_t channel = 0; channel < problem.out; ++channel) {
      const double gamma = at(args.in, p.gamma_in)[channel];
      if (p.forward) {
        double mean = 0, squares = 0;
        join_moments(args, channel, mean, squares);
        const double var = squares / pixels, scale = gamma / std::sqrt(var + p.eps);
        a[channel] = static_cast<float>(scale);
        b[channel] = static_cast<float>(at(args.in, p.beta_in)[channel] - mean * scale);
        if (join == 0) at(args.out, p.mean_out)[channel] = static_cast<float>(mean), at(args.out, p.var_out)[channel] = static_cast<float>(var);
      } else {
        double sum = 0, product = 0;  // Σ dy and Σ dy (x - mean)
        for (int part = 0; part < static_cast<int>(parts()); ++part) {
          sum += sums(args, part)[channel / kLanes].sum[channel % kLanes];
          product += sums(args, part)[channel / kLanes].product[channel % kLanes];
        }
        const double mean = at(args.in, p.mean_in)[channel], inverse = 1 / std::sqrt(at(args.in, p.var_in)[channel] + p.eps);
        // dx = gamma inverse (dy - sum / n - (x - mean) inverse² product / n)
        const double slope = -gamma * inverse * inverse * inverse * product / pixels;
        a[channel] = static_cast<float>(gamma * inverse);
        c[channel] = static_cast<float>(slope);
        b[channel] = static_cast<float>(-gamma * inverse * sum / pixels - slope * mean);
        if (join == 0) {
          if (p.dgamma_out >= 0) at(args.out, p.dgamma_out)[channel] = static_cast<float>(product * inverse);
          if (p.dbeta_out >= 0) at(args.out, p.dbeta_out)[channel] = static_cast<float>(sum);
        }
      }
    }
    for (std::int64_t image = begin[static_cast<std::size_t>(join)]; image < begin[static_cast<std::size_t>(join) + 1]; ++image)
      for (std::int64_t block = 0; block < out_blocks(); ++block) {
        const std::int64_t place = (image * out_blocks() + block) * geometry.y_block;
        auto here = [&](const float* base) { return base ? base + place : nullptr; };
        affine(raw(args) + place, a + block * kLanes, b + block * kLanes, p.forward ? nullptr : here(at(args.in, p.raw_in)),
               p.forward ? nullptr : c + block * kLanes, p.forward ? here(at(args.in, p.add_in)) : nullptr, p.relu,
               at(args.out, p.y_out) + place, out_pixels());
      }
  }
};

std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

Launch prepare(Site& site) {
  auto region = std::make_shared<Region>();
  Pattern& p = region->p;
  if (site.op().name() == "conv2d" ? !read_forward(site, p) : !read_backward(site, p)) return decline(site, "is another pattern");
  Problem& problem = region->problem;
  if (const char* reason = read_problem(site, p, problem)) return decline(site, reason);
  ConvGeometry& g = region->geometry;
  const std::int64_t taps = problem.kernel_h * problem.kernel_w, tile = kLanes * kLanes;
  g.in_blocks = static_cast<int>(region->in_blocks());
  g.kernel_h = static_cast<int>(problem.kernel_h), g.kernel_w = static_cast<int>(problem.kernel_w);
  g.stride_h = static_cast<int>(problem.stride_h), g.stride_w = static_cast<int>(problem.stride_w);
  g.out_h = static_cast<int>(problem.out_h), g.out_w = static_cast<int>(problem.out_w);
  g.x_row = problem.padded_w() * kLanes;
  g.x_block = problem.padded_h() * g.x_row;
  g.y_block = region->out_pixels() * kLanes;
  g.tap_in = taps * tile;
  g.w_block = region->in_blocks() * g.tap_in;
  g.tap_w = p.forward ? tile : -tile;
  g.tap_h = problem.kernel_w * g.tap_w;
  if (!p.forward) region->weight_base = (taps - 1) * tile;
  const std::int64_t parts = std::min<std::int64_t>(problem.images, site.chunks);
  for (std::int64_t i = 0; i <= parts; ++i) region->begin.push_back(problem.images * i / parts);
  region->group = std::clamp<std::int64_t>(kStaged / std::max<std::int64_t>(1, problem.padded_image()), 1, problem.images);
  if (problem.padded()) region->staged_bytes = aligned(static_cast<std::size_t>(region->group * problem.padded_image()) * sizeof(float));
  region->sums_bytes = aligned(static_cast<std::size_t>(region->out_blocks()) * sizeof(ChannelSums));
  region->coefficients_bytes = aligned(static_cast<std::size_t>(3 * problem.out) * sizeof(float));
  site.scratch = static_cast<std::size_t>(parts) * (region->staged_bytes + region->sums_bytes + region->coefficients_bytes);
  region->conv = NEURIM_DISPATCH(conv_image);
  region->affine = NEURIM_DISPATCH(affine_block);
  return {Region::run, region, static_cast<int>(parts), static_cast<int>(parts)};
}

}  // namespace

}  // namespace neurim::cpu

namespace neurim {

void cpu_conv2d() {
  add({.op = "conv2d", .name = "cpu", .rank = 20, .prepare = cpu::prepare, .wants = cpu::wants, .chains = true});
  add({.op = "conv2d_input_grad", .name = "cpu", .rank = 20, .prepare = cpu::prepare, .wants = cpu::wants, .chains = true});
}

}  // namespace neurim
