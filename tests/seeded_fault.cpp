// Faults on purpose, which the library is made to commit for a program that no sanitizer is built into, as none is into
// the other tests: a sanitizer has to report them, or its silence about the others says nothing. usage: seeded_fault
// race|overflow|shift
#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "neurim/base/bytes.h"
#include "neurim/base/tfrecord.h"
#include "neurim/base/thread_pool.h"

int main(int argc, char** argv) {
  const std::string_view fault = argc == 2 ? argv[1] : "";
  if (fault == "race") {  // in parts of a job of the pool
    neurim::ThreadPool pool(2);
    std::atomic<int> arrived{0};
    std::string out;
    out.reserve(1000);
    pool.each(2, [&](int) {
      arrived.fetch_add(1, std::memory_order_relaxed);                                // relaxed: orders nothing
      while (arrived.load(std::memory_order_relaxed) < 2) std::this_thread::yield();  // both threads are here at once
      neurim::put_little_endian(out, 1, 4);
    });
  } else if (fault == "overflow") {
    const std::vector<std::byte> bytes(100);
    neurim::crc32c({bytes.data(), 101});
  } else if (fault == "shift") {
    std::string out;
    neurim::put_little_endian(out, 1, 9);
  } else {
    return 2;
  }
}
