#include "neurim/base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <system_error>

#include "neurim/base/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace neurim {

namespace {

#if defined(__x86_64__)
void pause() { _mm_pause(); }
#else
void pause() { std::this_thread::yield(); }
#endif

constexpr int kSpins = 4000;  // about 100 µs: longer than the gap between two steps of a plan

}  // namespace

#if defined(__x86_64__)
FlushDenormals::FlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040); }
FlushDenormals::~FlushDenormals() { _mm_setcsr(saved_); }
#else
FlushDenormals::FlushDenormals() : saved_(0) {}
FlushDenormals::~FlushDenormals() = default;
#endif

ThreadPool::ThreadPool(int threads) : shares_(static_cast<std::size_t>(std::clamp(threads, 1, kMost))) {
  require(threads >= 1 && threads <= kMost, "threads is ", threads, "; it is 1 to ", kMost);
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& error) {
    const std::size_t started = workers_.size() + 1;
    end();
    fail(Fault::resource, "threads: the system gives ", started, " of ", threads, " (", error.what(),
         "); use fewer");
  }
}

ThreadPool::~ThreadPool() { end(); }

void ThreadPool::end() {
  stop_.store(true, std::memory_order_relaxed);
  job_.fetch_add(1, std::memory_order_release);
  job_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(int parts, Body body, void* context, int most) {
  count_ = std::min(threads(), most);
  if (parts <= 1 || count_ <= 1) {
    for (int part = 0; part < parts; ++part) body(context, part, 0);
    return;
  }
  body_ = body, context_ = context;
  const std::int64_t count = count_;
  for (std::int64_t thread = 0; thread < count; ++thread) {
    Share& share = shares_[static_cast<std::size_t>(thread)];
    share.next.store(static_cast<int>(parts * thread / count), std::memory_order_relaxed);
    share.end = static_cast<int>(parts * (thread + 1) / count);
  }
  shares_[0].cpu.store(::sched_getcpu(), std::memory_order_relaxed);
  busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  job_.fetch_add(1, std::memory_order_release);
  job_.notify_all();
  take_parts(0);
  for (int spin = 0; busy_.load(std::memory_order_acquire) != 0; ++spin) {
    if (spin < kSpins) pause();
    else std::this_thread::yield();  // a worker has lost its core to somebody: do not keep this one from it
  }
}

void ThreadPool::take_parts(int thread) {
  for (int i = 0; i < count_; ++i) {
    Share& share = shares_[static_cast<std::size_t>((thread + i) % count_)];
    while (share.next.load(std::memory_order_relaxed) < share.end)
      if (const int part = share.next.fetch_add(1, std::memory_order_relaxed); part < share.end) body_(context_, part, thread);
  }
}

/// A kernel may wake a thread where the one that woke it runs, and leave them there while other CPUs are idle; virtual machines do so
/// to save CPUs. The worker is kept from those CPUs for a moment, which moves it, and may then be anywhere again.
void ThreadPool::find_own_cpu(int thread) {
  Share& own = shares_[static_cast<std::size_t>(thread)];
  const int cpu = ::sched_getcpu();
  own.cpu.store(cpu, std::memory_order_relaxed);
  const auto taken = [&](const Share& other) { return &other != &own && other.cpu.load(std::memory_order_relaxed) == cpu; };
  if (std::none_of(shares_.begin(), shares_.end(), taken)) return;
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t left = allowed;
  for (const Share& share : shares_)
    if (const int other = share.cpu.load(std::memory_order_relaxed); other >= 0 && other < CPU_SETSIZE) CPU_CLR(other, &left);
  if (CPU_COUNT(&left) == 0 || ::sched_setaffinity(0, sizeof left, &left) != 0) return;
  own.cpu.store(::sched_getcpu(), std::memory_order_relaxed);
  ::sched_setaffinity(0, sizeof allowed, &allowed);
}

void ThreadPool::work(int thread) {
  FlushDenormals flush;
  std::uint32_t seen = 0;
  while (true) {
    for (int spin = 0; spin < kSpins && job_.load(std::memory_order_acquire) == seen; ++spin) pause();
    job_.wait(seen, std::memory_order_acquire);
    seen = job_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_relaxed)) return;
    find_own_cpu(thread);
    if (thread < count_) take_parts(thread);
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace neurim
