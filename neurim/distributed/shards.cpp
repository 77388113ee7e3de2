#include "neurim/distributed/shards.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "neurim/base/error.h"
#include "neurim/distributed/all_reduce.h"
#include "neurim/distributed/group_kernel.h"
#include "neurim/distributed/reduce_gradients.h"
#include "neurim/ops/add.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

/// One process alone takes any floating tensors.
void check_owned(const Op& op, std::span<const Type> in, const std::vector<std::int64_t>& owners, std::int64_t group) {
  require(!in.empty() && in.size() == owners.size(), op.name(), ": ", in.size(), " tensors have ", owners.size(),
          " owners; give one for each");
  for (std::size_t i = 0; i < in.size(); ++i) {
    const bool alone = group_of(group).size() == 1;
    require(is_floating(in[i].dtype) && (alone || in[i].dtype == DType::f32), op.name(), ": takes ",
            alone ? "floating tensors" : "f32", ", got ", in[i]);
    require(owners[i] >= 0 && owners[i] < group_of(group).size(), op.name(), ": there is no rank ", owners[i], " of ",
            group_of(group).size());
  }
}

/// Several tensors in one block, in the order of their owners.
struct OwnedBlock {
  std::vector<std::size_t> order;   // the inputs
  std::vector<std::size_t> counts;  // bytes of each input's memory
  std::vector<std::size_t> bounds;  // of the owners, in f32
  std::size_t bytes = 0;

  OwnedBlock(const KernelRequest& request, const std::vector<std::int64_t>& owners, int ranks)
      : order(owners.size()), bounds(static_cast<std::size_t>(ranks) + 1) {
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return owners[a] < owners[b]; });
    for (std::size_t i = 0; i < owners.size(); ++i) {
      const TensorDesc& in = request.input(static_cast<int>(i));
      counts.push_back(neurim::bytes(in.type, in.layout));
      bytes += counts.back();
      bounds[static_cast<std::size_t>(owners[i]) + 1] += counts.back() / sizeof(float);
    }
    std::partial_sum(bounds.begin(), bounds.end(), bounds.begin());
  }
  std::span<float> block(const Args& args) const { return {static_cast<float*>(args.scratch), bounds.back()}; }
  void take(const Args& args) const {
    auto* to = static_cast<std::byte*>(args.scratch);
    for (const std::size_t i : order) {
      std::memcpy(to, args.in[i], counts[i]);
      to += counts[i];
    }
  }
  /// Calls give(input, bytes) for each input in the order of the block.
  template <class Give>
  void give(const Args& args, const Give& give) const {
    const auto* from = static_cast<const std::byte*>(args.scratch);
    for (const std::size_t i : order) {
      give(i, std::span(from, counts[i]));
      from += counts[i];
    }
  }
};

struct PreparedScatter {
  GroupCall call;
  DType sent;
  OwnedBlock block;
  std::vector<int> places;  // of each input's sum among the outputs; -1: another rank's

  static void run(const void* self, const Args& args, int /*task*/) noexcept {
    const auto& own = *static_cast<const PreparedScatter*>(self);
    own.call.run(args, [&](ProcessGroup& group) {
      own.block.take(args);
      if (group.size() > 1) group.reduce_scatter(own.block.block(args), own.block.bounds, own.sent);
      *static_cast<float*>(args.out[0]) = 0;
      own.block.give(args, [&](std::size_t i, std::span<const std::byte> sum) {
        if (own.places[i] >= 0) std::memcpy(args.out[own.places[i]], sum.data(), sum.size());
      });
    });
  }
};

Launch prepare_scatter(KernelRequest& request) {
  const auto& op = static_cast<const ReduceScatter&>(request.op());
  const ProcessGroup& group = group_of(op.group);
  PreparedScatter prepared{GroupCall(op.group), op.sent, OwnedBlock(request, op.owners, group.size()), {}};
  int next = 1;
  for (std::size_t i = 0; i < op.owners.size(); ++i) {
    prepared.places.push_back(op.owners[i] == group.rank() ? next++ : -1);
    if (prepared.places.back() >= 0 &&
        request.input(static_cast<int>(i)).layout != request.output(prepared.places.back()).layout)
      return decline(request, "takes and gives one layout");
  }
  request.scratch = prepared.block.bytes;
  return {.run = PreparedScatter::run, .self = std::make_shared<PreparedScatter>(std::move(prepared))};
}

bool propose_scatter(KernelRequest& request) {
  const auto& op = static_cast<const ReduceScatter&>(request.op());
  int next = 1;
  for (std::size_t i = 0; i < op.owners.size(); ++i)
    if (op.owners[i] == group_of(op.group).rank())
      request.values[request.out[static_cast<std::size_t>(next++)]].layout = request.input(static_cast<int>(i)).layout;
  return true;
}

struct PreparedGather {
  GroupCall call;
  OwnedBlock block;

  static void run(const void* self, const Args& args, int /*task*/) noexcept {
    const auto& own = *static_cast<const PreparedGather*>(self);
    own.call.run(args, [&](ProcessGroup& group) {
      own.block.take(args);
      if (group.size() > 1) group.all_gather(own.block.block(args), own.block.bounds, DType::f32);
      own.block.give(args, [&](std::size_t i, std::span<const std::byte> numbers) {
        std::memcpy(args.out[i], numbers.data(), numbers.size());
      });
    });
  }
};

Launch prepare_gather(KernelRequest& request) {
  const auto& op = static_cast<const AllGather&>(request.op());
  for (std::size_t i = 0; i < op.owners.size(); ++i)
    if (request.input(static_cast<int>(i)).layout != request.output(static_cast<int>(i)).layout)
      return decline(request, "takes and gives one layout");
  PreparedGather prepared{GroupCall(op.group), OwnedBlock(request, op.owners, group_of(op.group).size())};
  request.scratch = prepared.block.bytes;
  return {.run = PreparedGather::run, .self = std::make_shared<PreparedGather>(std::move(prepared))};
}

/// Sums a number over the ranks of a group.
std::function<Tensor(const Tensor& number)> total_over(std::int64_t group) {
  return [group](const Tensor& number) { return all_reduce({number}, group)[0]; };
}

template <class O>
std::vector<Sample> samples_of() {
  const auto make = [](std::size_t count) {
    auto op = std::make_shared<O>();
    op->owners.assign(count, 0);
    return op;
  };
  return {{make(1), {{DType::f32, {3, 7}}}},
          {make(3), {{DType::f32, {70, 33}}, {DType::f32, {}}, {DType::f32, {4, 3}}}}};
}

}  // namespace

std::vector<int> owners_of(const Tensors& weights, int ranks) {
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return bytes(weights[a].type()) > bytes(weights[b].type()); });
  std::vector<std::size_t> loads(static_cast<std::size_t>(ranks));
  std::vector<int> owners(weights.size());
  for (const std::size_t i : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += bytes(weights[i].type());
    owners[i] = static_cast<int>(least - loads.begin());
  }
  return owners;
}

Types ReduceScatter::infer(std::span<const Type> in) const {
  check_owned(*this, in, owners, group);
  Types out{{DType::f32, {}}};
  for (std::size_t i = 0; i < in.size(); ++i)
    if (owners[i] == group_of(group).rank()) out.push_back(in[i]);
  return out;
}

Types AllGather::infer(std::span<const Type> in) const {
  check_owned(*this, in, owners, group);
  return {in.begin(), in.end()};
}

std::vector<Sample> ReduceScatter::samples() const { return samples_of<ReduceScatter>(); }
std::vector<Sample> AllGather::samples() const { return samples_of<AllGather>(); }

ShardGradients::ShardGradients(std::int64_t group, int stage, std::vector<int> owners, DType sent)
    : group_(group), stage_(stage), owners_(std::move(owners)), sent_(sent) {}

bool ShardGradients::apply(Gradients& gradients, double samples) {
  if (stage_ == 1) return ReduceGradients(group_, sent_).apply(gradients, samples);
  gradients.as_sums(samples);
  const int rank = group_of(group_).rank();
  Tensor count = total_over(group_)(gradients.samples);
  in_buckets(gradients.all, [&](const std::vector<std::size_t>& bucket) {
    auto op = std::make_shared<ReduceScatter>();
    op->group = group_, op->sent = sent_;
    Tensors all;
    for (const std::size_t i : bucket) all.push_back(gradients.all[i]), op->owners.push_back(owners_[i]);
    const Tensors own = neurim::apply(op, all);
    count = count + own[0];  // so that ranks without a weight in it take part
    std::size_t next = 1;
    for (const std::size_t i : bucket) gradients.all[i] = owners_[i] == rank ? own[next++] : Tensor();
  });
  gradients.samples = count;
  gradients.total = total_over(group_);
  return true;
}

bool SpreadGradients::apply(Gradients& gradients, double /*samples*/) {
  gradients.copies = copies_;
  gradients.total = total_over(group_);
  return true;
}

void ShardGradients::after(const Tensors& weights) {
  in_buckets(weights, [&](const std::vector<std::size_t>& bucket) {
    auto op = std::make_shared<AllGather>();
    op->group = group_;
    Tensors all;
    for (const std::size_t i : bucket) all.push_back(weights[i]), op->owners.push_back(owners_[i]);
    const Tensors whole = neurim::apply(op, all);
    for (std::size_t k = 0; k < bucket.size(); ++k) weights[bucket[k]].assign(whole[k]);
  });
}

void define_shards() {
  define<ReduceScatter>();
  define<AllGather>();
}

void add_shard_kernels(std::uint8_t device) {
  add({.op = "reduce_scatter",
       .name = "messages",
       .device = device,
       .prepare = prepare_scatter,
       .propose_layouts = propose_scatter});
  add({.op = "all_gather",
       .name = "messages",
       .device = device,
       .prepare = prepare_gather,
       .propose_layouts = propose_layouts_of_inputs});
}

}  // namespace neurim
