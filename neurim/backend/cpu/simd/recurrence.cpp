#include "neurim/backend/cpu/recurrent/recurrence.h"

#include <span>

#include "neurim/backend/cpu/common/block_product.h"
#include "neurim/backend/cpu/simd/math.h"
#include "neurim/backend/cpu/simd/simd.h"

namespace neurim::cpu::NEURIM_ISA {

namespace {

void copy(const float* from, float* to, std::int64_t count) { __builtin_memcpy(to, from, count * sizeof(float)); }
void clear(float* to, std::int64_t count) {
  if (to) __builtin_memset(to, 0, count * sizeof(float));
}

/// The cache lines that a panel's element-wise step will read and write, for prefetching.
class Lines {
 public:
  /// Adds `count` lines, `step` floats apart; nothing for a null pointer.
  void add(const float* first, int count = 1, std::int64_t step = 0) {
    for (int i = 0; first && i < count; ++i) lines_[size_++] = first + i * step;
  }
  Fetch fetch() const { return {lines_, lines_ + size_}; }

 private:
  static constexpr int
      // a row has four vectors in a panel; a vector of a GRU's gradient reads or writes 11 lines
      kMost = 4 * 11 * kRowsTogether;
  int size_ = 0;
  const float* lines_[kMost];
};

struct Nothing {
  void operator()(Lines&, std::int64_t, std::int64_t) const {}
};

/// Rows and the weight that they are multiplied by.
struct Operands {
  const Factor& factor;
  const float* const* rows;
};

/// Multiplies `count` rows with all panels of the weights and adds the products up. Calls each(row, panel, sums of the
/// panel). lines_of(lines, row, panel) lists what that call will read and write.
template <class Each, class LinesOf = Nothing>
void multiply(const RecurrentPass& pass, std::span<const Operands> all, std::int64_t count, Each each,
              LinesOf lines_of = {}) {
  float* to = pass.rows;
  for (const auto& [factor, rows] : all) {
    const std::int64_t depth = factor.panels.depth;
    for (std::int64_t r = 0; r < count; ++r)
      for (std::int64_t k = 0; k < depth; k += kLanes) {
        float* const own = to + (k / kLanes * count + r) * kLanes;
        if (k + kLanes <= depth)
          store(own, load(rows[r] + k));
        else
          copy(rows[r] + k, own, depth - k);
      }
    if (pass.pairs)
      // in place: a row never lies after its source
      round_to_pairs(pass.pairs, to, count * kLanes, kLanes, count, depth, to);
    to += factor.panels.blocks() * count * kLanes;
  }
  constexpr int kMostVectors = 4;
  alignas(64) float sums[kRowsTogether * kMostVectors * kLanes];
  const Panels& first = all[0].factor.panels;
  const std::int64_t row = first.vectors * kLanes;
  for (std::int64_t p = 0; p < first.count(); ++p) {
    Lines lines;
    for (std::int64_t r = 0; r < count; ++r) lines_of(lines, r, p);
    Fetch fetch = lines.fetch();
    const float* x = pass.rows;
    for (const Operands& operands : all) {
      const Panels& panels = operands.factor.panels;
      const bool begins = &operands == &all.front(), ends = &operands == &all.back();
      const BlockProduct product{.rows = count,
                                 .in_channels = panels.depth,
                                 .x_block = pass.pairs ? count * kLanes / 2 : count * kLanes,
                                 .weight_block = panels.block_floats(),
                                 .y_block = kLanes,
                                 .pairs = pass.pairs,
                                 .y_row = row,
                                 .fetch = ends ? &fetch : nullptr};
      block_product(product, panels.vectors, x, operands.factor.packed + p * panels.vectors * panels.block_floats(),
                    {.add = begins ? nullptr : sums}, sums);
      x += panels.blocks() * count * kLanes;
    }
    for (std::int64_t r = 0; r < count; ++r) each(r, p, sums + r * row);
  }
}
/// The same with one weight.
template <class Each, class LinesOf = Nothing>
void multiply(const RecurrentPass& pass, const Factor& factor, const float* const* rows, std::int64_t count, Each each,
              LinesOf lines_of = {}) {
  const Operands operands{factor, rows};
  multiply(pass, std::span(&operands, 1), count, each, lines_of);
}

/// Calls body(first unit, count, offset in the sums) for each vector of neighbouring columns of a panel.
template <class Body>
void each_vector(const Panels& panels, std::int64_t panel, Body body) {
  for (int v = 0; v < panels.vectors; ++v) {
    const std::int64_t unit = (panel * panels.vectors + v) * kLanes, left = panels.size - unit;
    if (left > 0) body(unit, left < kLanes ? static_cast<int>(left) : kLanes, v * kLanes);
  }
}

/// Calls body(lane) for n lanes, in a loop that vectorizes.
template <class Body>
void lanes(int n, Body body) {
  if (n == kLanes) {
#pragma GCC ivdep
    for (int l = 0; l < kLanes; ++l) body(l);
  } else {
    for (int l = 0; l < n; ++l) body(l);
  }
}

/// to += from for n <= 16 floats; 16 as one explicit vector, since g++ 12 does not vectorize so short a body.
void add_to(float* to, const float* from, int n) {
  if (n == kLanes)
    store(to, load(to) + load(from));
  else
    for (int l = 0; l < n; ++l) to[l] += from[l];
}

int gates_of(RecurrentCell cell) {
  return cell == RecurrentCell::lstm                                             ? 4
         : cell == RecurrentCell::gru || cell == RecurrentCell::gru_reset_before ? 3
                                                                                 : 1;
}

/// The sequences that are active at one time step.
struct ActiveSequences {
  std::int64_t count = 0;
  std::int64_t sequence[kRowsTogether];
  bool first[kRowsTogether], last[kRowsTogether];  ///< whether this is the sequence's first or last step
};

/// Collects those of [begin, end) that are active at step t; calls idle(n) for the others.
template <class Idle>
ActiveSequences walkers(const RecurrentPass& pass, std::int64_t t, std::int64_t begin, std::int64_t end, Idle idle) {
  ActiveSequences all;
  for (std::int64_t n = begin; n < end; ++n) {
    const std::int64_t length = pass.length(n);
    if (t >= length) {
      idle(n);
      continue;
    }
    all.sequence[all.count] = n;
    all.first[all.count] = t == (pass.reverse ? length - 1 : 0);
    all.last[all.count++] = t == (pass.reverse ? 0 : length - 1);
  }
  return all;
}

/// Zeroes the padding after the gates of the active sequences' rows at step t.
void clear_padding(const RecurrentPass& pass, float* rows, const ActiveSequences& walkers, std::int64_t t,
                   std::int64_t gates) {
  if (pass.gates_row == gates) return;
  for (std::int64_t r = 0; r < walkers.count; ++r)
    clear(rows + (t * pass.batch + walkers.sequence[r]) * pass.gates_row + gates, pass.gates_row - gates);
}

// --- forward ---

/// One time step of the active sequences.
class ForwardStep {
 public:
  ForwardStep(const RecurrentForward& pass, const ActiveSequences& walkers, std::int64_t t)
      : p_(pass), w_(walkers), t_(t) {
    const std::int64_t back = (pass.reverse ? 1 : -1) * pass.batch;
    for (std::int64_t r = 0; r < w_.count; ++r) {
      const std::int64_t n = w_.sequence[r], before = place(n) + back;
      const auto state = [&](const float* walked, const float* initial, std::int64_t size) {
        return !w_.first[r] ? walked + before * size : initial ? initial + n * size : pass.zeros;
      };
      h_[r] = state(pass.y, pass.h0, pass.outputs);
      if (pass.cell == RecurrentCell::lstm) c_[r] = state(pass.saved, pass.c0, pass.hidden);
      if (pass.inputs) x_[r] = pass.x + place(n) * pass.inputs.panels.depth;
    }
  }

  void lstm() const {
    const std::int64_t H = p_.hidden;
    multiply(
        p_, operands(), w_.count,
        [&](std::int64_t r, std::int64_t panel, float* s) {
          const std::int64_t at = place(w_.sequence[r]), u = panel * kLanes;
          const float *g = gates(r) + u, *before = c_[r] + u, *peep = p_.peephole ? p_.peephole + u : nullptr;
          float *to = out_gates(r) + u, *c = p_.saved + at * H + u;
          float* h = p_.inner ? p_.inner + w_.sequence[r] * H + u : p_.y + at * H + u;
          const int n = tail(u);
          if (peep) lanes(n, [=](int l) { s[l] += peep[l] * before[l], s[16 + l] += peep[H + l] * before[l]; });
          lanes(n, [=](int l) {
            const float i = sigmoid_of(g[l] + s[l]), f = sigmoid_of(g[H + l] + s[16 + l]);
            const float fresh = tanh_of(g[2 * H + l] + s[32 + l]);
            to[l] = i, to[H + l] = f, to[2 * H + l] = fresh;
            c[l] = f * before[l] + i * fresh;
          });
          if (peep) lanes(n, [=](int l) { s[48 + l] += peep[2 * H + l] * c[l]; });
          lanes(n, [=](int l) {
            const float o = sigmoid_of(g[3 * H + l] + s[48 + l]);
            to[3 * H + l] = o;
            h[l] = o * tanh_of(c[l]);
          });
        },
        [&](Lines& lines, std::int64_t r, std::int64_t panel) {
          const std::int64_t at = place(w_.sequence[r]), u = panel * kLanes;
          if (p_.gates) lines.add(gates(r) + u, 4, H);
          lines.add(out_gates(r) + u, 4, H);
          lines.add(p_.saved + at * H + u);
          if (!p_.inner) lines.add(p_.y + at * H + u);
        });
    if (!p_.inner) return;
    const float* inner[kRowsTogether];
    for (std::int64_t r = 0; r < w_.count; ++r) inner[r] = p_.inner + w_.sequence[r] * H;
    multiply(p_, p_.second, inner, w_.count, [&](std::int64_t r, std::int64_t panel, float* s) {
      float* y = p_.y + place(w_.sequence[r]) * p_.outputs;
      each_vector(p_.second.panels, panel, [&](std::int64_t u, int n, int v) { copy(s + v, y + u, n); });
    });
  }

  void gru() const {
    const std::int64_t H = p_.hidden;
    multiply(
        p_, p_.weight, h_, w_.count,
        [&](std::int64_t r, std::int64_t panel, float* s) {
          const std::int64_t at = place(w_.sequence[r]), u = panel * kLanes;
          const float *g = gates(r) + u, *before = h_[r] + u, *bias = (p_.bias ? p_.bias : p_.zeros) + u;
          float *to = out_gates(r) + u, *heard = p_.saved + at * H + u, *h = p_.y + at * H + u;
          lanes(tail(u), [=](int l) {
            const float reset = sigmoid_of(g[l] + s[l] + bias[l]), z = sigmoid_of(g[H + l] + s[16 + l] + bias[H + l]);
            const float from_state = s[32 + l] + bias[2 * H + l], fresh = tanh_of(g[2 * H + l] + reset * from_state);
            to[l] = reset, to[H + l] = z, to[2 * H + l] = fresh;
            heard[l] = from_state;
            h[l] = (1 - z) * fresh + z * before[l];
          });
        },
        [&](Lines& lines, std::int64_t r, std::int64_t panel) {
          const std::int64_t at = place(w_.sequence[r]), u = panel * kLanes;
          lines.add(gates(r) + u, 3, H);
          lines.add(out_gates(r) + u, 3, H);
          lines.add(p_.saved + at * H + u);
          lines.add(p_.y + at * H + u);
        });
  }

  void gru_reset_before() const {
    const std::int64_t H = p_.hidden;
    multiply(p_, p_.weight, h_, w_.count, [&](std::int64_t r, std::int64_t panel, float* s) {
      const std::int64_t at = place(w_.sequence[r]), u = panel * kLanes;
      const float *g = gates(r) + u, *before = h_[r] + u, *bias = (p_.bias ? p_.bias : p_.zeros) + u;
      float *to = out_gates(r) + u, *kept = p_.saved + at * H + u;
      lanes(tail(u), [=](int l) {
        const float reset = sigmoid_of(g[l] + s[l] + bias[l]);
        to[l] = reset, to[H + l] = sigmoid_of(g[H + l] + s[16 + l] + bias[H + l]);
        kept[l] = reset * before[l];
      });
    });
    const float* kept[kRowsTogether];
    for (std::int64_t r = 0; r < w_.count; ++r) kept[r] = p_.saved + place(w_.sequence[r]) * H;
    multiply(p_, p_.second, kept, w_.count, [&](std::int64_t r, std::int64_t panel, float* s) {
      const std::int64_t at = place(w_.sequence[r]);
      each_vector(p_.second.panels, panel, [&](std::int64_t u, int n, int v) {
        const float *g = gates(r) + 2 * H + u, *before = h_[r] + u, *sum = s + v;
        const float* bias = p_.bias ? p_.bias + 2 * H + u : p_.zeros;
        float *to = out_gates(r) + u, *h = p_.y + at * H + u;
        lanes(n, [=](int l) {
          const float fresh = tanh_of(g[l] + sum[l] + bias[l]), z = to[H + l];
          to[2 * H + l] = fresh;
          h[l] = (1 - z) * fresh + z * before[l];
        });
      });
    });
  }

  void rnn(bool relu) const {
    multiply(p_, operands(), w_.count, [&](std::int64_t r, std::int64_t panel, float* s) {
      const std::int64_t at = place(w_.sequence[r]) * p_.hidden;
      each_vector(p_.weight.panels, panel, [&](std::int64_t u, int n, int v) {
        const float *g = gates(r) + u, *sum = s + v;
        float* h = p_.y + at + u;
        if (relu)
          lanes(n, [=](int l) { h[l] = g[l] + sum[l] < 0 ? 0.f : g[l] + sum[l]; });
        else
          lanes(n, [=](int l) { h[l] = tanh_of(g[l] + sum[l]); });
      });
    });
  }

 private:
  std::int64_t place(std::int64_t n) const { return t_ * p_.batch + n; }
  int tail(std::int64_t u) const { return p_.hidden - u < kLanes ? static_cast<int>(p_.hidden - u) : kLanes; }

  float* out_gates(std::int64_t r) const { return p_.out_gates + place(w_.sequence[r]) * p_.gates_row; }
  /// The products' operands, and what is added to the sums: the precomputed input gates of sequence r, or the bias.
  std::span<const Operands> operands() const { return std::span(operands_).subspan(p_.inputs ? 0 : 1); }
  const float* gates(std::int64_t r) const {
    return p_.gates ? p_.gates + place(w_.sequence[r]) * gates_of(p_.cell) * p_.hidden : p_.bias ? p_.bias : p_.zeros;
  }

  const RecurrentForward& p_;
  const ActiveSequences& w_;
  std::int64_t t_;
  const float *x_[kRowsTogether], *h_[kRowsTogether], *c_[kRowsTogether];  // at this step and the one before
  const Operands operands_[2] = {{p_.inputs, x_}, {p_.weight, h_}};
};

void forward_together(const RecurrentForward& p, std::int64_t begin, std::int64_t end) {
  const int gates = gates_of(p.cell);
  for (std::int64_t s = 0; s < p.steps; ++s) {
    const std::int64_t t = p.reverse ? p.steps - 1 - s : s;
    const ActiveSequences walking = walkers(p, t, begin, end, [&](std::int64_t n) {
      const std::int64_t at = t * p.batch + n;
      clear(p.y + at * p.outputs, p.outputs);
      if (p.out_gates) clear(p.out_gates + at * p.gates_row, p.gates_row);
      if (p.saved) clear(p.saved + at * p.hidden, p.hidden);
    });
    if (p.out_gates) clear_padding(p, p.out_gates, walking, t, gates * p.hidden);
    if (walking.count == 0) continue;
    const ForwardStep step(p, walking, t);
    if (p.cell == RecurrentCell::lstm)
      step.lstm();
    else if (p.cell == RecurrentCell::gru)
      step.gru();
    else if (p.cell == RecurrentCell::gru_reset_before)
      step.gru_reset_before();
    else
      step.rnn(p.cell == RecurrentCell::rnn_relu);
  }
  for (std::int64_t n = begin; n < end; ++n) {
    const std::int64_t length = p.length(n), at = (p.reverse ? 0 : length - 1) * p.batch + n;
    const auto keep = [&](const float* walked, const float* initial, float* to, std::int64_t size) {
      copy(length > 0 ? walked + at * size : initial ? initial + n * size : p.zeros, to + n * size, size);
    };
    keep(p.y, p.h0, p.h, p.outputs);
    if (p.cell == RecurrentCell::lstm) keep(p.saved, p.c0, p.c, p.hidden);
  }
}

// --- backward ---

/// One time step of the active sequences, backwards. dh0 carries the part of the state's gradient that does not go
/// through the recurrent weight (at the last step dh); dc0 the gradient of c.
class BackwardStep {
 public:
  BackwardStep(const RecurrentBackward& pass, const ActiveSequences& walkers, std::int64_t t)
      : p_(pass), w_(walkers), t_(t) {
    const std::int64_t back = (pass.reverse ? 1 : -1) * pass.batch;
    const float* behind = pass.cell == RecurrentCell::gru ? pass.dhidden : pass.dgates;
    for (std::int64_t r = 0; r < w_.count; ++r) {
      const std::int64_t n = w_.sequence[r];
      after_[r] = w_.last[r] ? pass.zeros : behind + (place(n) - back) * pass.gates_row;
      const auto state = [&](const float* walked, const float* initial, std::int64_t size) {
        return !w_.first[r] ? walked + (place(n) + back) * size : initial ? initial + n * size : pass.zeros;
      };
      h_[r] = state(pass.y, pass.h0, pass.outputs);
      if (pass.cell == RecurrentCell::lstm) c_[r] = state(pass.saved, pass.c0, pass.hidden);
    }
  }

  void lstm() const {
    if (!p_.dprojected) {
      each_gradient([&](std::int64_t r, std::int64_t u, int n, const float* d) { lstm_units(r, u, n, d); });
      return;
    }
    each_gradient([&](std::int64_t r, std::int64_t u, int n, const float* d) {
      copy(d, p_.dprojected + place(w_.sequence[r]) * p_.outputs + u, n);
    });
    const float* projected[kRowsTogether];
    for (std::int64_t r = 0; r < w_.count; ++r) projected[r] = p_.dprojected + place(w_.sequence[r]) * p_.outputs;
    multiply(p_, p_.second, projected, w_.count, [&](std::int64_t r, std::int64_t panel, float* s) {
      each_vector(p_.second.panels, panel, [&](std::int64_t u, int n, int v) { lstm_units(r, u, n, s + v); });
    });
  }

  void gru() const {
    const std::int64_t H = p_.hidden;
    each_gradient([&](std::int64_t r, std::int64_t u, int n, const float* d) {
      const std::int64_t at = place(w_.sequence[r]);
      const float *g = gates(r) + u, *before = h_[r] + u, *heard = p_.saved + at * H + u;
      float *to = dgates(r) + u, *inner = dhidden(r) + u;
      float* carry = p_.dh0 + w_.sequence[r] * H + u;
      lanes(n, [=](int l) {
        const float reset = g[l], z = g[H + l], fresh = g[2 * H + l], dh = d[l];
        const float dn = dh * (1 - z) * (1 - fresh * fresh), dz = dh * (before[l] - fresh) * z * (1 - z);
        const float dr = dn * heard[l] * reset * (1 - reset);
        to[l] = inner[l] = dr, to[H + l] = inner[H + l] = dz, to[2 * H + l] = dn;
        inner[2 * H + l] = dn * reset;
        carry[l] = dh * z;
      });
      add_bias(r, u, n, to, 3);
      add_bias(r, u, n, inner + 2 * H, 1, 3);
    });
  }

  void gru_reset_before() const {
    const std::int64_t H = p_.hidden;
    each_gradient([&](std::int64_t r, std::int64_t u, int n, const float* d) {
      const float *g = gates(r) + u, *before = h_[r] + u;
      float *to = dhidden(r) + u, *carry = p_.dh0 + w_.sequence[r] * H + u;
      lanes(n, [=](int l) {
        const float z = g[H + l], fresh = g[2 * H + l];
        to[H + l] = d[l] * (before[l] - fresh) * z * (1 - z);
        to[2 * H + l] = d[l] * (1 - z) * (1 - fresh * fresh);
        carry[l] = d[l] * z;
      });
    });
    const float* fresh[kRowsTogether];
    for (std::int64_t r = 0; r < w_.count; ++r) fresh[r] = dhidden(r) + 2 * H;
    multiply(p_, p_.second, fresh, w_.count, [&](std::int64_t r, std::int64_t panel, float* s) {
      each_vector(p_.second.panels, panel, [&](std::int64_t u, int n, int v) {
        const float *reset = gates(r) + u, *before = h_[r] + u, *through = s + v;
        float *to = dhidden(r) + u, *carry = p_.dh0 + w_.sequence[r] * H + u;
        lanes(n, [=](int l) {
          to[l] = through[l] * before[l] * reset[l] * (1 - reset[l]);
          carry[l] += through[l] * reset[l];
        });
        add_bias(r, u, n, to, 3);
        add_bias(r, u, n, to + 2 * H, 1, 3);
      });
    });
    for (std::int64_t r = 0; r < w_.count; ++r) copy(dhidden(r), dgates(r), 3 * H);
  }

  void rnn(bool relu) const {
    each_gradient([&](std::int64_t r, std::int64_t u, int n, const float* d) {
      const float* y = p_.y + place(w_.sequence[r]) * p_.hidden + u;
      float* to = dgates(r) + u;
      if (relu)
        lanes(n, [=](int l) { to[l] = y[l] > 0 ? d[l] : 0.f; });
      else
        lanes(n, [=](int l) { to[l] = d[l] * (1 - y[l] * y[l]); });
      add_bias(r, u, n, to, 1);
    });
  }

 private:
  std::int64_t place(std::int64_t n) const { return t_ * p_.batch + n; }
  const float* gates(std::int64_t r) const { return p_.gates + place(w_.sequence[r]) * p_.gates_row; }
  float* dgates(std::int64_t r) const { return p_.dgates + place(w_.sequence[r]) * p_.gates_row; }
  float* dhidden(std::int64_t r) const { return p_.dhidden + place(w_.sequence[r]) * p_.gates_row; }

  /// Calls each(sequence, first unit, count, gradients of the outputs at this step).
  template <class Each>
  void each_gradient(Each each) const {
    const bool carries = p_.cell == RecurrentCell::gru || p_.cell == RecurrentCell::gru_reset_before;
    multiply(
        p_, p_.weight, after_, w_.count,
        [&](std::int64_t r, std::int64_t panel, float* s) {
          const std::int64_t n = w_.sequence[r];
          const float *dy = p_.dy + place(n) * p_.outputs, *carry = p_.dh0 + n * p_.outputs;
          each_vector(p_.weight.panels, panel, [&](std::int64_t u, int count, int v) {
            float* d = s + v;
            add_to(d, dy + u, count);
            if (carries || w_.last[r]) add_to(d, carry + u, count);
            each(r, u, count, d);
          });
        },
        [&](Lines& lines, std::int64_t r, std::int64_t panel) {
          const std::int64_t at = place(w_.sequence[r]), H = p_.hidden;
          const int gates = gates_of(p_.cell);
          each_vector(p_.weight.panels, panel, [&](std::int64_t u, int, int) {
            lines.add(p_.dy + at * p_.outputs + u);
            if (p_.cell != RecurrentCell::lstm && p_.cell != RecurrentCell::gru) return;
            lines.add(this->gates(r) + u, gates, H);
            lines.add(p_.saved + at * H + u);
            lines.add(dgates(r) + u, gates, H);
            if (p_.dhidden) lines.add(dhidden(r) + u, gates, H);
          });
        });
  }

  /// Adds units [u, u + n) of `count` gates' gradients, H apart from `from` on, to the bias gradient from gate `first`
  /// on.
  void add_bias(std::int64_t r, std::int64_t u, int n, const float* from, int count, int first = 0) const {
    if (!p_.dbias) return;
    const std::int64_t H = p_.hidden, gates = gates_of(p_.cell) + (p_.dhidden != nullptr);
    float* to = p_.dbias + (w_.sequence[r] * gates + first) * H + u;
    for (int gate = 0; gate < count; ++gate, to += H, from += H) add_to(to, from, n);
  }

  /// The gradients of units [u, u + n) of an LSTM, given those of o * tanh(c).
  void lstm_units(std::int64_t r, std::int64_t u, int n, const float* d) const {
    const std::int64_t H = p_.hidden, at = place(w_.sequence[r]);
    const float *g = gates(r) + u, *c = p_.saved + at * H + u, *before = c_[r] + u;
    const float* peep = p_.peephole ? p_.peephole + u : nullptr;
    float *to = dgates(r) + u, *dc = p_.dc0 + w_.sequence[r] * H + u;
    alignas(64) float output[kLanes];  // the gradient of gate o, which a peephole passes on to c
    lanes(n, [=, &output](int l) {
      const float o = g[3 * H + l], squashed = tanh_of(c[l]);
      output[l] = d[l] * squashed * o * (1 - o);
      dc[l] += d[l] * o * (1 - squashed * squashed);
    });
    if (peep) lanes(n, [=, &output](int l) { dc[l] += output[l] * peep[2 * H + l]; });
    lanes(n, [=, &output](int l) {
      const float i = g[l], f = g[H + l], fresh = g[2 * H + l], dcell = dc[l];
      to[l] = dcell * fresh * i * (1 - i);
      to[H + l] = dcell * before[l] * f * (1 - f);
      to[2 * H + l] = dcell * i * (1 - fresh * fresh);
      to[3 * H + l] = output[l];
      dc[l] = dcell * f;
    });
    add_bias(r, u, n, to, 4);
    if (!peep) return;
    float* dpeep = p_.dpeephole + w_.sequence[r] * 3 * H + u;
    lanes(n, [=, &output](int l) {
      dc[l] += to[l] * peep[l] + to[H + l] * peep[H + l];
      dpeep[l] += to[l] * before[l];
      dpeep[H + l] += to[H + l] * before[l];
      dpeep[2 * H + l] += output[l] * c[l];
    });
  }

  const RecurrentBackward& p_;
  const ActiveSequences& w_;
  std::int64_t t_;
  const float* after_[kRowsTogether];                  // the gates' gradients at the next step
  const float *h_[kRowsTogether], *c_[kRowsTogether];  // before this step
};

void backward_together(const RecurrentBackward& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t gates = gates_of(p.cell) * p.hidden;
  copy(p.dh + begin * p.outputs, p.dh0 + begin * p.outputs, (end - begin) * p.outputs);
  if (p.dc0) copy(p.dc + begin * p.hidden, p.dc0 + begin * p.hidden, (end - begin) * p.hidden);
  if (p.dpeephole) clear(p.dpeephole + begin * 3 * p.hidden, (end - begin) * 3 * p.hidden);
  const std::int64_t biases = gates + (p.dhidden ? p.hidden : 0);
  if (p.dbias) clear(p.dbias + begin * biases, (end - begin) * biases);
  for (std::int64_t s = p.steps; s-- > 0;) {
    const std::int64_t t = p.reverse ? p.steps - 1 - s : s;
    const ActiveSequences walking = walkers(p, t, begin, end, [&](std::int64_t n) {
      const std::int64_t at = t * p.batch + n;
      clear(p.dgates + at * p.gates_row, p.gates_row);
      if (p.dhidden) clear(p.dhidden + at * p.gates_row, p.gates_row);
      if (p.dprojected) clear(p.dprojected + at * p.outputs, p.outputs);
    });
    clear_padding(p, p.dgates, walking, t, gates);
    if (p.dhidden) clear_padding(p, p.dhidden, walking, t, gates);
    if (walking.count == 0) continue;
    const BackwardStep step(p, walking, t);
    if (p.cell == RecurrentCell::lstm)
      step.lstm();
    else if (p.cell == RecurrentCell::gru)
      step.gru();
    else if (p.cell == RecurrentCell::gru_reset_before)
      step.gru_reset_before();
    else
      step.rnn(p.cell == RecurrentCell::rnn_relu);
  }
  // The gradient that the first step passes to the initial state.
  const bool carries = p.cell == RecurrentCell::gru || p.cell == RecurrentCell::gru_reset_before;
  const float* behind = p.cell == RecurrentCell::gru ? p.dhidden : p.dgates;
  const float* first[kRowsTogether];
  std::int64_t sequence[kRowsTogether], count = 0;
  for (std::int64_t n = begin; n < end; ++n) {
    const std::int64_t length = p.length(n);
    if (length == 0) continue;
    sequence[count] = n;
    first[count++] = behind + ((p.reverse ? length - 1 : 0) * p.batch + n) * p.gates_row;
  }
  multiply(p, p.weight, first, count, [&](std::int64_t r, std::int64_t panel, float* s) {
    each_vector(p.weight.panels, panel, [&](std::int64_t u, int n, int v) {
      float* to = p.dh0 + sequence[r] * p.outputs + u;
      lanes(n, [=, d = s + v](int l) { to[l] = (carries ? to[l] : 0) + d[l]; });
    });
  });
}

}  // namespace

void run_recurrence(const RecurrentForward& pass, std::int64_t first, std::int64_t last) {
  for (std::int64_t begin = first; begin < last; begin += kRowsTogether)
    forward_together(pass, begin, begin + kRowsTogether < last ? begin + kRowsTogether : last);
}

void run_recurrence_grad(const RecurrentBackward& pass, std::int64_t first, std::int64_t last) {
  for (std::int64_t begin = first; begin < last; begin += kRowsTogether)
    backward_together(pass, begin, begin + kRowsTogether < last ? begin + kRowsTogether : last);
}

}  // namespace neurim::cpu::NEURIM_ISA
