// A race on purpose, in parts of a job of the compute pool: the thread sanitizer has to report it, or its
// silence about the other tests says nothing. Built in the preset tsan alone.
#include <atomic>
#include <thread>

#include "neurim/base/thread_pool.h"

int main() {
  neurim::ThreadPool pool(2);
  std::atomic<int> arrived{0};
  int raced = 0;
  pool.each(2, [&](int) {
    arrived.fetch_add(1, std::memory_order_relaxed);  // relaxed: orders nothing
    while (arrived.load(std::memory_order_relaxed) < 2)
      std::this_thread::yield();  // both threads are here at once
    ++raced;
  });
  return raced == 0;
}
