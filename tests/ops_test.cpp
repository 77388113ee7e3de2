// Every op against its samples: nothing here names an op, so that a new one is tested by being defined.
#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <set>

#include "neurim/base/error.h"
#include "neurim/core/device.h"
#include "tests/ask_kernel.h"

namespace neurim {
namespace {

using namespace op_table;

constexpr std::uint64_t kSeed = 20240917;

/// The cases of one op; the test is called by its name: --gtest_filter='*/conv2d'.
class OpTable : public testing::TestWithParam<std::string> {
 protected:
  std::vector<Sample> samples() const { return make_op(GetParam())->samples(); }
};
INSTANTIATE_TEST_SUITE_P(All, OpTable, testing::ValuesIn(op_names()),
                         [](const auto& test) { return test.param; });

/// Fails with one line, reproducer first, when there is a difference.
void expect_none(const std::string& difference, const std::string& where) {
  if (!difference.empty()) ADD_FAILURE() << where << ": " << difference;
}

/// Runs `body` and adds the reproducer to whatever it throws.
template <class Body>
void guarded(const Sample& sample, const Types& types, Body body) {
  try {
    body();
  } catch (const Error& error) {
    ADD_FAILURE() << reproducer(*sample.op, types, kSeed) << ": " << error.what();
  }
}

TEST_P(OpTable, HasSamplesOfItself) {
  const std::vector<Sample> rows = samples();
  EXPECT_FALSE(rows.empty()) << GetParam() << " has no samples: nothing tests it";
  for (const Sample& sample : rows) {
    EXPECT_EQ(sample.op->name(), GetParam());
    EXPECT_LE(sample.fill.size(), sample.in.size()) << reproducer(*sample.op, sample.in, kSeed);
  }
}

TEST_P(OpTable, AttributesSurviveFields) {
  for (const Sample& sample : samples())
    guarded(sample, sample.in, [&] {
      const std::shared_ptr<Op> copy = Attributes::copy(*sample.op);
      EXPECT_EQ(attributes(*copy), attributes(*sample.op)) << reproducer(*sample.op, sample.in, kSeed);
      // A member that fields() forgets is equal in both texts, but not in what the op does.
      const Tensors in = inputs(sample, sample.in, kSeed);
      expect_none(difference(reference_outputs(sample.op, in), reference_outputs(copy, in), 0),
                  reproducer(*sample.op, sample.in, kSeed) + ": an attribute is missing in fields()");
    });
}

TEST_P(OpTable, InferRefusesMissingInputs) {
  for (const Sample& sample : samples()) {
    if (sample.in.empty()) continue;
    try {
      sample.op->infer({});
      ADD_FAILURE() << reproducer(*sample.op, {}, kSeed) << ": accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::usage) << error.what();
      EXPECT_TRUE(starts_with(error.what(), GetParam() + ": ")) << error.what();
    }
  }
}

/// What f32 kernels are allowed, and the rounding of the stored result in narrower dtypes.
double kernel_tolerance(const Sample& sample, DType dtype) {
  if (!is_floating(dtype)) return 0;
  return dtype == DType::f64 ? sample.tolerance * 1e-6 : sample.tolerance + 2 * epsilon(dtype);
}

TEST_P(OpTable, ReferenceInEveryDTypeAgreesWithF64) {
  for (const Sample& sample : samples())
    for (const DType dtype : dtypes(sample)) {
      const Types types = in_dtype(sample.in, dtype);
      guarded(sample, types, [&] {
        const std::string where = reproducer(*sample.op, types, kSeed);
        const Tensors in = inputs(sample, types, kSeed), out = reference_outputs(sample.op, in);
        const Tensors exact = reference_outputs(sample.op, converted(in, in_dtype(types, DType::f64)));
        EXPECT_EQ(types_of(out), sample.op->infer(types)) << where;
        // A decomposition rounds between its ops too, which the fastest kernels may compute.
        const auto tolerance = [&](double rounding) {
          return reference_kernel(*sample.op) ? rounding
                 : rounding == 0              ? 0
                                              : sample.tolerance + 4 * rounding;
        };
        for (std::size_t i = 0; i < out.size(); ++i)
          expect_none(difference({exact[i]}, {out[i]}, tolerance(epsilon(out[i].dtype()))),
                      text(where, ", output ", i));
      });
    }
}

TEST_P(OpTable, DecompositionAgreesWithReference) {
  for (const Sample& sample : samples()) {
    const Types types = in_dtype(sample.in, DType::f64);
    guarded(sample, types, [&] {
      const Tensors in = inputs(sample, types, kSeed), parts = sample.op->decompose(in);
      if (!parts.empty())
        expect_none(difference(reference_outputs(sample.op, in), parts, 1e-9),
                    reproducer(*sample.op, types, kSeed));
    });
  }
}

// --- gradients ---

/// A sample in f64, its outputs projected on random directions: a function of the floating inputs with one
/// value.
class Projected {
 public:
  Projected(const Sample& sample, std::uint64_t seed)
      : op_(sample.op), types_(in_dtype(sample.in, DType::f64)) {
    for (const Tensor& tensor : inputs(sample, types_, seed, true)) in_.push_back(tensor.values<double>());
    const Types out = op_->infer(types_);
    for (std::size_t i = 0; i < out.size(); ++i) {
      Random random(seed, 1000 + i);
      out_.push_back(out[i]);
      direction_.push_back(is_floating(out[i].dtype) ? numbers(out[i], {}, random) : std::vector<double>());
    }
  }

  double value() const {
    const Tensors out = reference_outputs(op_, tensors());
    double sum = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::vector<double> values = out[i].values<double>();
      for (std::size_t k = 0; k < direction_[i].size(); ++k) sum += direction_[i][k] * values[k];
    }
    return sum;
  }

  /// The gradient of value() with respect to each floating input, by number; an unreached one is missing.
  /// Nothing when the op has no gradient.
  std::optional<std::map<std::size_t, std::vector<double>>> gradient() const {
    Trace trace({.training = true});
    Tensors in, of, seeds, wrt, values = tensors();
    std::vector<std::size_t> wrt_inputs, reached;
    for (std::size_t i = 0; i < types_.size(); ++i) {
      in.push_back(trace.input(types_[i]));
      if (!is_floating(types_[i].dtype)) continue;
      wrt.push_back(in[i]);
      wrt_inputs.push_back(i);
    }
    const Tensors out = neurim::apply(op_, in);
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (direction_[i].empty()) continue;
      of.push_back(out[i]);
      seeds.push_back(trace.input(out[i].type()));
      values.push_back(from_doubles(out[i].type(), direction_[i]));
    }
    Tensors recorded, outputs;
    try {
      recorded = gradients(of, wrt, seeds);
    } catch (const Error& error) {
      if (error.what() == text(op_->name(), ": has no gradient")) return std::nullopt;
      throw;
    }
    for (std::size_t k = 0; k < recorded.size(); ++k)
      if (recorded[k]) outputs.push_back(recorded[k]), reached.push_back(wrt_inputs[k]);
    const Tensors computed = interpret(trace.finish(outputs), values);
    std::map<std::size_t, std::vector<double>> result;
    for (std::size_t k = 0; k < reached.size(); ++k) result[reached[k]] = computed[k].values<double>();
    return result;
  }

  const Types& types() const { return types_; }
  std::vector<double>& input(std::size_t i) { return in_[i]; }

 private:
  Tensors tensors() const {
    Tensors result;
    for (std::size_t i = 0; i < types_.size(); ++i) result.push_back(from_doubles(types_[i], in_[i]));
    return result;
  }

  std::shared_ptr<const Op> op_;
  Types types_, out_;
  std::vector<std::vector<double>> in_, direction_;
};

/// The central finite difference of value() along one element of an input.
double slope(Projected& function, std::size_t input, std::size_t element) {
  constexpr double kStep = 1e-5;
  double& x = function.input(input)[element];
  const double at = x;
  x = at + kStep;
  const double above = function.value();
  x = at - kStep;
  const double below = function.value();
  x = at;
  return (above - below) / (2 * kStep);
}

/// Whether finite differences say something: an output that an attribute keeps below f64 moves in steps.
bool differentiable(const Sample& sample) {
  const Types out = sample.op->infer(in_dtype(sample.in, DType::f64));
  return any_floating(sample.in) && any_floating(out) && in_dtype(out, DType::f64) == out;
}

TEST_P(OpTable, GradientAgreesWithFiniteDifferences) {
  constexpr std::size_t kMostElements = 16;  // of each input, chosen at random
  for (const Sample& sample : samples())
    guarded(sample, in_dtype(sample.in, DType::f64), [&] {
      if (!differentiable(sample)) return;
      Projected function(sample, kSeed);
      const auto gradient = function.gradient();
      if (!gradient) return;
      for (std::size_t i = 0; i < function.types().size(); ++i) {
        if (!is_floating(function.types()[i].dtype)) continue;
        std::vector<std::size_t> elements(function.input(i).size());
        std::iota(elements.begin(), elements.end(), std::size_t{0});
        Random random(kSeed, 2000 + i);
        shuffle(elements, random);
        elements.resize(std::min(elements.size(), kMostElements));
        for (const std::size_t element : elements) {
          const auto analytic = gradient->find(i);
          const double expected = slope(function, i, element);
          const double got = analytic == gradient->end() ? 0 : analytic->second[element];
          // Not EXPECT_NEAR: a NaN has to fail.
          EXPECT_TRUE(std::abs(got - expected) <= 1e-6 * std::max(1.0, std::abs(expected)))
              << reproducer(*sample.op, function.types(), kSeed) << ": the gradient of input " << i
              << " element " << element << " is " << got << ", finite differences give " << expected;
        }
      }
    });
}

// --- kernels ---

const Request kRequests[] = {{},
                             {.overruled = true},
                             {.known = true, .chunks = 3},
                             {.layout = {Layout::channels_last}},
                             {.layout = {Layout::blocked, 16}, .chunks = 3}};

std::string describe(const Kernel& kernel, const Request& request) {
  return text(driver({kernel.device, 0}).name(), " kernel ", kernel.name, ", inputs ", request.layout,
              request.overruled ? ", overruled" : "", request.known ? ", constant" : "", ", chunks ",
              request.chunks);
}

constexpr std::uint8_t kMostDevices =
    8;  // of the kinds that a build can have; one that is not there has no kernels

/// Calls visit(sample, types, kernel, request) for whatever a kernel of the op may be asked.
template <class Visit>
void each_request(const std::string& op, Visit visit) {
  for (const Sample& sample : make_op(op)->samples())
    for (const DType dtype : dtypes(sample)) {
      const Types types = in_dtype(sample.in, dtype);
      guarded(sample, types, [&] {
        for (std::uint8_t device = 0; device < kMostDevices; ++device)
          for (const Kernel& kernel : kernels(op, device))
            if (!kernel.chains)  // those are regions_test's
              for (const Request& request : kRequests) visit(sample, types, kernel, request);
      });
    }
}

TEST_P(OpTable, KernelsAgreeWithReference) {
  each_request(
      GetParam(), [](const Sample& sample, const Types& types, const Kernel& kernel, const Request& request) {
        const Tensors in = inputs(sample, types, kSeed);
        const Asked asked(kernel, *sample.op, in, request);
        if (!asked.accepted()) return;
        const std::string where = reproducer(*sample.op, types, kSeed) + ": " + describe(kernel, request);
        // What the memory held before must not matter (the second run begins from NaN), nor where the results
        // go.
        std::string fault;
        const Device device{kernel.device, 0};
        const Tensors out = asked.run(device, 0x00, false, fault);
        expect_none(difference(out, asked.run(device, 0xff, false, fault), 0), where + ": two runs differ");
        expect_none(difference(out, asked.run(device, 0xff, true, fault), 0), where + ": in place differs");
        expect_none(fault, where);
        const Tensors exact = reference_outputs(sample.op, converted(in, in_dtype(types, DType::f64)));
        for (std::size_t i = 0; i < out.size(); ++i)
          expect_none(difference({exact[i]}, {out[i]}, kernel_tolerance(sample, out[i].dtype())),
                      text(where, ", output ", i));
      });
}

/// Preparing costs little, so that this needs nothing from the test above and may run alone.
TEST_P(OpTable, EveryKernelIsReached) {
  std::map<std::string, std::set<std::string>> refusals;
  std::set<std::string> reached;
  each_request(GetParam(),
               [&](const Sample& sample, const Types& types, const Kernel& kernel, const Request& request) {
                 const std::string name = text(driver({kernel.device, 0}).name(), " kernel ", kernel.name);
                 const Asked asked(kernel, *sample.op, inputs(sample, types, kSeed), request);
                 if (asked.accepted())
                   reached.insert(name);
                 else
                   refusals[name].insert(asked.why_not());
               });
  for (const auto& [name, reasons] : refusals)
    EXPECT_TRUE(reached.count(name)) << GetParam() << ": no sample reaches the " << name << ": "
                                     << join({reasons.begin(), reasons.end()}, "; ");
}

}  // namespace
}  // namespace neurim
