// Operations of a group that are made of messages between two ranks.
#pragma once
#include <atomic>
#include <map>
#include <vector>

#include "neurim/base/text.h"
#include "neurim/distributed/flight_recorder.h"
#include "neurim/distributed/process_group.h"
#include "neurim/distributed/wire.h"

namespace neurim {

/// Sums by exchanging parts with each other rank in turn: every rank adds up one part, then the parts are handed out,
/// which moves as few bytes as a ring does (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters
/// of workstations", JPDC'09). Short ones are sent whole.
class MessageGroup final : public ProcessGroup {
 public:
  /// `backend` is its name; operations that take longer than `timeout` fail. `recorder`: of the group that this one is
  /// a duplicate or a part of.
  MessageGroup(std::unique_ptr<Wire> wire, std::string backend, std::chrono::milliseconds timeout,
               std::shared_ptr<FlightRecorder> recorder = {})
      : wire_(std::move(wire)),
        backend_(std::move(backend)),
        timeout_(timeout),
        recorder_(recorder ? std::move(recorder) : std::make_shared<FlightRecorder>(wire_->rank())) {}

  int rank() const override { return wire_->rank(); }
  int size() const override { return wire_->size(); }
  std::string backend() const override { return backend_; }
  bool many_threads() const override { return wire_->many_threads(); }
  void all_reduce(std::span<float> values, Reduction reduction, DType sent) override;
  void all_reduce(std::span<double> values, Reduction reduction) override;
  void reduce_scatter(std::span<float> values, std::span<const std::size_t> bounds, DType sent) override;
  void all_gather(std::span<float> values, std::span<const std::size_t> bounds, DType sent) override;
  std::vector<std::string> all_gather(std::string_view bytes) override;
  void broadcast(std::span<std::byte> bytes, int root) override;
  std::vector<std::string> all_to_all(const std::vector<std::string>& bytes) override;
  void send(std::span<const std::byte> bytes, int to) override;
  void receive(std::span<std::byte> bytes, int from) override;
  void abandon(const std::string& why) override;
  std::shared_ptr<ProcessGroup> duplicate() override;
  std::shared_ptr<ProcessGroup> subgroup(const std::vector<int>& ranks) override;
  std::shared_ptr<FlightRecorder> recorder() const override { return recorder_; }
  std::string last_operations() const override { return recorder_->csv(); }
  double seconds_in_operations() const override { return recorder_->seconds(); }
  double seconds_behind() const override { return recorder_->seconds_behind(); }
  std::string under_way(double& seconds) const override { return recorder_->under_way(seconds); }

 private:
  /// Runs the steps of an operation of all ranks; what goes wrong is told to the others.
  template <class Steps>
  void run(const char* name, std::size_t bytes, const Steps& steps);
  template <class Steps>
  void run_numbered(Operation operation, const Steps& steps);
  /// Calls step(to, from) for each other rank in turn, so that any two meet.
  template <class Step>
  void with_each(const Step& step) const;
  void check_rank(const char* name, int rank) const;
  void check_bounds(const char* name, std::size_t count, std::span<const std::size_t> bounds) const;
  template <class Number>
  void reduce(std::span<Number> values, Reduction reduction, DType sent);
  template <class Number>
  void scatter(const Operation& operation, std::span<Number> values, std::span<const std::size_t> bounds,
               Reduction reduction, DType sent, Deadline until);
  template <class Number>
  void gather(const Operation& operation, std::span<Number> values, std::span<const std::size_t> bounds, DType sent,
              Deadline until);

  const std::unique_ptr<Wire> wire_;
  const std::string backend_;
  const std::chrono::milliseconds timeout_;
  const std::shared_ptr<FlightRecorder> recorder_;
  std::vector<std::byte> arrived_;  // of other ranks' numbers, pieces that are combined next
  std::uint64_t operations_ = 0;
  std::map<int, std::uint64_t> sent_, received_;  // messages to and from each rank
  std::atomic<bool> failed_{false};
  std::vector<std::weak_ptr<MessageGroup>> others_;  // duplicates and parts
};

}  // namespace neurim
