// The test device proves the device and stream interface without a GPU: its memory is out of the host's
// reach, its streams are asynchronous, and all that stands on the interface gives the same bits there as on
// the CPU.
#include "neurim/backend/test/test_device.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "neurim/base/error.h"
#include "neurim/compile/plan.h"
#include "neurim/core/device.h"
#include "neurim/graph/value.h"
#include "neurim/model/zoo.h"
#include "neurim/nn/activations.h"
#include "neurim/nn/batch_norm2d.h"
#include "neurim/nn/conv.h"
#include "neurim/nn/linear.h"
#include "neurim/nn/pool.h"
#include "neurim/ops/add.h"
#include "neurim/ops/cross_entropy.h"
#include "neurim/ops/mul.h"
#include "neurim/optim/sgd.h"

namespace neurim {
namespace {

Device test(int index = 0) { return {register_test_device(), static_cast<std::uint8_t>(index)}; }

/// What the call throws.
template <class F>
std::pair<Fault, std::string> error_of(F&& call) {
  try {
    call();
  } catch (const Error& error) {
    return {error.fault(), error.what()};
  }
  return {Fault::failure, "nothing was thrown"};
}

std::vector<std::byte> data(const Tensor& tensor) {
  std::vector<std::byte> host(bytes(tensor.type()));
  tensor.read(host.data());
  return host;
}

Tensor random_tensor(const Shape& shape, std::uint64_t seed, Device device = {}) {
  const Tensor tensor = Tensor::empty({DType::f32, shape}, device);
  nn::fill(tensor, nn::normal(), seed, "");
  return tensor;
}

TEST(TestDevice, IsKnownByName) {
  EXPECT_EQ(register_test_device(), register_test_device());
  EXPECT_EQ(device_named("test"), test());
  EXPECT_EQ(device_named("test:1"), test(1));
  EXPECT_EQ(text(test(1)), "test:1");
}

TEST(TestDeviceDeathTest, TheHostCannotTouchItsMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Storage block(test(), 4);
  auto* const memory = static_cast<volatile int*>(block.data());
  EXPECT_DEATH({ [[maybe_unused]] const int read = *memory; }, "");
  EXPECT_DEATH({ *memory = 1; }, "");
}

TEST(TestDevice, AllocatesAndReuses) {
  DeviceDriver& device = driver(test(7));  // its own memory
  std::array<void*, 3> blocks{};
  for (void*& block : blocks) {
    block = device.allocate(100, 7);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0u);
  }
  for (const int i : {1, 2, 0}) device.release(blocks[i], 100, 7);
  void* const whole = device.allocate(std::size_t{1} << 20, 7);
  EXPECT_EQ(whole, blocks[0]) << "pieces that were released are not joined";
  device.release(whole, std::size_t{1} << 20, 7);
  const auto [fault, message] = error_of([&] { device.allocate(std::size_t{1} << 40, 7); });
  EXPECT_EQ(fault, Fault::resource) << message;
}

TEST(TestDevice, FreshMemoryIsNoNumber) {
  for (const float value : Tensor::empty({DType::f32, {3}}, test()).values<float>()) EXPECT_TRUE(std::isnan(value));
}

TEST(TestStream, CopiesAreAsynchronous) {
  const Storage first(test(), sizeof(int)), second(test(), sizeof(int));
  const auto stream = driver(test()).stream(0);
  int sent = 1, received = 0;
  TestDeviceHold hold;
  stream->upload(first.data(), &sent, sizeof sent);
  stream->copy(second.data(), first.data(), sizeof sent);
  stream->download(&received, second.data(), sizeof received);
  EXPECT_EQ(received, 0);
  sent = 2;  // host memory is read when the stream comes to it
  hold.release();
  stream->wait();
  EXPECT_EQ(received, 2);
}

/// Doubles an int in two phases over its scratch memory; a negative one sets the status.
Launch doubling() {
  return {[](const void*, const Args& args, int part) noexcept {
            const int x = *static_cast<const int*>(args.in[0]);
            if (x < 0) std::atomic_ref(*args.status).fetch_or(kStatusIndexOutOfRange, std::memory_order_relaxed);
            int* const partial = static_cast<int*>(args.scratch);
            if (part < 2)
              partial[part] = x;
            else
              *static_cast<int*>(args.out[0]) = partial[0] + partial[1];
          },
          nullptr, 2, 1};
}

TEST(TestStream, RunsAreAsynchronous) {
  const Storage x(test(), sizeof(int)), y(test(), sizeof(int)), scratch(test(), 2 * sizeof(int));
  const auto stream = driver(test()).stream(0);
  std::array<void*, 6> pointers{nullptr, nullptr, x.data(), y.data(), scratch.data(), nullptr};
  Call call{doubling(), 2, 1, 1};
  std::uint32_t status = 0;
  int value = 21;
  TestDeviceHold hold;
  stream->upload(x.data(), &value, sizeof value);
  stream->run({&call, 1}, pointers.data(), &status);
  stream->download(&value, y.data(), sizeof value);
  EXPECT_EQ(value, 21);
  hold.release();
  stream->wait();
  EXPECT_EQ(value, 42);
  EXPECT_EQ(status, 0u);
}

TEST(TestStream, SkipsCommitsOnceTheStatusIsSet) {
  const Storage x(test(), sizeof(int)), y(test(), sizeof(int)), state(test(), sizeof(int)),
      scratch(test(), 2 * sizeof(int));
  const auto stream = driver(test()).stream(0);
  const std::array<void*, 8> pointers{x.data(), y.data(),     scratch.data(), nullptr,
                                      x.data(), state.data(), scratch.data(), nullptr};
  const std::array<Call, 2> calls{Call{doubling(), 0, 1, 1}, Call{doubling(), 4, 1, 1, true}};
  for (const int value : {5, -1}) {
    std::uint32_t status = 0;
    int before = 0, after = 0;
    stream->upload(x.data(), &value, sizeof value);
    stream->run(calls, pointers.data(), &status);
    stream->download(&before, y.data(), sizeof before);
    stream->download(&after, state.data(), sizeof after);
    stream->wait();
    EXPECT_EQ(before, 2 * value);
    EXPECT_EQ(after, 10);
    EXPECT_EQ(status, value < 0 ? kStatusIndexOutOfRange : 0u);
  }
}

TEST(TestStream, BadPointersAreFaults) {
  const auto stream = driver(test()).stream(0);
  const Storage block(test(), 64), elsewhere(test(1), 64);
  void* ended = nullptr;
  {
    const Storage early(test(), 1 << 20);
    ended = early.data();
  }
  std::array<char, 128> host{};
  Call call{doubling(), 0, 1, 1};
  std::array<void*, 4> no_input{nullptr, block.data(), block.data(), nullptr};
  std::uint32_t status = 0;
  const std::function<void()> mistakes[] = {
      [&] { stream->upload(host.data(), host.data(), 64); },
      [&] { stream->download(host.data(), block.data(), 128); },
      [&] { stream->copy(block.data(), elsewhere.data(), 64); },
      [&] { stream->copy(block.data(), ended, 64); },
      [&] { stream->run({&call, 1}, no_input.data(), &status); },
  };
  for (const auto& mistake : mistakes) {
    mistake();
    char skipped = 1;
    stream->download(&skipped, block.data(), 1);
    const auto [fault, message] = error_of([&] { stream->wait(); });
    EXPECT_EQ(fault, Fault::failure);
    EXPECT_NE(message.find("not allocated"), std::string::npos) << message;
    EXPECT_EQ(skipped, 1);
    stream->download(host.data(), block.data(), 64);  // the fault was told once
    stream->wait();
  }
}

TEST(TensorOnDevice, ReadsWritesAndMoves) {
  const std::vector<float> values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const Tensor x = Tensor::from({1, 3, 2, 2}, values, test());
  EXPECT_EQ(x.values<float>(), values);
  EXPECT_EQ(x.clone().values<float>(), values);
  EXPECT_EQ(x.clone().device(), test());
  EXPECT_EQ(x.to({}).values<float>(), values);
  EXPECT_EQ(x.to(test(1)).to(test()).values<float>(), values);
  EXPECT_EQ(Tensor::scalar(3, DType::i64, test()).item(), 3);

  for (const Layout layout : {Layout{Layout::channels_last}, Layout{Layout::blocked, 16}}) {
    repack(x, layout);
    EXPECT_EQ(x.values<float>(), values);
    EXPECT_EQ(add(x, x).values<float>()[11], 24);
    x.write(values.data());
    EXPECT_EQ(x.values<float>(), values);
  }

  const Tensor y = Tensor::full(x.type(), 0);
  y.assign(x);
  EXPECT_EQ(y.values<float>(), values);
  y.place(test());
  EXPECT_EQ(y.device(), test());
  EXPECT_EQ(y.values<float>(), values);
  x.assign(Tensor::full(x.type(), 7));
  EXPECT_EQ(x.values<float>(), std::vector<float>(12, 7));
}

TEST(TensorOnDevice, OpsRunEagerly) {
  const Tensor x = random_tensor({2, 3}, 1, test());
  const Tensor y = x * 2 + x;
  EXPECT_EQ(y.device(), test());
  EXPECT_EQ(data(y), data(x.to({}) * 2 + x.to({})));
  const auto [fault, message] = error_of([&] { add(x, x.to({})); });
  EXPECT_EQ(fault, Fault::usage);
  EXPECT_NE(message.find("inputs are on test:0 and on cpu"), std::string::npos) << message;
  EXPECT_EQ(error_of([&] { add(x, x.to(test(1))); }).first, Fault::usage);
  const Tensor label = Tensor::full({DType::i64, {2}}, 3, test());
  EXPECT_EQ(error_of([&] { cross_entropy(x, label); }).first, Fault::data);
}

/// One of each kind of layer.
struct SmallNet {
  nn::Conv2d conv{1, 4, {.kernel = 3, .pad = 1}};
  nn::BatchNorm2d norm{4};
  nn::Linear linear{4 * 4 * 4, 5};
  void parts(Parts& p) { p("conv", conv)("norm", norm)("linear", linear); }
  Tensor operator()(const Tensor& x) const {
    const Tensor features = nn::MaxPool2d{}(nn::ReLU{}(norm(conv(x))));
    return linear(nn::Dropout{0.25}(nn::Flatten{}(features)));
  }
};

template <class M>
void prepare(M& net, Device device) {
  initialise(net, 11);
  for (const Parameter& p : named_parameters(net)) p.tensor.place(device);
}

const std::vector<std::string> kNone;

/// A network in training, with all its state on one device.
template <class M>
struct Training {
  M net;
  SGD sgd;
  Tensor key;  // of the random ops
  Plan step;   // (x, labels) -> (loss, logits)

  Training(M on, const Shape& x, Device device, bool interpret)
      : net((prepare(on, device), std::move(on))),
        sgd(named_parameters(net), {.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3}),
        key(Tensor::from({2}, std::array<std::int64_t, 2>{3, 0}, device)),
        step(plan(
            [&](Tensors in) -> Tensors {
              const Tensor logits = net(in[0]), loss = cross_entropy(logits, in[1]);
              sgd.step(gradients({{loss}}, sgd.weights()));
              return {loss, logits};
            },
            {{DType::f32, x}, {DType::i64, {x[0]}}},
            {.training = true, .interpret = interpret, .device = device, .random = key})) {}

  using State = std::map<std::string, std::vector<std::byte>>;
  State state() {
    State all{{"key", data(key)}};
    for (const Parameter& p : named_parameters(net)) all[p.name] = data(p.tensor);
    for (const Parameter& p : named_parameters(sgd)) all["sgd." + p.name] = data(p.tensor);
    return all;
  }
  /// Names what is not as in `other`.
  std::vector<std::string> changed_from(const State& other) {
    std::vector<std::string> names;
    for (const auto& [name, bits] : state())
      if (bits != other.at(name)) names.push_back(name);
    return names;
  }
};

Tensor labels(std::int64_t n) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  return Tensor::from({n}, values);
}

/// Some steps on both devices, the device's inputs and outputs being on it or on the CPU.
template <class M>
void expect_same_training(const M& net, const Shape& shape) {
  Training<M> host(clone(net), shape, {}, true), device(clone(net), shape, test(), false);
  for (std::uint64_t i = 0; i < 3; ++i) {
    const Tensor x = random_tensor(shape, i), target = labels(shape[0]);
    const Tensors expected = host.step({x, target});
    const Tensors got = device.step({i % 2 ? x : x.to(test()), target});
    EXPECT_EQ(got[0].device(), test());
    EXPECT_EQ(data(got[0]), data(expected[0])) << "the loss of step " << i;
    EXPECT_EQ(data(got[1]), data(expected[1])) << "the logits of step " << i;
    EXPECT_EQ(device.changed_from(host.state()), kNone) << "after step " << i;
  }
  EXPECT_EQ(device.sgd.steps(), 3);
}

TEST(PlanOnDevice, TrainsWithTheSameBits) { expect_same_training(SmallNet(), {3, 1, 8, 8}); }
TEST(PlanOnDevice, TrainsLeNet5WithTheSameBits) {
  expect_same_training(create_model("lenet5", {.num_classes = 5}), {2, 1, 28, 28});
}

TEST(PlanOnDevice, FollowsTheLearningRateAndWrittenWeights) {
  Training<SmallNet> training({}, {3, 1, 8, 8}, test(), false);
  const Tensor x = random_tensor({3, 1, 8, 8}, 5);
  const auto before = data(training.net.conv.weight);
  training.sgd.set_lr(0);
  training.step({x, labels(3)});
  EXPECT_EQ(data(training.net.conv.weight), before);
  training.net.linear.weight.assign(Tensor::full(training.net.linear.weight.type(), 0));
  training.net.linear.bias.assign(Tensor::full(training.net.linear.bias.type(), 0));
  EXPECT_NEAR(training.step({x, labels(3)})[0].item(), std::log(5.0), 1e-6);
}

TEST(PlanOnDevice, AWrongLabelChangesNothing) {
  Training<SmallNet> training({}, {3, 1, 8, 8}, test(), false);
  const Tensor x = random_tensor({3, 1, 8, 8}, 5);
  training.step({x, labels(3)});
  const auto before = training.state();
  for (const std::int64_t wrong : {5, -1}) {
    const Tensor target = Tensor::from({3}, std::array<std::int64_t, 3>{0, wrong, 1});
    const auto [fault, message] = error_of([&] { training.step({x, target}); });
    EXPECT_EQ(fault, Fault::data) << message;
    EXPECT_NE(message.find(text("the target at (1) is ", wrong, ", which is not in [0,5)")), std::string::npos)
        << message;
    EXPECT_EQ(training.changed_from(before), kNone);
  }
  training.step({x, labels(3)});
  EXPECT_EQ(training.changed_from(before).size(), before.size() - 1);  // all but the learning rate
}

TEST(PlanOnDevice, InfersWithTheSameBits) {
  const Shape shape{3, 1, 8, 8};
  SmallNet host, device = clone(host);
  prepare(host, {});
  prepare(device, test());
  const Tensor x = random_tensor(shape, 9);
  auto run = [&](const SmallNet& net, const PlanOptions& options) {
    const Plan planned = plan([&](Tensors in) -> Tensors { return {net(in[0])}; }, {{DType::f32, shape}}, options);
    const Tensor y = Tensor::empty({DType::f32, {3, 5}});  // on the CPU, whatever the device
    planned.run({{x}}, {{y}});
    planned.inputs()[0].write(x.values<float>().data());
    planned.fork().run({{planned.inputs()[0]}}, {{planned.outputs()[0]}});
    EXPECT_EQ(data(planned.outputs()[0]), data(y));
    return y;
  };
  const Tensor expected = run(host, {.interpret = true});
  EXPECT_EQ(data(run(device, {.device = test()})), data(expected));
  const auto frozen = run(device, {.freeze = true, .device = test()}).values<float>();  // norm folded into conv
  const auto values = expected.values<float>();
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(frozen[i], values[i], 1e-5);
}

TEST(PlanOnDevice, SaysWhatIsInTheWrongPlace) {
  const Tensor weight = random_tensor({4}, 1, test());
  weight.set_name("net.weight");
  auto plan_on = [&](Device device) {
    return plan([&](Tensors in) -> Tensors { return {in[0] * weight}; }, {{DType::f32, {4}}}, {.device = device});
  };
  EXPECT_NE(error_of([&] { plan_on({}); }).second.find("net.weight is on test:0 but the plan runs on cpu"),
            std::string::npos);
  const Plan planned = plan_on(test());
  const Tensor x = random_tensor({4}, 2);
  EXPECT_NE(error_of([&] { planned({x.to(test(1))}); }).second.find("input 0 is on test:1"), std::string::npos);
  weight.place({});
  EXPECT_NE(error_of([&] { planned({x}); }).second.find("net.weight was placed on cpu"), std::string::npos);
  weight.place(test());  // new memory on the old device: the plan follows
  EXPECT_EQ(data(planned({x})[0]), data(x * weight.to({})));
}

}  // namespace
}  // namespace neurim
