// A process that is forked off one that has computed: its memory is the parent's, the parent's threads are not there.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "neurim/base/thread_pool.h"
#include "neurim/compile/plan.h"
#include "neurim/core/device.h"
#include "neurim/ops/conv.h"
#include "tests/ask_group.h"
#include "tests/in_child.h"

namespace neurim {
namespace {

TEST(Fork, AChildRunsItsParentsPlans) {
  set_threads(3);
  const Tensor x = op_table::uniform({4, 32, 28, 28}, -1, 1, 1), weight = op_table::uniform({32, 32, 3, 3}, -1, 1, 2);
  const Plan planned = plan(
      [&](const Tensors& in) -> Tensors { return {conv2d(in[0], weight, {}, {.pad = {1, 1, 1, 1}})}; },
      op_table::types_of({x}));
  const std::vector<float> expected = planned({x})[0].values<float>();
  const auto same = [&] { return planned({x})[0].values<float>() == expected; };
  EXPECT_EQ(in_child(same), 0);
  EXPECT_EQ(in_child([&] { return same() && in_child(same) == 0; }), 0) << "a child of a child";
  EXPECT_EQ(in_child([&] {
              if (same()) std::exit(0);
              return false;
            }),
            0)
      << "a child that ends as programs do, its pool too";
  EXPECT_TRUE(same()) << "the parent";
}

TEST(Fork, PoolsOfTheParentAreLeftAloneWhereTheyEnd) {
  ThreadPool pool(3);
  std::atomic<int> parts{0};
  pool.each(64, [&](int) { ++parts; });
  EXPECT_EQ(parts, 64);
  EXPECT_EQ(in_child([&] {
              auto inherited = std::make_unique<ThreadPool>(2);
              parts = 0;
              pool.each(64, [&](int) { ++parts; });
              return parts == 64 && pool.threads() == 3;
            }),
            0);
}

}  // namespace
}  // namespace neurim
