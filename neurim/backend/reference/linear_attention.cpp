#include "neurim/ops/linear_attention.h"

#include <cmath>

#include "neurim/backend/reference/view.h"

namespace neurim {

namespace {

using reference::View;

void linear_attention_body(const Op& op, std::span<const View> in, std::span<const View> out, std::uint32_t&) {
  const auto& attention = static_cast<const LinearAttention&>(op);
  const auto& [heads, groups, scale] = attention.options;
  const Shape& states = out[1].shape();
  const std::int64_t batch = states[0], steps = in[0].shape()[1], features = states[2], values = states[3];
  std::size_t next = 3;
  const View* first = attention.state ? &in[next++] : nullptr;
  const View* decay = attention.decay ? &in[next++] : nullptr;
  const View* beta = attention.beta ? &in[next] : nullptr;
  const std::int64_t decays = decay ? std::int64_t{decay->shape()[2]} / groups : 0;  // of a head
  std::vector<double> state(static_cast<std::size_t>(features * values)), value(static_cast<std::size_t>(values));
  for (std::int64_t of = 0; of < batch * groups; ++of) {
    const std::int64_t n = of / groups, group = of % groups;
    for (std::size_t i = 0; i < state.size(); ++i)
      state[i] = first ? (*first)[of * features * values + static_cast<std::int64_t>(i)] : 0;
    for (std::int64_t t = n * steps; t < (n + 1) * steps; ++t) {
      for (std::int64_t v = 0; v < values; ++v)
        value[static_cast<std::size_t>(v)] = in[2][(t * groups + group) * values + v];
      for (std::int64_t e = 0; decay && e < features; ++e) {
        const double factor = std::exp((*decay)[(t * groups + group) * decays + (decays == 1 ? 0 : e)]);
        for (std::int64_t v = 0; v < values; ++v) state[static_cast<std::size_t>(e * values + v)] *= factor;
      }
      const auto key = [&, groups = groups](std::int64_t e) { return in[1][(t * groups + group) * features + e]; };
      if (beta) {
        for (std::int64_t e = 0; e < features; ++e)
          reference::add_scaled(values, -key(e), state.data() + e * values, 1, value.data(), 1);
        const std::int64_t rates = beta->shape()[2];
        for (double& each : value) each *= (*beta)[t * rates + (rates == 1 ? 0 : group)];
      }
      for (std::int64_t e = 0; e < features; ++e)
        reference::add_scaled(values, key(e), value.data(), 1, state.data() + e * values, 1);
      for (std::int64_t head = group * (heads / groups); head < (group + 1) * (heads / groups); ++head) {
        std::vector<double> y(value.size());
        for (std::int64_t e = 0; e < features; ++e)
          reference::add_scaled(values, in[0][(t * heads + head) * features + e] * scale, state.data() + e * values, 1,
                                y.data(), 1);
        for (std::int64_t v = 0; v < values; ++v)
          out[0].set((t * heads + head) * values + v, y[static_cast<std::size_t>(v)]);
      }
    }
    for (std::size_t i = 0; i < state.size(); ++i)
      out[1].set(of * features * values + static_cast<std::int64_t>(i), state[i]);
  }
}

}  // namespace

void reference_linear_attention() { reference::define_reference("linear_attention", linear_attention_body); }

}  // namespace neurim
