#include "neurim/compile/check_op.h"

#include <functional>
#include <map>
#include <numeric>
#include <optional>

#include "neurim/base/error.h"
#include "neurim/compile/op_samples.h"
#include "neurim/compile/plan.h"

namespace neurim {

namespace {

using namespace op_table;

constexpr std::uint64_t kSeed = 20240917;

using Function = std::function<Tensors(Tensors)>;

Function of(const std::shared_ptr<const Op>& op) {
  return [op](const Tensors& in) { return neurim::apply(op, in); };
}

Types types_of(const Tensors& tensors) {
  Types types;
  for (const Tensor& tensor : tensors) types.push_back(tensor.type());
  return types;
}

Tensors run(const Function& function, const Tensors& in, const PlanOptions& options) {
  return plan(function, types_of(in), options)(in);
}

/// What the reference kernels give.
Tensors by_reference(const std::shared_ptr<const Op>& op, const Tensors& in) {
  return run(of(op), in, {.interpret = true});
}

/// Gradients of a weighted sum of the floating outputs of an op with respect to its floating inputs.
class Gradients {
 public:
  /// The weights are drawn; they are inputs after those of the op.
  Gradients(std::shared_ptr<const Op> op, const Types& in, std::uint64_t seed) : op_(std::move(op)), in_(in.size()) {
    const Types out = op_->infer(in);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (!is_floating(out[i].dtype)) continue;
      Random random(seed, 1000 + i);
      weighted_.push_back(i);
      weights.push_back(from_doubles(out[i], numbers(out[i], {}, random)));
    }
  }

  /// Traces the gradients that exist; `reached` tells of which inputs.
  Tensors operator()(const Tensors& all) {
    const auto behind = all.begin() + static_cast<std::ptrdiff_t>(in_);
    const Tensors in(all.begin(), behind), seeds(behind, all.end());
    const Tensors out = neurim::apply(op_, in);
    Tensors of, wrt, found;
    std::vector<std::size_t> floating;
    for (const std::size_t i : weighted_) of.push_back(out[i]);
    for (std::size_t i = 0; i < in.size(); ++i)
      if (is_floating(in[i].dtype())) wrt.push_back(in[i]), floating.push_back(i);
    const Tensors recorded = gradients(of, wrt, seeds);
    reached.clear();
    for (std::size_t k = 0; k < recorded.size(); ++k)
      if (recorded[k]) found.push_back(recorded[k]), reached.push_back(floating[k]);
    return found;
  }

  const Op& op() const { return *op_; }

  Tensors weights;
  std::vector<std::size_t> reached;

 private:
  std::shared_ptr<const Op> op_;
  std::size_t in_;
  std::vector<std::size_t> weighted_;
};

/// The gradients, planned with `options`; nothing if the op has none.
std::optional<Tensors> computed(Gradients& gradients, Tensors in, PlanOptions options) {
  options.training = true;
  in.insert(in.end(), gradients.weights.begin(), gradients.weights.end());
  try {
    return run([&](const Tensors& all) { return gradients(all); }, in, options);
  } catch (const Error& error) {
    if (error.what() == text(gradients.op().name(), ": has no gradient")) return std::nullopt;
    throw;
  }
}

/// Whether finite differences are meaningful: an output with a dtype below f64 moves in steps.
bool differentiable(const Sample& sample) {
  const Types out = sample.op->infer(in_dtype(sample.in, DType::f64));
  return any_floating(sample.in) && any_floating(out) && in_dtype(out, DType::f64) == out;
}

void check_fields(const Sample& sample, const std::string& where, std::vector<std::string>& faults) {
  const std::shared_ptr<Op> copy = make_op(sample.op->name(), attributes(*sample.op));
  if (attributes(*copy) != attributes(*sample.op))
    faults.push_back(text(where, ": an op of the same attributes has ", attributes(*copy)));
  const Tensors in = inputs(sample, sample.in, kSeed);
  const std::string differs = difference(by_reference(sample.op, in), by_reference(copy, in), 0);
  if (!differs.empty()) faults.push_back(text(where, ": an attribute is missing in fields(): ", differs));
}

void check_missing_inputs(const Sample& sample, const std::string& where, std::vector<std::string>& faults) {
  if (sample.in.empty()) return;
  try {
    sample.op->infer({});
    faults.push_back(where + ": infer() takes no inputs for its inputs");
  } catch (const Error& error) {
    if (error.fault() != Fault::usage || !starts_with(error.what(), text(sample.op->name(), ": ")))
      faults.push_back(text(where, ": infer() refuses missing inputs with '", error.what(),
                            "', which is no usage error that begins with the name"));
  }
}

void check_decomposition(const Sample& sample, const std::string& where, std::vector<std::string>& faults) {
  const Tensors in = inputs(sample, in_dtype(sample.in, DType::f64), kSeed), parts = sample.op->decompose(in);
  if (parts.empty()) return;
  const std::string differs = difference(by_reference(sample.op, in), parts, 1e-9);
  if (!differs.empty()) faults.push_back(text(where, ": decompose(): ", differs));
}

/// The gradients that f64 gives for the same numbers.
std::optional<Tensors> exact_gradients(const Sample& sample, const Types& types, const Tensors& in,
                                       const Tensors& weights, std::uint64_t seed) {
  const Types wide = in_dtype(types, DType::f64);
  Gradients gradients(sample.op, wide, seed);
  gradients.weights = converted(weights, types_of(gradients.weights));
  return computed(gradients, converted(in, wide), {.interpret = true});
}

/// All numbers in one row of f64, whose largest is the largest of all.
Tensor joined(const Tensors& tensors) {
  std::vector<double> all;
  for (const Tensor& tensor : tensors) {
    const std::vector<double> values = tensor.values<double>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return from_doubles({DType::f64, {std::ssize(all)}}, all);
}

}  // namespace

std::vector<std::string> check_plans(const Sample& sample, DType dtype, std::uint64_t seed) {
  std::vector<std::string> faults;
  const Types types = in_dtype(sample.in, dtype);
  const std::string where = reproducer(*sample.op, types, seed);
  const Tensors in = inputs(sample, types, seed);
  const auto compare = [&](const Tensors& expected, const Tensors& actual, std::string_view what) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const DType of_result = expected[i].dtype();
      const double tolerance = is_floating(of_result) ? sample.tolerance + 4 * epsilon(of_result) : 0;
      const std::string differs = difference({expected[i]}, {actual[i]}, tolerance);
      if (!differs.empty()) faults.push_back(text(where, ": a plan with all kernels, ", what, ' ', i, ": ", differs));
    }
  };
  compare(by_reference(sample.op, in), run(of(sample.op), in, {}), "result");
  if (!any_floating(types) || !any_floating(sample.op->infer(types))) return faults;
  Gradients gradients(sample.op, types, seed);
  const std::optional<Tensors> actual = computed(gradients, in, {});
  if (!actual) return faults;
  if (bits(dtype) >= 32) {
    if (const auto expected = computed(gradients, in, {.interpret = true})) compare(*expected, *actual, "gradient");
  } else if (const auto exact = exact_gradients(sample, types, in, gradients.weights, seed)) {
    const std::string differs = difference({joined(*exact)}, {joined(*actual)}, sample.tolerance + 16 * epsilon(dtype));
    if (!differs.empty()) faults.push_back(text(where, ": gradients of a plan with all kernels: ", differs));
  }
  return faults;
}

std::vector<std::string> check_gradient(const Sample& sample, std::uint64_t seed) {
  constexpr std::size_t kMostElements = 16;  // of each input, chosen at random
  constexpr double kStep = 1e-5, kTolerance = 1e-6;
  std::vector<std::string> faults;
  if (!differentiable(sample)) return faults;
  const Types types = in_dtype(sample.in, DType::f64);
  const Tensors in = inputs(sample, types, seed, true);
  Gradients gradients(sample.op, types, seed);
  const std::optional<Tensors> found = computed(gradients, in, {.interpret = true});
  if (!found) return faults;
  std::map<std::size_t, std::vector<double>> analytic;
  for (std::size_t k = 0; k < found->size(); ++k) analytic[gradients.reached[k]] = (*found)[k].values<double>();

  const Plan forward = plan(of(sample.op), types, {.interpret = true});
  const Types out_types = sample.op->infer(types);
  const auto value = [&](const Tensors& at) {
    const Tensors out = forward(at);
    double sum = 0;
    for (std::size_t i = 0, w = 0; i < out.size(); ++i) {
      if (!is_floating(out_types[i].dtype)) continue;
      const std::vector<double> values = out[i].values<double>(), weights = gradients.weights[w++].values<double>();
      sum = std::inner_product(values.begin(), values.end(), weights.begin(), sum);
    }
    return sum;
  };
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (!is_floating(types[i].dtype)) continue;
    const std::vector<double> around = in[i].values<double>();
    std::vector<std::size_t> elements(around.size());
    std::iota(elements.begin(), elements.end(), std::size_t{0});
    Random random(seed, 2000 + i);
    shuffle(elements, random);
    elements.resize(std::min(elements.size(), kMostElements));
    for (const std::size_t element : elements) {
      const auto moved = [&](double step) {
        std::vector<double> values = around;
        values[element] += step;
        Tensors at = in;
        at[i] = from_doubles(types[i], values);
        return value(at);
      };
      const double expected = (moved(kStep) - moved(-kStep)) / (2 * kStep);
      const double got = analytic.count(i) ? analytic[i][element] : 0;
      const bool agree = std::abs(got - expected) <= kTolerance * std::max(1.0, std::abs(expected));  // false for NaN
      if (!agree)
        faults.push_back(text(reproducer(*sample.op, types, seed), ": the gradient of input ", i, " element ", element,
                              " is ", got, ", finite differences give ", expected));
    }
  }
  return faults;
}

std::vector<std::string> check_op(std::string_view name) {
  const std::vector<std::string> known = op_names();
  if (std::find(known.begin(), known.end(), name) == known.end())
    return {text(name, ": there is no such op; define it")};
  const std::vector<Sample> samples = make_op(name)->samples();
  if (samples.empty()) return {text(name, ": has no samples: nothing tests it")};
  std::vector<std::string> faults;
  for (const Sample& sample : samples) {
    const std::string where = reproducer(*sample.op, sample.in, kSeed);
    try {
      if (sample.op->name() != name) {
        faults.push_back(text(where, ": is no sample of ", name));
        continue;
      }
      check_fields(sample, where, faults);
      check_missing_inputs(sample, where, faults);
      check_decomposition(sample, where, faults);
      std::vector<std::vector<std::string>> more{check_gradient(sample, kSeed)};
      for (const DType dtype : dtypes(sample)) more.push_back(check_plans(sample, dtype, kSeed));
      for (const std::vector<std::string>& each : more) faults.insert(faults.end(), each.begin(), each.end());
    } catch (const Error& error) {
      faults.push_back(text(where, ": ", error.what()));
    }
  }
  return faults;
}

}  // namespace neurim
