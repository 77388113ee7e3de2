// Attention and the positions of its queries and keys.
#include <cmath>
#include <limits>

#include "neurim/base/error.h"
#include "neurim/graph/trace.h"
#include "neurim/graph/value.h"
#include "neurim/model/onnx/operators/operators.h"
#include "neurim/model/onnx/operators/product.h"
#include "neurim/ops/add.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/common/wide.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/gather.h"
#include "neurim/ops/iota.h"
#include "neurim/ops/linear_attention.h"
#include "neurim/ops/logical.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/multihead_attention.h"
#include "neurim/ops/pad.h"
#include "neurim/ops/reduce_max.h"
#include "neurim/ops/reduce_min.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/scaled_dot_product_attention.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/softmax.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/tanh.h"
#include "neurim/ops/transpose.h"
#include "neurim/ops/where.h"

namespace neurim {

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();  // added to the score of a key that is not seen

/// x(N,L,heads*E) as (N,heads,L,E).
Tensor heads_apart(const Tensor& x, std::int64_t heads) {
  require(heads > 0 && x.size(2) % heads == 0, "the ", x.size(2), " features of ", x.shape(), " do not divide into ",
          heads, " heads");
  return transpose(reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads}), {0, 2, 1, 3});
}

/// The inverse.
Tensor heads_together(const Tensor& x) {
  return reshape(transpose(x, {0, 2, 1, 3}), {x.size(0), x.size(2), x.size(1) * x.size(3)});
}

/// left(N,H,L,…) times right(N,K,…), where neighbouring H/K heads share those of the right: as rows of one matrix.
Tensor grouped_product(const Tensor& left, const Tensor& right, bool transpose_right) {
  const Dim heads = left.size(1), groups = right.size(1), rows = heads / groups * left.size(2);
  const Tensor joined = heads == groups ? left : reshape(left, {left.size(0), groups, rows, left.size(3)});
  const Tensor y = onnx_product(joined, right, false, transpose_right);
  return heads == groups ? y : reshape(y, {left.size(0), heads, left.size(2), y.size(3)});
}

/// Whether it is known that no row of what is added to scores is -infinity throughout.
bool all_see(const Tensor& bias) {
  if (!bias) return true;
  if (bias.traced()) return false;
  const Untraced untraced;
  return reduce_min(reduce_max(bias, {-1})).item() > kNever;
}

/// Softmax over the keys, 0 where a query sees none: where all that is added to its scores is -infinity.
Tensor softmax_of_seen(const Tensor& scores, const Tensor& bias) {
  if (all_see(bias)) return softmax(scores);
  const Tensor zero = scalar_like(scores, 0), none = scalar_like(scores, kNever),
               most = reduce_max(cast(bias, scores.dtype()), {-1}, true), alive = not_equal(most, none);
  return where(alive, softmax(where(alive, scores, zero)), zero);
}

/// Which keys a query may see besides what the mask says: bool that broadcasts to (N,H,L,S); undefined: all.
struct KeyRange {
  Dim queries, keys;
  bool causal = false;
  std::int64_t left = -1, right = -1;  ///< how far from its own position a query sees; -1: any distance
  Dim past = 0;                        ///< keys before the first query
  Tensor lengths = {};                 ///< i64(N): how many keys there are; the last queries are at the last of them
  Device device = {};

  Tensor counted(Dim count) const { return iota(count).to(device); }
  bool plain() const { return causal && left < 0 && right < 0 && past == 0 && !lengths; }

  Tensor allowed() const {
    if (lengths || queries.symbolic() || keys.symbolic() || past.symbolic()) return of_positions();
    const Untraced untraced;  // sizes alone say it
    const Tensor known = of_positions();
    if (known) known.value()->constant = true;
    return known;
  }

 private:
  static Tensor scalar_of(Dim size) { return Tensor::scalar(static_cast<double>(std::int64_t{size}), DType::i64); }

  Tensor of_positions() const {
    Tensor all;
    const auto also = [&](const Tensor& more) { all = all ? logical_and(all, more) : more; };
    const Tensor key = counted(keys);
    if (causal || left >= 0 || right >= 0) {
      Tensor at = reshape(counted(queries), {queries, 1});
      if (lengths)
        at = at + (reshape(lengths, {lengths.size(0), 1, 1, 1}) - scalar_of(queries));
      else if (!(past == 0))
        at = at + scalar_of(past);
      if (causal) also(less_equal(key, at));
      if (left >= 0) also(less_equal(at - key, scalar_like(key, static_cast<double>(left))));
      if (right >= 0) also(less_equal(key - at, scalar_like(key, static_cast<double>(right))));
    }
    if (lengths) also(less(key, reshape(lengths, {lengths.size(0), 1, 1, 1})));
    return all;
  }
};

/// A mask as a bool one, or as numbers to add, with as many keys as there are; fewer: none are seen after them.
Tensor mask_for(const Tensor& given, DType dtype, Dim keys) {
  Tensor mask = given.dtype() == DType::boolean ? given : cast(given, dtype);
  if (mask.rank() == 0) mask = reshape(mask, {1});
  if (mask.size(-1) == keys || mask.size(-1) == 1) return mask;
  std::vector<std::int64_t> ends(2 * static_cast<std::size_t>(mask.rank()));
  ends.back() = keys - mask.size(-1);
  require(ends.back() > 0, "attn_mask is ", mask.shape(), ", and there are ", keys, " keys");
  return pad(mask, ends, mask.dtype() == DType::boolean ? 0 : kNever);
}

/// Both: a key that is seen by the mask, and is allowed.
Tensor joined_mask(const Tensor& mask, const Tensor& allowed) {
  if (!mask || !allowed) return mask ? mask : allowed;
  if (mask.dtype() == DType::boolean) return logical_and(mask, allowed);
  return where(allowed, mask, scalar_like(mask, kNever));
}

/// The operands of attention in four axes, and what its attributes say.
struct AttentionCall {
  Tensor query, key, value, mask;
  bool causal = false;  ///< besides the mask: query i sees keys 0 … i
  double scale = 1, softcap = 0;
  std::optional<DType> precision = {};  ///< of the softmax
};

/// Whether the op of attention, which computes in f32 at least, rounds no more and no less than is wanted.
bool fits_op(const AttentionCall& a) {
  return a.softcap == 0 && a.query.dtype() == a.value.dtype() &&
         (!a.precision || *a.precision == a.query.dtype() || *a.precision == DType::f32) &&
         !(a.query.dtype() == DType::f64 && a.precision == DType::f32);
}

/// A mask as numbers to add.
Tensor added_to_scores(const Tensor& mask, DType dtype) {
  if (!mask || mask.dtype() != DType::boolean) return mask;
  const auto numbers = [&] {
    const auto scalar = [&](double value) { return Tensor::scalar(value, dtype, mask.device()); };
    return where(mask, scalar(0), scalar(kNever));
  };
  if (mask.traced() || !mask.value()->constant) return numbers();
  const Untraced untraced;
  const Tensor known = numbers();
  known.value()->constant = true;
  return known;
}

struct AttentionResult {
  Tensor y, scores;
};

/// Step by step, with the scores as they are at the point that `mode` says.
AttentionResult composed_attention(const AttentionCall& a, std::int64_t mode) {
  const DType dtype = a.query.dtype();
  const Tensor query = wide(a.query), key = wide(a.key);
  AttentionResult result;
  Tensor scores = grouped_product(query * a.scale, key, true);
  if (mode == 0) result.scores = cast(scores, dtype);
  if (a.softcap != 0) scores = tanh(scores * (1 / a.softcap)) * a.softcap;
  if (mode == 1) result.scores = cast(scores, dtype);
  const Tensor bias = added_to_scores(a.mask, scores.dtype());
  if (bias) scores = scores + cast(bias, scores.dtype());
  if (mode == 2) result.scores = cast(scores, dtype);
  const Tensor weights = softmax_of_seen(a.precision ? cast(scores, *a.precision) : scores, bias);
  if (mode == 3) result.scores = cast(weights, dtype);
  const Tensor value = wide(a.value);
  result.y = cast(grouped_product(cast(weights, value.dtype()), value, false), dtype);
  return result;
}

OnnxValues attention_rule(const OnnxCall& call) {
  AttentionCall a{call.tensor(0), call.tensor(1), call.tensor(2), {}};
  const bool packed = a.query.rank() == 3;
  if (packed) {
    const std::int64_t heads = call.integer("q_num_heads", std::int64_t{0}),
                       groups = call.integer("kv_num_heads", std::int64_t{0});
    a.query = heads_apart(a.query, heads), a.key = heads_apart(a.key, groups), a.value = heads_apart(a.value, groups);
  }
  require(a.query.rank() == 4 && a.key.rank() == 4 && a.value.rank() == 4, "Q, K and V are ", a.query.shape(), ", ",
          a.key.shape(), " and ", a.value.shape(), ", where three or four axes each are wanted");
  require(call.has(4) == call.has(5), "past_key and past_value are given together or not at all");
  KeyRange range{.queries = a.query.size(2), .device = a.query.device()};
  if (call.has(4)) {
    range.past = call.tensor(4).size(2);
    a.key = concat({call.tensor(4), a.key}, 2), a.value = concat({call.tensor(5), a.value}, 2);
  }
  range.keys = a.key.size(2);
  range.causal = call.integer("is_causal", std::int64_t{0}) != 0;
  range.left = call.integer("left_window_size", std::int64_t{-1});
  range.right = call.integer("right_window_size", std::int64_t{-1});
  range.lengths = call.optional(6);
  a.scale = call.number("scale", 1 / std::sqrt(static_cast<double>(std::int64_t{a.query.size(3)})));
  a.softcap = call.number("softcap", 0.0);
  if (const std::int64_t precision = call.integer("softmax_precision", std::int64_t{0}); precision != 0)
    a.precision = dtype_of(static_cast<OnnxElement>(precision));
  const Tensor mask = call.has(3) ? mask_for(call.tensor(3), a.query.dtype(), range.keys) : Tensor();

  OnnxValues out(4);
  const bool direct = !call.wants(3) && fits_op(a);
  a.causal = direct && range.plain();
  a.mask = joined_mask(mask, a.causal ? Tensor() : range.allowed());
  const AttentionOptions options{.scale = a.scale, .is_causal = a.causal};
  if (direct && packed && !call.has(4) &&
      a.query.size(1) == a.key.size(1)) {  // there are kernels for heads side by side
    out[0] = multihead_attention(call.tensor(0), call.tensor(1), call.tensor(2), a.query.size(1), a.mask, options);
  } else if (direct) {
    out[0] = scaled_dot_product_attention(a.query, a.key, a.value, a.mask, options);
  } else {
    const std::int64_t mode = call.integer("qk_matmul_output_mode", std::int64_t{0});
    require(mode >= 0 && mode <= 3, "qk_matmul_output_mode is ", mode, ", which is not supported");
    const AttentionResult result = composed_attention(a, mode);
    out[0] = result.y, out[3] = result.scores;
  }
  if (packed && out[0].shape().rank() == 4) out[0] = heads_together(out[0].tensor());
  out[1] = a.key, out[2] = a.value;
  return out;
}

OnnxValues flex_attention_rule(const OnnxCall& call) {
  AttentionCall a{call.tensor(0), call.tensor(1), call.tensor(2), {}};
  require(a.query.rank() == 4 && a.key.rank() == 4 && a.value.rank() == 4, "Q, K and V are ", a.query.shape(), ", ",
          a.key.shape(), " and ", a.value.shape(), ", where four axes each are wanted");
  a.scale = call.number("scale", 1 / std::sqrt(static_cast<double>(std::int64_t{a.query.size(3)})));
  const auto standard = static_cast<std::int64_t>(a.query.dtype() == DType::f64 ? OnnxElement::f64 : OnnxElement::f32);
  const DType precision = dtype_of(static_cast<OnnxElement>(call.integer("softmax_precision", standard)));
  if (!call.has("score_mod") && !call.has("prob_mod") && precision == dtype_of(static_cast<OnnxElement>(standard)) &&
      fits_op(a))
    return {scaled_dot_product_attention(a.query, a.key, a.value, {}, {.scale = a.scale})};
  const auto changed = [&](std::string_view attribute, const Tensor& x) {
    if (!call.has(attribute)) return x;
    const OnnxValues out = call.run(attribute, {x});
    require(out.size() == 1 && out[0].is_tensor() && out[0].tensor().type() == x.type(), attribute,
            " does not give one tensor like ", x.type());
    return out[0].tensor();
  };
  const Tensor scores = cast(grouped_product(wide(a.query) * a.scale, wide(a.key), true), precision);
  const Tensor weights = changed("prob_mod", softmax(changed("score_mod", scores)));
  return {cast(grouped_product(weights, cast(a.value, precision), false), a.value.dtype())};
}

OnnxValues rotary_embedding_rule(const OnnxCall& call) {
  const Tensor& given = call.tensor(0);
  const bool packed = given.rank() == 3;
  require(packed || given.rank() == 4, "X is ", given.shape(), ", where three or four axes are wanted");
  const Tensor x = packed ? heads_apart(given, call.integer("num_heads", std::int64_t{0})) : given;
  const std::int64_t features = x.size(3), all = call.integer("rotary_embedding_dim", std::int64_t{0}),
                     turned = all == 0 ? features : all;
  require(turned % 2 == 0 && turned > 0 && turned <= features, "rotary_embedding_dim is ", turned, ", and heads have ",
          features, " features");
  const auto angles = [&](int input) {  // (N,1,L,turned/2)
    const Tensor& cache = call.tensor(input);
    const Tensor rows = call.has(3) ? gather(cache, call.tensor(3), 0) : cache;
    require(rows.rank() == 3 && rows.size(2) == turned / 2, "input ", input, " is ", cache.shape(), ", where ",
            turned / 2, " numbers for each position are wanted");
    return reshape(rows, {rows.size(0), 1, rows.size(1), rows.size(2)});
  };
  const Tensor cosine = angles(1), sine = angles(2);
  const bool pairs = call.integer("interleaved", std::int64_t{0}) != 0;
  const auto part = [&](std::int64_t which) {  // of the pairs that are turned
    if (pairs) return slice(x, {which}, {turned}, {3}, {2});
    return slice(x, {which * turned / 2}, {(which + 1) * turned / 2}, {3});
  };
  const Tensor first = part(0), second = part(1), real = first * cosine - second * sine,
               imaginary = first * sine + second * cosine;
  const Shape one_more{x.size(0), x.size(1), x.size(2), turned / 2, 1};
  Tensor y = pairs ? reshape(concat({reshape(real, one_more), reshape(imaginary, one_more)}, 4),
                             {x.size(0), x.size(1), x.size(2), turned})
                   : concat({real, imaginary}, 3);
  if (turned < features) y = concat({y, slice(x, {turned}, {features}, {3})}, 3);
  return {packed ? heads_together(y) : y};
}

OnnxValues linear_attention_rule(const OnnxCall& call) {
  const std::string rule = call.word("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  require(gated || delta || rule == "linear", "update_rule is '", rule, "', which is not supported");
  require(call.has(4) == gated, "update_rule '", rule, "' ", gated ? "needs" : "takes no", " decay");
  require(call.has(5) == delta, "update_rule '", rule, "' ", delta ? "needs" : "takes no", " beta");
  const std::int64_t heads = call.integer("q_num_heads", std::int64_t{0}),
                     groups = call.integer("kv_num_heads", std::int64_t{0});
  require(heads > 0 && groups > 0 && call.tensor(0).rank() == 3, "the query is ", call.tensor(0).shape(), " of ", heads,
          " heads, keys have ", groups);
  const double scale = call.number("scale", 0.0),
               features = static_cast<double>(std::int64_t{call.tensor(0).size(2)} / heads);
  const Tensors out = linear_attention(
      call.tensor(0), call.tensor(1), call.tensor(2),
      {.state = call.optional(3), .decay = call.optional(4), .beta = call.optional(5)},
      {.heads = heads, .groups = groups, .scale = scale == 0 ? 1 / std::sqrt(features) : scale});
  return {out[0], out[1]};
}

}  // namespace

void add_attention_operators(OnnxOperators& to) {
  to.add("Attention", 23, attention_rule);
  to.add("RotaryEmbedding", 23, rotary_embedding_rule);
  to.add("LinearAttention", 27, linear_attention_rule);
  to.add("FlexAttention", 1, flex_attention_rule, "ai.onnx.preview");
}

}  // namespace neurim
