#include "neurim/backend/cpu/recurrent/recurrence.h"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <vector>

#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/recurrence.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLeastTaskRows = 4;    // fewer would not pay for reading all weights once more
constexpr std::int64_t kLeastInputRows = 16;  // fewer would not pay for reading the input weights at each step

RecurrentCell cell_of(const RecurrentOp& op) {
  if (op.cell == Cell::lstm) return RecurrentCell::lstm;
  if (op.cell == Cell::gru) return op.options.reset_after ? RecurrentCell::gru : RecurrentCell::gru_reset_before;
  return op.options.nonlinearity == "relu" ? RecurrentCell::rnn_relu : RecurrentCell::rnn_tanh;
}

/// The launches of both passes. In the first phase, tasks pack the weights into the workspace, followed by a row of
/// zeros, outputs that nobody reads and the input of the projection. In the second, each task runs sequences of its
/// own.
template <class Op, class Pass>
struct Prepared {
  /// A weight with its panels, from this element of input `place` on.
  struct Weight {
    Factor Pass::*factor;
    int place;
    std::int64_t begin = 0;
  };

  typename Op::Places places;  ///< indices of arguments; outputs from args.out.size() on are in the workspace
  Pass pass{};
  std::vector<Weight> weights;
  std::vector<std::int64_t> unread;  ///< floats of such outputs
  std::int64_t zeros = 0;
  std::int64_t inner_floats = 0, rows_floats = 0;  ///< of all tasks, and of each
  int packers = 1, tasks = 1;
  decltype(&portable::pack_panels) pack;
  decltype(&portable::run_recurrence) forward;
  decltype(&portable::run_recurrence_grad) backward;

  void add(const Weight& weight, const Panels& panels) {
    (pass.*weight.factor).panels = panels;
    (pass.*weight.factor).panels.pairs = pass.pairs;
    weights.push_back(weight);
  }
  const Panels& panels(const Weight& weight) const { return (pass.*weight.factor).panels; }
  template <class Count>
  std::int64_t over_weights(Count count) const {
    std::int64_t all = 0;
    for (const Weight& weight : weights) all += count(panels(weight));
    return all;
  }
  std::int64_t panel_count() const {
    return over_weights([](const Panels& panels) { return panels.count(); });
  }
  std::int64_t packed_floats() const {
    return over_weights([](const Panels& panels) { return panels.floats(); });
  }

  template <class T = float>
  static const T* in(const Args& args, int place) {
    return place < 0 ? nullptr : static_cast<const T*>(args.in[place]);
  }
  float* out(const Args& args, int place) const {
    const auto made = static_cast<int>(args.out.size());
    if (place < made) return place < 0 ? nullptr : static_cast<float*>(args.out[place]);
    return std::accumulate(unread.begin(), unread.begin() + (place - made), std::int64_t{0}) + zero_row(args) + zeros;
  }
  std::int64_t together() const {
    return std::min(kRowsTogether, (pass.batch + tasks - 1) / tasks);
  }  ///< sequences processed together
  float* zero_row(const Args& args) const { return static_cast<float*>(args.scratch) + packed_floats(); }
  float* inner(const Args& args) const { return out(args, static_cast<int>(args.out.size() + unread.size())); }

  /// Packs the panels of task `task`.
  void pack_task(const Args& args, int task) const {
    if (task == 0) std::fill_n(zero_row(args), zeros, 0.0f);
    std::int64_t first = task_begin(panel_count(), packers, task), last = task_begin(panel_count(), packers, task + 1);
    auto* to = static_cast<float*>(args.scratch);
    for (const Weight& weight : weights) {
      const Panels& own = panels(weight);
      const std::int64_t count = own.count();
      pack(own, in(args, weight.place) + weight.begin, to, std::clamp<std::int64_t>(first, 0, count),
           std::clamp<std::int64_t>(last, 0, count));
      first -= count, last -= count, to += own.floats();
    }
  }

  /// The arguments of both passes, for one task of the second phase.
  Pass at(const Args& args, int join) const {
    Pass all = pass;
    all.peephole = in(args, places.peephole);
    all.h0 = in(args, places.h0);
    all.c0 = in(args, places.c0);
    all.lengths = in<std::int64_t>(args, places.lengths);
    all.zeros = zero_row(args);
    const auto* packed = static_cast<const float*>(args.scratch);
    for (const Weight& weight : weights) {
      (all.*weight.factor).packed = packed;
      packed += panels(weight).floats();
    }
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

using Backward = Prepared<RecurrenceGrad, RecurrentBackward>;

/// With the input projection fused: steps {linear, recurrence}.
struct Forward : Prepared<Recurrence, RecurrentForward> {
  int x = -1, bias = -1;  ///< inputs: of the linear layer if fused, else of the GRU
};

void run_forward(const void* self, const Args& args, int task) noexcept {
  const auto& own = *static_cast<const Forward*>(self);
  if (task < own.packers) return own.pack_task(args, task);
  const Recurrence::Places& p = own.places;
  RecurrentForward pass = own.at(args, task - own.packers);
  pass.x = own.in(args, own.x);
  pass.gates = own.in(args, p.gates);
  pass.bias = own.in(args, own.bias);
  pass.y = own.out(args, p.y);
  pass.h = own.out(args, p.h);
  pass.c = own.out(args, p.c);
  pass.out_gates = own.out(args, p.out_gates);
  pass.saved = own.out(args, p.saved);
  pass.inner = p.weight_hr < 0 ? nullptr : own.inner(args);
  const std::int64_t first = task_begin(pass.batch, own.tasks, task - own.packers),
                     last = task_begin(pass.batch, own.tasks, task - own.packers + 1);
  own.check_lengths(args, first, last);
  own.forward(pass, first, last);
}

void run_backward(const void* self, const Args& args, int task) noexcept {
  const auto& own = *static_cast<const Backward*>(self);
  if (task < own.packers) return own.pack_task(args, task);
  const RecurrenceGrad::Places& p = own.places;
  RecurrentBackward pass = own.at(args, task - own.packers);
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
  const std::int64_t first = task_begin(pass.batch, own.tasks, task - own.packers),
                     last = task_begin(pass.batch, own.tasks, task - own.packers + 1);
  own.check_lengths(args, first, last);
  own.backward(pass, first, last);
}

const Step& anchor(const KernelRequest& request) { return request.steps[request.anchor]; }

/// What does not depend on the direction. Null, with request.why set, if the types are not taken.
template <class Own, class Op>
std::shared_ptr<Own> begin(KernelRequest& request, const Op& op) {
  for (const TensorDesc& desc : request.values)
    if (desc.type.dtype != DType::f32 && desc.type.dtype != DType::i64)
      return decline(request, "takes f32 only"), nullptr;
  Types in;
  for (const int value : anchor(request).in) in.push_back(request.values[value].type);
  const RecurrenceSize size = recurrence_size(op, in);
  auto own = std::make_shared<Own>();
  own->places = op.places();
  own->pack = NEURIM_DISPATCH(pack_panels);
  own->forward = NEURIM_DISPATCH(run_recurrence);
  own->backward = NEURIM_DISPATCH(run_recurrence_grad);
  own->pass.cell = cell_of(op);
  own->pass.pairs = request.storage();
  own->pass.reverse = op.options.reverse;
  own->pass.steps = size.steps;
  own->pass.batch = size.batch;
  own->pass.hidden = size.hidden;
  own->pass.outputs = size.outputs;
  own->zeros = size.gates * size.hidden + 3 * size.hidden;
  const std::int64_t tasks = (size.batch + kLeastTaskRows - 1) / kLeastTaskRows;
  own->tasks = static_cast<int>(std::clamp<std::int64_t>(tasks, 1, request.chunks));
  return own;
}

/// Sets what depends on the panels.
template <class Own>
Launch finish(const std::shared_ptr<Own>& own, KernelRequest& request,
              void (*run)(const void*, const Args&, int) noexcept, std::int64_t inner) {
  own->packers = static_cast<int>(std::clamp<std::int64_t>(own->panel_count(), 1, request.chunks));
  if (own->pass.pairs) request.used_dtype = request.compute_dtype;
  own->inner_floats = inner;
  const auto blocks = [](const Factor& factor) { return factor ? factor.panels.blocks() : 0; };
  std::int64_t most = blocks(own->pass.weight);
  if constexpr (std::is_same_v<Own, Forward>) most += blocks(own->pass.inputs);
  own->rows_floats = own->together() * 16 * std::max(most, blocks(own->pass.second));
  request.scratch = sizeof(float) *
                    static_cast<std::size_t>(own->packed_floats() + own->zeros +
                                             std::accumulate(own->unread.begin(), own->unread.end(), inner) +
                                             own->tasks * own->rows_floats);
  return {run, own, own->packers, own->tasks};
}

/// Reads the steps {linear, recurrence}. If not possible, sets request.why.
bool read_inputs(KernelRequest& request, Forward& own) {
  if (request.steps.size() == 1) return own.bias = own.places.bias_hh, true;
  const Step &layer = request.steps[0], &step = request.steps.back();
  Recurrence::Places& p = own.places;
  if (request.steps.size() > 2 || request.anchor != 1 || layer.op->name() != "linear" ||
      layer.out[0] != step.in[p.gates])
    return decline(request, "takes a linear layer before it alone"), false;
  const RecurrentCell cell = own.pass.cell;
  if (cell == RecurrentCell::gru || cell == RecurrentCell::gru_reset_before)
    return decline(request, "multiplies no inputs of a GRU, one of whose gates resets what the state adds"), false;
  if (own.together() < kLeastInputRows)
    return decline(request, "multiplies inputs of ", kLeastInputRows,
                   " sequences a part and more, as each step reads their weight"),
           false;
  for (int* place : {&p.weight_hh, &p.weight_hr, &p.peephole, &p.h0, &p.c0, &p.lengths})
    if (*place >= 0) *place = request.place_in(step.in[*place]);
  for (int* place : {&p.y, &p.h, &p.c, &p.out_gates, &p.saved}) {
    if (*place < 0) continue;
    const int value = step.out[*place];
    *place = request.place_out(value);
    if (*place >= 0) continue;
    *place = static_cast<int>(request.out.size() + own.unread.size());
    const TensorDesc& desc = request.values[value];
    own.unread.push_back(static_cast<std::int64_t>(bytes(desc.type, desc.layout) / sizeof(float)));
  }
  p.gates = -1;
  own.x = request.place_in(layer.in[0]);
  own.bias = layer.in.size() == 3 ? request.place_in(layer.in[2]) : -1;
  const std::int64_t features = request.input(own.x).type.shape[-1];
  own.add({&RecurrentForward::inputs, request.place_in(layer.in[1])},
          {4, cell == RecurrentCell::lstm, features, own.pass.hidden, features, 1});
  return true;
}

TensorDesc& value(const KernelRequest& request, const std::vector<int>& values, int place) {
  return request.values[values[place]];
}
/// Output or input `place` of the recurrence.
TensorDesc& made(const KernelRequest& request, int place) { return value(request, anchor(request).out, place); }
TensorDesc& read(const KernelRequest& request, int place) { return value(request, anchor(request).in, place); }

std::shared_ptr<Forward> read_forward(KernelRequest& request) {
  const auto& op = static_cast<const Recurrence&>(request.op());
  auto own = begin<Forward>(request, op);
  if (!own || !read_inputs(request, *own)) return nullptr;
  if (const int place = op.places().out_gates; place >= 0) own->pass.gates_row = row_distance(made(request, place));
  return own;
}

bool propose_layouts(KernelRequest& request) {
  for (TensorDesc& desc : request.values) desc.layout = {};
  if (const int place = static_cast<const Recurrence&>(request.op()).places().out_gates; place >= 0) {
    TensorDesc& gates = made(request, place);
    gates.layout = apart_rows(gates.type.shape);
  }
  return read_forward(request) != nullptr;
}

bool wants_grad(KernelRequest& request) {
  for (TensorDesc& desc : request.values) desc.layout = {};
  const auto places = static_cast<const RecurrenceGrad&>(request.op()).places();
  TensorDesc& gradient = made(request, places.dgates);
  gradient.layout = apart_rows(gradient.type.shape);
  if (places.gates >= 0) read(request, places.gates).layout = gradient.layout;
  if (places.dhidden >= 0) made(request, places.dhidden).layout = gradient.layout;
  return true;
}

Launch recurrence(KernelRequest& request) {
  const auto own = read_forward(request);
  if (!own) return {};
  const RecurrentForward& pass = own->pass;
  const std::int64_t H = pass.hidden, P = pass.outputs;
  const bool projects = own->places.weight_hr >= 0;
  const bool rnn = pass.cell == RecurrentCell::rnn_tanh || pass.cell == RecurrentCell::rnn_relu;
  const int gates = pass.cell == RecurrentCell::lstm ? 4 : pass.cell == RecurrentCell::gru ? 3 : 2;
  own->add({&RecurrentForward::weight, own->places.weight_hh}, {rnn ? 4 : gates, !rnn, P, H, P, 1});
  if (projects) own->add({&RecurrentForward::second, own->places.weight_hr}, {4, false, H, P, H, 1});
  if (pass.cell == RecurrentCell::gru_reset_before)
    own->add({&RecurrentForward::second, own->places.weight_hh, 2 * H * H}, {4, false, H, H, H, 1});
  return finish(own, request, run_forward, projects ? pass.batch * H : 0);
}

Launch recurrence_grad(KernelRequest& request) {
  const auto own = begin<Backward>(request, static_cast<const RecurrenceGrad&>(request.op()));
  if (!own) return {};
  const TensorDesc& gradient = made(request, own->places.dgates);
  if ((own->places.gates >= 0 && read(request, own->places.gates).layout != gradient.layout) ||
      (own->places.dhidden >= 0 && made(request, own->places.dhidden).layout != gradient.layout))
    return decline(request, "takes gates and their gradients in one layout");
  own->pass.gates_row = row_distance(gradient);
  const RecurrentBackward& pass = own->pass;
  const std::int64_t H = pass.hidden, P = pass.outputs;
  const bool reset_before = pass.cell == RecurrentCell::gru_reset_before;
  const int gates = pass.cell == RecurrentCell::lstm ? 4 : pass.cell == RecurrentCell::gru ? 3 : reset_before ? 2 : 1;
  own->add({&RecurrentBackward::weight, own->places.weight_hh}, {4, false, gates * H, P, 1, P});
  if (own->places.weight_hr >= 0) own->add({&RecurrentBackward::second, own->places.weight_hr}, {4, false, P, H, 1, H});
  if (reset_before) own->add({&RecurrentBackward::second, own->places.weight_hh, 2 * H * H}, {4, false, H, H, 1, H});
  return finish(own, request, run_backward, 0);
}

}  // namespace

void cpu_recurrence() {
  for (const Cell cell : {Cell::lstm, Cell::gru, Cell::rnn}) {
    cpu::add_kernel({.op = Recurrence(cell).name(),
                     .name = "cpu",
                     .prepare = recurrence,
                     .propose_layouts = propose_layouts,
                     .fuses = true,
                     .prologues = true});
    cpu::add_kernel(
        {.op = RecurrenceGrad(cell).name(), .name = "cpu", .prepare = recurrence_grad, .propose_layouts = wants_grad});
  }
}

}  // namespace neurim
