#include "neurim/base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <system_error>

#include "neurim/base/error.h"
#include "neurim/base/fork.h"

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
constexpr int kBrief = 40;    // about 1 µs: longer than it takes two lines to go from cache to cache

}  // namespace

#if defined(__x86_64__)
FlushDenormals::FlushDenormals() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040); }
FlushDenormals::~FlushDenormals() { _mm_setcsr(saved_); }
#else
FlushDenormals::FlushDenormals() : saved_(0) {}
FlushDenormals::~FlushDenormals() = default;
#endif

ThreadPool::ThreadPool(int threads) {
  require(threads >= 1 && threads <= kMost, "threads is ", threads, "; it is 1 to ", kMost);
  start(threads);
}

void ThreadPool::start(int threads) {
  states_ = std::vector<Worker>(static_cast<std::size_t>(threads));
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& error) {
    const std::size_t started = workers_.size() + 1;
    end();
    workers_.clear();
    job_.stop = false;
    fail(Fault::resource, "threads: the system gives ", started, " of ", threads, " (", error.what(), "); use fewer");
  }
  forks_ = forks();
}

ThreadPool::~ThreadPool() {
  if (forks_ == forks())
    end();
  else
    abandon();
}

void ThreadPool::end() {
  job_.stop = true;
  post();
  for (std::thread& worker : workers_) worker.join();
}

/// Forgets workers of a process that this one has been forked off: they cannot be joined.
void ThreadPool::abandon() {
  new std::vector<std::thread>(std::move(workers_));
  workers_.clear();
}

/// Starts workers in a process that has been forked off since there are any.
void ThreadPool::follow_fork() {
  if (forks_ == forks()) return;
  const int before = threads();
  abandon();
  job_.number = 0;
  start(before);
}

/// Has the workers begin with what job_ says.
void ThreadPool::post() {
  job_.number.fetch_add(1, std::memory_order_seq_cst);
  job_.number.notify_all();
}

void ThreadPool::run(int tasks, Body body, void* context, int most) {
  const int count = std::min(threads(), most);
  if (tasks <= 1 || count <= 1 || !drive()) {
    for (int task = 0; task < tasks; ++task) body(context, task, 0);
    return;
  }
  follow_fork();
  job_.tasks = tasks, job_.count = count, job_.body = body, job_.context = context, job_.cpu = ::sched_getcpu();
  post();
  const std::uint32_t job = job_.number.load(std::memory_order_relaxed);
  begin(0, job);
  take_tasks(0, job);
  for (std::size_t worker = 1; worker < states_.size(); ++worker)
    for (int spin = 0; states_[worker].done.load(std::memory_order_acquire) != job; ++spin) {
      if (spin < kSpins)
        pause();
      else
        std::this_thread::yield();  // a worker has lost its core to somebody: do not keep this one from it
    }
  driver_.store(0, std::memory_order_release);
}

/// Whether the caller may give the workers a job; it ends with driver_ = 0. A thread that drove them before a fork is
/// not here any more.
bool ThreadPool::drive() {
  const unsigned own = forks() + 1;
  unsigned before = driver_.load(std::memory_order_relaxed);
  return before != own && driver_.compare_exchange_strong(before, own, std::memory_order_acquire);
}

/// No part of the thread is taken in this job, unless somebody was faster. Each thread does so in each job, which makes
/// numbers of jobs safe to begin again from 0.
void ThreadPool::begin(int thread, std::uint32_t job) {
  std::atomic<std::uint64_t>& taken = states_[thread].taken;
  std::uint64_t before = taken.load(std::memory_order_relaxed);
  if (before >> 32 != job) taken.compare_exchange_strong(before, std::uint64_t{job} << 32, std::memory_order_relaxed);
}

bool ThreadPool::ends_soon(const Worker& worker, std::uint32_t job) {
  for (int spin = 0; spin < kBrief; ++spin, pause())
    if (worker.done.load(std::memory_order_acquire) == job) return true;
  return false;
}

void ThreadPool::take_tasks(int thread, std::uint32_t job) {
  const std::int64_t tasks = job_.tasks, count = job_.count;
  // A thread that is awake has begun with its only part. The caller alone looks whether it is, after a while.
  const bool one_each = tasks <= count;
  for (std::int64_t i = 0; i < (one_each && thread > 0 ? 1 : count); ++i) {
    const std::int64_t owner = (thread + i) % count, first = tasks * owner / count,
                       share = tasks * (owner + 1) / count - first;
    Worker& worker = states_[owner];
    if (one_each && i > 0 && ends_soon(worker, job)) continue;
    std::atomic<std::uint64_t>& taken = worker.taken;
    for (std::uint64_t before = taken.load(std::memory_order_relaxed);;) {
      const std::int64_t own = before >> 32 == job ? static_cast<std::int64_t>(before & 0xffffffff) : 0;
      if (own >= share) break;
      if (!taken.compare_exchange_weak(before, std::uint64_t{job} << 32 | static_cast<std::uint64_t>(own + 1),
                                       std::memory_order_relaxed))
        continue;
      job_.body(job_.context, static_cast<int>(first + own), thread);
      before = taken.load(std::memory_order_relaxed);
    }
  }
}

/// A kernel may wake a thread where the one that woke it runs, and leave them there while other CPUs are idle; virtual
/// machines do so to save CPUs. The worker is kept from those CPUs for a moment, which moves it, and may then be
/// anywhere again. Of two that meet one has moved, or met the caller.
void ThreadPool::find_own_cpu(int thread) {
  Worker& own = states_[thread];
  const int cpu = ::sched_getcpu();
  if (cpu == own.cpu.load(std::memory_order_relaxed) && cpu != job_.cpu) return;
  own.cpu.store(cpu, std::memory_order_relaxed);
  const auto taken = [&](const Worker& other) {
    return &other != &own && other.cpu.load(std::memory_order_relaxed) == cpu;
  };
  if (cpu != job_.cpu && std::none_of(states_.begin(), states_.end(), taken)) return;
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t left = allowed;
  const auto leave = [&](int other) {
    if (other >= 0 && other < CPU_SETSIZE) CPU_CLR(other, &left);
  };
  leave(job_.cpu);
  for (const Worker& worker : states_) leave(worker.cpu.load(std::memory_order_relaxed));
  if (CPU_COUNT(&left) == 0 || ::sched_setaffinity(0, sizeof left, &left) != 0) return;
  own.cpu.store(::sched_getcpu(), std::memory_order_relaxed);
  ::sched_setaffinity(0, sizeof allowed, &allowed);
}

void ThreadPool::work(int thread) {
  FlushDenormals flush;
  std::uint32_t job = 0;
  while (true) {
    for (int spin = 0; spin < kSpins && job_.number.load(std::memory_order_acquire) == job; ++spin) pause();
    job_.number.wait(job, std::memory_order_acquire);
    job = job_.number.load(std::memory_order_acquire);
    if (job_.stop) return;
    find_own_cpu(thread);
    begin(thread, job);
    if (thread < job_.count) take_tasks(thread, job);
    states_[thread].done.store(job, std::memory_order_release);
  }
}

}  // namespace neurim
