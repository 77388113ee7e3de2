// Matrix products and fully connected layers by oneDNN, one thread to a piece: a run of rows of the result, or of columns
// when there are few rows.
#include <algorithm>
#include <array>

#include "neurim/backend/cpu/onednn.h"
#include "neurim/ops/matmul.h"

namespace neurim::cpu {

namespace {


/// c[m,n] = a[m,k] b[k,n] (+ bias[n]), repeated `batch` times; strides in elements.
struct Product {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_column = 0, b_row = 0, b_column = 0;
  bool bias = false, relu = false;
};

/// Reads the site, or says why not.
bool read_product(Site& site, Product& product) {
  for (const Spec& spec : site.values)
    if (spec.type.dtype != DType::f32) return decline(site, "takes f32 only"), false;
  const Shape &a = site.input(0).type.shape, &b = site.input(1).type.shape;
  if (site.steps.size() > 1) {
    product.relu = site.steps.size() == 2 && site.steps[1].op->name() == "relu" && site.out.size() == 1;
    if (!product.relu) return decline(site, "fuses relu only"), false;
  }
  if (site.op().name() == "linear") {
    product.k = a[-1];
    product.m = product.k == 0 ? 0 : a.numel() / product.k;
    product.n = b[0];
    product.a_row = product.b_column = product.k;
    product.a_column = product.b_row = 1;
    product.bias = site.steps[0].in.size() == 3;
  } else {
    const auto& op = static_cast<const Matmul&>(site.op());
    if (a.rank() < 2 || b.rank() != a.rank()) return decline(site, "takes operands of equal rank, 2 or more"), false;
    for (int axis = 0; axis < a.rank() - 2; ++axis) {
      if (a[axis] != b[axis]) return decline(site, "does not broadcast over the batch"), false;
      product.batch *= a[axis];
    }
    product.m = op.transpose_a ? a[-1] : a[-2];
    product.k = op.transpose_a ? a[-2] : a[-1];
    product.n = op.transpose_b ? b[-2] : b[-1];
    product.a_row = op.transpose_a ? 1 : product.k;
    product.a_column = op.transpose_a ? product.m : 1;
    product.b_row = op.transpose_b ? 1 : product.n;
    product.b_column = op.transpose_b ? product.k : 1;
  }
  if (product.batch == 0 || product.m == 0 || product.n == 0 || product.k == 0) return decline(site, "an axis is empty"), false;
  return true;
}

struct Piece {
  Primitive primitive;
  std::size_t a = 0, b = 0, bias = 0, c = 0, scratch = 0;
};

struct Matmuls {
  std::vector<Piece> pieces;
  bool bias = false;
  static void run(const void* self, const Args& args, int part) noexcept {
    const auto& all = *static_cast<const Matmuls*>(self);
    const Piece& piece = all.pieces[static_cast<std::size_t>(part)];
    auto at = [](void* base, std::size_t offset) -> void* { return static_cast<float*>(base) + offset; };
    std::array<void*, 5> data{at(args.in[0], piece.a), at(args.in[1], piece.b), at(args.out[0], piece.c),
                              static_cast<char*>(args.scratch) + piece.scratch,
                              all.bias ? at(args.in[2], piece.bias) : nullptr};
    piece.primitive.run(data.data());
  }
};

Launch prepare(Site& site) {
  Product product;
  if (!read_product(site, product)) return {};
  const OneThread one;
  auto all = std::make_shared<Matmuls>();
  all->bias = product.bias;
  const bool by_rows = product.m >= site.chunks || product.m >= product.n;
  const std::int64_t whole = by_rows ? product.m : product.n, pieces = std::min<std::int64_t>(whole, site.chunks);
  const auto f32 = memory::data_type::f32;
  for (std::int64_t i = 0; i < pieces; ++i) {
    const std::int64_t begin = whole * i / pieces, count = whole * (i + 1) / pieces - begin;
    const std::int64_t m = by_rows ? count : product.m, n = by_rows ? product.n : count;
    const memory::desc a({product.batch, m, product.k}, f32, {product.m * product.k, product.a_row, product.a_column}),
        b({product.batch, product.k, n}, f32, {product.k * product.n, product.b_row, product.b_column}),
        c({product.batch, m, n}, f32, {product.m * product.n, product.n, 1}), bias({1, 1, n}, f32, memory::dims{n, n, 1});
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (product.relu) {
      dnnl::post_ops after;
      append_relu(after);
      attributes.set_post_ops(after);
    }
    try {
      const auto described = product.bias ? dnnl::matmul::primitive_desc(engine(), a, b, bias, c, attributes)
                                          : dnnl::matmul::primitive_desc(engine(), a, b, c, attributes);
      std::vector<std::pair<int, memory::desc>> arguments{
          {DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}, {DNNL_ARG_SCRATCHPAD, described.scratchpad_desc()}};
      if (product.bias) arguments.emplace_back(DNNL_ARG_BIAS, bias);
      Piece piece{Primitive(dnnl::matmul(described), std::move(arguments))};
      piece.a = static_cast<std::size_t>(by_rows ? begin * product.a_row : 0);
      piece.b = static_cast<std::size_t>(by_rows ? 0 : begin * product.b_column);
      piece.c = static_cast<std::size_t>(by_rows ? begin * product.n : begin);
      piece.bias = static_cast<std::size_t>(by_rows ? 0 : begin);
      piece.scratch = site.scratch;
      site.scratch += (described.scratchpad_desc().get_size() + 63) / 64 * 64;
      all->pieces.push_back(std::move(piece));
    } catch (const dnnl::error& error) {
      return decline(site, error.what());
    }
  }
  return {Matmuls::run, all, static_cast<int>(all->pieces.size())};
}

}  // namespace

}  // namespace neurim::cpu

namespace neurim {

void cpu_onednn_matmul() {
  add({.op = "linear", .name = "onednn", .rank = 10, .prepare = cpu::prepare, .fuses = true});
  add({.op = "matmul", .name = "onednn", .rank = 10, .prepare = cpu::prepare, .fuses = true});
}

}  // namespace neurim
