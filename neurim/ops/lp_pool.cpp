#include "neurim/ops/lp_pool.h"

#include "neurim/ops/abs.h"
#include "neurim/ops/avg_pool.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/pow.h"
#include "neurim/ops/sqrt.h"
#include "neurim/ops/square.h"
#include "neurim/ops/where.h"

namespace neurim {

template <std::size_t N>
void LpPool<N>::fields(Fields& f) {
  f("norm_type", options.norm_type);
  list_field(f, "kernel", options.kernel);
  list_field(f, "stride", options.stride);
  f("ceil_mode", options.ceil_mode);
}

template <std::size_t N>
Types LpPool<N>::infer(std::span<const Type> in) const {
  check_count(*this, in, 1, 1);
  check_floating(*this, in[0], "the input");
  require(options.norm_type >= 1, name(), ": norm_type is ", options.norm_type, ", has to be 1 or more");
  const PoolOptions<N> window{.kernel = options.kernel, .stride = options.stride, .ceil_mode = options.ceil_mode};
  return {{in[0].dtype, pooled_shape(name(), in[0].shape, window)}};
}

template <std::size_t N>
Tensors LpPool<N>::decompose(std::span<const Tensor> in) const {
  const double p = options.norm_type;
  const Tensor powers = p == 1 ? abs(in[0]) : p == 2 ? square(in[0]) : pow(abs(in[0]), scalar_like(in[0], p));
  double places = 1;
  for (const std::int64_t size : options.kernel) places *= static_cast<double>(size);
  const Tensor sums = avg_pool(powers, PoolOptions<N>{.kernel = options.kernel,
                                                      .stride = options.stride,
                                                      .ceil_mode = options.ceil_mode}) *
                      places;
  if (p == 1) return {sums};
  const Tensor zero = scalar_like(sums, 0), one = scalar_like(sums, 1), none = equal(sums, zero);
  const Tensor safe = where(none, one, sums);  // a root is infinitely steep at 0
  return {where(none, zero, p == 2 ? sqrt(safe) : pow(safe, scalar_like(safe, 1 / p)))};
}

template <std::size_t N>
std::vector<Sample> LpPool<N>::samples() const {
  std::vector<Sample> all;
  const auto row = [&](const Shape& x, const LpPoolOptions<N>& o, Fill fill = {}) {
    auto op = std::make_shared<LpPool>();
    op->options = o;
    all.push_back({op, {{DType::f32, x}}, {fill}});
  };
  Shape x{2, 3};
  for (std::size_t axis = 0; axis < N; ++axis) x.push_back(7 - static_cast<std::int64_t>(axis));
  const auto two = each_axis<N>(2), three = each_axis<N>(3);
  row(x, {});
  row(x, {.norm_type = 1, .kernel = three, .stride = two});
  row(x, {.norm_type = 4, .kernel = two, .stride = each_axis<N>(1)});
  row(x, {.norm_type = 2.5, .kernel = three, .stride = two, .ceil_mode = true}, {.low = 0.2, .high = 2});
  return all;
}

void define_lp_pool() {
  define<LpPool<1>>();
  define<LpPool<2>>();
  define<LpPool<3>>();
}

template class LpPool<1>;
template class LpPool<2>;
template class LpPool<3>;

}  // namespace neurim
