// Where a plan's values stand: what is joined stands where it is joined, if it can.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/base/thread_pool.h"
#include "neurim/compile/plan.h"
#include "neurim/compile/program.h"
#include "neurim/core/cpu_device.h"
#include "neurim/model/state.h"
#include "neurim/ops/add.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/exp.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/one_hot.h"
#include "neurim/ops/relu.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/slice.h"
#include "neurim/optim/sgd.h"
#include "tests/ask_group.h"

namespace neurim {
namespace {

using op_table::uniform;

Tensor x(const Shape& shape, std::uint64_t seed = 1) { return uniform(shape, -1, 1, seed); }

/// How many concatenations the plan runs; what it gives is what the graph says.
std::int64_t reduction_tasks(const std::function<Tensors(Tensors)>& net, const Tensors& in) {
  const Types types = op_table::types_of(in);
  const Plan planned = plan(net, types, {.freeze = true});
  EXPECT_EQ(op_table::difference(plan(net, types, {.interpret = true})(in), planned(in), 2e-5), "");
  EXPECT_EQ(op_table::difference(planned(in), planned(in), 0), "");  // nothing is left over from the run before
  const auto rows = planned.rows();
  return std::count_if(rows.begin(), rows.end(),
                       [](const PlanRow& row) { return row.op.find("concat") != row.op.npos; });
}

TEST(MemoryPlan, ChannelsOfOneImageAreMadeWhereTheyAreJoined) {
  const Tensor a = x({32, 16, 1, 1}, 2), b = x({48, 16, 3, 3}, 3), c = x({16, 80, 1, 1}, 4);
  const auto fire = [&](const Tensors& in) -> Tensors {
    const Tensor both = concat({relu(conv2d(in[0], a)), relu(conv2d(in[0], b, {}, {.pad = {1, 1, 1, 1}}))}, 1);
    return {relu(conv2d(both, c))};
  };
  EXPECT_EQ(reduction_tasks(fire, {x({1, 16, 9, 11})}), 0);
  EXPECT_EQ(reduction_tasks(fire, {x({2, 16, 9, 11})}), 1);  // the images of both lie apart

  const Tensor tail = x({40, 16, 1, 1}, 5), after = x({16, 88, 1, 1}, 6);
  const auto with_tail = [&](const Tensors& in) -> Tensors {
    return {conv2d(concat({conv2d(in[0], tail), conv2d(in[0], b, {}, {.pad = {1, 1, 1, 1}})}, 1), after)};
  };
  EXPECT_EQ(reduction_tasks(with_tail, {x({1, 16, 9, 11})}), 1);  // 8 of its channels' places are not the next one's
}

/// Layers that add channels to all that come before; what was joined is read later too.
TEST(MemoryPlan, WhatIsJoinedAgain) {
  const Tensor first = x({16, 16, 1, 1}, 2), second = x({16, 32, 3, 3}, 3), third = x({16, 48, 1, 1}, 4);
  const auto dense = [&](const Tensors& in) -> Tensors {
    const Tensor a = conv2d(in[0], first), b = conv2d(a, first), one = concat({a, b}, 1),
                 two = concat({one, relu(conv2d(one, second, {}, {.pad = {1, 1, 1, 1}}))}, 1);
    return {conv2d(two, third) + conv2d(one, second, {}, {.pad = {1, 1, 1, 1}}) + conv2d(b, first) + a};
  };
  EXPECT_EQ(reduction_tasks(dense, {x({1, 16, 8, 8})}), 0);
}

TEST(MemoryPlan, WhatCannotStandThere) {
  const auto make = [](const Tensor& in) { return exp(in * Tensor::full({DType::f32, {}}, 0.5)); };
  EXPECT_EQ(reduction_tasks([&](const Tensors& in) -> Tensors { return {exp(concat({make(in[0]), make(in[1])}, 0))}; },
                            {x({3, 32}), x({5, 32}, 2)}),
            0);
  EXPECT_EQ(reduction_tasks([&](const Tensors& in) -> Tensors { return {exp(concat({make(in[0]), make(in[1])}, 1))}; },
                            {x({3, 32}), x({3, 32}, 2)}),
            1);
  // The graph's own inputs; the same value twice, and in two places; one that begins within a line of the cache.
  EXPECT_EQ(reduction_tasks([&](const Tensors& in) -> Tensors { return {exp(concat({make(in[0]), in[0]}, 0))}; },
                            {x({3, 32})}),
            1);
  EXPECT_EQ(reduction_tasks(
                [&](const Tensors& in) -> Tensors {
                  const Tensor a = make(in[0]);
                  return {exp(concat({a, a}, 0))};
                },
                {x({3, 32})}),
            1);
  EXPECT_EQ(reduction_tasks(
                [&](const Tensors& in) -> Tensors {
                  const Tensor a = make(in[0]), b = make(in[1]);
                  return {exp(concat({a, b}, 0)), exp(concat({b, a}, 0)), a};
                },
                {x({3, 32}), x({5, 32}, 2)}),
            2);  // a is a result, with a place of its own
  EXPECT_EQ(reduction_tasks([&](const Tensors& in) -> Tensors { return {exp(concat({make(in[0]), make(in[1])}, 0))}; },
                            {x({3, 5}), x({5, 5}, 2)}),
            1);
  // What is joined is a result itself.
  EXPECT_EQ(reduction_tasks([&](const Tensors& in) -> Tensors { return {concat({make(in[0]), make(in[1])}, 0)}; },
                            {x({3, 32}), x({5, 32}, 2)}),
            1);
}

/// A value that dies there may have given its memory away: what is joined keeps it until its last reader.
TEST(MemoryPlan, JoinedMemoryIsNotTakenOver) {
  const auto net = [](const Tensors& in) -> Tensors {
    const Tensor a = exp(in[0]), b = exp(in[1]), both = concat({a, b}, 0), c = relu(a),
                 d = c * c;  // d may overwrite c, not a
    return {exp(both) + Tensor::full({DType::f32, {}}, 1.0), exp(d)};
  };
  EXPECT_EQ(reduction_tasks(net, {x({4, 64}), x({4, 64}, 2)}), 0);
}

/// Two weights, the second of which may be large, and an optimizer's steps.
struct Net {
  Tensor first, second;
  explicit Net(std::int64_t wide) : first(x({256, 512}, 2)), second(x({512, wide}, 3)) {}
  void parts(Parts& p) { p("first", first)("second", second); }
};
enum class Asked : std::uint8_t { nothing, old_weight, checked_data };

/// The ops of a step, in order; what it makes is what the graph says.
std::string order_of_step(std::int64_t wide, Asked asked) {
  const auto run = [&](bool interpret, bool good, std::string& order) {
    Net net(wide);
    SGD sgd(named_parameters(net), {.lr = 0.01, .momentum = 0.9});
    const auto step = [&](const Tensors& in) -> Tensors {
      Tensors out{matmul(relu(matmul(in[0], net.first)), net.second)};
      if (asked == Asked::old_weight) out.push_back(reshape(net.second, {wide, 512}));
      sgd.step(gradients(Tensors{out[0]}, Tensors{net.first, net.second}));
      if (asked == Asked::checked_data) out.push_back(one_hot(in[1], 4));
      return out;
    };
    const Tensors in{x({8, 256}, 4), Tensor::from({2}, std::vector<std::int64_t>{good ? 1 : 9, 3})};
    const Plan planned = plan(step, op_table::types_of(in), {.training = true, .interpret = interpret});
    order = "";
    for (const PlanRow& row : planned.rows())
      if (!row.op.empty() && row.where != "lr") order += text(order.empty() ? "" : ", ", row.op);
    Tensors out;
    for (int replay = 0; replay < 2; ++replay)
      if (good)
        out = planned(in);
      else
        EXPECT_THROW(planned(in), Error);
    out.push_back(net.first), out.push_back(net.second);
    return out;
  };
  std::string order, other;
  const Tensors got = run(false, true, order);
  EXPECT_EQ(op_table::difference(run(true, true, other), got, 2e-5), "");
  if (asked == Asked::checked_data) {
    const Net before(wide);
    EXPECT_EQ(op_table::difference({before.first, before.second}, run(false, false, other), 0), "")
        << "a step whose data are at fault changes nothing";
  }
  return order;
}

/// Before the other gradient is made, whose memory may then be its own; not where something later reads the old weight
/// or checks data.
TEST(MemoryPlan, ALargeWeightIsSteppedAtOnce) {
  const std::string forward = "matmul+relu, matmul, matmul+relu_grad, ";
  EXPECT_EQ(order_of_step(8192, Asked::nothing), forward + "matmul, sgd_step, matmul, add, sgd_step");
  EXPECT_EQ(order_of_step(64, Asked::nothing), forward + "matmul, matmul, add, sgd_step, sgd_step");
  EXPECT_EQ(order_of_step(8192, Asked::old_weight), forward + "matmul, matmul, add, sgd_step, sgd_step");
  EXPECT_EQ(order_of_step(8192, Asked::checked_data), forward + "matmul, matmul, add, sgd_step, sgd_step, one_hot");
}

/// Whatever calls ask for, what is a thread's own stands where it stood, but for the largest.
TEST(MemoryPlan, AThreadsOwnMemoryStandsInOnePlace) {
  const auto task = [](std::size_t own, int places) {
    Task asking;
    asking.launch.workspace = own, asking.launch.max_concurrency = places;
    return asking;
  };
  constexpr std::size_t kLarge = std::size_t{3} << 20;
  Program program;
  program.tasks = {task(100, 2), task(5000, 3), task(kLarge, 2), task(0, 0)};
  plan_memory(program);
  const auto& tasks = program.tasks;
  EXPECT_GE(tasks[0].workspace_step, 5000u);
  EXPECT_EQ(tasks[0].workspace_step, tasks[1].workspace_step);
  EXPECT_EQ(tasks[0].workspace_offset, tasks[1].workspace_offset);
  EXPECT_EQ(tasks[2].workspace_step, kLarge);
  const std::size_t all = 3 * tasks[1].workspace_step;
  EXPECT_TRUE(tasks[2].workspace_offset >= tasks[1].workspace_offset + all ||
              tasks[1].workspace_offset >= tasks[2].workspace_offset + 2 * kLarge);
  EXPECT_EQ(program.arena_bytes, all + 2 * kLarge);
}

TEST(MemoryPlan, PartsGetTheMemoryOfTheirThread) {
  static constexpr int kParts = 40;
  struct Seen {
    std::array<std::atomic<int>, 2> running{};
    std::array<void*, kParts> own{};
  } seen;
  const Launch launch{[](const void* self, const Args& args, int part) noexcept {
                        Seen& all = *static_cast<Seen*>(const_cast<void*>(self));
                        const std::size_t thread = *static_cast<const std::uint8_t*>(args.workspace);
                        EXPECT_EQ(++all.running[thread], 1);  // nobody else writes there
                        all.own[part] = args.workspace;
                        std::this_thread::yield();
                        --all.running[thread];
                      },
                      std::shared_ptr<const void>(std::shared_ptr<void>(), &seen),
                      kParts,
                      0,
                      2,
                      8};
  std::array<std::uint8_t, 200> memory{};
  memory[64] = 1;
  ThreadPool pool(3);  // more than there are places
  void* pointers[] = {nullptr, memory.data()};
  const Call call{launch, 0, 0, 0, false, 64};
  std::uint32_t status = 0;
  run_on_cpu(pool, {&call, 1}, pointers, &status);
  for (void* const own : seen.own) EXPECT_TRUE(own == memory.data() || own == memory.data() + 64);
}

}  // namespace
}  // namespace neurim
