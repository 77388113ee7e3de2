#include "neurim/base/thread_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>

#include "neurim/base/error.h"

namespace neurim {
namespace {

TEST(ThreadPool, CallsEachPartOnce) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    std::array<std::atomic<int>, 100> calls{};
    for (int round = 0; round < 20; ++round) pool.each(100, [&](int part) { ++calls[static_cast<std::size_t>(part)]; });
    for (const auto& count : calls) EXPECT_EQ(count, 20);
  }
}

TEST(ThreadPool, ThrowsAgainWhatAPartThrows) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    std::atomic<int> done{0};
    const auto work = [&](int part) {
      if (part % 7 == 3) throw Error(Fault::data, "part");
      ++done;
    };
    for (int round = 0; round < 20; ++round) {
      done = 0;
      EXPECT_THROW(pool.each(50, work), Error);
      EXPECT_EQ(done, 43);
    }
    EXPECT_NO_THROW(pool.each(3, work));
  }
}

}  // namespace
}  // namespace neurim
