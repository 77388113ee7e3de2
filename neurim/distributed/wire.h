// What the processes of a job send their messages over.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "neurim/distributed/place.h"
#include "neurim/distributed/socket.h"

namespace neurim {

/// An operation of a group, as ranks compare it: what differs is found out before anything is taken for data.
struct Operation {
  std::uint64_t number = 0;  ///< 1, 2, … of those that all ranks take part in, or that two ranks have with each other
  std::string name;          ///< "all_reduce sum"
  std::uint64_t bytes = 0;   ///< that it is about
};

/// Carries messages between any two ranks of a job, in order. One thread at a time, or one that sends and another that
/// receives.
class Wire {
 public:
  static constexpr int kNobody = -1;

  virtual ~Wire() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string host(int rank) const = 0;  ///< the name of a rank's machine
  virtual std::string named(int rank) const;     ///< "rank 2 (node7)"

  /// Sends a message to one rank while it receives one, of known length, from another; either may be kNobody. Throws
  /// Error(failure), which names the rank at fault: it is lost, silent until the deadline, is at another operation, or
  /// has told who is lost.
  virtual void exchange(const Operation& operation, int to, std::span<const std::byte> out, int from,
                        std::span<std::byte> in, Deadline until) = 0;
  /// Whether duplicates can be used in other threads.
  virtual bool many_threads() const { return true; }
  /// What rank 0 tells all others before they duplicate the wire.
  virtual std::string invitation() = 0;
  /// Another wire between the same ranks, for another thread. All call it.
  virtual std::unique_ptr<Wire> duplicate(const std::string& invitation) = 0;
  /// Tells all others why this rank ends; nothing can be sent after it.
  virtual void give_up(const std::string& why) noexcept = 0;
};

/// What stands before the bytes of a message: 64 bytes.
struct Frame {
  static constexpr std::size_t kSize = 64;
  static constexpr std::size_t kMostReport = 4096;

  bool report = false;  ///< the bytes say why the sender ends
  Operation operation;
  std::uint64_t size = 0, checksum = 0;  ///< of the bytes: how many, and their XXH64

  std::string written() const;
  /// Throws Error(failure) where the bytes are no frame.
  static Frame read(std::span<const std::byte> header);
  /// Throws Error(failure) unless the frame belongs to this operation and has at most so many bytes.
  void check(const Operation& expected, std::uint64_t most, const std::string& sender) const;
  /// Where a frame that is a report begins in these bytes; npos: nowhere.
  static std::size_t find_report(std::string_view bytes);
};

/// Over TCP, each rank with each other. Processes prove to each other that they know the job's secret (HMAC-SHA-256 of
/// a number that the other has drawn); what they send has checksums and is neither encrypted nor executed. Throws as
/// join_job.
std::unique_ptr<Wire> tcp_wire(const Place& place);

}  // namespace neurim
