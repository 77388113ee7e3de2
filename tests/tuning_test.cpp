// Kernels that are chosen by measurement: what is measured, what a plan makes of it, and the file that keeps it.
#include "neurim/compile/tuning.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "errors.h"
#include "neurim/compile/plan.h"
#include "neurim/core/device.h"
#include "neurim/graph/kernel.h"
#include "neurim/model/inference.h"
#include "neurim/model/zoo.h"
#include "neurim/nn/init.h"
#include "neurim/ops/conv.h"
#include "neurim/optim/sgd.h"
#include "neurim/train/step.h"
#include "tests/images.h"

namespace neurim {
namespace {

constexpr const char* kSlow = "sleeps";

/// The reference's convolution with a nap before it.
struct Nap {
  Launch launch;
};

Launch prepare_nap(KernelRequest& request) {
  for (const Kernel& kernel : kernels("conv2d", 0)) {
    if (kernel.rank != 0) continue;
    const auto nap = std::make_shared<Nap>(Nap{kernel.prepare(request)});
    return {[](const void* self, const Args& args, int part) noexcept {
              if (part == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
              const Launch& launch = static_cast<const Nap*>(self)->launch;
              launch.run(launch.self.get(), args, part);
            },
            nap, nap->launch.tasks, nap->launch.reduction_tasks};
  }
  return decline(request, "no reference");
}

/// A kernel that is asked first for 17 channels of output, and is slow.
void add_slow_kernel() {
  static const bool once = [] {
    add({.op = "conv2d", .name = kSlow, .device = 0, .rank = 90, .prepare = [](KernelRequest& request) {
           return request.input(1).type.shape[0] == 17 ? prepare_nap(request) : decline(request, "not 17 channels");
         }});
    return true;
  }();
  (void)once;
}

Tensor drawn(const Shape& shape, std::string_view name) {
  const Tensor tensor = Tensor::empty({DType::f32, shape});
  nn::fill(tensor, nn::normal(), 1, std::string(name));
  return tensor;
}

/// A convolution of 17 channels.
struct Convolution {
  Tensor x = drawn({2, 8, 12, 12}, "x"), weight = drawn({17, 8, 3, 3}, "weight");
  Plan planned(PlanOptions options) const {
    options.freeze = true;
    return plan([&](const Tensors& in) { return Tensors{conv2d(in[0], weight, {}, {.pad = {1, 1}})}; }, {x.type()},
                options);
  }
};

std::string kernel_of(const Plan& plan, std::string_view op) {
  for (const PlanRow& row : plan.rows())
    if (row.anchor == op) return row.kernel;
  return "";
}

TEST(Tuning, LeavesOutAKernelThatIsMeasuredToBeSlower) {
  add_slow_kernel();
  const Convolution conv;
  const auto tuning = std::make_shared<Tuning>(Tuning::Mode::measure);
  const Plan by_rank = conv.planned({}), tuned = conv.planned({.tuning = tuning});
  EXPECT_EQ(kernel_of(by_rank, "conv2d"), kSlow);
  const std::string chosen = kernel_of(tuned, "conv2d");
  EXPECT_NE(chosen, kSlow);
  EXPECT_NE(chosen, "reference");
  EXPECT_EQ(tuning->size(), 1u);
  bool told = false;
  for (const PlanRow& row : tuned.rows())
    for (const std::string& why : row.declined) told |= why == text(kSlow, ": another was measured to be faster");
  EXPECT_TRUE(told);

  const std::vector<float> expected = by_rank({conv.x})[0].values<float>(), got = tuned({conv.x})[0].values<float>();
  for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-4) << i;

  // What is known is not measured again, and another size is another key.
  const Plan again = conv.planned({.tuning = tuning});
  EXPECT_EQ(kernel_of(again, "conv2d"), chosen);
  EXPECT_EQ(tuning->size(), 1u);
  conv.planned({.compute_dtype = DType::bf16, .tuning = tuning});
  EXPECT_EQ(tuning->size(), 2u);
}

TEST(Tuning, LockedMeasuresNothing) {
  add_slow_kernel();
  const Convolution conv;
  const auto locked = std::make_shared<Tuning>();
  EXPECT_EQ(kernel_of(conv.planned({.tuning = locked}), "conv2d"), kSlow);
  EXPECT_EQ(locked->size(), 0u);
  const auto measured = std::make_shared<Tuning>(Tuning::Mode::measure);
  const Plan tuned = conv.planned({.tuning = measured});
  const TempFolder temp;
  const fs::path file = temp.at("tuning.json");
  measured->write(file);
  locked->read(file);
  EXPECT_EQ(locked->size(), 1u);
  EXPECT_EQ(kernel_of(conv.planned({.tuning = locked}), "conv2d"), kernel_of(tuned, "conv2d"));
}

TEST(Tuning, AKernelThatThereIsNotLimitsNothing) {
  add_slow_kernel();
  const Convolution conv;
  const auto measured = std::make_shared<Tuning>(Tuning::Mode::measure);
  conv.planned({.tuning = measured});
  const TempFolder temp;
  const fs::path file = temp.at("tuning.json");
  measured->write(file);
  std::string content = read_file(file);
  const std::string chosen = text("\": \"", kernel_of(conv.planned({.tuning = measured}), "conv2d"), '"');
  content.replace(content.find(chosen), chosen.size(), "\": \"a kernel of old\"");
  write_file(file, content);
  const auto locked = std::make_shared<Tuning>();
  locked->read(file);
  EXPECT_EQ(locked->size(), 1u);
  EXPECT_EQ(kernel_of(conv.planned({.tuning = locked}), "conv2d"), kSlow);
}

TEST(Tuning, ChangesNoState) {
  const Model model = create_model("resnet20");
  const auto parameters = named_parameters(model);
  SGD optimizer(parameters, {.lr = 0.1, .momentum = 0.9});
  const Tensor random = Tensor::full({DType::i64, {2}}, 7);
  const Types types = batch_types(4, 3, 16, 16);
  const auto bits = [&] {
    std::vector<std::vector<float>> all;
    for (const auto& entry : named_parameters(model)) all.push_back(entry.tensor.values<float>());
    return all;
  };
  const auto before = bits();
  const auto tuning = std::make_shared<Tuning>(Tuning::Mode::measure);
  const Plan tuned = plan(training_step(model, optimizer, {}), types,
                          {.training = true, .tuning = tuning, .random = random});
  EXPECT_GT(tuning->size(), 10u);
  EXPECT_EQ(bits(), before);
  EXPECT_EQ(random.values<std::int64_t>(), (std::vector<std::int64_t>{7, 7}));

  // And the plan trains as one that was made with what is known.
  const auto steps = [&](const Plan& plan) {
    nn::fill(plan.inputs()[0], nn::normal(), 3, "images");
    const std::vector<std::int64_t> labels{1, 2, 3, 4};
    plan.inputs()[1].write(labels.data());
    std::vector<float> losses;
    for (int i = 0; i < 2; ++i) {
      plan.run(plan.inputs(), plan.outputs());
      losses.push_back(plan.outputs()[0].values<float>()[0]);
    }
    return losses;
  };
  const std::vector<float> losses = steps(tuned);
  const Model other = create_model("resnet20");
  SGD its(named_parameters(other), {.lr = 0.1, .momentum = 0.9});
  EXPECT_EQ(steps(plan(training_step(other, its, {}), types,
                       {.training = true, .tuning = tuning, .random = Tensor::full({DType::i64, {2}}, 7)})),
            losses);
}

TEST(Tuning, TheFileKeepsOtherMachinesAndOtherSites) {
  const TempFolder temp;
  const fs::path file = temp.at("tuning.json");
  write_file(file, R"({"format": 1, "machines": {"another one": {"conv2d": "cpu 1x1"}}})");
  Tuning first, second;
  first.read(file);
  EXPECT_EQ(first.size(), 0u);
  first.choose("key a", "cpu direct");
  first.write(file);
  second.choose("key b", "onednn");
  second.write(file);
  EXPECT_NE(read_file(file).find("another one"), std::string::npos);
  Tuning all;
  all.choose("key a", "cpu winograd");
  all.read(file);
  EXPECT_EQ(*all.chosen("key a"), "cpu winograd");  // what is here already stays
  EXPECT_EQ(*all.chosen("key b"), "onednn");
  EXPECT_EQ(all.chosen("key c"), nullptr);
}

TEST(Tuning, OtherFilesAreRefused) {
  const TempFolder temp;
  const fs::path file = temp.at("tuning.json");
  for (const auto& [content, part] : std::vector<std::pair<std::string, std::string>>{
           {"{", "is not valid JSON"},
           {"[]", "is no file of kernels"},
           {R"({"machines": {}})", "is no file of kernels"},
           {R"({"format": 2, "machines": {}})", "is no file of kernels"},
           {R"({"format": "1", "machines": {}})", "is no file of kernels"},
           {R"({"format": 1, "machines": []})", "not objects"},
           {R"({"format": 1, "machines": {"a": 1}})", "not objects"},
           {R"({"format": 1, "machines": {"a": {"b": 1}}})", "no text"},
           {R"({"format": 1, "machines": {"a": {"b": {"c": "d"}}}})", "nests deeper"}}) {
    write_file(file, content);
    Tuning tuning;
    expect_words(error_of([&] { tuning.read(file); }), {file.string(), part, "remove it to measure again"});
    EXPECT_EQ(tuning.size(), 0u);
    tuning.choose("a", "b");
    error_of([&] { tuning.write(file); });
    EXPECT_EQ(read_file(file), content);
  }
  expect_words(error_of([] { Tuning::named("yes", ""); }, Fault::usage),
               {"tuning: there is no 'yes'; known are off, locked, on"});
  expect_words(error_of([] { Tuning::named("off", "x.json"); }, Fault::usage), {"tuning_file"});
  const fs::path missing = fs::path(temp.path()) / "no" / "tuning.json";
  expect_words(error_of([&] { Tuning::named("locked", missing.string()); }),
               {missing.string(), "measure with tuning=on"});
  EXPECT_EQ(Tuning::named("off", ""), nullptr);
}

}  // namespace
}  // namespace neurim
