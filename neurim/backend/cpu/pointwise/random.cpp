#include "neurim/backend/cpu/pointwise/random.h"

#include <cmath>

#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/dropout.h"
#include "neurim/ops/random_uniform.h"

namespace neurim {

namespace {

using namespace cpu;

RandomStream stream_of(const void* key, std::int64_t ordinal) {
  const auto* words = static_cast<const std::int64_t*>(key);
  return {static_cast<std::uint64_t>(words[0]), static_cast<std::uint64_t>(words[1]), ordinal};
}

/// The numbers of a stream, block by block; for both ops.
struct Numbers {
  std::int64_t ordinal, count;
  int tasks;
  decltype(&portable::random_numbers) make = NEURIM_DISPATCH(random_numbers);

  Numbers(const KernelRequest& request, std::int64_t of)
      : ordinal(of), count(request.output(0).type.shape.numel()), tasks(tasks_of(request, count, blocks())) {}

  std::int64_t blocks() const { return (count + kRandomBlock - 1) / kRandomBlock; }

  /// Calls visit(first, numbers, n) for the blocks of a task.
  template <class Visit>
  void each_block(const void* key, int task, Visit visit) const {
    const RandomStream stream = stream_of(key, ordinal);
    for (std::int64_t block = task_begin(blocks(), tasks, task); block < task_begin(blocks(), tasks, task + 1);
         ++block) {
      std::uint32_t numbers[kRandomBlock];
      const std::int64_t first = block * kRandomBlock;
      make(stream, first, numbers);
      visit(first, numbers, std::min<std::int64_t>(kRandomBlock, count - first));
    }
  }
};

struct PreparedDropout {
  Numbers numbers;
  double keep;
  std::uint32_t threshold;  // number * 2^-24 >= p exactly when number >= threshold
  decltype(&portable::drop) drop = NEURIM_DISPATCH(drop);
};

Launch prepare_dropout(KernelRequest& request) {
  const auto& op = static_cast<const Dropout&>(request.op());
  if (request.input(0).type.dtype != DType::f32) return decline(request, "takes f32 only");
  auto prepared = std::make_shared<PreparedDropout>(
      PreparedDropout{Numbers(request, op.ordinal), 1 - op.p, static_cast<std::uint32_t>(std::ceil(op.p * 0x1p24))});
  const auto launch = [](const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const PreparedDropout*>(self);
    const float* x = static_cast<const float*>(args.in[0]);
    float* y = static_cast<float*>(args.out[0]);
    own.numbers.each_block(args.in[1], task, [&](std::int64_t first, const std::uint32_t* numbers, std::int64_t n) {
      own.drop(x + first, numbers, own.threshold, own.keep, y + first, n);
    });
  };
  return {launch, prepared, prepared->numbers.tasks};
}

struct PreparedUniform {
  Numbers numbers;
  double low, range;
};

Launch prepare_uniform(KernelRequest& request) {
  const auto& op = static_cast<const RandomUniform&>(request.op());
  if (op.dtype != DType::f32) return decline(request, "makes f32 only");
  auto prepared = std::make_shared<PreparedUniform>(
      PreparedUniform{Numbers(request, op.ordinal), op.low, op.high - op.low});
  // Not under simd/: contraction to fused multiply-add would round differently from the reference.
  const auto launch = [](const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const PreparedUniform*>(self);
    float* y = static_cast<float*>(args.out[0]);
    own.numbers.each_block(args.in[0], task, [&](std::int64_t first, const std::uint32_t* numbers, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i)
        y[first + i] = static_cast<float>(own.low + own.range * (numbers[i] * 0x1p-24));
    });
  };
  return {launch, prepared, prepared->numbers.tasks};
}

}  // namespace

void cpu_random() {
  cpu::add_kernel({.op = "dropout", .name = "cpu", .prepare = prepare_dropout});
  cpu::add_kernel({.op = "random_uniform", .name = "cpu", .prepare = prepare_uniform});
}

}  // namespace neurim
