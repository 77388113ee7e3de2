// Szegedy et al., "Rethinking the Inception architecture for computer vision", CVPR'16, as torchvision has
// it, without the auxiliary classifier.
#include "neurim/model/zoo/entry.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/batch_norm2d.h"
#include "neurim/nn/conv.h"
#include "neurim/nn/linear.h"
#include "neurim/nn/pool.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/flatten.h"
#include "neurim/ops/global_avg_pool2d.h"
#include "neurim/ops/relu.h"

namespace neurim::zoo {

namespace {

nn::Init tenth(const Shape&) { return nn::trunc_normal(0, 0.1); }

constexpr nn::MaxPool2d kHalve{.kernel = 3, .stride = 2};
constexpr nn::AvgPool2d kSmooth{.kernel = 3, .stride = 1, .pad = 1};

struct ConvNorm {
  ConvNorm(std::int64_t in, std::int64_t out, nn::Size2d kernel, std::int64_t stride = 1, nn::Size2d pad = 0)
      : conv(in, out, {.kernel = kernel, .stride = stride, .pad = pad, .bias = false, .init = tenth}),
        bn(out, {.eps = 1e-3}) {}

  void parts(Parts& p) { p("conv", conv)("bn", bn); }
  Tensor operator()(const Tensor& x) const { return relu(bn(conv(x))); }

  nn::Conv2d conv;
  nn::BatchNorm2d bn;
};

/// Keeps the size of the image.
ConvNorm same(std::int64_t in, std::int64_t out, nn::Size2d kernel) {
  return {in, out, kernel, 1, {kernel[0] / 2, kernel[1] / 2}};
}

/// Figure 5 of the paper.
struct InceptionA {
  InceptionA(std::int64_t in, std::int64_t pool)
      : branch1x1(same(in, 64, 1)),
        branch5x5_1(same(in, 48, 1)),
        branch5x5_2(same(48, 64, 5)),
        branch3x3dbl_1(same(in, 64, 1)),
        branch3x3dbl_2(same(64, 96, 3)),
        branch3x3dbl_3(same(96, 96, 3)),
        branch_pool(same(in, pool, 1)) {}

  void parts(Parts& p) {
    p("branch1x1", branch1x1)("branch5x5_1", branch5x5_1)("branch5x5_2", branch5x5_2);
    p("branch3x3dbl_1", branch3x3dbl_1)("branch3x3dbl_2", branch3x3dbl_2)("branch3x3dbl_3", branch3x3dbl_3);
    p("branch_pool", branch_pool);
  }
  Tensor operator()(const Tensor& x) const {
    return concat({branch1x1(x), branch5x5_2(branch5x5_1(x)), branch3x3dbl_3(branch3x3dbl_2(branch3x3dbl_1(x))),
                   branch_pool(kSmooth(x))},
                  1);
  }

  ConvNorm branch1x1, branch5x5_1, branch5x5_2, branch3x3dbl_1, branch3x3dbl_2, branch3x3dbl_3, branch_pool;
};

/// Halves the image.
struct InceptionB {
  explicit InceptionB(std::int64_t in)
      : branch3x3(in, 384, 3, 2),
        branch3x3dbl_1(same(in, 64, 1)),
        branch3x3dbl_2(same(64, 96, 3)),
        branch3x3dbl_3(96, 96, 3, 2) {}

  void parts(Parts& p) {
    p("branch3x3", branch3x3);
    p("branch3x3dbl_1", branch3x3dbl_1)("branch3x3dbl_2", branch3x3dbl_2)("branch3x3dbl_3", branch3x3dbl_3);
  }
  Tensor operator()(const Tensor& x) const {
    return concat({branch3x3(x), branch3x3dbl_3(branch3x3dbl_2(branch3x3dbl_1(x))), kHalve(x)}, 1);
  }

  ConvNorm branch3x3, branch3x3dbl_1, branch3x3dbl_2, branch3x3dbl_3;
};

/// Figure 6 of the paper, with n = 7.
struct InceptionC {
  InceptionC(std::int64_t in, std::int64_t width)
      : branch1x1(same(in, 192, 1)),
        branch7x7_1(same(in, width, 1)),
        branch7x7_2(same(width, width, {1, 7})),
        branch7x7_3(same(width, 192, {7, 1})),
        branch7x7dbl_1(same(in, width, 1)),
        branch7x7dbl_2(same(width, width, {7, 1})),
        branch7x7dbl_3(same(width, width, {1, 7})),
        branch7x7dbl_4(same(width, width, {7, 1})),
        branch7x7dbl_5(same(width, 192, {1, 7})),
        branch_pool(same(in, 192, 1)) {}

  void parts(Parts& p) {
    p("branch1x1", branch1x1);
    p("branch7x7_1", branch7x7_1)("branch7x7_2", branch7x7_2)("branch7x7_3", branch7x7_3);
    p("branch7x7dbl_1", branch7x7dbl_1)("branch7x7dbl_2", branch7x7dbl_2)("branch7x7dbl_3", branch7x7dbl_3);
    p("branch7x7dbl_4", branch7x7dbl_4)("branch7x7dbl_5", branch7x7dbl_5);
    p("branch_pool", branch_pool);
  }
  Tensor operator()(const Tensor& x) const {
    const Tensor twice = branch7x7dbl_3(branch7x7dbl_2(branch7x7dbl_1(x)));
    return concat({branch1x1(x), branch7x7_3(branch7x7_2(branch7x7_1(x))), branch7x7dbl_5(branch7x7dbl_4(twice)),
                   branch_pool(kSmooth(x))},
                  1);
  }

  ConvNorm branch1x1, branch7x7_1, branch7x7_2, branch7x7_3, branch7x7dbl_1, branch7x7dbl_2, branch7x7dbl_3,
      branch7x7dbl_4, branch7x7dbl_5, branch_pool;
};

/// Halves the image.
struct InceptionD {
  explicit InceptionD(std::int64_t in)
      : branch3x3_1(same(in, 192, 1)),
        branch3x3_2(192, 320, 3, 2),
        branch7x7x3_1(same(in, 192, 1)),
        branch7x7x3_2(same(192, 192, {1, 7})),
        branch7x7x3_3(same(192, 192, {7, 1})),
        branch7x7x3_4(192, 192, 3, 2) {}

  void parts(Parts& p) {
    p("branch3x3_1", branch3x3_1)("branch3x3_2", branch3x3_2);
    p("branch7x7x3_1", branch7x7x3_1)("branch7x7x3_2", branch7x7x3_2);
    p("branch7x7x3_3", branch7x7x3_3)("branch7x7x3_4", branch7x7x3_4);
  }
  Tensor operator()(const Tensor& x) const {
    return concat(
        {branch3x3_2(branch3x3_1(x)), branch7x7x3_4(branch7x7x3_3(branch7x7x3_2(branch7x7x3_1(x)))), kHalve(x)}, 1);
  }

  ConvNorm branch3x3_1, branch3x3_2, branch7x7x3_1, branch7x7x3_2, branch7x7x3_3, branch7x7x3_4;
};

/// Figure 7 of the paper.
struct InceptionE {
  explicit InceptionE(std::int64_t in)
      : branch1x1(same(in, 320, 1)),
        branch3x3_1(same(in, 384, 1)),
        branch3x3_2a(same(384, 384, {1, 3})),
        branch3x3_2b(same(384, 384, {3, 1})),
        branch3x3dbl_1(same(in, 448, 1)),
        branch3x3dbl_2(same(448, 384, 3)),
        branch3x3dbl_3a(same(384, 384, {1, 3})),
        branch3x3dbl_3b(same(384, 384, {3, 1})),
        branch_pool(same(in, 192, 1)) {}

  void parts(Parts& p) {
    p("branch1x1", branch1x1);
    p("branch3x3_1", branch3x3_1)("branch3x3_2a", branch3x3_2a)("branch3x3_2b", branch3x3_2b);
    p("branch3x3dbl_1", branch3x3dbl_1)("branch3x3dbl_2", branch3x3dbl_2);
    p("branch3x3dbl_3a", branch3x3dbl_3a)("branch3x3dbl_3b", branch3x3dbl_3b);
    p("branch_pool", branch_pool);
  }
  Tensor operator()(const Tensor& x) const {
    const Tensor once = branch3x3_1(x), twice = branch3x3dbl_2(branch3x3dbl_1(x));
    return concat({branch1x1(x), branch3x3_2a(once), branch3x3_2b(once), branch3x3dbl_3a(twice), branch3x3dbl_3b(twice),
                   branch_pool(kSmooth(x))},
                  1);
  }

  ConvNorm branch1x1, branch3x3_1, branch3x3_2a, branch3x3_2b, branch3x3dbl_1, branch3x3dbl_2, branch3x3dbl_3a,
      branch3x3dbl_3b, branch_pool;
};

struct InceptionV3 {
  explicit InceptionV3(const Options& o)
      : conv1a(o.in_chans, 32, 3, 2),
        conv2a(32, 32, 3),
        conv2b(same(32, 64, 3)),
        conv3b(same(64, 80, 1)),
        conv4a(80, 192, 3),
        mixed5b(192, 32),
        mixed5c(256, 64),
        mixed5d(288, 64),
        mixed6a(288),
        mixed6b(768, 128),
        mixed6c(768, 160),
        mixed6d(768, 160),
        mixed6e(768, 192),
        mixed7a(768),
        mixed7b(1280),
        mixed7c(2048),
        dropout{o.dropout},
        fc(2048, o.classes, {.init = tenth}) {}

  void parts(Parts& p) {
    p("Conv2d_1a_3x3", conv1a)("Conv2d_2a_3x3", conv2a)("Conv2d_2b_3x3", conv2b);
    p("Conv2d_3b_1x1", conv3b)("Conv2d_4a_3x3", conv4a);
    p("Mixed_5b", mixed5b)("Mixed_5c", mixed5c)("Mixed_5d", mixed5d);
    p("Mixed_6a", mixed6a)("Mixed_6b", mixed6b)("Mixed_6c", mixed6c)("Mixed_6d", mixed6d)("Mixed_6e", mixed6e);
    p("Mixed_7a", mixed7a)("Mixed_7b", mixed7b)("Mixed_7c", mixed7c)("fc", fc);
  }
  Tensor operator()(const Tensor& x) const {
    Tensor y = kHalve(conv2b(conv2a(conv1a(x))));
    y = mixed5d(mixed5c(mixed5b(kHalve(conv4a(conv3b(y))))));
    y = mixed6e(mixed6d(mixed6c(mixed6b(mixed6a(y)))));
    y = mixed7c(mixed7b(mixed7a(y)));
    return fc(flatten(dropout(global_avg_pool2d(y))));
  }

  ConvNorm conv1a, conv2a, conv2b, conv3b, conv4a;
  InceptionA mixed5b, mixed5c, mixed5d;
  InceptionB mixed6a;
  InceptionC mixed6b, mixed6c, mixed6d, mixed6e;
  InceptionD mixed7a;
  InceptionE mixed7b, mixed7c;
  nn::Dropout dropout;
  nn::Linear fc;
};

}  // namespace

Entries inception_models() {
  return with_timm({Entry{.name = "inception_v3",
                          .build = [](const Options& o) { return InceptionV3(o); },
                          .image_size = 299,
                          .dropout = 0.5,
                          .mean = {0.5, 0.5, 0.5},  // torchvision's weights too: transform_input
                          .std = {0.5, 0.5, 0.5},
                          .passed_over = {"AuxLogits."}}});
}

}  // namespace neurim::zoo
