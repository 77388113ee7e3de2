// Szegedy et al., "Going deeper with convolutions", CVPR'15, as torchvision has it: with batch norm, 3x3
// windows in place of 5x5, and without the auxiliary classifiers.
#include "neurim/model/zoo/entry.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/batch_norm2d.h"
#include "neurim/nn/conv.h"
#include "neurim/nn/linear.h"
#include "neurim/nn/pool.h"
#include "neurim/nn/sequential.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/relu.h"

namespace neurim::zoo {

namespace {

nn::Init hundredth(const Shape&) { return nn::trunc_normal(0, 0.01); }

struct ConvNorm {
  ConvNorm(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride = 1)
      : conv(in, out, {.kernel = kernel, .stride = stride, .pad = kernel / 2, .bias = false, .init = hundredth}),
        bn(out, {.eps = 1e-3}) {}

  void parts(Parts& p) { p("conv", conv)("bn", bn); }
  Tensor operator()(const Tensor& x) const { return relu(bn(conv(x))); }

  nn::Conv2d conv;
  nn::BatchNorm2d bn;
};

/// The channels of an inception: of the 1x1 branch, of the two 3x3 branches before and in them, and of the
/// branch that pools.
struct Channels {
  std::int64_t one, three_in, three, double_in, double_out, pool;
};

struct Inception {
  Inception(std::int64_t in, const Channels& c)
      : branch1(in, c.one, 1),
        branch2(ConvNorm(in, c.three_in, 1), ConvNorm(c.three_in, c.three, 3)),
        branch3(ConvNorm(in, c.double_in, 1), ConvNorm(c.double_in, c.double_out, 3)),
        branch4(nn::MaxPool2d{.kernel = 3, .stride = 1, .pad = 1, .ceil_mode = true}, ConvNorm(in, c.pool, 1)) {}

  void parts(Parts& p) { p("branch1", branch1)("branch2", branch2)("branch3", branch3)("branch4", branch4); }
  Tensor operator()(const Tensor& x) const { return concat({branch1(x), branch2(x), branch3(x), branch4(x)}, 1); }

  ConvNorm branch1;
  nn::Sequential branch2, branch3, branch4;
};

struct GoogLeNet {
  explicit GoogLeNet(const Options& o)
      : conv1(o.in_chans, 64, 7, 2),
        conv2(64, 64, 1),
        conv3(64, 192, 3),
        inception3a(192, {64, 96, 128, 16, 32, 32}),
        inception3b(256, {128, 128, 192, 32, 96, 64}),
        inception4a(480, {192, 96, 208, 16, 48, 64}),
        inception4b(512, {160, 112, 224, 24, 64, 64}),
        inception4c(512, {128, 128, 256, 24, 64, 64}),
        inception4d(512, {112, 144, 288, 32, 64, 64}),
        inception4e(528, {256, 160, 320, 32, 128, 128}),
        inception5a(832, {256, 160, 320, 32, 128, 128}),
        inception5b(832, {384, 192, 384, 48, 128, 128}),
        dropout{o.dropout},
        fc(1024, o.classes, {.init = hundredth}) {}

  void parts(Parts& p) {
    p("conv1", conv1)("conv2", conv2)("conv3", conv3);
    p("inception3a", inception3a)("inception3b", inception3b);
    p("inception4a", inception4a)("inception4b", inception4b)("inception4c", inception4c);
    p("inception4d", inception4d)("inception4e", inception4e);
    p("inception5a", inception5a)("inception5b", inception5b)("fc", fc);
  }
  Tensor operator()(const Tensor& x) const {
    const nn::MaxPool2d halve{.kernel = 3, .stride = 2, .ceil_mode = true};
    const nn::MaxPool2d last{.kernel = 2, .stride = 2, .ceil_mode = true};
    Tensor y = halve(conv3(conv2(halve(conv1(x)))));
    y = halve(inception3b(inception3a(y)));
    y = last(inception4e(inception4d(inception4c(inception4b(inception4a(y))))));
    return fc(dropout(flatten(global_avg_pool2d(inception5b(inception5a(y))))));
  }

  ConvNorm conv1, conv2, conv3;
  Inception inception3a, inception3b, inception4a, inception4b, inception4c, inception4d, inception4e, inception5a,
      inception5b;
  nn::Dropout dropout;
  nn::Linear fc;
};

}  // namespace

Entries googlenet_models() {
  // torchvision's published weights bring pixels from its usual mean and std to these (transform_input).
  return {{.name = "googlenet",
           .build = [](const Options& o) { return GoogLeNet(o); },
           .dropout = 0.2,
           .mean = {0.5, 0.5, 0.5},
           .std = {0.5, 0.5, 0.5},
           .passed_over = {"aux1.", "aux2."}}};
}

}  // namespace neurim::zoo
