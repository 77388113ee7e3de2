#include "neurim/backend/cpu/recurrence.h"

#include <algorithm>
#include <atomic>

#include "neurim/backend/cpu/physical.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/recurrence.h"

namespace neurim {

namespace {

using namespace cpu;

RecurrentCell cell_of(const RecurrentOp& op) {
  if (op.cell == Cell::lstm) return RecurrentCell::lstm;
  if (op.cell == Cell::gru)
    return op.options.reset_after ? RecurrentCell::gru : RecurrentCell::gru_reset_before;
  return op.options.nonlinearity == "relu" ? RecurrentCell::rnn_relu : RecurrentCell::rnn_tanh;
}

/// What the launches of both kernels share. The first parts pack the weights into the scratch, behind it lie
/// a row of zeros and what is to be projected; the joins walk, each with sequences of its own.
template <class Op, class Pass>
struct Prepared {
  typename Op::Places places;
  Pass pass{};
  std::int64_t zeros = 0, second_begin = 0;  ///< of the second weight: its first element beyond weight_hh
  std::int64_t inner_floats = 0, rows_floats = 0;  ///< of all parts, and of each
  int packers = 1, parts = 1;
  decltype(&portable::pack_panels) pack;
  decltype(&portable::run_recurrence) forward;
  decltype(&portable::run_recurrence_grad) backward;

  template <class T = float>
  static const T* in(const Args& args, int place) {
    return place < 0 ? nullptr : static_cast<const T*>(args.in[static_cast<std::size_t>(place)]);
  }
  static float* out(const Args& args, int place) {
    return place < 0 ? nullptr : static_cast<float*>(args.out[static_cast<std::size_t>(place)]);
  }
  float* packed_weight(const Args& args) const { return static_cast<float*>(args.scratch); }
  float* packed_second(const Args& args) const { return packed_weight(args) + pass.weight.floats(); }
  float* zero_row(const Args& args) const {
    return packed_second(args) + (pass.second.size > 0 ? pass.second.floats() : 0);
  }
  float* inner(const Args& args) const { return zero_row(args) + zeros; }

  /// Packs the panels of part number `part`.
  void pack_part(const Args& args, int part) const {
    if (part == 0) std::fill_n(zero_row(args), zeros, 0.0f);
    const std::int64_t split = pass.weight.count(),
                       all = split + (pass.second.size > 0 ? pass.second.count() : 0);
    const std::int64_t first = part_begin(all, packers, part), last = part_begin(all, packers, part + 1);
    const float* weight = in(args, places.weight_hh);
    pack(pass.weight, weight, packed_weight(args), std::min(first, split), std::min(last, split));
    if (last <= split) return;
    const float* second = places.weight_hr < 0 ? weight + second_begin : in(args, places.weight_hr);
    pack(pass.second, second, packed_second(args), std::max(first, split) - split, last - split);
  }

  /// The operands that both directions have, for one of the joins.
  Pass at(const Args& args, int join) const {
    Pass all = pass;
    all.peephole = in(args, places.peephole);
    all.h0 = in(args, places.h0);
    all.c0 = in(args, places.c0);
    all.lengths = in<std::int64_t>(args, places.lengths);
    all.zeros = zero_row(args);
    all.packed_weight = packed_weight(args);
    all.packed_second = packed_second(args);
    all.rows = inner(args) + inner_floats + join * rows_floats;
    return all;
  }

  void check_lengths(const Args& args, std::int64_t first, std::int64_t last) const {
    const std::int64_t* lengths = in<std::int64_t>(args, places.lengths);
    for (std::int64_t n = first; lengths && n < last; ++n)
      if (lengths[n] < 1 || lengths[n] > pass.steps)
        std::atomic_ref(*args.status).fetch_or(kStatusIndexOutOfRange, std::memory_order_relaxed);
  }
};

using Forward = Prepared<Recurrence, RecurrentForward>;
using Backward = Prepared<RecurrenceGrad, RecurrentBackward>;

void run_forward(const void* self, const Args& args, int part) noexcept {
  const auto& own = *static_cast<const Forward*>(self);
  if (part < own.packers) return own.pack_part(args, part);
  const Recurrence::Places& p = own.places;
  RecurrentForward pass = own.at(args, part - own.packers);
  pass.gates = own.in(args, p.gates);
  pass.bias = own.in(args, p.bias_hh);
  pass.y = own.out(args, p.y);
  pass.h = own.out(args, p.h);
  pass.c = own.out(args, p.c);
  pass.out_gates = own.out(args, p.out_gates);
  pass.saved = own.out(args, p.saved);
  pass.inner = p.weight_hr < 0 ? nullptr : own.inner(args);
  const std::int64_t first = part_begin(pass.batch, own.parts, part - own.packers),
                     last = part_begin(pass.batch, own.parts, part - own.packers + 1);
  own.check_lengths(args, first, last);
  own.forward(pass, first, last);
}

void run_backward(const void* self, const Args& args, int part) noexcept {
  const auto& own = *static_cast<const Backward*>(self);
  if (part < own.packers) return own.pack_part(args, part);
  const RecurrenceGrad::Places& p = own.places;
  RecurrentBackward pass = own.at(args, part - own.packers);
  pass.y = own.in(args, p.y);
  pass.gates = own.in(args, p.gates);
  pass.saved = own.in(args, p.saved);
  pass.dy = own.in(args, p.dy);
  pass.dh = own.in(args, p.dh);
  pass.dc = own.in(args, p.dc);
  pass.dgates = own.out(args, p.dgates);
  pass.dh0 = own.out(args, p.dh0);
  pass.dc0 = own.out(args, p.dc0);
  pass.dhidden = own.out(args, p.dhidden);
  pass.dprojected = own.out(args, p.dprojected);
  pass.dpeephole = own.out(args, p.dpeephole);
  pass.dbias = own.out(args, p.dbias);
  const std::int64_t first = part_begin(pass.batch, own.parts, part - own.packers),
                     last = part_begin(pass.batch, own.parts, part - own.packers + 1);
  own.check_lengths(args, first, last);
  own.backward(pass, first, last);
}

template <class Op, class Pass>
Launch prepare(Site& site, Launch (*launch)(std::shared_ptr<Prepared<Op, Pass>>, Site&)) {
  const auto& op = static_cast<const Op&>(site.op());
  Types in;
  for (std::size_t i = 0; i < site.in.size(); ++i) in.push_back(site.input(static_cast<int>(i)).type);
  for (const Type& type : in)
    if (type.dtype != DType::f32 && type.dtype != DType::i64) return decline(site, "takes f32 only");
  const RecurrenceSize size = recurrence_size(op, in);
  auto own = std::make_shared<Prepared<Op, Pass>>();
  own->places = op.places();
  own->pack = NEURIM_DISPATCH(pack_panels);
  own->forward = NEURIM_DISPATCH(run_recurrence);
  own->backward = NEURIM_DISPATCH(run_recurrence_grad);
  own->pass.cell = cell_of(op);
  own->pass.reverse = op.options.reverse;
  own->pass.steps = size.steps;
  own->pass.batch = size.batch;
  own->pass.hidden = size.hidden;
  own->pass.outputs = size.outputs;
  own->zeros = size.gates * size.hidden + 3 * size.hidden;
  own->second_begin = 2 * size.hidden * size.hidden;
  return launch(own, site);
}

/// Fixes what depends on the panels.
template <class Own>
Launch finish(const std::shared_ptr<Own>& own, Site& site,
              void (*run)(const void*, const Args&, int) noexcept, std::int64_t inner) {
  const RecurrentPass& pass = own->pass;
  const bool twice = pass.second.size > 0;
  const std::int64_t panels = pass.weight.count() + (twice ? pass.second.count() : 0);
  constexpr std::int64_t kRowsWorthAPart = 4;  // fewer do not pay for reading all weights once more
  own->packers = static_cast<int>(std::clamp<std::int64_t>(panels, 1, site.chunks));
  own->parts = static_cast<int>(
      std::clamp<std::int64_t>((pass.batch + kRowsWorthAPart - 1) / kRowsWorthAPart, 1, site.chunks));
  const std::int64_t together = std::min(kRowsTogether, (pass.batch + own->parts - 1) / own->parts);
  own->inner_floats = inner;
  own->rows_floats = together * 16 * std::max(pass.weight.blocks(), twice ? pass.second.blocks() : 0);
  site.scratch = sizeof(float) * static_cast<std::size_t>(pass.weight.floats() + (twice ? pass.second.floats() : 0) +
                                                          own->zeros + inner + own->parts * own->rows_floats);
  return {run, own, own->packers, own->parts};
}

Launch recurrence(Site& site) {
  return prepare<Recurrence, RecurrentForward>(site, [](std::shared_ptr<Forward> own, Site& at) {
    RecurrentPass& p = own->pass;
    const std::int64_t H = p.hidden, P = p.outputs;
    const bool projects = own->places.weight_hr >= 0;
    const bool rnn = p.cell == RecurrentCell::rnn_tanh || p.cell == RecurrentCell::rnn_relu;
    const int gates = p.cell == RecurrentCell::lstm ? 4 : p.cell == RecurrentCell::gru ? 3 : 2;
    p.weight = {rnn ? 4 : gates, !rnn, P, H, P, 1};
    if (projects) p.second = {4, false, H, P, H, 1};
    if (p.cell == RecurrentCell::gru_reset_before) p.second = {4, false, H, H, H, 1};
    return finish(own, at, run_forward, projects ? p.batch * H : 0);
  });
}

Launch recurrence_grad(Site& site) {
  return prepare<RecurrenceGrad, RecurrentBackward>(site, [](std::shared_ptr<Backward> own, Site& at) {
    RecurrentPass& p = own->pass;
    const std::int64_t H = p.hidden, P = p.outputs;
    const bool reset_before = p.cell == RecurrentCell::gru_reset_before;
    const int gates = p.cell == RecurrentCell::lstm  ? 4
                      : p.cell == RecurrentCell::gru ? 3
                      : reset_before                 ? 2
                                                     : 1;
    p.weight = {4, false, gates * H, P, 1, P};
    if (own->places.weight_hr >= 0) p.second = {4, false, P, H, 1, H};
    if (reset_before) p.second = {4, false, H, H, 1, H};
    return finish(own, at, run_backward, 0);
  });
}

}  // namespace

void cpu_recurrence() {
  for (const Cell cell : {Cell::lstm, Cell::gru, Cell::rnn}) {
    add({.op = Recurrence(cell).name(), .name = "cpu", .rank = 20, .prepare = recurrence});
    add({.op = RecurrenceGrad(cell).name(), .name = "cpu", .rank = 20, .prepare = recurrence_grad});
  }
}

}  // namespace neurim
