// A program in the style of Horovod, for launchers to start: a network is trained on this rank's share of a problem,
// and rank 0 prints the hash of its weights, and what the functions gave. Exit code 1: something is wrong.
#include <cstdio>
#include <memory>

#include "neurim/base/error.h"
#include "neurim/base/sha256.h"
#include "neurim/base/text.h"
#include "neurim/compile/plan.h"
#include "neurim/distributed/horovod.h"
#include "neurim/neurim.h"
#include "neurim/nn/linear.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/square.h"
#include "neurim/ops/sub.h"
#include "neurim/optim/sgd.h"

namespace neurim {
namespace {

void check(bool right, const char* what) {
  if (!right) fail(Fault::failure, "rank ", hvd::rank(), ": ", what, " is wrong");
}

Tensor rows(std::vector<float> values, std::int64_t width) {
  return Tensor::from({std::ssize(values) / width, width}, values);
}

void check_functions() {
  const int rank = hvd::rank(), size = hvd::size();
  const auto one = static_cast<float>(rank + 1);
  const float sum = static_cast<float>(size * (size + 1)) / 2;
  const auto first = [](const Tensor& tensor) { return tensor.values<float>()[0]; };
  const Tensor own = rows({one, 2 * one}, 2);
  check(first(hvd::allreduce(own)) == sum / static_cast<float>(size), "the average");
  check(first(hvd::allreduce(own, hvd::ReduceOp::Sum)) == sum, "the sum");
  check(first(hvd::allreduce(own, hvd::ReduceOp::Max)) == static_cast<float>(size), "the maximum");
  check(first(hvd::allreduce(own, hvd::ReduceOp::Min)) == 1, "the minimum");
  check(first(hvd::allreduce(own, hvd::ReduceOp::Sum, hvd::Compression::fp16)) == sum, "the sum in 16 bits");
  const Tensor mine = rows(std::vector<float>(static_cast<std::size_t>(2 * (rank + 1)), one), 2);
  const Tensor all = hvd::allgather(mine);
  check(all.size(0) == size * (size + 1) / 2 && all.values<float>().back() == static_cast<float>(size), "allgather");
  check(first(hvd::broadcast(own, size - 1)) == static_cast<float>(size), "broadcast");
  const hvd::Handle later = hvd::allreduce_async(own, hvd::ReduceOp::Sum), last = hvd::allreduce_async(own);
  check(first(hvd::synchronize(last)) == sum / static_cast<float>(size) && hvd::poll(later), "what goes on behind");
  check(first(hvd::synchronize(later)) == sum, "the sum behind");
  const Tensor parts = rows(std::vector<float>(static_cast<std::size_t>(size), one), 1);
  const std::vector<float> turned = hvd::alltoall(parts).values<float>();
  check(std::ssize(turned) == size && turned.back() == static_cast<float>(size), "alltoall");
  const Tensor share = hvd::reducescatter(rows(std::vector<float>(5, one), 1), hvd::ReduceOp::Sum);
  check(share.size(0) == 5 / size + (rank < 5 % size) && (share.numel() == 0 || first(share) == sum), "reducescatter");
}

std::string trained() {
  nn::Linear net(6, 3);
  std::vector<float> values(64);
  for (const Parameter& p : named_parameters(net)) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(hvd::rank())) % 5) / 4 - 0.5f;
    p.tensor.write(values.data());
  }
  hvd::broadcast_parameters(net);
  auto optimizer = hvd::DistributedOptimizer(
      std::make_unique<SGD>(named_parameters(net), SGD::Config{.lr = 0.1, .momentum = 0.9}));
  hvd::broadcast_optimizer_state(*optimizer);
  constexpr std::int64_t kRows = 4;
  const Plan step = plan(
      [&](const Tensors& in) -> Tensors {
        const Tensor loss = mean(square(net(in[0]) - in[1]));
        optimizer->minimize(loss, kRows);
        return {loss};
      },
      {{DType::f32, {kRows, 6}}, {DType::f32, {kRows, 3}}}, {.training = true});
  // Rank r has r batches less; the others go on.
  for (std::int64_t i = 0; i < 8 - hvd::rank(); ++i) {
    const auto numbers = [&](std::int64_t width) {
      std::vector<float> data;
      for (std::int64_t n = 0; n < kRows * width; ++n)
        data.push_back(static_cast<float>((n * 13 + i * 5 + hvd::rank() * 3) % 9) / 4 - 1);
      return rows(data, width);
    };
    step({numbers(6), numbers(3)});
  }
  const int last = hvd::join();
  check(last == 0, "who joins last");
  hvd::broadcast_parameters(net);  // rank 0 has made all steps
  Sha256 hash;
  for (const Parameter& p : named_parameters(net)) {
    const std::vector<float> weights = p.tensor.values<float>();
    hash.add(std::as_bytes(std::span(weights)));
  }
  return hash.hex();
}

int run() {
  initialize();
  hvd::init();
  check_functions();
  const std::string hash = trained();
  if (hvd::rank() == 0) std::printf("%s\n", text(hvd::size(), " ranks by ", hvd::backend(), ": ", hash).c_str());
  hvd::barrier();
  hvd::shutdown();
  return 0;
}

}  // namespace
}  // namespace neurim

int main() {
  try {
    return neurim::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "horovod: %s\n", error.what());
    return 1;
  }
}
