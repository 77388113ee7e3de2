#include "neurim/core/cpu_device.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <thread>

#include "neurim/base/error.h"
#include "neurim/base/thread_pool.h"

namespace neurim {

namespace {

// From this size on memory comes in huge pages straight from the system: a first touch costs one fault in 2 MiB instead
// of one in 4 KiB.
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t rounded(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

/// An empty tensor's host pointer may be null, which memcpy refuses even for no bytes.
void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memmove(to, from, bytes);
}

class CpuStream final : public Stream {
 public:
  void upload(void* device, const void* host, std::size_t bytes) override { copy_bytes(device, host, bytes); }
  void download(void* host, const void* device, std::size_t bytes) override { copy_bytes(host, device, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override { copy_bytes(to, from, bytes); }
  void run(std::span<const Call> calls, void* const* pointers, std::uint32_t* status) override {
    if (!pool_ || pool_->threads() != threads()) pool_ = compute_pool();
    run_on_cpu(*pool_, calls, pointers, status);
  }
  void wait() override {}

 private:
  std::shared_ptr<ThreadPool> pool_;
};

class CpuDriver final : public DeviceDriver {
 public:
  std::string_view name() const override { return "cpu"; }

  void* allocate(std::size_t bytes, int) override {
    void* memory = nullptr;
    if (bytes >= kHugePage) {
      memory = std::aligned_alloc(kHugePage, rounded(bytes, kHugePage));
      if (memory) ::madvise(memory, rounded(bytes, kHugePage), MADV_HUGEPAGE);
    } else {
      memory = std::aligned_alloc(64, rounded(bytes, 64));
    }
    if (!memory) fail(Fault::resource, "out of memory: ", bytes, " bytes could not be allocated");
    return memory;
  }

  void release(void* memory, std::size_t, int) override { std::free(memory); }
  std::unique_ptr<Stream> stream(int) override { return std::make_unique<CpuStream>(); }
};

/// CPUs that the process may use: affinity, and the cgroup's quota rounded up.
int allowed_cpus() {
  cpu_set_t set;
  int cpus = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                           : static_cast<int>(std::thread::hardware_concurrency());
  std::ifstream quota("/sys/fs/cgroup/cpu.max");
  std::string most;
  double period = 0;
  if (quota >> most >> period && most != "max" && period > 0)
    cpus = std::min(cpus, static_cast<int>(std::ceil(std::atof(most.c_str()) / period)));
  return std::max(cpus, 1);
}

std::atomic<int> wanted_threads{0};

}  // namespace

std::unique_ptr<DeviceDriver> make_cpu_driver() { return std::make_unique<CpuDriver>(); }

void run_on_cpu(ThreadPool& pool, std::span<const Call> calls, void* const* pointers, std::uint32_t* status) {
  const FlushDenormals flush;
  struct alignas(64) Running {
    Args args;
    const Launch* launch;
    std::size_t workspace_step;
    int first = 0;  ///< task

    static void run(void* context, int task, int thread) {
      const Running& own = *static_cast<const Running*>(context);
      Args args = own.args;
      args.workspace = static_cast<char*>(args.workspace) + static_cast<std::size_t>(thread) * own.workspace_step;
      own.launch->run(own.launch->self.get(), args, own.first + task);
    }
  };
  for (const Call& call : calls) {
    if (call.commits && *status) continue;
    void* const* first = pointers + call.first;
    const Launch& launch = call.launch;
    void* const* const memory = first + call.in + call.out;
    Running running{{.in = {first, call.in},
                     .out = {first + call.in, call.out},
                     .scratch = memory[0],
                     .workspace = memory[1],
                     .status = status},
                    &launch,
                    call.workspace_step};
    const int most = launch.max_concurrency ? launch.max_concurrency : ThreadPool::kMost;
    pool.run(launch.tasks, Running::run, &running, most);
    running.first = launch.tasks;
    pool.run(launch.reduction_tasks, Running::run, &running, most);
  }
}

void set_threads(std::int64_t threads) {
  require(threads >= 1 && threads <= ThreadPool::kMost, "threads is ", threads, "; it is 1 to ", ThreadPool::kMost);
  wanted_threads = static_cast<int>(threads);
}

int threads() {
  static const int allowed = allowed_cpus();
  const int wanted = wanted_threads;
  return wanted ? wanted : allowed;
}

std::shared_ptr<ThreadPool> compute_pool() {
  static std::mutex mutex;
  static auto& pool = *new std::shared_ptr<ThreadPool>;
  const std::lock_guard lock(mutex);
  if (!pool || pool->threads() != threads()) pool = std::make_shared<ThreadPool>(threads());
  return pool;
}

}  // namespace neurim
