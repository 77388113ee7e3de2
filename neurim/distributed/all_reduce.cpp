#include "neurim/distributed/all_reduce.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>

#include "neurim/base/error.h"
#include "neurim/distributed/group_kernel.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

struct KnownGroup {
  std::shared_ptr<ProcessGroup> group;
  std::shared_ptr<AsyncGroup> queue;               // undefined: operations are run at once
  std::mutex mutex;                                // of what follows
  std::map<std::int64_t, AsyncGroup::Work> begun;  // by numbers
  double waited = 0;
  std::string failure;
};

namespace {

/// Those of this process, by their numbers.
struct Groups {
  std::mutex mutex;
  std::map<std::int64_t, std::shared_ptr<KnownGroup>> all;
  std::int64_t last = 0;
};
Groups& groups() {
  static Groups* const groups = [] {
    auto* made = new Groups;
    made->all[0] = std::make_shared<KnownGroup>();
    made->all[0]->group = self_group();
    return made;
  }();
  return *groups;
}

std::shared_ptr<KnownGroup> known(std::int64_t number) {
  Groups& known = groups();
  const std::lock_guard lock(known.mutex);
  const auto found = known.all.find(number);
  require(found != known.all.end(), "there is no group ", number);
  return found->second;
}

std::shared_ptr<const std::int64_t> make_known(std::shared_ptr<ProcessGroup> group, std::shared_ptr<AsyncGroup> queue) {
  auto made = std::make_shared<KnownGroup>();
  made->group = std::move(group), made->queue = std::move(queue);
  Groups& known = groups();
  const std::lock_guard lock(known.mutex);
  known.all[++known.last] = std::move(made);
  return {new std::int64_t(known.last), [](const std::int64_t* number) {
            std::shared_ptr<KnownGroup> forgotten;  // destroyed behind the lock
            Groups& known = groups();
            const std::lock_guard lock(known.mutex);
            forgotten = known.all.extract(*number).mapped();
            delete number;
          }};
}

/// Adds up tensors where they lie; several of them in one piece of memory, which operations of a queue have one after
/// the other.
void sum_in_place(ProcessGroup& group, const std::vector<std::span<float>>& tensors, DType sent) {
  if (group.size() == 1) return;
  if (tensors.size() == 1) return group.all_reduce(tensors[0], Reduction::sum, sent);
  std::vector<float> all;
  for (const std::span<float> tensor : tensors) all.insert(all.end(), tensor.begin(), tensor.end());
  group.all_reduce(all, Reduction::sum, sent);
  const float* from = all.data();
  for (const std::span<float> tensor : tensors) {
    std::copy_n(from, tensor.size(), tensor.data());
    from += tensor.size();
  }
}

/// Of all_reduce, all_reduce_begin and all_reduce_end: sums in the layout in which the numbers come, which is the same
/// on all ranks; outputs in the memory of the inputs, or copied.
struct PreparedSums {
  GroupCall call;
  std::int64_t number;
  DType sent;
  std::vector<std::size_t> sizes;  // bytes of each tensor's memory

  void copy(const Args& args) const {
    for (std::size_t i = 0; i < sizes.size(); ++i)
      if (args.in[i] != args.out[i]) std::memcpy(args.out[i], args.in[i], sizes[i]);
  }
  /// Copies the numbers to where their sums are to be; what adds them up there.
  std::function<void(ProcessGroup& group)> sum_of(const Args& args) const {
    copy(args);
    std::vector<std::span<float>> tensors;
    for (std::size_t i = 0; i < sizes.size(); ++i)
      tensors.emplace_back(static_cast<float*>(args.out[i]), sizes[i] / sizeof(float));
    return [tensors = std::move(tensors), sent = sent](ProcessGroup& group) { sum_in_place(group, tensors, sent); };
  }
  static void at_once(const void* self, const Args& args, int /*task*/) noexcept {
    const auto& own = *static_cast<const PreparedSums*>(self);
    own.call.run(args, own.sum_of(args));
  }
  static void begin(const void* self, const Args& args, int /*task*/) noexcept {
    const auto& own = *static_cast<const PreparedSums*>(self);
    own.call.begin(args, own.number, own.sum_of(args));
  }
  static void end(const void* self, const Args& args, int /*task*/) noexcept {
    const auto& own = *static_cast<const PreparedSums*>(self);
    own.call.end(args, own.number);
    own.copy(args);
  }
};

template <class O>
Launch prepare_sums(KernelRequest& request, void (*run)(const void*, const Args&, int) noexcept) {
  const auto& op = static_cast<const O&>(request.op());
  PreparedSums prepared{GroupCall(op.group), 0, DType::f32, {}};
  if constexpr (!std::is_same_v<O, AllReduce>) prepared.number = op.number;
  if constexpr (!std::is_same_v<O, AllReduceEnd>) prepared.sent = op.sent;
  for (std::size_t i = 0; i < request.in.size(); ++i) {
    const TensorDesc& in = request.input(static_cast<int>(i));
    if (in.layout != request.output(static_cast<int>(i)).layout) return decline(request, "takes and gives one layout");
    prepared.sizes.push_back(bytes(in.type, in.layout));
  }
  return {.run = run, .self = std::make_shared<PreparedSums>(std::move(prepared))};
}
Launch prepare_all_reduce(KernelRequest& request) { return prepare_sums<AllReduce>(request, PreparedSums::at_once); }
Launch prepare_begin(KernelRequest& request) { return prepare_sums<AllReduceBegin>(request, PreparedSums::begin); }
Launch prepare_end(KernelRequest& request) { return prepare_sums<AllReduceEnd>(request, PreparedSums::end); }

void check_summed(const char* op, std::span<const Type> in, std::int64_t group) {
  require(!in.empty(), op, ": there are no tensors; give one at least");
  const bool alone = group_of(group).size() == 1;
  for (const Type& type : in)
    require(is_floating(type.dtype) && (alone || type.dtype == DType::f32), op, ": takes ",
            alone ? "floating tensors" : "f32", ", got ", type);
}

template <class O>
std::vector<Sample> samples_of_sums() {
  const auto op = std::make_shared<O>();
  return {{op, {{DType::f32, {3, 7}}}}, {op, {{DType::f32, {70, 33}}, {DType::f32, {}}, {DType::f32, {0, 3}}}}};
}

}  // namespace

GroupNumber::GroupNumber(std::shared_ptr<ProcessGroup> group) : number_(make_known(std::move(group), {})) {}
GroupNumber::GroupNumber(const std::shared_ptr<AsyncGroup>& queue) : number_(make_known(queue->group(), queue)) {}

ProcessGroup& group_of(std::int64_t number) { return *known(number)->group; }

bool propose_layouts_of_inputs(KernelRequest& request) {
  for (std::size_t i = 0; i < request.in.size(); ++i)
    request.values[request.out[i]].layout = request.input(static_cast<int>(i)).layout;
  return true;
}

GroupCall::GroupCall(std::int64_t number) : known_(known(number)) {}

void GroupCall::guarded(const Args& args, const std::function<void()>& call) const noexcept {
  try {
    call();
  } catch (const std::exception& error) {
    try {
      const std::lock_guard lock(known_->mutex);
      if (known_->failure.empty()) known_->failure = error.what();  // what follows from it says less
    } catch (...) {
    }
    *args.status |= kStatusDeviceFault;
  }
}

void GroupCall::run(const Args& args, const std::function<void(ProcessGroup& group)>& call) const noexcept {
  guarded(args, [&] {
    if (known_->queue)
      wait(known_->queue->run(call));
    else
      call(*known_->group);
  });
}

void GroupCall::begin(const Args& args, std::int64_t number,
                      std::function<void(ProcessGroup& group)> call) const noexcept {
  guarded(args, [&] {
    if (!known_->queue) return call(*known_->group);
    const AsyncGroup::Work work = known_->queue->run(std::move(call));
    const std::lock_guard lock(known_->mutex);
    known_->begun.insert_or_assign(number, work);
  });
}

void GroupCall::end(const Args& args, std::int64_t number) const noexcept {
  if (!known_->queue) return;
  guarded(args, [&] {
    std::unique_lock lock(known_->mutex);
    const auto begun = known_->begun.extract(number);
    lock.unlock();
    if (begun.empty()) fail(Fault::failure, "all_reduce_end: nothing was begun under number ", number);
    wait(begun.mapped());
  });
}

void GroupCall::wait(const AsyncGroup::Work& work) const {
  using Clock = std::chrono::steady_clock;
  struct Count {
    KnownGroup& known;
    Clock::time_point since = Clock::now();
    ~Count() {
      const std::lock_guard lock(known.mutex);
      known.waited += std::chrono::duration<double>(Clock::now() - since).count();
    }
  } const count{*known_};
  work.wait();
}

std::string group_failure(std::int64_t group) {
  const std::shared_ptr<KnownGroup> one = known(group);
  const std::lock_guard lock(one->mutex);
  return one->failure;
}

double group_waited(std::int64_t group) {
  const std::shared_ptr<KnownGroup> one = known(group);
  const std::lock_guard lock(one->mutex);
  return one->waited;
}

Types AllReduce::infer(std::span<const Type> in) const {
  check_summed("all_reduce", in, group);
  return {in.begin(), in.end()};
}

Types AllReduceBegin::infer(std::span<const Type> in) const {
  check_summed("all_reduce_begin", in, group);
  return {in.begin(), in.end()};
}

Types AllReduceEnd::infer(std::span<const Type> in) const {
  check_summed("all_reduce_end", in, group);
  return {in.begin(), in.end()};
}

Tensors AllReduce::grad(const Gradient& g) const {
  Tensors of_outputs;
  for (std::size_t i = 0; i < g.out.size(); ++i)
    of_outputs.push_back(g.dout[i] ? g.dout[i] : broadcast_to(scalar_like(g.out[i], 0), g.out[i].shape()));
  return all_reduce(of_outputs, group, sent);
}

std::vector<Sample> AllReduce::samples() const { return samples_of_sums<AllReduce>(); }
std::vector<Sample> AllReduceBegin::samples() const { return samples_of_sums<AllReduceBegin>(); }
std::vector<Sample> AllReduceEnd::samples() const { return samples_of_sums<AllReduceEnd>(); }

Tensors all_reduce(const Tensors& tensors, std::int64_t group, DType sent) {
  auto op = std::make_shared<AllReduce>();
  op->group = group;
  op->sent = sent;
  return neurim::apply(op, tensors);
}

BegunSums all_reduce_begin(const Tensors& tensors, std::int64_t group, DType sent) {
  static std::atomic<std::int64_t> last{0};
  auto op = std::make_shared<AllReduceBegin>();
  op->group = group, op->number = ++last, op->sent = sent;
  const std::int64_t number = op->number;
  return {neurim::apply(std::move(op), tensors), group, number};
}

Tensors all_reduce_end(const BegunSums& begun) {
  auto op = std::make_shared<AllReduceEnd>();
  op->group = begun.group, op->number = begun.number;
  return neurim::apply(op, begun.tensors);
}

void define_distributed() {
  define_shards();
  define_team_ops();
  define<AllReduce>();
  define<AllReduceBegin>();
  define<AllReduceEnd>();
  add_group_kernels(0);
}

void add_group_kernels(std::uint8_t device) {
  add_shard_kernels(device);
  add_team_kernels(device);
  const auto add_kernel = [device](const char* op, Launch (*prepare)(KernelRequest&)) {
    add({.op = op,
         .name = "messages",
         .device = device,
         .prepare = prepare,
         .propose_layouts = propose_layouts_of_inputs});
  };
  add_kernel("all_reduce", prepare_all_reduce);
  add_kernel("all_reduce_begin", prepare_begin);
  add_kernel("all_reduce_end", prepare_end);
}

}  // namespace neurim
