// Where processes stand, the ring of processes (threads here), its failures, and gradients that are summed over it.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>
#include <thread>

#include "neurim/base/error.h"
#include "neurim/base/sha256.h"
#include "neurim/base/text.h"
#include "neurim/compile/plan.h"
#include "neurim/distributed/all_reduce.h"
#include "neurim/distributed/place.h"
#include "neurim/distributed/reduce_gradients.h"
#include "neurim/distributed/message_group.h"
#include "neurim/nn/linear.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/square.h"
#include "neurim/ops/sub.h"
#include "neurim/optim/sgd.h"
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
  EXPECT_EQ(place_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"},
                      {"SLURM_STEP_NODELIST", "a"}, {"SLURM_JOB_ID", "1"}}).launcher, "srun");
  EXPECT_NE(message_of([] { place_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"NEURIM_BACKEND", "tcp"}}); })
                .find("NEURIM_ADDRESS"),
            std::string::npos);
  EXPECT_NE(message_of([] { place_in({{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"NEURIM_BACKEND", "smoke"}}); })
                .find("known are auto, tcp, mpi"),
            std::string::npos);
  EXPECT_EQ(place_in({{"HOROVOD_RANK", "0"}, {"HOROVOD_SIZE", "2"}, {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "h"},
                      {"HOROVOD_GLOO_RENDEZVOUS_PORT", "9"}}).store, "h:9");
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
  EXPECT_NE((messages[0] + messages[1]).find("is at operation 1, all_reduce sum of 2"), std::string::npos)
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

/// Two ranks with parts of different size of a batch step as one process does with all of it.
TEST(ReduceGradients, PartsOfABatchStepAsTheWhole) {
  const auto trained = [](std::int64_t begin, std::int64_t end, std::int64_t group, double clip) {
    nn::Linear net(3, 2);
    for (const Parameter& p : named_parameters(net)) {
      std::vector<float> values(static_cast<std::size_t>(std::int64_t{p.tensor.numel()}));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 5) / 4 - 0.5f;
      p.tensor.write(values.data());
    }
    SGD optimizer(named_parameters(net), {.lr = 0.1, .momentum = 0.9});
    if (group > 0) optimizer.add(std::make_unique<ReduceGradients>(group));
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
  for (const double clip : {0.0, 0.1}) {
    const std::vector<float> whole = trained(0, 8, 0, clip);
    std::vector<std::vector<float>> parts(2);
    const auto messages = as_ranks(2, [&](ProcessGroup& group) {
      const std::int64_t number = group_number(std::shared_ptr<ProcessGroup>(&group, [](ProcessGroup*) {}));
      parts[static_cast<std::size_t>(group.rank())] = group.rank() == 0 ? trained(0, 3, number, clip)
                                                                        : trained(3, 8, number, clip);
    });
    for (const std::string& message : messages) EXPECT_EQ(message, "");
    EXPECT_EQ(parts[0], parts[1]);
    ASSERT_EQ(parts[0].size(), whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(parts[0][i], whole[i], 1e-6);
  }
}

TEST(ReduceGradients, AFailureChangesNothingAndIsSaid) {
  const auto messages = as_ranks(2, [](ProcessGroup& group) {
    if (group.rank() == 1) return;
    const std::int64_t number = group_number(std::shared_ptr<ProcessGroup>(&group, [](ProcessGroup*) {}));
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
