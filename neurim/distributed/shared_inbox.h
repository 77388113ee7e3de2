// Streams of bytes between processes of one machine, in memory that they share.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "neurim/distributed/socket.h"

namespace neurim {

/// The memory of a process in which others leave bytes for it: a ring for each of them, and a bell that wakes it. It
/// has no name, and goes with the processes that have it.
class SharedInbox {
 public:
  /// One for this process with rings for so many writers; null where the system gives no memory for it.
  static std::unique_ptr<SharedInbox> make(int writers);
  /// What another process of this machine opens it by.
  std::string address() const;
  /// The inbox of another process; null where it is not one of this machine, or not of the same user.
  static std::unique_ptr<SharedInbox> open(const std::string& address, int writers);
  ~SharedInbox();
  void close_file();  ///< once all have opened it
  SharedInbox(const SharedInbox&) = delete;
  SharedInbox& operator=(const SharedInbox&) = delete;

  /// Leaves what fits into the ring of `writer`, and wakes the owner: how many bytes.
  std::size_t put(int writer, std::span<const std::byte> bytes);
  /// Takes what is there: how many bytes. Of the owner, which wakes the writer by `of_writer`.
  std::size_t take(int writer, std::span<std::byte> bytes, SharedInbox& of_writer);

  /// Counts what others did here; see wait().
  std::uint32_t rung() const;
  /// Waits until others have done something since `rung`, at most so long; at first `awake`, which answers sooner and
  /// leaves the processor to any other thread that wants it.
  void wait(std::uint32_t rung, std::chrono::microseconds most, std::chrono::microseconds awake);

 private:
  struct Memory;
  SharedInbox(int file, Memory* memory, std::size_t size) : file_(file), memory_(memory), size_(size) {}
  static std::unique_ptr<SharedInbox> map(int file, std::size_t size);
  void ring_bell();

  int file_;
  Memory* memory_;
  std::size_t size_;
};

}  // namespace neurim
