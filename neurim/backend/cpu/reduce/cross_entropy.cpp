// Cross entropy of 2-D logits and its gradient.
#include "neurim/ops/cross_entropy.h"

#include <atomic>

#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/backend/cpu/reduce/softmax.h"
#include "neurim/graph/kernel.h"

namespace neurim {

namespace {

using namespace cpu;

struct Prepared {
  CrossEntropyOptions options;
  std::int64_t places, classes;
  bool weighted;
  int tasks;
  decltype(&portable::cross_entropy_row) row;
  decltype(&portable::cross_entropy_grad_row) grad_row;

  bool reduced() const { return options.reduction != "none"; }

  CrossEntropyRows rows(const Args& args) const {
    return {static_cast<const float*>(args.in[0]),
            static_cast<const std::int64_t*>(args.in[1]),
            weighted ? static_cast<const float*>(args.in[2]) : nullptr,
            classes,
            static_cast<float>(1 - options.label_smoothing),
            static_cast<float>(options.label_smoothing / static_cast<double>(classes))};
  }

  bool ignored(std::int64_t label) const { return label == options.ignore_index || label < 0 || label >= classes; }

  /// The divisor of a reduced loss. Each task computes it: labels are few beside logits.
  double divisor(const CrossEntropyRows& rows) const {
    if (options.reduction != "mean") return 1;
    double sum = 0;
    for (std::int64_t place = 0; place < places; ++place)
      if (const std::int64_t label = rows.labels[place]; !ignored(label))
        sum += weighted ? static_cast<double>(rows.weights[label]) : 1;
    return sum;
  }

  /// Calls visit(place, whether its target counts) for the places of a task. Reports labels that are no class.
  template <class Visit>
  void each_place(const CrossEntropyRows& rows, const Args& args, int task, Visit visit) const {
    bool outside = false;
    for (std::int64_t place = task_begin(places, tasks, task); place < task_begin(places, tasks, task + 1); ++place) {
      const std::int64_t label = rows.labels[place];
      outside |= ignored(label) && label != options.ignore_index;
      visit(place, !ignored(label));
    }
    if (outside) std::atomic_ref(*args.status).fetch_or(kStatusIndexOutOfRange, std::memory_order_relaxed);
  }
};

std::shared_ptr<Prepared> prepared_for(KernelRequest& request, const CrossEntropyOptions& options, bool weighted) {
  for (const int in : request.in)
    if (const DType dtype = request.values[in].type.dtype; dtype != DType::f32 && dtype != DType::i64) {
      request.why = "takes f32 only";
      return nullptr;
    }
  const Shape& logits = request.input(0).type.shape;
  if (logits.rank() != 2) {
    request.why = "takes 2-D logits only";
    return nullptr;
  }
  return std::make_shared<Prepared>(
      Prepared{options, logits[0], logits[1], weighted, tasks_of(request, logits.numel(), logits[0]),
               NEURIM_DISPATCH(cross_entropy_row), NEURIM_DISPATCH(cross_entropy_grad_row)});
}

Launch prepare(KernelRequest& request) {
  const auto& op = static_cast<const CrossEntropy&>(request.op());
  const auto prepared = prepared_for(request, op.options, request.in.size() == 3);
  if (!prepared) return {};
  if (prepared->reduced()) prepared->tasks = 1;  // one sum, in a fixed order
  const auto launch = [](const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Prepared*>(self);
    const CrossEntropyRows rows = own.rows(args);
    float* out = static_cast<float*>(args.out[0]);
    double total = 0;
    own.each_place(rows, args, task, [&](std::int64_t place, bool counts) {
      const float loss = counts ? own.row(rows, place) : 0;
      if (own.reduced())
        total += static_cast<double>(loss);
      else
        out[place] = loss;
    });
    if (own.reduced()) out[0] = static_cast<float>(total / own.divisor(rows));
  };
  return {launch, prepared, prepared->tasks};
}

Launch prepare_grad(KernelRequest& request) {
  const auto& op = static_cast<const CrossEntropyGrad&>(request.op());
  const auto prepared = prepared_for(request, op.options, request.in.size() == 4);
  if (!prepared) return {};
  const auto launch = [](const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Prepared*>(self);
    const CrossEntropyRows rows = own.rows(args);
    const float* dloss = static_cast<const float*>(args.in.back());
    float* out = static_cast<float*>(args.out[0]);
    const double divisor = own.divisor(rows);
    own.each_place(rows, args, task, [&](std::int64_t place, bool counts) {
      float* dx = out + place * own.classes;
      if (counts)
        own.grad_row(rows, place, static_cast<float>(static_cast<double>(dloss[own.reduced() ? 0 : place]) / divisor),
                     dx);
      else
        std::fill_n(dx, own.classes, 0.f);
    });
  };
  return {launch, prepared, prepared->tasks};
}

}  // namespace

void cpu_cross_entropy() {
  cpu::add_kernel({.op = "cross_entropy", .name = "cpu", .prepare = prepare});
  cpu::add_kernel({.op = "cross_entropy_grad", .name = "cpu", .prepare = prepare_grad});
}

}  // namespace neurim
