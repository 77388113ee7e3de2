#include "neurim/ops/recurrence.h"

#include "neurim/base/error.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

constexpr std::array<std::string_view, 3> kNames{"lstm_recurrence", "gru_recurrence", "rnn_recurrence"},
    kGradNames{"lstm_recurrence_grad", "gru_recurrence_grad", "rnn_recurrence_grad"};

/// The type of each input by its place, for checking; what stands nowhere (-1) is left out.
class Expected {
 public:
  Expected(const Op& op, std::span<const Type> in, DType dtype) : op_(op), in_(in), dtype_(dtype) {}
  void operator()(std::string_view what, int place, const Shape& shape) const {
    if (place >= 0) check(what, place, {dtype_, shape});
  }
  void lengths(int place, Dim batch) const {
    if (place >= 0) check("lengths", place, {DType::i64, {batch}});
  }

 private:
  void check(std::string_view what, int place, const Type& type) const {
    const Type& given = in_[place];
    require(given == type, op_.name(), ": ", what, " is ", given, ", the other inputs expect ", type);
  }
  const Op& op_;
  std::span<const Type> in_;
  DType dtype_;
};

template <class O>
std::shared_ptr<O> make(Cell cell, const RecurrentOptions& options) {
  auto op = std::make_shared<O>(cell);
  op->options = options;
  return op;
}

/// Throws unless the sizes of weight_hh go together and the options are known.
void check_sizes(const Op& who, const RecurrentOp& op, const Type& weight_hh, std::int64_t gates) {
  const int count = gate_count(op.cell);
  require(weight_hh.shape.rank() == 2 && weight_hh.shape[0] == gates && gates > 0 && gates % count == 0, who.name(),
          ": weight_hh is ", weight_hh.shape, ", expected (", gates, ",outputs), ", count, " gates of all units");
  const std::int64_t hidden = gates / count, outputs = weight_hh.shape[1];
  require(op.options.projection ? outputs > 0 && outputs < hidden : outputs == hidden, who.name(), ": weight_hh ",
          weight_hh.shape, " takes ", outputs, " outputs of ", hidden, " hidden units; ",
          op.options.projection ? "a projection has fewer, 1 or more" : "without a projection they are as many");
  require(op.options.nonlinearity == "tanh" || op.options.nonlinearity == "relu", who.name(), ": nonlinearity is \"",
          op.options.nonlinearity, "\", has to be tanh or relu");
}

}  // namespace

std::shared_ptr<Recurrence> make_recurrence(Cell cell, const RecurrentOptions& options) {
  return make<Recurrence>(cell, options);
}
std::shared_ptr<RecurrenceGrad> make_recurrence_grad(Cell cell, const RecurrentOptions& options) {
  return make<RecurrenceGrad>(cell, options);
}

std::string_view Recurrence::name() const { return kNames[static_cast<std::size_t>(cell)]; }
std::string_view RecurrenceGrad::name() const { return kGradNames[static_cast<std::size_t>(cell)]; }

Recurrence::Places Recurrence::places() const {
  const bool lstm = cell == Cell::lstm;
  Places p;
  const auto in = [&](int& place, bool there) {
    if (there) place = p.inputs++;
  };
  in(p.gates, true);
  in(p.weight_hh, true);
  in(p.bias_hh, options.bias && cell == Cell::gru);
  in(p.weight_hr, options.projection);
  in(p.peephole, options.peephole);
  in(p.h0, options.state);
  in(p.c0, options.state && lstm);
  in(p.lengths, options.lengths);
  const auto out = [&](int& place, bool there) {
    if (there) place = p.outputs++;
  };
  out(p.y, true);
  out(p.h, true);
  out(p.c, lstm);
  out(p.out_gates, cell != Cell::rnn);
  out(p.saved, cell != Cell::rnn);
  return p;
}

RecurrenceGrad::Places RecurrenceGrad::places() const {
  const bool lstm = cell == Cell::lstm;
  Places p;
  const auto in = [&](int& place, bool there) {
    if (there) place = p.inputs++;
  };
  in(p.weight_hh, true);
  in(p.weight_hr, options.projection);
  in(p.peephole, options.peephole);
  in(p.h0, options.state);
  in(p.c0, options.state && lstm);
  in(p.lengths, options.lengths);
  in(p.y, true);
  in(p.gates, cell != Cell::rnn);
  in(p.saved, cell != Cell::rnn);
  in(p.dy, true);
  in(p.dh, true);
  in(p.dc, lstm);
  const auto out = [&](int& place, bool there) {
    if (there) place = p.outputs++;
  };
  out(p.dgates, true);
  out(p.dh0, true);
  out(p.dc0, lstm);
  out(p.dhidden, cell == Cell::gru);
  out(p.dprojected, options.projection);
  out(p.dpeephole, options.peephole);
  out(p.dbias, options.bias);
  return p;
}

RecurrenceSize recurrence_size(const Recurrence& op, std::span<const Type> in) {
  const Shape& gates = in[0].shape;
  const int count = gate_count(op.cell);
  return {gates[0], gates[1], gates[2] / count, in[1].shape[1], count};
}

RecurrenceSize recurrence_size(const RecurrenceGrad& op, std::span<const Type> in) {
  const Shape &weight_hh = in[0].shape, &y = in[op.places().y].shape;
  const int count = gate_count(op.cell);
  return {y[0], y[1], weight_hh[0] / count, y[2], count};
}

std::int64_t step_multiply_adds(const RecurrenceSize& size, bool projection) {
  return size.steps * size.batch * size.hidden * size.outputs * (size.gates + projection);
}

std::int64_t Recurrence::multiply_adds(std::span<const Type> in) const {
  return step_multiply_adds(recurrence_size(*this, in), options.projection);
}
std::int64_t RecurrenceGrad::multiply_adds(std::span<const Type> in) const {
  return step_multiply_adds(recurrence_size(*this, in), options.projection);
}

Types Recurrence::infer(std::span<const Type> in) const { return infer_for(*this, in); }

Types Recurrence::infer_for(const Op& whole, std::span<const Type> in) const {
  const Places p = places();
  check_count(whole, in, static_cast<std::size_t>(p.inputs), static_cast<std::size_t>(p.inputs));
  check_floating(whole, in[0], "gates");
  require(in[0].shape.rank() == 3, whole.name(), ": takes gates (steps,batch,gates*hidden), got ", in[0].shape);
  check_same_dtype(whole, in[0], in[1]);
  check_sizes(whole, *this, in[1], in[0].shape[2]);
  const auto [steps, batch, hidden, outputs, gates] = recurrence_size(*this, in);
  const DType dtype = in[0].dtype;
  const Expected expect(whole, in, dtype);
  expect("bias_hh", p.bias_hh, {gates * hidden});
  expect("weight_hr", p.weight_hr, {outputs, hidden});
  expect("peephole", p.peephole, {3 * hidden});
  expect("h0", p.h0, {batch, outputs});
  expect("c0", p.c0, {batch, hidden});
  expect.lengths(p.lengths, batch);
  Types out{{dtype, {steps, batch, outputs}}, {dtype, {batch, outputs}}};
  if (cell == Cell::lstm) out.push_back({dtype, {batch, hidden}});
  if (cell != Cell::rnn) {
    out.push_back(in[0]);
    out.push_back({dtype, {steps, batch, hidden}});
  }
  return out;
}

Types RecurrenceGrad::infer(std::span<const Type> in) const {
  const Places p = places();
  check_count(*this, in, static_cast<std::size_t>(p.inputs), static_cast<std::size_t>(p.inputs));
  check_floating(*this, in[0], "weight_hh");
  const Type& y = in[p.y];
  require(y.shape.rank() == 3, name(), ": takes y (steps,batch,outputs), got ", y.shape);
  check_sizes(*this, *this, in[0], in[0].shape.rank() == 2 ? in[0].shape[0] : Dim(0));
  const auto [steps, batch, hidden, outputs, gates] = recurrence_size(*this, in);
  const DType dtype = in[0].dtype;
  const Shape all_gates{steps, batch, gates * hidden}, all_outputs{steps, batch, in[0].shape[1]};
  const Expected expect(*this, in, dtype);
  expect("weight_hr", p.weight_hr, {outputs, hidden});
  expect("peephole", p.peephole, {3 * hidden});
  expect("h0", p.h0, {batch, outputs});
  expect("c0", p.c0, {batch, hidden});
  expect.lengths(p.lengths, batch);
  expect("y", p.y, all_outputs);
  expect("gates", p.gates, all_gates);
  expect("the saved value", p.saved, {steps, batch, hidden});
  expect("dy", p.dy, all_outputs);
  expect("dh", p.dh, {batch, outputs});
  expect("dc", p.dc, {batch, hidden});
  Types out{{dtype, all_gates}, {dtype, {batch, outputs}}};
  if (cell == Cell::lstm) out.push_back({dtype, {batch, hidden}});
  if (cell == Cell::gru) out.push_back({dtype, all_gates});
  if (options.projection) out.push_back({dtype, all_outputs});
  if (options.peephole) out.push_back({dtype, {batch, 3 * hidden}});
  if (options.bias) out.push_back({dtype, {batch, (gates + (cell == Cell::gru)) * hidden}});
  return out;
}

std::string Recurrence::data_fault(std::span<const Tensor> in) const {
  const int lengths = places().lengths;
  return lengths < 0 ? "" : outside("the length", in[lengths], 1, in[0].size(0) + 1);
}

// Gates are read before their place is written.
Alias Recurrence::alias(int out, int in) const {
  return cell != Cell::rnn && out == places().out_gates && in == places().gates ? Alias::overwrite : Alias::none;
}
Alias RecurrenceGrad::alias(int out, int in) const {
  return cell != Cell::rnn && out == places().dgates && in == places().gates ? Alias::overwrite : Alias::none;
}

std::vector<RecurrentRow> recurrent_rows(Cell cell) {
  std::vector<RecurrentOptions> kinds{{}};
  if (cell == Cell::gru) kinds.push_back({.reset_after = false});
  if (cell == Cell::rnn) kinds.push_back({.nonlinearity = "relu"});
  if (cell == Cell::lstm) {
    kinds.push_back({.projection = true});
    kinds.push_back({.peephole = true});
    kinds.push_back({.projection = true, .peephole = true});
  }
  std::vector<RecurrentRow> all;
  for (const RecurrentOptions& kind : kinds)
    for (const bool reverse : {false, true})
      for (const bool given : {false, true})
        for (const bool lengths : {false, true}) {
          RecurrentRow row{5, 3, 4, 6, kind.projection ? 2 : 6, kind};
          row.options.reverse = reverse;
          row.options.bias = row.options.state = given;
          row.options.lengths = lengths;
          all.push_back(row);
          if (reverse || !given) continue;
          // Several blocks of vectors and of rows, with tails.
          RecurrentRow large = row;
          large.steps = 3;
          large.batch = 7;
          large.hidden = 37;
          large.outputs = kind.projection ? 21 : 37;
          all.push_back(large);
        }
  // One unit, one step, one sequence; without bias but with states, and the other way round.
  all.push_back({1, 1, 1, 1, 1, {.bias = true}});
  all.push_back({1, 2, 3, 16, 16, {.reverse = true, .state = true}});
  return all;
}

std::vector<Sample> Recurrence::samples() const {
  std::vector<Sample> all;
  for (const RecurrentRow& row : recurrent_rows(cell)) {
    const auto op = make_recurrence(cell, row.options);
    const Places p = op->places();
    const std::int64_t gates = gate_count(cell) * row.hidden;
    Sample sample{op, Types(static_cast<std::size_t>(p.inputs))};
    const auto put = [&](int place, const Shape& shape) {
      if (place >= 0) sample.in[place] = {DType::f32, shape};
    };
    put(p.gates, {row.steps, row.batch, gates});
    put(p.weight_hh, {gates, row.outputs});
    put(p.bias_hh, {gates});
    put(p.weight_hr, {row.outputs, row.hidden});
    put(p.peephole, {3 * row.hidden});
    put(p.h0, {row.batch, row.outputs});
    put(p.c0, {row.batch, row.hidden});
    if (p.lengths >= 0) {
      sample.in.back() = {DType::i64, {row.batch}};
      sample.fill.resize(sample.in.size());
      sample.fill.back() = {1, static_cast<double>(row.steps + 1)};
    }
    all.push_back(sample);
  }
  return all;
}

std::vector<Sample> RecurrenceGrad::samples() const {
  std::vector<Sample> all;
  for (const RecurrentRow& row : recurrent_rows(cell)) {
    const auto op = make_recurrence_grad(cell, row.options);
    const Places p = op->places();
    const std::int64_t gates = gate_count(cell) * row.hidden;
    Sample sample{op, Types(static_cast<std::size_t>(p.inputs))};
    sample.fill.resize(sample.in.size());
    const auto put = [&](int place, const Shape& shape, const Fill& fill = {}) {
      if (place < 0) return;
      sample.in[place] = {DType::f32, shape};
      sample.fill[place] = fill;
    };
    put(p.weight_hh, {gates, row.outputs});
    put(p.weight_hr, {row.outputs, row.hidden});
    put(p.peephole, {3 * row.hidden});
    put(p.h0, {row.batch, row.outputs});
    put(p.c0, {row.batch, row.hidden});
    put(p.y, {row.steps, row.batch, row.outputs});
    put(p.gates, {row.steps, row.batch, gates}, {0, 1});
    put(p.saved, {row.steps, row.batch, row.hidden});
    put(p.dy, {row.steps, row.batch, row.outputs});
    put(p.dh, {row.batch, row.outputs});
    put(p.dc, {row.batch, row.hidden});
    if (p.lengths >= 0) {
      sample.in[p.lengths] = {DType::i64, {row.batch}};
      sample.fill[p.lengths] = {1, static_cast<double>(row.steps + 1)};
    }
    all.push_back(sample);
  }
  return all;
}

void define_recurrence() {
  define([]() -> std::shared_ptr<Op> { return std::make_shared<Recurrence>(Cell::lstm); });
  define([]() -> std::shared_ptr<Op> { return std::make_shared<Recurrence>(Cell::gru); });
  define([]() -> std::shared_ptr<Op> { return std::make_shared<Recurrence>(Cell::rnn); });
  define([]() -> std::shared_ptr<Op> { return std::make_shared<RecurrenceGrad>(Cell::lstm); });
  define([]() -> std::shared_ptr<Op> { return std::make_shared<RecurrenceGrad>(Cell::gru); });
  define([]() -> std::shared_ptr<Op> { return std::make_shared<RecurrenceGrad>(Cell::rnn); });
}

}  // namespace neurim
