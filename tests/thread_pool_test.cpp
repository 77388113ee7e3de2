#include "neurim/base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>

#include "neurim/base/error.h"

namespace neurim {
namespace {

TEST(ThreadPool, CallsEachTaskOnce) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    std::array<std::atomic<int>, 100> calls{};
    for (int round = 0; round < 20; ++round) pool.each(100, [&](int task) { ++calls[task]; });
    for (const auto& count : calls) EXPECT_EQ(count, 20);
  }
}

/// No more threads than are asked for, each with a number of its own among the parts that run at once.
TEST(ThreadPool, FewerThreadsThanThereAre) {
  ThreadPool pool(4);
  for (const int most : {1, 2, 3}) {
    std::array<std::atomic<int>, 4> running{};
    std::atomic<int> calls{0};
    for (int round = 0; round < 20; ++round)
      pool.each(
          30,
          [&](int, int thread) {
            ASSERT_LT(thread, most);
            EXPECT_EQ(++running[thread], 1);
            std::this_thread::yield();
            --running[thread], ++calls;
          },
          most);
    EXPECT_EQ(calls, 20 * 30);
  }
}

/// A part that waits for all others, whosever they are, is waited for by nobody.
TEST(ThreadPool, ThreadsHelpThoseThatAreHeldUp) {
  ThreadPool pool(2);
  for (const int held : {0, 10}) {  // the first part of either
    std::atomic<int> done{0};
    pool.each(20, [&](int task) {
      if (task == held)
        while (done < 19) std::this_thread::yield();
      ++done;
    });
    EXPECT_EQ(done, 20);
  }
}

TEST(ThreadPool, BeginsAgainAfterASleep) {
  ThreadPool pool(3);
  std::atomic<int> done{0};
  for (int round = 1; round <= 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));  // workers spin for about 100 µs
    pool.each(3, [&](int) { ++done; });
    EXPECT_EQ(done, 3 * round);
  }
}

TEST(ThreadPool, ThrowsAgainWhatAPartThrows) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    std::atomic<int> done{0};
    const auto work = [&](int task) {
      if (task % 7 == 3) throw Error(Fault::data, "part");
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

/// The CPUs of two threads in one job, of which each has a part.
std::array<int, 2> cpus_of(ThreadPool& pool, const std::function<void(int task)>& then) {
  std::array<int, 2> cpus{};
  std::atomic<int> arrived{0};
  pool.each(2, [&](int task) {
    cpus[task] = ::sched_getcpu();
    for (++arrived; arrived < 2;) std::this_thread::yield();
    then(task);
  });
  return cpus;
}

/// A worker that is put on the caller's CPU has left it in the next job.
TEST(ThreadPool, WorkersLeaveACpuThatTheyShare) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  if (CPU_COUNT(&allowed) < 2) GTEST_SKIP() << "one CPU";
  constexpr int kRounds = 50;
  int together = 0, apart = 0;
  ThreadPool pool(2);
  for (int round = 0; round < kRounds; ++round) {
    const int cpu = ::sched_getcpu();
    cpus_of(pool, [&](int task) {
      if (task == 0) return;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      ::sched_setaffinity(0, sizeof one, &one);
      together += ::sched_getcpu() == cpu;
      ::sched_setaffinity(0, sizeof allowed, &allowed);
    });
    const auto cpus = cpus_of(pool, [](int) {});
    apart += cpus[0] != cpus[1];
  }
  EXPECT_EQ(together, kRounds);
  EXPECT_GE(apart, kRounds * 4 / 5);
}

}  // namespace
}  // namespace neurim
