#include "neurim/distributed/process_group.h"

#include <atomic>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/distributed/key_store.h"
#include "neurim/distributed/message_group.h"
#include "neurim/distributed/mpi_wire.h"
#include "neurim/distributed/nccl_group.h"

namespace neurim {

namespace {

class SelfGroup final : public ProcessGroup {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string backend() const override { return "self"; }
  void all_reduce(std::span<float> /*values*/, Reduction /*reduction*/, DType /*sent*/) override {}
  void all_reduce(std::span<double> /*values*/, Reduction /*reduction*/) override {}
  void reduce_scatter(std::span<float> /*values*/, std::span<const std::size_t> /*bounds*/, DType /*sent*/) override {}
  void all_gather(std::span<float> /*values*/, std::span<const std::size_t> /*bounds*/, DType /*sent*/) override {}
  std::vector<std::string> all_gather(std::string_view bytes) override { return {std::string(bytes)}; }
  void broadcast(std::span<std::byte> /*bytes*/, int root) override {
    require(root == 0, "broadcast: there is no rank ", root, " of 1");
  }
  std::vector<std::string> all_to_all(const std::vector<std::string>& bytes) override { return bytes; }
  void send(std::span<const std::byte> /*bytes*/, int to) override {
    fail(Fault::usage, "send: to rank ", to, " of 1");
  }
  void receive(std::span<std::byte> /*bytes*/, int from) override {
    fail(Fault::usage, "receive: from rank ", from, " of 1");
  }
  std::shared_ptr<ProcessGroup> duplicate() override { return self_group(); }
  std::shared_ptr<ProcessGroup> subgroup(const std::vector<int>& /*ranks*/) override { return self_group(); }
};

}  // namespace

std::vector<std::pair<std::size_t, std::size_t>> combine_order(std::size_t parts) {
  std::vector<std::pair<std::size_t, std::size_t>> order;
  for (; parts > 0 && parts % 2 == 0; parts /= 2)
    for (std::size_t i = 0; i < parts / 2; ++i) order.emplace_back(i, i + parts / 2);
  for (std::size_t i = 1; i < parts; ++i) order.emplace_back(0, i);
  return order;
}

std::vector<std::size_t> even_bounds(std::size_t count, int size) {
  std::vector<std::size_t> bounds;
  const auto ranks = static_cast<std::size_t>(size);
  for (std::size_t r = 0; r <= ranks; ++r) bounds.push_back(count * r / ranks);
  return bounds;
}

std::shared_ptr<ProcessGroup> self_group() { return std::make_shared<SelfGroup>(); }

namespace {

/// The address that rank 0 leaves in the key store: a free port of its machine.
std::string address_by_store(const Place& place, Deadline until) {
  const KeyStore store(place.store);
  static std::atomic<int> jobs{0};  // of this process: each has an address of its own
  const std::string key = text("address", ++jobs);
  if (place.rank > 0) return store.get(key, until);
  const std::string address = text(store.local_host(until), ':', Listener("", "0").port());
  store.put(key, address, until);
  return address;
}

}  // namespace

std::shared_ptr<ProcessGroup> join_job(const Place& said) {
  if (said.size == 1) return self_group();
  Place place = said;
  const std::chrono::milliseconds timeout(static_cast<std::int64_t>(place.timeout * 1000));
  if (place.backend != "mpi" && place.address.empty())
    place.address = address_by_store(place, std::chrono::steady_clock::now() + timeout);
  auto messages = std::make_shared<MessageGroup>(place.backend == "mpi" ? mpi_wire(place) : tcp_wire(place),
                                                 place.backend == "nccl" ? "tcp" : place.backend, timeout);
  if (place.backend != "nccl") return messages;
  return nccl_group(std::move(messages), place.local_rank, timeout);
}

}  // namespace neurim
