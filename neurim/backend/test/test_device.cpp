#include "neurim/backend/test/test_device.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "neurim/backend/reference/view.h"
#include "neurim/base/error.h"
#include "neurim/core/cpu_device.h"

namespace neurim {

namespace {

constexpr std::size_t kCapacity = std::size_t{4} << 30;  // address space; pages come as they are written
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPage = 4096;
constexpr int kUnwritten = 0xff;

std::size_t rounded_down(std::size_t bytes, std::size_t unit) { return bytes / unit * unit; }
std::size_t rounded_up(std::size_t bytes, std::size_t unit) { return rounded_down(bytes + unit - 1, unit); }

/// The memory of one device: a file mapped twice, without any access for the host and with full access for
/// the streams.
class Memory {
 public:
  Memory() : file_(::memfd_create("neurim test device", MFD_CLOEXEC)) {
    if (file_ < 0 || ::ftruncate(file_, kCapacity) != 0)
      fail(Fault::resource, "test device: its memory cannot be made");
    device_ = map(PROT_NONE);
    seen_ = map(PROT_READ | PROT_WRITE);
  }
  ~Memory() {
    ::munmap(device_, kCapacity);
    ::munmap(seen_, kCapacity);
    ::close(file_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* allocate(std::size_t bytes) {
    const std::size_t size = rounded_up(bytes, kAlignment);
    const std::lock_guard lock(mutex_);
    const auto hole = std::find_if(free_.begin(), free_.end(), [&](const auto& piece) { return piece.second >= size; });
    if (hole == free_.end())
      fail(Fault::resource, "test device: out of memory: ", bytes, " bytes could not be allocated");
    const auto [offset, room] = *hole;
    free_.erase(hole);
    if (room > size) free_.emplace(offset + size, room - size);
    live_.emplace(offset, bytes);
    std::memset(seen_ + offset, kUnwritten, size);
    return device_ + offset;
  }

  void release(void* memory, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t offset = offset_of(memory), size = rounded_up(bytes, kAlignment);
    const auto block = live_.find(offset);
    NEURIM_ASSERT(block != live_.end() && block->second == bytes);
    live_.erase(block);
    give_back_pages(offset, offset + size);
    const auto at = free_.emplace(offset, size).first;
    if (const auto next = std::next(at); next != free_.end()) join(at, next);
    if (at != free_.begin()) join(std::prev(at), at);
  }

  /// Where streams see this device memory; throws Error(failure) unless all of it lies in one live block.
  std::byte* at(const void* pointer, std::size_t bytes = 1) {
    const std::lock_guard lock(mutex_);
    const std::size_t offset = offset_of(pointer);
    const auto after = live_.upper_bound(offset);
    if (after != live_.begin()) {
      const auto& [begin, size] = *std::prev(after);
      if (offset - begin <= size && bytes <= size - (offset - begin)) return seen_ + offset;
    }
    fail(Fault::failure, "test device: ", bytes, " bytes at offset ", static_cast<std::ptrdiff_t>(offset),
         " of its memory are not allocated: host memory or another device's, or released too early");
  }

 private:
  using Pieces = std::map<std::size_t, std::size_t>;  // offset -> bytes

  std::byte* map(int access) const {
    void* range = ::mmap(nullptr, kCapacity, access, MAP_SHARED | MAP_NORESERVE, file_, 0);
    if (range == MAP_FAILED) fail(Fault::resource, "test device: its memory cannot be mapped");
    return static_cast<std::byte*>(range);
  }

  /// Anything outside the range gives an offset outside every block.
  std::size_t offset_of(const void* pointer) const {
    return reinterpret_cast<std::uintptr_t>(pointer) - reinterpret_cast<std::uintptr_t>(device_);
  }

  void give_back_pages(std::size_t begin, std::size_t end) const {
    begin = rounded_up(begin, kPage), end = rounded_down(end, kPage);
    if (begin < end) ::madvise(seen_ + begin, end - begin, MADV_REMOVE);
  }

  void join(Pieces::iterator piece, Pieces::iterator next) {
    if (piece->first + piece->second != next->first) return;
    piece->second += next->second;
    free_.erase(next);
  }

  int file_;
  std::byte *device_ = nullptr, *seen_ = nullptr;  // one file: what the host is given, and what streams use
  std::mutex mutex_;
  Pieces free_{{0, kCapacity}}, live_;
};

std::atomic<int> holds{0};

class TestStream final : public Stream {
 public:
  explicit TestStream(Memory& memory) : memory_(memory), worker_([this] { work(); }) {}
  ~TestStream() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    worker_.join();
  }

  void upload(void* device, const void* host, std::size_t bytes) override {
    enqueue([=, this] { std::memcpy(memory_.at(device, bytes), host, bytes); });
  }
  void download(void* host, const void* device, std::size_t bytes) override {
    enqueue([=, this] { std::memcpy(host, memory_.at(device, bytes), bytes); });
  }
  void copy(void* to, const void* from, std::size_t bytes) override {
    enqueue([=, this] { std::memmove(memory_.at(to, bytes), memory_.at(from, bytes), bytes); });
  }
  void run(std::span<const Call> calls, void* const* pointers, std::uint32_t* status) override {
    enqueue([=, this] { execute(calls, pointers, status); });
  }
  void wait() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return queue_.empty(); });
    if (const auto fault = std::exchange(fault_, nullptr)) std::rethrow_exception(fault);
  }

 private:
  void enqueue(std::function<void()> piece) {
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back(std::move(piece));
    }
    changed_.notify_all();
  }

  /// The worker. A piece stays in the queue until it is done, so that an empty queue means that all is done.
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      const std::function<void()>& piece = queue_.front();
      std::exception_ptr fault = fault_;
      lock.unlock();
      while (const int held = holds) holds.wait(held);
      try {
        if (!fault) piece();
      } catch (const Error&) {
        fault = std::current_exception();
      }
      lock.lock();
      fault_ = fault;
      queue_.pop_front();
      changed_.notify_all();
    }
  }

  void execute(std::span<const Call> calls, void* const* pointers, std::uint32_t* status) {
    for (const Call& call : calls) {
      const std::size_t end = call.first + call.in + call.out + std::size_t{2};
      if (seen_.size() < end) seen_.resize(end);
      for (std::size_t i = call.first; i < end; ++i) {
        const bool no_memory = i + 2 >= end && !pointers[i];
        seen_[i] = no_memory ? nullptr : memory_.at(pointers[i]);
      }
    }
    run_on_cpu(*compute_pool(), calls, seen_.data(), status);
  }

  Memory& memory_;
  std::vector<void*> seen_;  // the pointer table in the worker's addresses
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::exception_ptr fault_;
  bool stop_ = false;
  std::thread worker_;  // last: it uses all of the above
};

class TestDriver final : public DeviceDriver {
 public:
  std::string_view name() const override { return "test"; }
  void* allocate(std::size_t bytes, int index) override { return memory(index).allocate(bytes); }
  void release(void* block, std::size_t bytes, int index) override { memory(index).release(block, bytes); }
  std::unique_ptr<Stream> stream(int index) override { return std::make_unique<TestStream>(memory(index)); }

 private:
  Memory& memory(int index) {
    const std::lock_guard lock(mutex_);
    return memories_[index];
  }

  std::mutex mutex_;
  std::map<int, Memory> memories_;
};

}  // namespace

std::uint8_t register_test_device() {
  static const std::uint8_t kind = [] {
    const std::uint8_t added = register_driver(std::make_unique<TestDriver>());
    add_reference_kernels_for(added);
    return added;
  }();
  return kind;
}

TestDeviceHold::TestDeviceHold() { ++holds; }
TestDeviceHold::~TestDeviceHold() { release(); }
void TestDeviceHold::release() {
  if (!std::exchange(held_, false)) return;
  --holds;
  holds.notify_all();
}

}  // namespace neurim
