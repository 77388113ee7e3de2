#include "neurim/ops/recurrence.h"

#include <cmath>

#include "neurim/backend/reference/view.h"

namespace neurim {

namespace {

using reference::View;
using Vector = std::vector<double>;

std::size_t place(std::int64_t i) { return static_cast<std::size_t>(i); }

Types types_of(std::span<const View> views) {
  Types types;
  for (const View& view : views) types.push_back(view.type);
  return types;
}

/// An operand that may not be there.
const View* at(std::span<const View> views, int i) { return i < 0 ? nullptr : &views[i]; }

/// Its values; none where it is not there.
Vector all(const View* view) { return view ? view->values() : Vector(); }

/// The steps of sequence n in the order of the walk; `status` tells of a length that cannot be.
std::vector<std::int64_t> walk(const RecurrentOp& op, const View* lengths, std::int64_t n, std::int64_t steps,
                               std::uint32_t& status) {
  std::int64_t length = steps;
  if (lengths) length = static_cast<const std::int64_t*>(lengths->data)[n];
  if (length < 1 || length > steps) {
    status |= kStatusIndexOutOfRange;
    length = 0;
  }
  std::vector<std::int64_t> order;
  for (std::int64_t t = 0; t < length; ++t) order.push_back(op.options.reverse ? length - 1 - t : t);
  return order;
}

/// Row n of a (N,size) operand; zeros where there is none.
Vector row(const View* view, std::int64_t n, std::int64_t size) {
  Vector values(place(size));
  for (std::int64_t i = 0; view && i < size; ++i) values[place(i)] = (*view)[n * size + i];
  return values;
}

void set_row(const View& view, std::int64_t n, const Vector& values) {
  const auto size = static_cast<std::int64_t>(values.size());
  for (std::int64_t i = 0; i < size; ++i) view.set(n * size + i, values[place(i)]);
}

/// Adds rows [first, first + sums.size()) of a weight (…,columns) times x.
void add_product(const Vector& weight, std::int64_t first, const Vector& x, Vector& sums) {
  const auto columns = static_cast<std::int64_t>(x.size());
  const double* row = weight.data() + first * columns;
  for (double& sum : sums) sum = reference::dot(columns, row, 1, x.data(), 1, sum), row += columns;
}

/// Adds the transpose of rows [first, first + x.size()) times x.
void add_transposed(const Vector& weight, std::int64_t first, const Vector& x, Vector& sums) {
  const auto columns = static_cast<std::int64_t>(sums.size());
  const double* row = weight.data() + first * columns;
  for (const double factor : x) reference::add_scaled(columns, factor, row, 1, sums.data(), 1), row += columns;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

void recurrence_body(const Op& base, std::span<const View> in, std::span<const View> out, std::uint32_t& status) {
  const auto& op = static_cast<const Recurrence&>(base);
  const Recurrence::Places p = op.places();
  const auto [steps, batch, hidden, outputs, count] = recurrence_size(op, types_of(in));
  const View& gates = in[0];
  const Vector weight = in[1].values(), weight_hr = all(at(in, p.weight_hr));
  const View *bias = at(in, p.bias_hh), *peephole = at(in, p.peephole);
  const View *out_gates = at(out, p.out_gates), *saved = at(out, p.saved);
  const bool lstm = op.cell == Cell::lstm, gru = op.cell == Cell::gru, relu = op.options.nonlinearity == "relu";
  const std::int64_t H = hidden;
  for (std::int64_t n = 0; n < batch; ++n) {
    Vector h = row(at(in, p.h0), n, outputs), c = row(at(in, p.c0), n, lstm ? H : 0);
    const std::vector<std::int64_t> order = walk(op, at(in, p.lengths), n, steps, status);
    for (const std::int64_t t : order) {
      Vector gate = row(&gates, t * batch + n, count * H), keep(place(H));
      const auto hear = [&](std::int64_t g, const Vector& from) {  // what gate g hears from the states
        Vector sums = bias ? row(bias, g, H) : Vector(place(H));
        add_product(weight, g * H, from, sums);
        return sums;
      };
      const auto peep = [&](std::int64_t which, std::size_t u) {
        return peephole ? (*peephole)[which * H + static_cast<std::int64_t>(u)] * c[u] : 0.0;
      };
      if (lstm) {
        Vector inner(place(H));
        add_product(weight, 0, h, gate);
        for (std::size_t u = 0; u < place(H); ++u) {
          double &i = gate[u], &f = gate[place(H) + u], &g = gate[place(2 * H) + u], &o = gate[place(3 * H) + u];
          i = sigmoid(i + peep(0, u));
          f = sigmoid(f + peep(1, u));
          g = std::tanh(g);
          c[u] = f * c[u] + i * g;
          o = sigmoid(o + peep(2, u));
          inner[u] = o * std::tanh(c[u]);
        }
        keep = c;
        h = inner;
        if (!weight_hr.empty()) h.assign(place(outputs), 0), add_product(weight_hr, 0, inner, h);
      } else if (gru) {
        const Vector r_h = hear(0, h), z_h = hear(1, h);
        for (std::size_t u = 0; u < place(H); ++u) {
          gate[u] = sigmoid(gate[u] + r_h[u]);
          gate[place(H) + u] = sigmoid(gate[place(H) + u] + z_h[u]);
          if (!op.options.reset_after) keep[u] = gate[u] * h[u];
        }
        const Vector n_h = hear(2, op.options.reset_after ? h : keep);
        for (std::size_t u = 0; u < place(H); ++u) {
          double &fresh = gate[place(2 * H) + u], z = gate[place(H) + u];
          if (op.options.reset_after) keep[u] = n_h[u];
          fresh = std::tanh(fresh + (op.options.reset_after ? gate[u] * n_h[u] : n_h[u]));
          h[u] = (1 - z) * fresh + z * h[u];
        }
      } else {
        add_product(weight, 0, h, gate);
        for (double& value : gate) value = relu ? (value < 0 ? 0 : value) : std::tanh(value);
        h = gate;
      }
      set_row(out[0], t * batch + n, h);
      if (out_gates) set_row(*out_gates, t * batch + n, gate), set_row(*saved, t * batch + n, keep);
    }
    for (auto t = static_cast<std::int64_t>(order.size()); t < steps; ++t) {
      set_row(out[0], t * batch + n, Vector(place(outputs)));
      if (out_gates) {
        set_row(*out_gates, t * batch + n, Vector(place(count * H)));
        set_row(*saved, t * batch + n, Vector(place(H)));
      }
    }
    set_row(out[p.h], n, h);
    if (lstm) set_row(out[p.c], n, c);
  }
}

/// The gradients of an LSTM cell's gates before their activations, `d`, of its state before the step, `dc`, which comes
/// as that of the state after it, and of the peepholes; `dinner` is that of the output.
void lstm_grad(const Vector& gate, const Vector& c, const Vector& c_before, const View* peephole, const Vector& dinner,
               Vector& dc, Vector& d, Vector& dpeep) {
  const std::size_t H = c.size();
  const auto peep = [&](std::size_t which, std::size_t u) {
    return peephole ? (*peephole)[static_cast<std::int64_t>(which * H + u)] : 0.0;
  };
  for (std::size_t u = 0; u < H; ++u) {
    const double i = gate[u], f = gate[H + u], g = gate[2 * H + u], o = gate[3 * H + u];
    double &di = d[u], &df = d[H + u], &dg = d[2 * H + u], &d_o = d[3 * H + u];
    const double squashed = std::tanh(c[u]);
    d_o = dinner[u] * squashed * o * (1 - o);
    dc[u] += dinner[u] * o * (1 - squashed * squashed) + d_o * peep(2, u);
    di = dc[u] * g * i * (1 - i);
    df = dc[u] * c_before[u] * f * (1 - f);
    dg = dc[u] * i * (1 - g * g);
    if (peephole) {
      dpeep[u] += di * c_before[u];
      dpeep[H + u] += df * c_before[u];
      dpeep[2 * H + u] += d_o * c[u];
    }
    dc[u] = dc[u] * f + di * peep(0, u) + df * peep(1, u);
  }
}

/// The gradients of a GRU cell's gates before their activations, `d`, and of its state before the step, `dstate`. Gives
/// those of the products with that state, of which gate n's is another. `keep` is what gate n's product was.
Vector gru_grad(const Vector& weight, bool reset_after, const Vector& gate, const Vector& keep, const Vector& h,
                const Vector& dh, Vector& d, Vector& dstate) {
  const std::size_t H = keep.size();
  const auto gate_of = [H](const Vector& all, std::size_t g) {
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(g * H);
    return Vector(first, first + static_cast<std::ptrdiff_t>(H));
  };
  for (std::size_t u = 0; u < H; ++u) {
    const double z = gate[H + u], fresh = gate[2 * H + u];
    d[H + u] = dh[u] * (h[u] - fresh) * z * (1 - z);
    d[2 * H + u] = dh[u] * (1 - z) * (1 - fresh * fresh);
    dstate[u] = dh[u] * z;
  }
  Vector through(H);  // to what gate n hears
  if (!reset_after) add_transposed(weight, static_cast<std::int64_t>(2 * H), gate_of(d, 2), through);
  Vector heard = d;
  for (std::size_t u = 0; u < H; ++u) {
    const double r = gate[u], dn = d[2 * H + u];
    const double dr = reset_after ? dn * keep[u] : through[u] * h[u];
    d[u] = heard[u] = dr * r * (1 - r);
    if (reset_after)
      heard[2 * H + u] = dn * r;
    else
      dstate[u] += through[u] * r;
  }
  for (std::size_t g = 0; g < (reset_after ? 3 : 2); ++g)
    add_transposed(weight, static_cast<std::int64_t>(g * H), gate_of(heard, g), dstate);
  return heard;
}

void recurrence_grad_body(const Op& base, std::span<const View> in, std::span<const View> out, std::uint32_t& status) {
  const auto& op = static_cast<const RecurrenceGrad&>(base);
  const RecurrenceGrad::Places p = op.places();
  const auto [steps, batch, hidden, outputs, count] = recurrence_size(op, types_of(in));
  const Vector weight = in[0].values(), weight_hr = all(at(in, p.weight_hr));
  const View &y = *at(in, p.y), &dy = *at(in, p.dy);
  const View *peephole = at(in, p.peephole), *gates = at(in, p.gates);
  const View *saved = at(in, p.saved), *dhidden = at(out, p.dhidden), *dprojected = at(out, p.dprojected);
  const View& dgates = out[0];
  const bool lstm = op.cell == Cell::lstm, gru = op.cell == Cell::gru, relu = op.options.nonlinearity == "relu";
  const std::int64_t H = hidden;
  for (std::int64_t n = 0; n < batch; ++n) {
    Vector dh = row(at(in, p.dh), n, outputs), dc = row(at(in, p.dc), n, lstm ? H : 0);
    Vector dpeep(place(peephole ? 3 * H : 0)), dbias(place((count + gru) * H));
    const std::vector<std::int64_t> order = walk(op, at(in, p.lengths), n, steps, status);
    for (std::size_t s = order.size(); s-- > 0;) {
      const std::int64_t t = order[s];
      const std::int64_t from = t * batch + n, before = s == 0 ? Dim(0) : order[s - 1] * batch + n;
      const Vector h = s == 0 ? row(at(in, p.h0), n, outputs) : row(&y, before, outputs);
      const Vector seed = row(&dy, from, outputs);
      for (std::size_t u = 0; u < seed.size(); ++u) dh[u] += seed[u];
      Vector d(place(count * H)), dinner = dh, dstate(place(outputs));
      if (dprojected) set_row(*dprojected, from, dh);
      if (!weight_hr.empty()) dinner.assign(place(H), 0), add_transposed(weight_hr, 0, dh, dinner);
      if (lstm) {
        const Vector c_before = s == 0 ? row(at(in, p.c0), n, H) : row(saved, before, H);
        lstm_grad(row(gates, from, 4 * H), row(saved, from, H), c_before, peephole, dinner, dc, d, dpeep);
        add_transposed(weight, 0, d, dstate);
      } else if (gru) {
        const Vector heard = gru_grad(weight, op.options.reset_after, row(gates, from, 3 * H), row(saved, from, H), h,
                                      dh, d, dstate);
        for (std::size_t u = 0; u < place(H); ++u) dbias[place(3 * H) + u] += heard[place(2 * H) + u];
        set_row(*dhidden, from, heard);
      } else {
        const Vector now = row(&y, from, H);
        for (std::size_t u = 0; u < place(H); ++u)
          d[u] = relu ? (now[u] > 0 ? dh[u] : 0) : dh[u] * (1 - now[u] * now[u]);
        add_transposed(weight, 0, d, dstate);
      }
      dh = dstate;
      for (std::size_t u = 0; u < d.size(); ++u) dbias[u] += d[u];
      set_row(dgates, from, d);
    }
    for (auto t = static_cast<std::int64_t>(order.size()); t < steps; ++t) {
      set_row(dgates, t * batch + n, Vector(place(count * H)));
      if (dhidden) set_row(*dhidden, t * batch + n, Vector(place(count * H)));
      if (dprojected) set_row(*dprojected, t * batch + n, Vector(place(outputs)));
    }
    set_row(*at(out, p.dh0), n, dh);
    if (lstm) set_row(*at(out, p.dc0), n, dc);
    if (peephole) set_row(*at(out, p.dpeephole), n, dpeep);
    if (p.dbias >= 0) set_row(*at(out, p.dbias), n, dbias);
  }
}

}  // namespace

void reference_recurrence() {
  for (const Cell cell : {Cell::lstm, Cell::gru, Cell::rnn}) {
    reference::define_reference(Recurrence(cell).name(), recurrence_body);
    reference::define_reference(RecurrenceGrad(cell).name(), recurrence_grad_body);
  }
}

}  // namespace neurim
