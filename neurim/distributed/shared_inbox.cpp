#include "neurim/distributed/shared_inbox.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "neurim/base/error.h"
#include "neurim/base/text.h"

namespace neurim {

namespace {

constexpr const char* kName = "neurim";
constexpr std::string_view kTarget = "/memfd:neurim";
constexpr std::size_t kLine = 64, kTokenSize = 64;
constexpr std::size_t kRingSize = 1 << 19;  // bytes: two of them stay in a core's cache

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace

/// As it lies in the memory, which begins as zeros.
struct SharedInbox::Memory {
  struct Ring {
    alignas(kLine) std::atomic<std::uint64_t> put;    // bytes since the start
    alignas(kLine) std::atomic<std::uint64_t> taken;  // the same
    alignas(kLine) std::array<std::byte, kRingSize> bytes;
  };
  std::array<char, kTokenSize> token;  // tells this memory from any other
  alignas(kLine) std::atomic<std::uint32_t> rung;
  std::atomic<std::uint32_t> sleepers;

  static std::size_t size_for(int writers) { return sizeof(Memory) + static_cast<std::size_t>(writers) * sizeof(Ring); }
  Ring& ring(int writer) { return reinterpret_cast<Ring*>(this + 1)[writer]; }
};

std::unique_ptr<SharedInbox> SharedInbox::map(int file, std::size_t size) {
  void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    close(file);
    return nullptr;
  }
  return std::unique_ptr<SharedInbox>(new SharedInbox(file, static_cast<Memory*>(memory), size));
}

std::unique_ptr<SharedInbox> SharedInbox::make(int writers) {
  const std::size_t size = Memory::size_for(writers);
  const int file = memfd_create(kName, MFD_CLOEXEC);
  if (file < 0) return nullptr;
  if (posix_fallocate(file, 0, static_cast<off_t>(size)) != 0) {  // memory that is missing later would end the process
    close(file);
    return nullptr;
  }
  std::unique_ptr<SharedInbox> made = map(file, size);
  if (!made) return nullptr;
  std::string token = drawn_secret();
  token.resize(kTokenSize, '.');
  std::copy(token.begin(), token.end(), made->memory_->token.begin());
  return made;
}

std::string SharedInbox::address() const {
  return text("/proc/", getpid(), "/fd/", file_, ' ', std::string_view(memory_->token.data(), kTokenSize));
}

std::unique_ptr<SharedInbox> SharedInbox::open(const std::string& address, int writers) {
  const std::size_t space = address.find(' '), size = Memory::size_for(writers);
  if (space == address.npos) return nullptr;
  const std::string path = address.substr(0, space);
  std::array<char, kTokenSize> target{};  // of what the path leads to, if it is a link of this machine's own
  if (::readlink(path.c_str(), target.data(), target.size()) <= 0 ||
      std::string_view(target.data(), target.size()).find(kTarget) != 0)
    return nullptr;
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return nullptr;
  if (lseek(file, 0, SEEK_END) != static_cast<off_t>(size)) {
    close(file);
    return nullptr;
  }
  std::unique_ptr<SharedInbox> made = map(file, size);
  if (!made || std::string_view(made->memory_->token.data(), kTokenSize) != address.substr(space + 1)) return nullptr;
  made->close_file();
  return made;
}

void SharedInbox::close_file() {
  if (file_ >= 0) close(std::exchange(file_, -1));
}

SharedInbox::~SharedInbox() {
  munmap(memory_, size_);
  close_file();
}

std::size_t SharedInbox::put(int writer, std::span<const std::byte> bytes) {
  Memory::Ring& ring = memory_->ring(writer);
  const std::uint64_t begin = ring.put.load(std::memory_order_relaxed);
  const std::size_t room = kRingSize - (begin - ring.taken.load(std::memory_order_acquire));
  const std::size_t count = std::min(room, bytes.size()), at = begin % kRingSize,
                    first = std::min(count, kRingSize - at);
  if (count == 0) return 0;
  std::copy_n(bytes.data(), first, ring.bytes.data() + at);
  std::copy_n(bytes.data() + first, count - first, ring.bytes.data());
  ring.put.store(begin + count, std::memory_order_release);
  ring_bell();
  return count;
}

std::size_t SharedInbox::take(int writer, std::span<std::byte> bytes, SharedInbox& of_writer) {
  Memory::Ring& ring = memory_->ring(writer);
  const std::uint64_t begin = ring.taken.load(std::memory_order_relaxed);
  const std::size_t there = std::min<std::size_t>(ring.put.load(std::memory_order_acquire) - begin, kRingSize);
  const std::size_t count = std::min(there, bytes.size()), at = begin % kRingSize,
                    first = std::min(count, kRingSize - at);
  if (count == 0) return 0;
  std::copy_n(ring.bytes.data() + at, first, bytes.data());
  std::copy_n(ring.bytes.data(), count - first, bytes.data() + first);
  ring.taken.store(begin + count, std::memory_order_release);
  of_writer.ring_bell();
  return count;
}

std::uint32_t SharedInbox::rung() const { return memory_->rung.load(); }

void SharedInbox::ring_bell() {
  memory_->rung.fetch_add(1);
  if (memory_->sleepers.load() > 0) syscall(SYS_futex, &memory_->rung, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

void SharedInbox::wait(std::uint32_t rung, std::chrono::microseconds most, std::chrono::microseconds awake) {
  const auto soon = std::chrono::steady_clock::now() + awake;
  while (memory_->rung.load(std::memory_order_acquire) == rung && std::chrono::steady_clock::now() < soon)
    std::this_thread::yield();
  memory_->sleepers.fetch_add(1);
  const timespec time{.tv_sec = most.count() / 1000000, .tv_nsec = most.count() % 1000000 * 1000};
  syscall(SYS_futex, &memory_->rung, FUTEX_WAIT, rung, &time, nullptr, 0);  // returns at once if it has been rung
  memory_->sleepers.fetch_sub(1);
}

}  // namespace neurim
