// Every op against its samples: nothing here names an op, so that a new one is tested by being defined.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "neurim/backend/cpu/common/tiles.h"
#include "neurim/base/error.h"
#include "neurim/compile/check_op.h"
#include "neurim/core/device.h"
#include "neurim/hardware/isa.h"
#include "tests/ask_kernel.h"
#include "tests/f16_sums.h"

namespace neurim {
namespace {

using namespace op_table;

constexpr std::uint64_t kSeed = 20240917;

/// The cases of one op; the test is called by its name: --gtest_filter='*/conv2d'.
class OpTable : public testing::TestWithParam<std::string> {
 protected:
  std::vector<Sample> samples() const { return make_op(GetParam())->samples(); }
};

/// All but control flow, which is what its bodies are.
std::vector<std::string> names() {
  std::vector<std::string> all = op_names();
  std::erase_if(all, [](const std::string& name) { return !make_op(name)->bodies().empty(); });
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, OpTable, testing::ValuesIn(names()), [](const auto& test) { return test.param; });

/// A sample in one dtype, and what is to come out, computed when it is first asked for.
class Case {
 public:
  Case(const Sample& sample, Types types)
      : sample(sample), types(std::move(types)), in(inputs(sample, this->types, kSeed)) {}

  std::string where() const { return reproducer(*sample.op, types, kSeed); }
  const Tensors& exact() const {
    if (exact_.empty()) exact_ = reference_outputs(sample.op, converted(in, in_dtype(types, DType::f64)));
    return exact_;
  }

  const Sample& sample;
  const Types types;
  const Tensors in;

 private:
  mutable Tensors exact_;
};

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
      const std::shared_ptr<Op> copy = make_op(sample.op->name(), attributes(*sample.op));
      EXPECT_EQ(attributes(*copy), attributes(*sample.op)) << reproducer(*sample.op, sample.in, kSeed);
      // A member that fields() forgets is equal in both texts, but not in what the op does.
      const Tensors in = inputs(sample, sample.in, kSeed);
      expect_none(difference(reference_outputs(sample.op, in), reference_outputs(copy, in), 0),
                  reproducer(*sample.op, sample.in, kSeed) + ": an attribute is missing in fields()");
    });
}

// An op may need a size as a number and say so; a type that it gives has to be right for every number.
TEST_P(OpTable, TypesOfSymbolsAreThoseOfNumbers) {
  for (const Sample& sample : samples()) {
    for (std::size_t i = 0; i < sample.in.size(); ++i)
      for (int axis = 0; axis < sample.in[i].shape.rank(); ++axis) {
        const Dim size = sample.in[i].shape[axis];
        Types symbolic = sample.in;
        for (Type& type : symbolic)
          for (int a = 0; a < type.shape.rank(); ++a)
            if (type.shape[a] == size && (a == axis || &type == &symbolic[i])) type.shape[a] = Dim::symbol("n");
        Types given;
        try {
          given = sample.op->infer(symbolic);
        } catch (const Error& error) {
          EXPECT_EQ(error.fault(), Fault::usage) << error.what();
          continue;
        }
        Types want = sample.op->infer(sample.in);
        for (Type& type : given)
          for (int a = 0; a < type.shape.rank(); ++a)
            type.shape[a] = Dim::parse(text(type.shape[a]), [&](std::string_view) { return size; });
        EXPECT_EQ(given, want) << reproducer(*sample.op, sample.in, kSeed) << " input " << i << " axis " << axis;
      }
  }
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
double kernel_tolerance(const Sample& sample, DType dtype, const Request& request) {
  if (!is_floating(dtype)) return 0;
  // Short sums lose some digits more, and a step of a recurrence goes on with what the one before rounded.
  const bool recurrence = sample.op->name().find("_recurrence") != std::string_view::npos;
  const int rounds = request.compute_dtype == DType::f16 && sums_of_f16() ? 32 : recurrence ? 16 : 4;
  if (storage_of(request.compute_dtype)) return std::max(sample.tolerance, rounds * epsilon(request.compute_dtype));
  return dtype == DType::f64 ? sample.tolerance * 1e-6 : sample.tolerance + 2 * epsilon(dtype);
}

TEST_P(OpTable, ReferenceInEveryDTypeAgreesWithF64) {
  for (const Sample& sample : samples())
    for (const DType dtype : dtypes(sample)) {
      const Types types = in_dtype(sample.in, dtype);
      guarded(sample, types, [&] {
        const Case one(sample, types);
        const std::string where = one.where();
        const Tensors out = reference_outputs(sample.op, one.in);
        EXPECT_EQ(types_of(out), sample.op->infer(types)) << where;
        // A decomposition rounds between its ops too, which the fastest kernels may compute.
        const auto tolerance = [&](double rounding) {
          return reference_kernel(*sample.op) ? rounding : rounding == 0 ? 0 : sample.tolerance + 4 * rounding;
        };
        for (std::size_t i = 0; i < out.size(); ++i)
          expect_none(difference({one.exact()[i]}, {out[i]}, tolerance(epsilon(out[i].dtype()))),
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
        expect_none(difference(reference_outputs(sample.op, in), parts, 1e-9), reproducer(*sample.op, types, kSeed));
    });
  }
}

TEST_P(OpTable, GradientAgreesWithFiniteDifferences) {
  for (const Sample& sample : samples())
    guarded(sample, in_dtype(sample.in, DType::f64), [&] {
      for (const std::string& fault : check_gradient(sample, kSeed)) ADD_FAILURE() << fault;
    });
}

TEST_P(OpTable, PlansAndTheirGradientsAgreeWithReference) {
  for (const Sample& sample : samples())
    for (const DType dtype : dtypes(sample))
      guarded(sample, in_dtype(sample.in, dtype), [&] {
        for (const std::string& fault : check_plans(sample, dtype, kSeed)) ADD_FAILURE() << fault;
      });
}

// --- kernels ---

const Request kRequests[] = {{},
                             {.overruled = true},
                             {.known = true, .chunks = 3},
                             {.known = true, .chunks = 2, .compute_dtype = DType::bf16},
                             {.chunks = 2, .compute_dtype = DType::f16},
                             {.layout = {Layout::channels_last}},
                             {.layout = {Layout::blocked, 16}, .chunks = 3},
                             {.layout = {Layout::last_blocked, 16}, .chunks = 2}};

std::string describe(const Kernel& kernel, const Request& request) {
  return text(driver({kernel.device, 0}).name(), " kernel ", kernel.name, ", inputs ", request.layout,
              request.overruled ? ", overruled" : "", request.known ? ", constant" : "", ", chunks ", request.chunks,
              storage_of(request.compute_dtype) ? text(", ", request.compute_dtype) : std::string());
}

constexpr std::uint8_t kMostDevices = 8;  // of the kinds that a build can have; one that is not there has no kernels

/// Calls visit(case, kernel, request) for whatever a kernel of the op may be asked.
template <class Visit>
void each_request(const std::string& op, Visit visit) {
  for (const Sample& sample : make_op(op)->samples())
    for (const DType dtype : dtypes(sample)) {
      const Types types = in_dtype(sample.in, dtype);
      guarded(sample, types, [&] {
        const Case one(sample, types);
        for (std::uint8_t device = 0; device < kMostDevices; ++device)
          for (const Kernel& kernel : kernels(op, device))
            if (!kernel.fused_only)  // those are regions_test's
              for (const Request& request : kRequests) visit(one, kernel, request);
      });
    }
}

TEST_P(OpTable, KernelsAgreeWithReference) {
  each_request(GetParam(), [](const Case& one, const Kernel& kernel, const Request& request) {
    const Asked asked(kernel, *one.sample.op, one.in, request);
    if (!asked.accepted()) return;
    const std::string where = one.where() + ": " + describe(kernel, request);
    // What the memory held before must not matter (the second run begins from NaN), nor where the results go.
    std::string fault;
    const Device device{kernel.device, 0};
    const Tensors out = asked.run(device, 0x00, false, fault);
    expect_none(difference(out, asked.run(device, 0xff, false, fault), 0), where + ": two runs differ");
    expect_none(difference(out, asked.run(device, 0xff, true, fault), 0), where + ": in place differs");
    expect_none(fault, where);
    for (std::size_t i = 0; i < out.size(); ++i)
      expect_none(difference({one.exact()[i]}, {out[i]}, kernel_tolerance(one.sample, out[i].dtype(), request)),
                  text(where, ", output ", i));
  });
}

/// Preparing costs little, so that this needs nothing from the test above and may run alone.
TEST_P(OpTable, EveryKernelIsReached) {
  std::map<std::string, std::set<std::string>> refusals;
  std::set<std::string> reached;
  each_request(GetParam(), [&](const Case& one, const Kernel& kernel, const Request& request) {
    const std::string name = text(driver({kernel.device, 0}).name(), " kernel ", kernel.name);
    if (reached.count(name) || (!cpu::uses_tiles() && kernel.name.starts_with("cpu tiles"))) return;
    const Asked asked(kernel, *one.sample.op, one.in, request);
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
