#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "neurim/compile/passes.h"
#include "neurim/compile/strided_view.h"
#include "neurim/graph/value.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/gelu.h"
#include "neurim/ops/linear.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/multihead_attention.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/silu.h"
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

/// The table that a value is a transpose and reshapes of, if they keep its rows whole. None: it is in no better order.
std::optional<TurnedTable> rows_apart(const StridedView& view, const Tensor& x) {
  const Tensor& root = view.root;
  const std::int64_t width = x.size(-1);
  if (view.axes.empty() || view.axes.back() != std::vector{StridedRun{width, 1}}) return std::nullopt;
  std::optional<TurnedTable> table = turned_table(view);
  if (!table || table->turns()) return table;
  const bool longer = root.rank() > 1 && root.size(-1) == width && root.rank() >= x.rank() &&
                      (root.rank() > x.rank() || root.size(-2) > x.size(-2));
  if (!longer) return std::nullopt;
  table->shape = root.shape();
  return table;
}

/// A fully connected layer of rows in another order: the order of the result.
std::optional<Tensor> linear_first(const Tensors& in) {
  const std::optional<StridedView> view = strided_view(in[0]);
  std::optional<TurnedTable> rows = view ? rows_apart(*view, in[0]) : std::nullopt;
  if (!rows) return std::nullopt;
  const Tensor out = linear(reshaped(view->root, rows->shape), in[1], in.size() > 2 ? in[2] : Tensor());
  rows->shape[-1] = rows->result[-1] = out.size(-1);
  return rows->of(out);
}

/// A fully connected layer without bias, and a constant that is added to each row.
std::optional<Tensor> with_bias(const Tensor& product, const Tensor& bias) {
  const std::optional<StridedView> view = strided_view(product);
  if (!view || view->axes.empty() || !constant(bias) || bias.dtype() != product.dtype()) return std::nullopt;
  const Graph::Node* linear = made_by(view->root, "linear");
  const std::int64_t width = view->root.size(-1);
  const bool whole_rows = view->axes.back() == std::vector{StridedRun{width, 1}};
  if (!linear || linear->in.size() != 2 || !whole_rows || bias.shape() != Shape{width}) return std::nullopt;
  const std::optional<TurnedTable> table = turned_table(*view);
  if (!table) return std::nullopt;
  return table->of(neurim::linear(traced_value(linear->in[0]), traced_value(linear->in[1]), bias));
}

const std::vector<std::int64_t> kHeadsApart{0, 2, 1, 3};  // (N,L,H,E) to (N,H,L,E), and back

Tensor simplest(const Tensor& value) { return shorter(value).value_or(value); }

/// (N,H,L,E) as (N,L,H*E).
Tensor side_by_side(const Tensor& x) {
  return simplest(reshape(transpose(x, kHeadsApart), {x.size(0), x.size(2), x.size(1) * x.size(3)}));
}

/// The (N,L,3*H*E) of which query, key and value (N,H,L,E) are the thirds, each with its heads side by side.
std::optional<Tensor> packed_in_one(const Tensors& three) {
  const Shape& shape = three[0].shape();
  const std::int64_t n = shape[0], heads = shape[1], length = shape[2], size = shape[3], row = 3 * heads * size;
  const std::vector<std::int64_t> steps{length * row, size, row, 1};
  Tensor root;
  for (std::size_t i = 0; i < 3; ++i) {
    const std::optional<StridedView> view = strided_view(three[i]);
    if (!view || three[i].shape() != shape || (i > 0 && !same(view->root, root))) return std::nullopt;
    if (view->offset != static_cast<std::int64_t>(i) * heads * size) return std::nullopt;
    for (std::size_t axis = 0; axis < 4; ++axis)
      if (const auto& runs = view->axes[axis]; runs.size() > 1 || (runs.size() == 1 && runs[0].step != steps[axis]))
        return std::nullopt;
    root = view->root;
  }
  return root.numel() == n * length * row ? std::optional(reshaped(root, {n, length, row})) : std::nullopt;
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
  if (query.values[0].rank() != 4 || key.values[0].rank() != 4) return std::nullopt;
  const Tensor keys = turned ? key.values[0] : simplest(transpose(key.values[0], {0, 1, 3, 2}));
  const AttentionOptions options{.scale = scaled.factor * query.factor * key.factor};
  const Tensor& q = query.values[0];
  const std::int64_t heads = q.size(1).symbolic() ? 0 : std::int64_t{q.size(1)};
  if (heads == 0 || keys.size(1) != heads || value.size(1) != heads) return std::nullopt;
  const std::optional<Tensor> packed = packed_in_one({q, keys, value});
  const Tensor means = packed ? multihead_self_attention(*packed, heads, {}, options)
                              : multihead_attention(side_by_side(q), side_by_side(keys), side_by_side(value), heads, {},
                                                    options);
  return transpose(reshape(means, {q.size(0), q.size(2), heads, value.size(3)}), kHeadsApart);
}

/// Joins along an axis that begin as an earlier one: the earlier one and the rest, so that its memory may be the
/// beginning of theirs.
class Joins {
 public:
  std::optional<Tensor> of(std::int64_t axis, const Tensors& in) {
    if (!std::all_of(in.begin(), in.end(), [](const Tensor& x) { return x.traced(); })) return std::nullopt;
    std::vector<std::int64_t> parts{normal_axis(axis, in[0].rank(), "concat")};
    std::optional<Tensor> longer;
    for (std::size_t i = 0; i < in.size(); ++i) {
      parts.push_back(in[i].value()->id);
      if (const auto known = joined_.find(parts); known != joined_.end()) {
        Tensors rest{known->second};
        rest.insert(rest.end(), in.begin() + static_cast<std::ptrdiff_t>(i) + 1, in.end());
        longer = rest.size() == 1 ? rest[0] : concat(rest, axis);
      }
    }
    return joined_.emplace(parts, longer ? *longer : concat(in, axis)).first->second;
  }

 private:
  std::map<std::vector<std::int64_t>, Tensor> joined_;  // by the axis and the parts
};

}  // namespace

Graph recognise(const Graph& graph) {
  const std::vector<int> readers = count_readers(graph);
  Joins joins;
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
    if (node.op->name() == "transpose" || node.op->name() == "reshape") found = shorter(apply1(node.op, in));
    if (node.op->name() == "concat") found = joins.of(static_cast<const Concat&>(*node.op).axis, in);
    const bool fits = found && found->type() == graph.values[node.out[0]].type;
    return fits ? Tensors{*found} : Tensors{};
  });
}

}  // namespace neurim
