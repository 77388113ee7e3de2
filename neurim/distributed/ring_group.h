// The group of processes that are connected in a ring over TCP.
#pragma once
#include "neurim/distributed/process_group.h"
#include "neurim/distributed/socket.h"

namespace neurim {

/// Rank r sends to r+1 and receives from r-1. Sums go round twice: each rank adds up one part of the numbers, then the
/// parts are handed on (ring all-reduce: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
/// workstations", JPDC'09). Processes prove to each other that they know the job's secret (HMAC-SHA-256 of a number
/// that the other has drawn); what they send is neither encrypted nor executed.
class RingGroup final : public ProcessGroup {
 public:
  /// Throws as join_job.
  explicit RingGroup(const Place& place);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_reduce(std::span<float> values, Reduction reduction) override;
  void all_reduce(std::span<double> values, Reduction reduction) override;
  void broadcast(std::span<std::byte> bytes, int root) override;
  std::vector<std::string> all_gather(std::string_view bytes) override;

 private:
  /// What an operation is, for messages and to find out that ranks do different things.
  struct Operation {
    std::string name;
    std::uint64_t bytes;
  };

  Deadline deadline() const { return std::chrono::steady_clock::now() + timeout_; }
  int next_rank() const { return (rank_ + 1) % size_; }
  int previous_rank() const { return (rank_ + size_ - 1) % size_; }
  std::string named(int rank) const;
  void meet(const Place& place);
  void connect_ring(const std::vector<std::string>& addresses, class Listener& listener, const std::string& session,
                    const std::string& secret);
  /// Runs the steps of an operation, after all ranks have agreed on it; what goes wrong is told to the others.
  template <class Steps>
  void run(const Operation& operation, const Steps& steps);
  void agree(const Operation& operation, Deadline until);
  /// Sends to the next rank and receives from the one before; either may be nothing. What goes wrong names who is lost,
  /// or is what another rank has told of it.
  void exchange(std::span<const std::byte> out, std::span<std::byte> in, Deadline until);
  /// The same with a checksum of each, so that nothing else is taken for data.
  void pass(std::span<const std::byte> out, std::span<std::byte> in, Deadline until);
  std::string report_in(std::string came);
  [[noreturn]] void give_up(const Operation& operation, const std::string& why);
  template <class Number>
  void reduce(std::span<Number> values, Reduction reduction);

  const std::chrono::milliseconds timeout_;  // of an operation, and of finding each other
  const int rank_, size_;
  std::vector<std::string> hosts_;  // by ranks
  Socket next_, previous_;
  std::uint64_t operations_ = 0;
};

}  // namespace neurim
