#include "neurim/base/fork.h"

#include <pthread.h>

#include <atomic>

namespace neurim {

namespace {

std::atomic<unsigned> count{0};
[[maybe_unused]] const int registered = ::pthread_atfork(nullptr, nullptr, [] { ++count; });

}  // namespace

unsigned forks() { return count.load(std::memory_order_relaxed); }

}  // namespace neurim
