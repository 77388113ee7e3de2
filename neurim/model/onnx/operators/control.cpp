// Constants, control flow, sequences and optionals.
#include <algorithm>
#include <limits>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/graph/trace.h"
#include "neurim/model/onnx/operators/operators.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/logical.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/transpose.h"

namespace neurim {

namespace {

constexpr std::int64_t kMostTraced = 1000;  // turns of a loop that become parts of a plan

OnnxValue bool_scalar(bool value) { return Tensor::scalar(value ? 1 : 0, DType::boolean); }

bool truth(const OnnxValue& value, const OnnxCall& call) {
  require(value.is_tensor() && value.tensor().numel() == 1, "the condition is ", value, ", where one bool is wanted");
  if (value.tensor().traced()) throw OnnxNeedsData(text(call.op(), " needs the value of its condition"));
  return value.tensor().item() != 0;
}

/// A value of texts or numbers with one more axis of size 1.
OnnxValue unsqueezed(const OnnxValue& value, int axis) {
  std::vector<Dim> sizes(value.shape().begin(), value.shape().end());
  sizes.insert(sizes.begin() + axis, 1);
  const Shape shape{std::span<const Dim>(sizes)};
  if (value.is_strings()) return OnnxStrings{shape, value.strings().values};
  return {reshape(value.tensor(), shape), value.element()};
}

/// Values one after the other along an axis; texts along axis 0 alone.
OnnxValue joined(const OnnxValues& values, int axis) {
  if (values[0].is_strings()) {
    require(axis == 0, "texts are joined along axis 0 alone");
    OnnxStrings all{values[0].shape(), {}};
    std::int64_t rows = 0;
    for (const OnnxValue& value : values) {
      rows += value.shape()[0];
      all.values.insert(all.values.end(), value.strings().values.begin(), value.strings().values.end());
    }
    all.shape[0] = rows;
    return all;
  }
  Tensors tensors;
  for (const OnnxValue& value : values) tensors.push_back(value.tensor());
  return {tensors.size() == 1 ? tensors[0] : concat(tensors, axis), values[0].element()};
}

/// One slice along an axis, without it.
Tensor row(const Tensor& x, int axis, std::int64_t index) {
  const Tensor part = slice(x, {index}, {index + 1}, {axis});
  std::vector<Dim> sizes(part.shape().begin(), part.shape().end());
  sizes.erase(sizes.begin() + axis);
  return reshape(part, Shape{std::span<const Dim>(sizes)});
}

OnnxValues if_rule(const OnnxCall& call) {
  return call.run(truth(call.in(0), call) ? "then_branch" : "else_branch", {});
}

OnnxValues loop_rule(const OnnxCall& call) {
  const std::int64_t most = call.integer(0, std::numeric_limits<std::int64_t>::max());
  const std::size_t carried = static_cast<std::size_t>(std::max(call.inputs() - 2, 0));
  OnnxValue condition = call.has(1) ? call.in(1) : bool_scalar(true);
  OnnxValues values;
  for (int i = 2; i < call.inputs(); ++i) values.push_back(call.in(i));
  const std::size_t outputs = static_cast<std::size_t>(call.outputs());
  std::vector<OnnxValues> scanned(outputs > carried ? outputs - carried : 0);
  for (std::int64_t turn = 0; turn < most && truth(condition, call); ++turn) {
    if (tracing() && turn == kMostTraced) throw OnnxNeedsData(text("Loop has more than ", kMostTraced, " turns"));
    Tensor number = Tensor::scalar(static_cast<double>(turn), DType::i64);
    OnnxValues in{number, condition};
    in.insert(in.end(), values.begin(), values.end());
    OnnxValues out = call.run("body", in);
    require(out.size() == 1 + carried + scanned.size(), "the body gives ", out.size(), " values, not ",
            1 + carried + scanned.size());
    condition = out[0];
    std::copy(out.begin() + 1, out.begin() + 1 + static_cast<std::ptrdiff_t>(carried), values.begin());
    for (std::size_t i = 0; i < scanned.size(); ++i) scanned[i].push_back(unsqueezed(out[1 + carried + i], 0));
  }
  for (const OnnxValues& rows : scanned) {
    // No turn: what a row is like is not known; no rows of nothing.
    values.push_back(rows.empty() ? OnnxValue(Tensor::empty({DType::f32, {0}})) : joined(rows, 0));
  }
  return values;
}

/// The size of an axis that is gone through.
std::int64_t steps_of(const OnnxValue& value, int axis) {
  require(value.shape().rank() > axis, "an input is ", value, ", and its axis ", axis, " is gone through");
  return value.shape()[axis];
}

/// Scan from version 9 on; before, each input had a batch axis first and the first input the lengths.
OnnxValues scan_rule(const OnnxCall& call) {
  const std::int64_t wanted = call.integer("num_scan_inputs", std::int64_t{0});
  require(wanted >= 1 && wanted <= call.inputs() - (call.version() < 9), "num_scan_inputs is ", wanted,
          ", and there are ", call.inputs(), " inputs");
  const auto scans = static_cast<std::size_t>(wanted);
  if (call.version() < 9) {
    require(!call.has(0), "sequence lengths are not supported");
    const std::size_t states = static_cast<std::size_t>(call.inputs()) - 1 - scans;
    const std::int64_t batch = steps_of(call.in(1), 0);
    require(batch > 0, "there are no images");
    std::vector<OnnxValues> all;
    for (std::int64_t image = 0; image < batch; ++image) {
      OnnxValues state;
      for (std::size_t i = 0; i < states; ++i) state.push_back(row(call.tensor(static_cast<int>(1 + i)), 0, image));
      const std::int64_t steps = steps_of(call.in(static_cast<int>(1 + states)), 1);
      std::vector<OnnxValues> scanned;
      for (std::int64_t step = 0; step < steps; ++step) {
        OnnxValues in = state;
        for (std::size_t i = 0; i < scans; ++i)
          in.push_back(row(row(call.tensor(static_cast<int>(1 + states + i)), 0, image), 0, step));
        const OnnxValues out = call.run("body", in);
        require(out.size() >= states && (scanned.empty() || out.size() == states + scanned.size()), "the body gives ",
                out.size(), " values");
        state.assign(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(states));
        scanned.resize(out.size() - states);
        for (std::size_t i = 0; i < scanned.size(); ++i) scanned[i].push_back(unsqueezed(out[states + i], 0));
      }
      for (const OnnxValues& rows : scanned) state.push_back(joined(rows, 0));
      all.push_back(state);
    }
    OnnxValues result;
    for (std::size_t i = 0; i < all[0].size(); ++i) {
      OnnxValues images;
      for (const OnnxValues& one : all) images.push_back(unsqueezed(one[i], 0));
      result.push_back(joined(images, 0));
    }
    return result;
  }
  const std::size_t states = static_cast<std::size_t>(call.inputs()) - scans;
  require(call.outputs() >= static_cast<int>(states), "there are ", call.outputs(), " outputs for ", states, " states");
  const auto in_axes = call.integers("scan_input_axes", std::vector<std::int64_t>(scans, 0)),
             in_back = call.integers("scan_input_directions", std::vector<std::int64_t>(scans, 0));
  OnnxValues state;
  for (std::size_t i = 0; i < states; ++i) state.push_back(call.in(static_cast<int>(i)));
  std::int64_t steps = -1;
  for (std::size_t i = 0; i < scans; ++i) {
    const int input = static_cast<int>(states + i);
    const std::int64_t size = call.in(input).shape()[call.axis(in_axes[i], input)];
    require(steps < 0 || steps == size, "scanned inputs have ", steps, " and ", size, " steps");
    steps = size;
  }
  std::vector<OnnxValues> scanned(static_cast<std::size_t>(call.outputs()) - states);
  const auto out_axes = call.integers("scan_output_axes", std::vector<std::int64_t>(scanned.size(), 0)),
             out_back = call.integers("scan_output_directions", std::vector<std::int64_t>(scanned.size(), 0));
  require(in_axes.size() == scans && in_back.size() == scans && out_axes.size() == scanned.size() &&
              out_back.size() == scanned.size(),
          "axes and directions are not one for each of ", scans, " inputs and ", scanned.size(), " outputs");
  for (std::int64_t step = 0; step < steps; ++step) {
    OnnxValues in = state;
    for (std::size_t i = 0; i < scans; ++i) {
      const int input = static_cast<int>(states + i);
      in.push_back(row(call.tensor(input), call.axis(in_axes[i], input), in_back[i] ? steps - 1 - step : step));
    }
    const OnnxValues out = call.run("body", in);
    require(out.size() == states + scanned.size(), "the body gives ", out.size(), " values, not ",
            states + scanned.size());
    state.assign(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(states));
    for (std::size_t i = 0; i < scanned.size(); ++i) {
      const int axis = normal_axis(out_axes[i], out[states + i].shape().rank() + 1, "Scan");
      scanned[i].push_back(unsqueezed(out[states + i], axis));
    }
  }
  for (std::size_t i = 0; i < scanned.size(); ++i) {
    require(steps > 0, "there are no steps");
    if (out_back[i]) std::reverse(scanned[i].begin(), scanned[i].end());
    const int axis = normal_axis(out_axes[i], scanned[i][0].shape().rank(), "Scan");
    state.push_back(joined(scanned[i], axis));
  }
  return state;
}

OnnxValues constant_rule(const OnnxCall& call) {
  if (call.has("value")) return {call.value("value")};
  if (call.has("sparse_value")) return {call.value("sparse_value")};
  if (call.has("value_float")) return {Tensor::scalar(call.number("value_float", 0))};
  if (call.has("value_int"))
    return {Tensor::from(Shape{}, std::vector<std::int64_t>{call.integer("value_int", std::int64_t{0})})};
  if (call.has("value_floats")) {
    const std::vector<double> values = call.numbers("value_floats");
    return {Tensor::from({std::ssize(values)}, std::vector<float>(values.begin(), values.end()))};
  }
  if (call.has("value_ints")) {
    const std::vector<std::int64_t> values = call.integers("value_ints");
    return {Tensor::from({std::ssize(values)}, values)};
  }
  if (call.has("value_string")) return {OnnxStrings{{}, {call.word("value_string", "")}}};
  const std::vector<std::string> words = call.words("value_strings");
  return {OnnxStrings{{std::ssize(words)}, words}};
}

/// The place in a sequence that an input says, counted from the front.
std::size_t place(const OnnxCall& call, int input, std::int64_t size, std::int64_t most) {
  const std::int64_t at = call.integer(input, most);
  require(at >= -size && at <= most, "the position ", at, " is outside a sequence of ", size);
  return static_cast<std::size_t>(at < 0 ? at + size : at);
}

OnnxValues split_to_sequence(const OnnxCall& call) {
  const int axis = call.axis(call.integer("axis", std::int64_t{0}));
  const std::int64_t size = call.in(0).shape()[axis];
  std::vector<std::int64_t> lengths;
  const bool drop = !call.has(1) && call.integer("keepdims", std::int64_t{1}) == 0;
  if (call.has(1) && call.in(1).shape().rank() == 1) {
    lengths = call.integers(1);
  } else {
    const std::int64_t each = call.integer(1, 1);
    require(each > 0, "the length of the parts is ", each);
    for (std::int64_t first = 0; first < size; first += each) lengths.push_back(std::min(each, size - first));
  }
  OnnxValues parts;
  std::int64_t first = 0;
  for (const std::int64_t length : lengths) {
    const Tensor part = drop ? row(call.tensor(0), axis, first)
                             : slice(call.tensor(0), {first}, {first + length}, {axis});
    parts.push_back({part, call.in(0).element()});
    first += length;
  }
  require(first == size, "the parts have ", first, " rows, and there are ", size);
  return {OnnxValue(std::move(parts))};
}

OnnxValues sequence_map(const OnnxCall& call) {
  const std::size_t steps = call.in(0).sequence().size();
  std::vector<OnnxValues> columns(static_cast<std::size_t>(call.outputs()));
  for (std::size_t step = 0; step < steps; ++step) {
    OnnxValues in;
    for (int i = 0; i < call.inputs(); ++i) {
      const bool sequence = call.in(i).is_sequence();
      require(!sequence || call.in(i).sequence().size() == steps, "the sequences differ in length");
      in.push_back(sequence ? call.in(i).sequence()[step] : call.in(i));
    }
    OnnxValues out = call.run("body", in);
    require(out.size() == columns.size(), "the body gives ", out.size(), " values, not ", columns.size());
    for (std::size_t i = 0; i < columns.size(); ++i) columns[i].push_back(out[i]);
  }
  OnnxValues result;
  for (OnnxValues& column : columns) result.push_back(OnnxValue(std::move(column)));
  return result;
}

}  // namespace

void add_control_operators(OnnxOperators& to) {
  to.add("Constant", 1, constant_rule);
  to.add("Identity", 1, [](const OnnxCall& call) { return OnnxValues{call.in(0)}; });
  to.add("If", 1, if_rule);
  to.add("Loop", 1, loop_rule);
  to.add("Scan", 8, scan_rule);

  to.add("SequenceConstruct", 11, [](const OnnxCall& call) {
    OnnxValues all;
    for (int i = 0; i < call.inputs(); ++i) all.push_back(call.in(i));
    return OnnxValues{OnnxValue(std::move(all))};
  });
  to.add("SequenceEmpty", 11, [](const OnnxCall&) { return OnnxValues{OnnxValue(OnnxValues{})}; });
  to.add("SequenceLength", 11, [](const OnnxCall& call) {
    return OnnxValues{Tensor::scalar(static_cast<double>(call.in(0).sequence().size()), DType::i64)};
  });
  to.add("SequenceAt", 11, [](const OnnxCall& call) {
    const OnnxValues& all = call.in(0).sequence();
    return OnnxValues{all[place(call, 1, std::ssize(all), std::ssize(all) - 1)]};
  });
  to.add("SequenceErase", 11, [](const OnnxCall& call) {
    OnnxValues all = call.in(0).sequence();
    require(!all.empty(), "the sequence is empty");
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(place(call, 1, std::ssize(all), std::ssize(all) - 1)));
    return OnnxValues{OnnxValue(std::move(all))};
  });
  to.add("SequenceInsert", 11, [](const OnnxCall& call) {
    OnnxValues all = call.in(0).sequence();
    all.insert(all.begin() + static_cast<std::ptrdiff_t>(place(call, 2, std::ssize(all), std::ssize(all))), call.in(1));
    return OnnxValues{OnnxValue(std::move(all))};
  });
  to.add("ConcatFromSequence", 11, [](const OnnxCall& call) {
    OnnxValues all = call.in(0).sequence();
    require(!all.empty(), "the sequence is empty");
    const bool stack = call.integer("new_axis", std::int64_t{0}) != 0;
    const int axis = normal_axis(call.integer("axis", std::int64_t{0}), all[0].shape().rank() + (stack ? 1 : 0),
                                 call.op());
    if (stack)
      for (OnnxValue& each : all) each = unsqueezed(each, axis);
    return OnnxValues{joined(all, axis)};
  });
  to.add("SplitToSequence", 11, split_to_sequence);
  to.add("SequenceMap", 17, sequence_map);

  to.add("Optional", 15, [](const OnnxCall& call) { return OnnxValues{call.in(0)}; });
  to.add("OptionalHasElement", 15, [](const OnnxCall& call) { return OnnxValues{bool_scalar(call.has(0))}; });
  to.add("OptionalGetElement", 15, [](const OnnxCall& call) {
    require(call.has(0), "the optional is empty");
    return OnnxValues{call.in(0)};
  });
}

}  // namespace neurim
