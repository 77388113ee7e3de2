// The threads that compute. Work is cut into logical parts; which thread runs a part never changes a result.
#pragma once
#include <atomic>
#include <cstdint>
#include <exception>
#include <thread>
#include <type_traits>
#include <vector>

namespace neurim {

/// A fork-join pool. `run` may be called from any thread, which works too; where another one drives the workers
/// already, the caller does all parts itself. It allocates nothing and takes no lock. Every thread begins with the same
/// share of the parts each time, so that what it has made is in its own cache, and then helps the others. Workers spin
/// briefly for the next job and then sleep; one that wakes on the CPU of another thread of the pool, where the two
/// would take turns, goes to one that has none, if it may. Denormals are flushed to zero in every worker. A forked
/// process starts workers of its own with its first job.
class ThreadPool {
 public:
  using Body = void (*)(void* context, int task, int thread);

  static constexpr int kMost = 1024;

  /// `threads`, 1 to kMost, counts the caller of run. Throws Error(resource) when the system gives fewer.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(context, part, thread) once for each part in [0, parts), on any of the first `most` threads, whose
  /// number it is told; returns when all are done.
  void run(int tasks, Body body, void* context, int most = kMost);

  /// The same of anything that is called with a part, and with the thread if it takes that too. What a part throws, of
  /// several parts any one of it, is thrown again when all are done.
  template <class F>
  void each(int tasks, F&& body, int most = kMost) {
    struct Guarded {
      std::remove_reference_t<F>& body;
      std::atomic<bool> failed{false};
      std::exception_ptr error;
    } guarded{body};
    run(
        tasks,
        [](void* context, int task, int thread) {
          Guarded& own = *static_cast<Guarded*>(context);
          try {
            if constexpr (std::is_invocable_v<F&, int, int>)
              own.body(task, thread);
            else
              own.body(task);
          } catch (...) {
            if (!own.failed.exchange(true)) own.error = std::current_exception();
          }
        },
        &guarded, most);
    if (guarded.error) std::rethrow_exception(guarded.error);
  }

 private:
  /// What run() says, in one line of the caches, which is all that a worker waits for before it begins.
  struct alignas(64) Job {
    std::atomic<std::uint32_t> number{0};  ///< counts jobs; workers wait for it to change
    int tasks = 0, count = 0;              ///< of threads that take parts
    int cpu = -1;                          ///< of the caller
    bool stop = false;
    Body body = nullptr;
    void* context = nullptr;
  };

  /// What a thread says. Lines that others write are moved from cache to cache, up to a microsecond for each job, so
  /// they seldom do.
  struct Worker {
    alignas(64) std::atomic<std::uint64_t> taken{
        0};                    ///< the last job that anybody began here, and how many of the thread's parts in it
    std::atomic<int> cpu{-1};  ///< on which it was when it began with a job, where that has changed
    alignas(64) std::atomic<std::uint32_t> done{0};  ///< the last job that the thread has left
  };

  void start(int threads);
  void end();
  void abandon();
  void follow_fork();
  void post();
  void work(int thread);
  void begin(int thread, std::uint32_t job);
  void take_tasks(int thread, std::uint32_t job);
  bool drive();
  static bool ends_soon(const Worker& worker, std::uint32_t job);
  void find_own_cpu(int thread);

  std::atomic<unsigned> driver_{0};  ///< 0: nobody; else 1 + forks() of the process whose thread drives the workers
  Job job_;
  std::vector<Worker> states_;  ///< of all threads, the caller of run first
  std::vector<std::thread> workers_;
  unsigned forks_ = 0;  ///< before the workers were started
};

/// Treats denormal numbers as zero in the calling thread for a scope (x86: FTZ and DAZ).
class FlushDenormals {
 public:
  FlushDenormals();
  ~FlushDenormals();

 private:
  unsigned saved_;
};

}  // namespace neurim
