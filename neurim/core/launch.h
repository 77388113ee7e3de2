// A prepared piece of work, and a call of it: what a stream executes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace neurim {

/// The data of one call. Pointers are device pointers. `scratch` is memory of the call's own, `own` of the thread that
/// runs a task, see Launch::workspace; `stream` is the native stream of the device or null; a kernel that meets bad
/// data or a device fault sets bits in
/// `*status` and does not throw.
struct Args {
  std::span<void* const> in, out;
  void *scratch = nullptr, *workspace = nullptr;
  void* stream = nullptr;
  std::uint32_t* status = nullptr;
};

/// Bits of Args::status.
enum Status : std::uint32_t {
  kStatusIndexOutOfRange = 1,  ///< a label or an index outside its range
  kStatusDeviceFault = 2,
  kStatusOutOfMemory = 4,  ///< a library that a kernel calls could not allocate
};

/// A kernel prepared for one request. Its tasks may run at once and on any thread; the cut into tasks is fixed when it
/// is prepared, so that the numbers never depend on the number of threads. A second phase of `joins` tasks, numbered
/// from `tasks` on, begins when all of the first have ended: for reductions across tasks, joined in a fixed order. An
/// empty launch means: not for me.
struct Launch {
  void (*run)(const void* self, const Args& args, int task) noexcept = nullptr;
  std::shared_ptr<const void> self = nullptr;
  int tasks = 1;
  int reduction_tasks = 0;
  int max_concurrency = 0;    ///< tasks that may run at once; 0: any number
  std::size_t workspace = 0;  ///< bytes of Args::workspace, which is the thread's in all calls and so in its cache; of
                              ///< launches with places
  explicit operator bool() const { return run != nullptr; }
  /// Bytes from one thread's own memory to the next one's, whole lines of the caches, and of all.
  std::size_t workspace_step() const { return (workspace + 63) / 64 * 64; }
  std::size_t workspace_bytes() const { return workspace_step() * static_cast<std::size_t>(max_concurrency); }
};

/// One entry of a program: a launch and where its pointers stand in the instance's flat pointer table:
/// `in` inputs from `first` on, then `out` outputs, then the scratch and the first thread's own memory; that of the
/// next ones lies `workspace_step` bytes further each.
struct Call {
  Launch launch;
  std::uint32_t first = 0;
  std::uint16_t in = 0, out = 0;
  bool commits = false;  ///< writes state: skipped once a call before it has set the status, so that a failed step
                         ///< changes nothing
  std::size_t workspace_step = 0;
};

}  // namespace neurim
