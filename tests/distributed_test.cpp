// Where processes stand, the ring of processes (threads here), its failures, and gradients that are summed over it.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>
#include <optional>
#include <thread>

#include "neurim/base/error.h"
#include "neurim/base/sha256.h"
#include "neurim/base/text.h"
#include "neurim/compile/plan.h"
#include "neurim/distributed/all_reduce.h"
#include "neurim/distributed/async_group.h"
#include "neurim/distributed/group_kernel.h"
#include "neurim/distributed/joinable_group.h"
#include "neurim/distributed/local_wire.h"
#include "neurim/distributed/message_group.h"
#include "neurim/distributed/place.h"
#include "neurim/distributed/reduce_gradients.h"
#include "neurim/distributed/shards.h"
#include "neurim/distributed/stale_sums.h"
#include "neurim/distributed/team_ops.h"
#include "neurim/nn/linear.h"
#include "neurim/ops/batch_norm.h"
#include "neurim/ops/linear.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/square.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/sum.h"
#include "neurim/optim/sgd.h"
#include "neurim/train/mirrored.h"
#include "tests/errors.h"

namespace neurim {
namespace {

using namespace std::chrono_literals;

Place place_in(const std::map<std::string, std::string>& variables) {
  return place_of_process([&](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

TEST(Place, IsWhatLaunchersSay) {
  EXPECT_EQ(place_in({}).size, 1);
  const Place torchrun = place_in({{"RANK", "3"},
                                   {"WORLD_SIZE", "4"},
                                   {"LOCAL_RANK", "1"},
                                   {"LOCAL_WORLD_SIZE", "2"},
                                   {"MASTER_ADDR", "node1"},
                                   {"MASTER_PORT", "29500"}});
  EXPECT_EQ(torchrun.rank, 3);
  EXPECT_EQ(torchrun.local_rank, 1);
  EXPECT_EQ(torchrun.local_size, 2);
  EXPECT_EQ(torchrun.address, "node1:29501");
  EXPECT_EQ(torchrun.launcher, "torchrun");
  const Place own = place_in({{"NEURIM_RANK", "0"},
                              {"NEURIM_SIZE", "2"},
                              {"NEURIM_ADDRESS", "here:1"},
                              {"NEURIM_SECRET", "s"},
                              {"RANK", "7"},
                              {"WORLD_SIZE", "8"}});
  EXPECT_EQ(own.size, 2);
  EXPECT_EQ(own.secret, "s");
  const Place slurm = place_in({{"SLURM_PROCID", "1"},
                                {"SLURM_NTASKS", "2"},
                                {"SLURM_LOCALID", "0"},
                                {"SLURM_STEP_NODELIST", "cn[07-09,12]"},
                                {"SLURM_JOB_ID", "123456"}});
  EXPECT_EQ(slurm.address, "cn07:23456");
  EXPECT_EQ(place_in({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"NEURIM_ADDRESS", "a:1"}}).rank,
            1);
  EXPECT_EQ(place_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}).size, 1);
  EXPECT_EQ(first_host("a,b[1-2]"), "a");
  EXPECT_EQ(first_host("n[3]"), "n3");
  EXPECT_NE(
      message_of([] { place_in({{"RANK", "4"}, {"WORLD_SIZE", "4"}, {"NEURIM_ADDRESS", "a:1"}}); }).find("it is less"),
      std::string::npos);
  EXPECT_NE(message_of([] { place_in({{"RANK", "x"}, {"WORLD_SIZE", "4"}}); }).find("RANK is 'x'"), std::string::npos);
  EXPECT_EQ(tasks_of_node("4(x2),3", 1), 4);
  EXPECT_EQ(tasks_of_node("4(x2),3", 2), 3);
  // mpirun without an address: MPI; with one, or where asked for: TCP.
  EXPECT_EQ(place_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}}).backend, "mpi");
  EXPECT_EQ(place_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"NEURIM_ADDRESS", "a:1"}}).backend, "tcp");
  EXPECT_EQ(place_in({{"PMI_RANK", "0"},
                      {"PMI_SIZE", "4"},
                      {"SLURM_PROCID", "0"},
                      {"SLURM_NTASKS", "4"},
                      {"SLURM_STEP_NODELIST", "a"},
                      {"SLURM_JOB_ID", "1"}})
                .launcher,
            "srun");
  EXPECT_NE(message_of([] {
              place_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"NEURIM_BACKEND", "tcp"}});
            }).find("NEURIM_ADDRESS"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              place_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"NEURIM_BACKEND", "smoke"}});
            }).find("known are auto, tcp, mpi, nccl"),
            std::string::npos);
  EXPECT_EQ(place_in({{"HOROVOD_RANK", "0"},
                      {"HOROVOD_SIZE", "2"},
                      {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "h"},
                      {"HOROVOD_GLOO_RENDEZVOUS_PORT", "9"}})
                .store,
            "h:9");
}

TEST(Hmac, KnownAnswers) {  // RFC 4231, cases 1, 2 and 6
  EXPECT_EQ(hmac_sha256(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmac_sha256("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

/// Runs `body` as each of so many ranks; the messages of those that throw.
std::vector<std::string> as_ranks(
    int size, const std::function<void(ProcessGroup& group)>& body, std::chrono::milliseconds timeout = 5s,
    const std::function<void(Place&)>& change = [](Place&) {}) {
  const int port = Listener("127.0.0.1", "0").port();
  std::vector<std::string> messages(static_cast<std::size_t>(size));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < size; ++rank)
    ranks.emplace_back([&, rank] {
      Place place{.rank = rank, .size = size, .address = text("127.0.0.1:", port), .secret = "known"};
      change(place);
      try {
        place.timeout = static_cast<double>(timeout.count()) / 1000;
        MessageGroup group(tcp_wire(place), "tcp", timeout);
        body(group);
      } catch (const Error& error) {
        messages[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  for (std::thread& rank : ranks) rank.join();
  return messages;
}

/// The parts of a batch come to the same bits whether they are combined at once or first at each rank.
TEST(CombineOrder, NestsOverRanks) {
  const auto combined = [](std::vector<float> values) {
    for (const auto& [into, other] : combine_order(values.size())) values[into] += values[other];
    return values.empty() ? 0 : values[0];
  };
  for (const std::size_t ranks : {1, 2, 3, 4, 5, 6})
    for (const std::size_t parts : {1, 2, 4, 8}) {
      std::vector<float> all(ranks * parts), of_ranks(ranks);
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = std::sin(static_cast<float>(i * i + 1)) * 1000;
      for (std::size_t r = 0; r < ranks; ++r) {
        std::vector<float> own;
        for (std::size_t p = 0; p < parts; ++p) own.push_back(all[r + p * ranks]);
        of_ranks[r] = combined(own);
      }
      EXPECT_EQ(combined(of_ranks), combined(all)) << ranks << " ranks with " << parts;
    }
}

/// What every operation gives, over TCP and in memory.
void check_operations(ProcessGroup& group) {
  const int size = group.size(), rank = group.rank();
  const auto number = [](int of, std::size_t i) {
    return static_cast<float>((i * 7 + static_cast<std::size_t>(of) * 3) % 11);
  };
  for (const std::size_t count : {0u, 3u, 50'003u}) {
    std::vector<std::size_t> bounds{0};
    for (int r = 0; r < size; ++r) bounds.push_back(r + 1 == size ? count : std::min(count, bounds.back() + count / 3));
    std::vector<float> values(count), halves(count), product(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = halves[i] = number(rank, i), product[i] = static_cast<float>(rank + 1);
    std::vector<float> sums(count);
    for (std::size_t i = 0; i < count; ++i)
      for (int r = 0; r < size; ++r) sums[i] += number(r, i);
    group.reduce_scatter(values, bounds);
    const auto own = static_cast<std::size_t>(rank);
    for (std::size_t i = bounds[own]; i < bounds[own + 1]; ++i) ASSERT_EQ(values[i], sums[i]);
    group.all_gather(values, bounds);
    EXPECT_EQ(values, sums);
    for (const DType sent : {DType::bf16, DType::f16}) {
      std::vector<float> rounded = halves;
      group.all_reduce(rounded, Reduction::sum, sent);
      EXPECT_EQ(rounded, sums);  // small whole numbers
    }
    group.all_reduce(product, Reduction::product);
    float factorial = 1;
    for (int r = 2; r <= size; ++r) factorial *= static_cast<float>(r);
    EXPECT_EQ(product, std::vector<float>(count, factorial));
  }
  std::vector<std::string> out;
  for (int to = 0; to < size; ++to) out.push_back(std::string(static_cast<std::size_t>(rank * 100 + to), 'x'));
  const std::vector<std::string> in = group.all_to_all(out);
  for (int from = 0; from < size; ++from) EXPECT_EQ(in[static_cast<std::size_t>(from)].size(), from * 100u + rank);
  std::vector<float> token(300'000, static_cast<float>(rank));
  if (rank > 0) group.receive(std::as_writable_bytes(std::span(token)), rank - 1);
  for (float& one : token) one += 1;
  if (rank + 1 < size) group.send(std::as_bytes(std::span(token)), rank + 1);
  EXPECT_EQ(token.back(), static_cast<float>(rank + 1));
  const std::shared_ptr<ProcessGroup> other = group.duplicate();
  std::thread beside([&] {
    for (int i = 0; i < 20; ++i) other->barrier();
  });
  for (int i = 0; i < 20; ++i) group.barrier();
  beside.join();
  EXPECT_NE(group.last_operations().find("all_to_all"), std::string::npos);
}

TEST(Ring, EveryOperation) {
  for (const int size : {2, 3, 4}) {
    for (const int sharing : {0, 2, 4}) {  // ranks that share memory, the first ones; others have connections alone
      const auto messages = as_ranks(size, check_operations, 5s,
                                     [&](Place& place) { place.shared_memory = place.rank < sharing; });
      for (const std::string& message : messages) EXPECT_EQ(message, "");
    }
    as_local_ranks(size, [](const std::shared_ptr<ProcessGroup>& group) { check_operations(*group); });
  }
}

TEST(Local, TheFirstErrorIsThrown) {
  const std::string said = message_of([] {
    as_local_ranks(3, [](const std::shared_ptr<ProcessGroup>& group) {
      if (group->rank() == 1) fail(Fault::data, "no such file");
      group->barrier();
    });
  });
  EXPECT_EQ(said, "no such file");
}

TEST(Async, RunsInOrderAndThrowsWhereItIsWaitedFor) {
  as_local_ranks(2, [](const std::shared_ptr<ProcessGroup>& group) {
    AsyncGroup behind(group);
    std::vector<float> values{1};
    std::vector<AsyncGroup::Work> works;
    for (int i = 0; i < 10; ++i) works.push_back(behind.run([&](ProcessGroup& own) { own.all_reduce(values); }));
    works.back().wait();
    EXPECT_TRUE(works.front().done());
    EXPECT_EQ(values[0], 1024);
    const AsyncGroup::Work bad = behind.run([](ProcessGroup&) { fail(Fault::data, "on purpose"); });
    EXPECT_EQ(message_of([&] { bad.wait(); }), "on purpose");
  });
}

/// Ranks that are slow in turns: no read is older than the bound, sums come in order, and all ranks see the same ones.
TEST(StaleSums, NoReadIsOlderThanTheBound) {
  constexpr std::int64_t kClocks = 3000;
  for (const std::int64_t bound : {0, 1, 5}) {
    std::atomic<std::int64_t> reads{0}, violations{0}, ahead{0};
    as_local_ranks(3, [&](const std::shared_ptr<ProcessGroup>& group) {
      StaleSums sums(group, bound);
      double total = 0;
      const auto take = [&](bool all) {
        while (const auto values = sums.take(all)) {
          const auto clock = static_cast<float>(sums.taken() - 1);
          EXPECT_EQ((*values)[0], 3 * clock + 3);
          total += (*values)[0];
        }
      };
      for (std::int64_t clock = 0; clock < kClocks; ++clock) {
        if ((clock / 7 + group->rank()) % 3 == 0) std::this_thread::sleep_for(50us);
        take(false);
        ++reads;
        violations += sums.clock() - sums.taken() > bound;
        ahead += sums.clock() > sums.taken();
        sums.put({static_cast<float>(clock + group->rank())});
      }
      take(true);
      EXPECT_EQ(total, 3.0 * kClocks * (kClocks - 1) / 2 + 3 * kClocks);
      if (bound > 0) return;
      EXPECT_NE(message_of([&] { sums.put({0}), sums.put({0}); }).find("ahead"), std::string::npos);
      while (sums.take(true)) {
      }
    });
    EXPECT_EQ(reads, 3 * kClocks);
    EXPECT_EQ(violations, 0);
    EXPECT_EQ(ahead > 0, bound > 0);
  }
}

TEST(Joinable, ThoseWhoAreDoneTakePartWithZeros) {
  as_local_ranks(3, [](const std::shared_ptr<ProcessGroup>& group) {
    JoinableGroup own(group);
    for (int i = 0; i < 2 + group->rank(); ++i) {
      std::vector<float> values{1};
      own.all_reduce(values, Reduction::sum, DType::f32);
      EXPECT_EQ(values[0], i < 2 ? 3 : i < 3 ? 2 : 1);
    }
    EXPECT_EQ(own.join(), 2);
  });
  const std::string said = message_of([] {
    as_local_ranks(2, [](const std::shared_ptr<ProcessGroup>& group) {
      JoinableGroup own(group);
      std::vector<float> values(group->rank() == 0 ? 3 : 4);
      own.all_reduce(values, Reduction::sum, DType::f32);
    });
  });
  EXPECT_NE(said.find("all ranks do the same"), std::string::npos) << said;
}

TEST(Ring, SumsAndHandsOn) {
  for (const int size : {2, 3, 5}) {
    const auto messages = as_ranks(size, [&](ProcessGroup& group) {
      for (const std::size_t count : {0, 1, 2, 7, 100'003}) {
        std::vector<float> values(count), most(count);
        for (std::size_t i = 0; i < count; ++i)
          values[i] = most[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(group.rank()) * 3) % 11);
        group.all_reduce(values);
        group.all_reduce(most, Reduction::max);
        for (std::size_t i = 0; i < count; ++i) {
          float sum = 0, largest = 0;
          for (int rank = 0; rank < size; ++rank) {
            const auto one = static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 3) % 11);
            sum += one, largest = std::max(largest, one);
          }
          ASSERT_EQ(values[i], sum);
          ASSERT_EQ(most[i], largest);
        }
      }
      std::vector<double> least{group.rank() + 1.5};
      group.all_reduce(least, Reduction::min);
      EXPECT_EQ(least[0], 1.5);
      for (int root = 0; root < size; ++root) {
        std::string message(3'000'000, group.rank() == root ? 'r' : ' ');
        group.broadcast(std::as_writable_bytes(std::span(message)), root);
        EXPECT_EQ(message, std::string(3'000'000, 'r'));
      }
      const std::vector<std::string> all = group.all_gather(
          std::string(static_cast<std::size_t>(group.rank()) * 1000, 'x'));
      for (int rank = 0; rank < size; ++rank) EXPECT_EQ(all[static_cast<std::size_t>(rank)].size(), rank * 1000u);
      group.barrier();
    });
    for (const std::string& message : messages) EXPECT_EQ(message, "");
  }
}

TEST(Ring, SumsAreTheSameBitsOnAllRanks) {
  std::vector<std::vector<float>> sums(3);
  as_ranks(3, [&](ProcessGroup& group) {
    std::vector<float> values(1000);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = std::sin(static_cast<float>(i * 3 + static_cast<std::size_t>(group.rank())));
    group.all_reduce(values);
    sums[static_cast<std::size_t>(group.rank())] = values;
  });
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[0], sums[2]);
}

TEST(Ring, ALostRankIsNamedByAllOthers) {
  const auto messages = as_ranks(4, [](ProcessGroup& group) {
    group.barrier();
    if (group.rank() == 2) fail(Fault::failure, "gone");
    std::vector<float> values(1000);
    for (int i = 0; i < 100; ++i) group.all_reduce(values);
  });
  EXPECT_EQ(messages[2], "gone");
  for (const int rank : {0, 1, 3}) {
    const std::string& message = messages[static_cast<std::size_t>(rank)];
    EXPECT_NE(message.find("rank 2 ("), std::string::npos) << message;
    EXPECT_NE(message.find("operation "), std::string::npos) << message;
    EXPECT_NE(message.find("all_reduce sum of 4000 bytes"), std::string::npos) << message;
  }
}

TEST(Ring, ASilentRankEndsTheWait) {
  std::atomic<bool> over{false};
  const auto begin = std::chrono::steady_clock::now();
  const auto messages = as_ranks(
      3,
      [&](ProcessGroup& group) {
        group.barrier();
        if (group.rank() == 1) {
          while (!over) std::this_thread::sleep_for(10ms);
          return;
        }
        try {
          group.barrier();
        } catch (...) {
          over = true;
          throw;
        }
      },
      600ms);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 3s);
  EXPECT_NE(messages[2].find("nothing came in time"), std::string::npos) << messages[2];
  EXPECT_NE(messages[2].find("rank 1 ("), std::string::npos) << messages[2];
  EXPECT_NE(messages[0], "");
}

TEST(Ring, DifferentOperationsAreFoundOut) {
  const auto messages = as_ranks(2, [](ProcessGroup& group) {
    std::vector<float> values(group.rank() == 0 ? 4 : 5);
    group.all_reduce(values);
  });
  EXPECT_NE((messages[0] + messages[1]).find("is at operation 1, all_reduce sum of "), std::string::npos)
      << messages[0] << messages[1];
}

TEST(Ring, WhoDoesNotKnowTheSecretIsNotLetIn) {
  const auto messages = as_ranks(
      2, [](ProcessGroup&) {}, 700ms, [](Place& place) { place.secret = place.rank == 1 ? "guessed" : "known"; });
  EXPECT_NE(messages[0].find("1 of 2 processes came; another: a process has another secret"), std::string::npos)
      << messages[0];
  EXPECT_NE(messages[1], "");
}

/// A stranger who says nothing, or something else, holds nobody up for good.
TEST(Ring, StrangersArePassedOver) {
  std::thread stranger;
  const auto messages = as_ranks(
      2, [](ProcessGroup& group) { group.barrier(); }, 5s,
      [&](Place& place) {
        if (place.rank == 0) return;
        const std::size_t colon = place.address.rfind(':');
        Socket other = Socket::connect(place.address.substr(0, colon), place.address.substr(colon + 1),
                                       std::chrono::steady_clock::now() + 2s);
        const std::string noise = "GET / HTTP/1.1\r\nHost: x\r\n\r\n" + std::string(64, ' ');
        other.send(std::as_bytes(std::span(noise)), std::chrono::steady_clock::now() + 1s);
      });
  for (const std::string& message : messages) EXPECT_EQ(message, "");
}

/// Two ranks with parts of different size of a batch step as one process does with all of it; so do those that keep the
/// state of their own weights alone, by adding up all gradients or their own.
TEST(ReduceGradients, PartsOfABatchStepAsTheWhole) {
  const auto trained = [](std::int64_t begin, std::int64_t end, std::int64_t group, double clip, int zero) {
    nn::Linear net(3, 2);
    for (const Parameter& p : named_parameters(net)) {
      std::vector<float> values(static_cast<std::size_t>(std::int64_t{p.tensor.numel()}));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 5) / 4 - 0.5f;
      p.tensor.write(values.data());
    }
    SGD optimizer(named_parameters(net), {.lr = 0.1, .momentum = 0.9});
    if (group > 0 && zero == 0) optimizer.add(std::make_unique<ReduceGradients>(group));
    if (zero > 0) {
      const std::vector<int> owners = owners_of(optimizer.weights(), 2);
      optimizer.add(std::make_unique<ShardGradients>(group, zero, owners, DType::f32));
      optimizer.keep({owners[0] == group_of(group).rank(), owners[1] == group_of(group).rank()});
      EXPECT_EQ(named_parameters(optimizer).size(), 3);  // lr, step, and one momentum
    }
    if (clip > 0) optimizer.add(std::make_unique<ClipGradientNorm>(clip));
    const std::int64_t rows = end - begin;
    const Plan step = plan(
        [&](const Tensors& in) -> Tensors {
          const Tensor loss = mean(square(net(in[0]) - in[1]));
          optimizer.minimize(loss, static_cast<double>(rows));
          return {loss};
        },
        {{DType::f32, {rows, 3}}, {DType::f32, {rows, 2}}}, {.training = true});
    for (int i = 0; i < 4; ++i) {
      const auto numbers = [&](std::int64_t width) {
        std::vector<float> values;
        for (std::int64_t n = begin * width; n < end * width; ++n)
          values.push_back(static_cast<float>((n * 13 + i) % 9) / 4 - 1);
        return Tensor::from({rows, width}, values);
      };
      step({numbers(3), numbers(2)});
    }
    std::vector<float> all;
    for (const Parameter& p : named_parameters(net))
      for (const float value : p.tensor.values<float>()) all.push_back(value);
    return all;
  };
  for (const auto& [clip, zero] : {std::pair(0.0, 0), {0.1, 0}, {0.1, 1}, {0.0, 2}, {0.1, 2}}) {
    const std::vector<float> whole = trained(0, 8, 0, clip, 0);
    std::vector<std::vector<float>> parts(2);
    const auto messages = as_ranks(2, [&](ProcessGroup& group) {
      const GroupNumber number(std::shared_ptr<ProcessGroup>(&group, [](ProcessGroup*) {}));
      parts[static_cast<std::size_t>(group.rank())] = group.rank() == 0 ? trained(0, 3, number, clip, zero)
                                                                        : trained(3, 8, number, clip, zero);
    });
    for (const std::string& message : messages) EXPECT_EQ(message, "");
    EXPECT_EQ(parts[0], parts[1]);
    ASSERT_EQ(parts[0].size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(parts[0][i], whole[i], 1e-6);
  }
}

/// Batch norm over two ranks with samples of different number is that of one process with all of them: outputs, running
/// statistics, and gradients of a sum over all samples.
TEST(SharedStatistics, AreThoseOfAllSamples) {
  struct Result {
    std::vector<float> y, dx, dweight, mean, var;
  };
  const auto run = [](std::int64_t begin, std::int64_t end, std::int64_t group) {
    const std::int64_t rows = end - begin;
    const Tensor weight = Tensor::from({2}, std::vector<float>{1.5f, -0.5f}),
                 bias = Tensor::from({2}, std::vector<float>{0.1f, 0.2f});
    const Tensor mean = Tensor::full({DType::f32, {2}}, 0), var = Tensor::full({DType::f32, {2}}, 1);
    std::vector<float> values;
    for (std::int64_t i = begin * 6; i < end * 6; ++i)
      values.push_back(std::sin(static_cast<float>(i) * 1.7f) + static_cast<float>(i % 5));
    const Plan step = plan(
        [&](const Tensors& in) -> Tensors {
          std::optional<SharedStatistics> shared;
          if (group > 0) shared.emplace([group](const Tensors& sums) { return all_reduce(sums, group); });
          const Tensor y = batch_norm(in[0], weight, bias, mean, var);
          const Tensor loss = sum(square(y) * y);
          const Tensor wanted[] = {in[0], weight};
          const Tensors d = gradients(std::span(&loss, 1), wanted);
          return {y, d[0], group > 0 ? all_reduce({d[1]}, group)[0] : d[1]};
        },
        {{DType::f32, {rows, 2, 3}}}, {.training = true});
    const Tensors out = step({Tensor::from({rows, 2, 3}, values)});
    return Result{out[0].values<float>(), out[1].values<float>(), out[2].values<float>(), mean.values<float>(),
                  var.values<float>()};
  };
  const Result whole = run(0, 7, 0);
  std::vector<Result> parts(2);
  as_local_ranks(2, [&](const std::shared_ptr<ProcessGroup>& group) {
    const GroupNumber number(group);
    parts[static_cast<std::size_t>(group->rank())] = group->rank() == 0 ? run(0, 2, number) : run(2, 7, number);
  });
  const auto near = [](const std::vector<float>& a, const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-5);
  };
  const auto joined = [&](auto field) {
    std::vector<float> both = parts[0].*field;
    both.insert(both.end(), (parts[1].*field).begin(), (parts[1].*field).end());
    return both;
  };
  near(joined(&Result::y), whole.y);
  near(joined(&Result::dx), whole.dx);
  for (const Result& part : parts) {
    near(part.dweight, whole.dweight);
    near(part.mean, whole.mean);
    near(part.var, whole.var);
  }
}

/// A layer whose outputs are spread over two ranks: the same result and gradients, each rank with its own rows of the
/// weight.
TEST(TeamOps, ALayerInPartsIsTheWhole) {
  struct Result {
    std::vector<float> y, dx, dweight;
  };
  const auto run = [](std::int64_t group) {
    const std::int64_t ranks = group > 0 ? group_of(group).size() : 1, rank = group > 0 ? group_of(group).rank() : 0;
    const auto numbers = [](std::int64_t count, float step) {
      std::vector<float> values;
      for (std::int64_t i = 0; i < count; ++i) values.push_back(std::sin(static_cast<float>(i) * step));
      return values;
    };
    const std::vector<float> whole = numbers(6 * 5, 0.7f);
    const Tensor weight = Tensor::from(
        {6 / ranks, 5}, std::vector<float>(whole.begin() + rank * 30 / ranks, whole.begin() + (rank + 1) * 30 / ranks));
    const Plan step = plan(
        [&](const Tensors& in) -> Tensors {
          const Tensor y = group > 0 ? team_gather(linear(team_copy(in[0], group), weight), 2, group)
                                     : linear(in[0], weight);
          const Tensor loss = sum(square(y)), wanted[] = {in[0], weight};
          const Tensors d = gradients(std::span(&loss, 1), wanted);
          return {y, d[0], d[1]};
        },
        {{DType::f32, {2, 3, 5}}}, {.training = true});
    const Tensors out = step({Tensor::from({2, 3, 5}, numbers(30, 1.3f))});
    return Result{out[0].values<float>(), out[1].values<float>(), out[2].values<float>()};
  };
  const Result whole = run(0);
  std::vector<Result> parts(2);
  as_local_ranks(2, [&](const std::shared_ptr<ProcessGroup>& group) {
    parts[static_cast<std::size_t>(group->rank())] = run(GroupNumber(group));
  });
  std::vector<float> rows = parts[0].dweight;
  rows.insert(rows.end(), parts[1].dweight.begin(), parts[1].dweight.end());
  const auto near = [](const std::vector<float>& a, const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5);
  };
  near(rows, whole.dweight);
  for (const Result& part : parts) near(part.y, whole.y), near(part.dx, whole.dx);
}

TEST(Subgroup, HasItsOwnRanks) {
  as_local_ranks(4, [](const std::shared_ptr<ProcessGroup>& group) {
    const int even = group->rank() % 2;
    const std::shared_ptr<ProcessGroup> own = group->subgroup({even, even + 2});
    EXPECT_EQ(own->size(), 2);
    EXPECT_EQ(own->rank(), group->rank() / 2);
    std::vector<float> values{static_cast<float>(group->rank())};
    own->all_reduce(values);
    EXPECT_EQ(values[0], even == 0 ? 2 : 4);
    EXPECT_EQ(group->subgroup({group->rank()})->size(), 1);
  });
}

/// Sums that go on beside other ops give the bits of those that are waited for; the backward pass goes on after they
/// have begun.
TEST(ReduceGradients, GoesOnBesideTheBackwardPass) {
  const auto trained = [](std::int64_t rank, std::int64_t group, bool beside) {
    nn::Linear first(4, 5), again(5, 5), second(5, 6), third(6, 2);
    Parameters all;
    for (const nn::Linear* net : {&first, &again, &second, &third})
      for (const Parameter& p : named_parameters(*net)) {
        std::vector<float> values(static_cast<std::size_t>(std::int64_t{p.tensor.numel()}));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i + all.size())) / 4;
        p.tensor.write(values.data());
        all.push_back({text(all.size()), p.tensor, p.role});
      }
    SGD optimizer(all, {.lr = 0.1});
    optimizer.add(std::make_unique<ReduceGradients>(group, DType::f32, 32));
    const Plan step = plan(
        [&](const Tensors& in) -> Tensors {
          Tensor inner = square(first(in[0]));
          for (int i = 0; i < 3; ++i) inner = square(again(inner));  // whose gradients are added up
          const Tensor loss = mean(square(third(square(second(inner)))));
          optimizer.minimize(loss, 3);
          return {loss};
        },
        {{DType::f32, {3, 4}}}, {.training = true});
    if (beside) {
      const std::vector<PlanRow> rows = step.rows();
      const auto place = [&](const char* op) {
        return std::find_if(rows.begin(), rows.end(), [&](const PlanRow& row) { return row.op == op; });
      };
      EXPECT_GT(std::count_if(place("all_reduce_begin"), place("all_reduce_end"),
                              [](const PlanRow& row) { return row.op.find("all_reduce") == row.op.npos; }),
                3);
    }
    for (int i = 0; i < 5; ++i) {
      std::vector<float> values;
      for (int n = 0; n < 12; ++n) values.push_back(std::sin(static_cast<float>(n + i * 12 + 100 * rank)));
      step({Tensor::from({3, 4}, values)});
    }
    std::vector<float> weights;
    for (const Parameter& p : all)
      for (const float value : p.tensor.values<float>()) weights.push_back(value);
    return weights;
  };
  as_local_ranks(2, [&](const std::shared_ptr<ProcessGroup>& group) {
    const auto queue = std::make_shared<AsyncGroup>(group->duplicate());
    const std::vector<float> at_once = trained(group->rank(), GroupNumber(group), false),
                             beside = trained(group->rank(), GroupNumber(queue), true);
    EXPECT_EQ(at_once, beside);
    EXPECT_TRUE(std::isfinite(beside[0]));
  });
}

/// A loop of its own on two devices does what one does with the samples of both.
TEST(Mirrored, ReplicasDoWhatOneDoes) {
  const auto numbers = [](std::int64_t step, int part, int width) {
    std::vector<float> values;
    for (int i = 0; i < 4 * width; ++i)
      values.push_back(std::sin(static_cast<float>(step * 31 + part * 7 + i + width)));
    return values;
  };
  const auto joined = [](std::vector<float> a, const std::vector<float>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  struct Trained {
    std::vector<float> weights;
    double loss = 0;
  };
  const auto train = [&](const Replica& replica, bool both) {
    nn::Linear net{5, 3};
    const float begin = static_cast<float>(replica.number() + 1) / 8;
    for (const Parameter& p : named_parameters(net)) p.tensor.assign(Tensor::full(p.tensor.type(), begin));
    replica.mirror(net);
    SGD sgd(named_parameters(net), {.lr = 0.1, .momentum = 0.9});
    replica.share_gradients(sgd);
    const std::int64_t rows = both ? 8 : 4;
    const Plan step = plan(
        [&](const Tensors& in) -> Tensors {
          const Tensor loss = mean(square(net(in[0]) - in[1]));
          sgd.minimize(loss, static_cast<double>(rows));
          return {loss};
        },
        {{DType::f32, {rows, 5}}, {DType::f32, {rows, 3}}}, {.training = true, .device = replica.device()});
    Trained trained;
    for (std::int64_t i = 0; i < 6; ++i) {
      const int part = replica.number();
      const auto of = [&](int width) {
        return both ? joined(numbers(i, 0, width), numbers(i, 1, width)) : numbers(i, part, width);
      };
      trained.loss = step({Tensor::from({rows, 5}, of(5)), Tensor::from({rows, 3}, of(3))})[0].item();
    }
    trained.loss = replica.sum(trained.loss) / replica.count();
    for (const Parameter& p : named_parameters(net))
      trained.weights = joined(trained.weights, p.tensor.values<float>());
    return trained;
  };
  Trained one;
  mirrored("cpu", [&](const Replica& replica) { one = train(replica, true); });
  std::vector<Trained> two(2);
  mirrored("cpu,cpu", [&](const Replica& replica) {
    EXPECT_EQ(replica.count(), 2);
    two[static_cast<std::size_t>(replica.number())] = train(replica, false);
  });
  EXPECT_EQ(two[0].weights, two[1].weights);
  ASSERT_EQ(two[0].weights.size(), one.weights.size());
  for (std::size_t i = 0; i < one.weights.size(); ++i) EXPECT_NEAR(two[0].weights[i], one.weights[i], 1e-5);
  EXPECT_NEAR(two[0].loss, one.loss, 1e-5);
  expect_words(error_of([] { mirrored("cpu,abacus", [](const Replica&) {}); }, Fault::usage), {"abacus"});
}

/// What fails in the background fails the plan, which has changed nothing.
TEST(ReduceGradients, AFailureBesideOthersIsSaid) {
  const auto messages = as_ranks(2, [](ProcessGroup& group) {
    if (group.rank() == 1) return;
    const GroupNumber number(std::make_shared<AsyncGroup>(std::shared_ptr<ProcessGroup>(&group, [](ProcessGroup*) {})));
    const Tensor state = Tensor::full({DType::f32, {4}}, 1);
    const Plan step = plan(
        [&](const Tensors& in) -> Tensors {
          state.assign(all_reduce_end(all_reduce_begin({in[0]}, number))[0]);
          return {};
        },
        {{DType::f32, {4}}});
    EXPECT_THROW(step({Tensor::full({DType::f32, {4}}, 5)}), Error);
    EXPECT_EQ(state.values<float>(), std::vector<float>(4, 1));
    EXPECT_NE(group_failure(number).find("rank 1"), std::string::npos) << group_failure(number);
    EXPECT_GE(group_waited(number), 0);
  });
  for (const std::string& message : messages) EXPECT_EQ(message, "");
}

TEST(ReduceGradients, AFailureChangesNothingAndIsSaid) {
  const auto messages = as_ranks(2, [](ProcessGroup& group) {
    if (group.rank() == 1) return;
    const GroupNumber number(std::shared_ptr<ProcessGroup>(&group, [](ProcessGroup*) {}));
    const Tensor state = Tensor::full({DType::f32, {4}}, 1);
    const Plan step = plan(
        [&](const Tensors& in) -> Tensors {
          const Tensor sum = all_reduce({in[0]}, number)[0];
          state.assign(sum);
          return {sum};
        },
        {{DType::f32, {4}}});
    EXPECT_THROW(step({Tensor::full({DType::f32, {4}}, 5)}), Error);
    EXPECT_EQ(state.values<float>(), (std::vector<float>(4, 1)));
    EXPECT_NE(group_failure(number).find("rank 1 ("), std::string::npos) << group_failure(number);
  });
  EXPECT_EQ(messages[0], "");
}

}  // namespace
}  // namespace neurim
