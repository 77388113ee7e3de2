#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "neurim/compile/passes.h"
#include "neurim/graph/value.h"
#include "neurim/ops/gather.h"
#include "neurim/ops/gelu.h"
#include "neurim/ops/linear.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/multihead_attention.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/silu.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/softmax.h"
#include "neurim/ops/transpose.h"

namespace neurim {

namespace {

/// The node that makes a value, if it is of that op.
const Graph::Node* made_by(const Tensor& value, std::string_view op) {
  const Graph::Node* node = producer(value);
  return node && node->op->name() == op ? node : nullptr;
}

/// A constant of one element as a number.
std::optional<double> number(const Tensor& value) {
  if (!constant(value) || value.numel() != 1) return std::nullopt;
  return value.item();
}

bool same(const Tensor& a, const Tensor& b) {
  return a.traced() == b.traced() && (a.traced() ? a.value()->id == b.value()->id : a.value() == b.value());
}

/// A product of values and a number.
struct Product {
  double factor = 1;
  Tensors values;

  void multiply(const Tensor& value, int depth = 3) {
    if (const auto known = number(value))
      factor *= *known;
    else if (const Graph::Node* node = depth > 0 ? made_by(value, "mul") : nullptr)
      for (const int operand : node->in) multiply(traced_value(operand), depth - 1);
    else
      values.push_back(value);
  }
};

bool near(double value, double wanted) { return std::abs(value - wanted) < 1e-6; }

/// The z of erf(z) + 1.
std::optional<Tensor> erf_above_minus_one(const Tensor& value) {
  const Graph::Node* sum = made_by(value, "add");
  if (!sum) return std::nullopt;
  for (int i = 0; i < 2; ++i) {
    const Graph::Node* erf = made_by(traced_value(sum->in[static_cast<std::size_t>(i)]), "erf");
    const auto one = number(traced_value(sum->in[static_cast<std::size_t>(1 - i)]));
    if (erf && one == 1) return traced_value(erf->in[0]);
  }
  return std::nullopt;
}

/// Whether z is x / sqrt(2).
bool is_over_root_of_two(const Tensor& z, const Tensor& x) {
  const double root = std::sqrt(2.0);
  if (const Graph::Node* quotient = made_by(z, "div")) {
    const auto divisor = number(traced_value(quotient->in[1]));
    return divisor && near(*divisor, root) && same(traced_value(quotient->in[0]), x);
  }
  Product product;
  product.multiply(z);
  return product.values.size() == 1 && near(product.factor, 1 / root) && same(product.values[0], x);
}

/// gelu(x), written out: x * 0.5 * (1 + erf(x / sqrt(2))).
std::optional<Tensor> as_gelu(const Tensors& in) {
  Product product;
  for (const Tensor& value : in) product.multiply(value);
  if (product.values.size() != 2 || !near(product.factor, 0.5)) return std::nullopt;
  for (std::size_t i = 0; i < 2; ++i)
    if (const auto z = erf_above_minus_one(product.values[i]))
      if (const Tensor& x = product.values[1 - i]; is_over_root_of_two(*z, x)) return gelu(x);
  return std::nullopt;
}

/// silu(x), written out: x * sigmoid(x).
std::optional<Tensor> as_silu(const Tensors& in) {
  for (std::size_t i = 0; i < 2; ++i)
    if (const Graph::Node* node = made_by(in[i], "sigmoid"); node && same(traced_value(node->in[0]), in[1 - i]))
      return silu(in[1 - i]);
  return std::nullopt;
}

/// A value that is another with its rows in another order: the other, and the order of the axes before the last.
std::optional<std::pair<Tensor, std::vector<std::int64_t>>> reordered_rows(const Tensor& x) {
  const Graph::Node* node = made_by(x, "transpose");
  if (!node) return std::nullopt;
  const std::vector<std::int64_t>& perm = static_cast<const Transpose&>(*node->op).perm;
  if (perm.back() != std::ssize(perm) - 1) return std::nullopt;
  return std::pair(traced_value(node->in[0]), perm);
}

/// A fully connected layer of rows in another order: the order of the result.
std::optional<Tensor> linear_first(const Tensors& in) {
  const auto rows = reordered_rows(in[0]);
  if (!rows) return std::nullopt;
  return transpose(linear(rows->first, in[1], in.size() > 2 ? in[2] : Tensor()), rows->second);
}

/// A fully connected layer without bias, and a constant that is added to each row.
std::optional<Tensor> with_bias(const Tensor& product, const Tensor& bias) {
  const auto rows = reordered_rows(product);
  const Graph::Node* linear = made_by(rows ? rows->first : product, "linear");
  if (!linear || linear->in.size() != 2 || !constant(bias) || bias.shape() != Shape{product.size(-1)} ||
      bias.dtype() != product.dtype())
    return std::nullopt;
  const Tensor sum = neurim::linear(traced_value(linear->in[0]), traced_value(linear->in[1]), bias);
  return rows ? transpose(sum, rows->second) : sum;
}

/// The matrix of which a value is the transpose, of its last two axes.
std::optional<Tensor> untransposed(const Tensor& value) {
  if (const Graph::Node* node = made_by(value, "transpose")) {
    std::vector<std::int64_t> wanted(static_cast<std::size_t>(value.rank()));
    std::iota(wanted.begin(), wanted.end(), std::int64_t{0});
    std::swap(wanted[wanted.size() - 1], wanted[wanted.size() - 2]);
    if (static_cast<const Transpose&>(*node->op).perm == wanted) return traced_value(node->in[0]);
  }
  // With the batch and the heads as one axis in between.
  const Graph::Node* outer = made_by(value, "reshape");
  const Graph::Node* turned = outer ? made_by(traced_value(outer->in[0]), "transpose") : nullptr;
  const Graph::Node* inner = turned ? made_by(traced_value(turned->in[0]), "reshape") : nullptr;
  if (!inner || static_cast<const Transpose&>(*turned->op).perm != std::vector<std::int64_t>{0, 2, 1})
    return std::nullopt;
  const Tensor from = traced_value(inner->in[0]);
  const bool same_axes = from.rank() == 4 && value.rank() == 4 && from.size(0) == value.size(0) &&
                         from.size(1) == value.size(1) && from.size(2) == value.size(3);
  return same_axes ? std::optional(from) : std::nullopt;
}

const std::vector<std::int64_t> kHeadsApart{0, 2, 1, 3};  // (N,L,H,E) to (N,H,L,E), and back

/// (N,H,L,E) as (N,L,H*E).
Tensor side_by_side(const Tensor& x) {
  return reshape(transpose(x, kHeadsApart), {x.size(0), x.size(2), x.size(1) * x.size(3)});
}

/// The part of a value along axis 0 that another is: the value, and which part.
std::optional<std::pair<Tensor, std::int64_t>> part_of(const Tensor& x) {
  const Graph::Node* node = made_by(x, "reshape");
  const Tensor part = node ? traced_value(node->in[0]) : x;
  if (const Graph::Node* slice = made_by(part, "slice")) {
    const SliceOptions& o = static_cast<const Slice&>(*slice->op).options;
    const bool one = o.axes == std::vector<std::int64_t>{0} && part.size(0) == 1 && o.starts[0] >= 0;
    if (one) return std::pair(traced_value(slice->in[0]), std::int64_t{o.starts[0]});
  }
  if (const Graph::Node* gather = made_by(x, "gather"))
    if (const auto place = number(traced_value(gather->in[1]));
        place && static_cast<const Gather&>(*gather->op).axis == 0)
      return std::pair(traced_value(gather->in[0]), static_cast<std::int64_t>(*place));
  return std::nullopt;
}

/// The (N,L,3*H*E) of which query, key and value (N,H,L,E) are the thirds, each with its heads side by side.
std::optional<Tensor> packed_in_one(const Tensors& three) {
  Tensor apart;
  for (std::size_t i = 0; i < 3; ++i) {
    const auto part = part_of(three[i]);
    if (!part || part->second != static_cast<std::int64_t>(i) || (i > 0 && !same(part->first, apart)))
      return std::nullopt;
    apart = part->first;
  }
  const Graph::Node* turned = made_by(apart, "transpose");
  if (!turned || static_cast<const Transpose&>(*turned->op).perm != std::vector<std::int64_t>{2, 0, 3, 1, 4})
    return std::nullopt;
  const Graph::Node* split = made_by(traced_value(turned->in[0]), "reshape");
  if (!split) return std::nullopt;
  const Tensor rows = traced_value(split->in[0]);
  const Tensor& q = three[0];
  const bool fits = rows.rank() == 3 && apart.size(0) == 3 && rows.size(0) == q.size(0) && rows.size(1) == q.size(2) &&
                    apart.shape() == (Shape{3, q.size(0), q.size(1), q.size(2), q.size(3)});
  return fits ? std::optional(rows) : std::nullopt;
}

/// softmax(scale * query key^T) value, written out.
std::optional<Tensor> as_attention(const Tensor& shares, const Tensor& value) {
  const Graph::Node* softmax = made_by(shares, "softmax");
  if (!softmax || shares.rank() != 4 || value.rank() != 4) return std::nullopt;
  if (normal_axis(static_cast<const Softmax&>(*softmax->op).axis, 4, "softmax") != 3) return std::nullopt;
  Product scaled;
  scaled.multiply(traced_value(softmax->in[0]));  // kernels take no mask
  const Graph::Node* product = scaled.values.size() == 1 ? made_by(scaled.values[0], "matmul") : nullptr;
  if (!product || static_cast<const Matmul&>(*product->op).transpose_a) return std::nullopt;
  Product query, key;
  query.multiply(traced_value(product->in[0])), key.multiply(traced_value(product->in[1]));
  if (query.values.size() != 1 || key.values.size() != 1) return std::nullopt;
  const bool turned = static_cast<const Matmul&>(*product->op).transpose_b;
  const std::optional<Tensor> keys = turned ? std::optional(key.values[0]) : untransposed(key.values[0]);
  if (!keys || query.values[0].rank() != 4 || keys->rank() != 4) return std::nullopt;
  const AttentionOptions options{.scale = scaled.factor * query.factor * key.factor};
  const Tensor& q = query.values[0];
  const std::int64_t heads = q.size(1).symbolic() ? 0 : std::int64_t{q.size(1)};
  if (heads == 0 || keys->size(1) != heads || value.size(1) != heads) return std::nullopt;
  const std::optional<Tensor> packed = packed_in_one({q, *keys, value});
  const Tensor means = packed ? multihead_self_attention(*packed, heads, {}, options)
                              : multihead_attention(side_by_side(q), side_by_side(*keys), side_by_side(value), heads,
                                                    {}, options);
  return transpose(reshape(means, {q.size(0), q.size(2), heads, value.size(3)}), kHeadsApart);
}

/// One transpose in the place of two; none where the second turns back what the first has turned.
std::optional<Tensor> turned_once(const Tensor& x, const std::vector<std::int64_t>& perm) {
  const Graph::Node* first = made_by(x, "transpose");
  if (!first) return std::nullopt;
  const std::vector<std::int64_t>& before = static_cast<const Transpose&>(*first->op).perm;
  std::vector<std::int64_t> both;
  for (const std::int64_t axis : perm) both.push_back(before[static_cast<std::size_t>(axis)]);
  const Tensor from = traced_value(first->in[0]);
  return std::is_sorted(both.begin(), both.end()) ? from : transpose(from, both);
}

}  // namespace

Graph recognise(const Graph& graph) {
  const std::vector<int> readers = count_readers(graph);
  return rewrite(graph, [&](const Graph::Node& node, const Tensors& in) -> Tensors {
    std::optional<Tensor> found;
    if (node.op->name() == "mul") found = as_silu(in);
    if (node.op->name() == "mul" && !found) found = as_gelu(in);
    if (node.op->name() == "add")
      for (std::size_t i = 0; i < 2 && !found; ++i)
        if (readers[node.in[i]] == 1) found = with_bias(in[i], in[1 - i]);
    if (node.op->name() == "matmul" && readers[node.in[0]] == 1) {
      const auto& matmul = static_cast<const Matmul&>(*node.op);
      if (!matmul.transpose_a && !matmul.transpose_b) found = as_attention(in[0], in[1]);
    }
    if (node.op->name() == "linear") found = linear_first(in);
    if (node.op->name() == "transpose") found = turned_once(in[0], static_cast<const Transpose&>(*node.op).perm);
    const bool fits = found && found->type() == graph.values[node.out[0]].type;
    return fits ? Tensors{*found} : Tensors{};
  });
}

}  // namespace neurim
