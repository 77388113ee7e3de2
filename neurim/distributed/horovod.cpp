#include "neurim/distributed/horovod.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/distributed/all_reduce.h"
#include "neurim/distributed/joinable_group.h"
#include "neurim/distributed/reduce_gradients.h"

namespace neurim::hvd {

namespace {

constexpr double kStallCheck = 60;                  // Horovod's
constexpr std::size_t kFusionThreshold = 64 << 20;  // the same

double seconds_in(const char* name, double otherwise) {
  const char* const word = std::getenv(name);
  if (!word) return otherwise;
  char* end = nullptr;
  const double seconds = std::strtod(word, &end);
  require(end != word && *end == 0 && seconds >= 0, name, " is '", word, "'; it is a number of seconds");
  return seconds;
}

/// Names operations that wait for long on stderr.
class StallCheck {
 public:
  StallCheck(std::shared_ptr<ProcessGroup> group, double after) : group_(std::move(group)) {
    if (after > 0) thread_ = std::thread([this, after] { watch(after); });
  }
  ~StallCheck() {
    ends_ = true;
    if (thread_.joinable()) thread_.join();
  }
  StallCheck(const StallCheck&) = delete;
  StallCheck& operator=(const StallCheck&) = delete;

 private:
  void watch(double after) const {
    std::string told;
    while (!ends_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      double seconds = 0;
      const std::string operation = group_->under_way(seconds);
      if (seconds < after || operation == told) continue;
      std::fprintf(stderr, "neurim: rank %d waits for other ranks in %s since %s seconds\n", group_->rank(),
                   operation.c_str(), fixed(seconds, 1).c_str());
      told = operation;
    }
  }
  const std::shared_ptr<ProcessGroup> group_;
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

/// What init() has found.
struct World {
  Place place;
  std::shared_ptr<ProcessGroup> plain;
  std::shared_ptr<JoinableGroup> group;
  std::shared_ptr<AsyncGroup> background;
  GroupNumber number;  // of the group, for ops
  StallCheck stalls;

  explicit World(const Place& where)
      : place(where),
        plain(join_job(where)),
        group(std::make_shared<JoinableGroup>(plain)),
        background(std::make_shared<AsyncGroup>(group)),
        number(background),
        stalls(plain, seconds_in("HOROVOD_STALL_CHECK_TIME_SECONDS", kStallCheck)) {}
};
std::unique_ptr<World>& current() {
  static auto* const world = new std::unique_ptr<World>;  // outlives all that is destroyed at the end
  return *world;
}

World& world() {
  require(current() != nullptr, "hvd: call init() first");
  return *current();
}

/// Runs an operation behind those that are in the background.
template <class Call>
void in_order(const Call& call) {
  world().background->run([&](ProcessGroup& group) { call(group); }).wait();
}

Reduction reduction_of(ReduceOp op) {
  constexpr Reduction kAll[] = {Reduction::sum, Reduction::sum, Reduction::min, Reduction::max, Reduction::product};
  return kAll[static_cast<std::size_t>(op)];
}

void check_type(const char* what, const Tensor& tensor) {
  require(tensor.dtype() == DType::f32 || tensor.dtype() == DType::f64, what, ": takes f32 and f64, got ",
          tensor.type());
}

template <class Number>
Tensors reduced(ProcessGroup& group, const Tensors& tensors, ReduceOp op, DType compression) {
  std::vector<Number> all;
  for (const Tensor& tensor : tensors) {
    const std::vector<Number> values = tensor.values<Number>();
    all.insert(all.end(), values.begin(), values.end());
  }
  if constexpr (std::is_same_v<Number, float>)
    group.all_reduce(all, reduction_of(op), compression);
  else
    group.all_reduce(all, reduction_of(op));
  if (op == ReduceOp::Average)
    for (Number& value : all) value /= static_cast<Number>(group.size());
  Tensors out;
  const Number* at = all.data();
  for (const Tensor& tensor : tensors) {
    out.push_back(Tensor::empty(tensor.type(), tensor.device()));
    out.back().write(at);
    at += std::int64_t{tensor.numel()};
  }
  return out;
}

Tensors reduced_of_type(ProcessGroup& group, const Tensors& tensors, ReduceOp op, DType compression) {
  return tensors[0].dtype() == DType::f64 ? reduced<double>(group, tensors, op, compression)
                                          : reduced<float>(group, tensors, op, compression);
}

std::string bytes_of(const Tensor& tensor) {
  std::string data(bytes(tensor.type()), '\0');
  tensor.read(data.data());
  return data;
}

/// Rows of all ranks as one tensor.
Tensor from_rows(const Type& like, const std::vector<std::string>& parts, Device device) {
  Type row = like;
  row.shape[0] = 1;
  const std::size_t of_row = std::max<std::size_t>(bytes(row), 1);
  std::string all;
  for (const std::string& part : parts) {
    require(part.size() % of_row == 0, "hvd: ranks have rows of different sizes: ", part.size(),
            " bytes are no rows of ", of_row);
    all += part;
  }
  Type type = like;
  type.shape[0] = static_cast<std::int64_t>(all.size() / of_row);
  const Tensor out = Tensor::empty(type, device);
  out.write(all.data());
  return out;
}

void check_rows(const char* what, const Tensor& tensor) {
  require(tensor.rank() >= 1 && tensor.numel() > 0, what, ": takes tensors with rows, got ", tensor.type());
}

}  // namespace

void init() {
  if (is_initialized()) return;
  Place place = place_of_process();
  place.timeout = seconds_in("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", place.timeout);
  current() = std::make_unique<World>(place);
}

void shutdown() { (void)current().release(); }  // optimizers may use it still
bool is_initialized() { return current() != nullptr; }
int rank() { return world().place.rank; }
int size() { return world().place.size; }
int local_rank() { return world().place.local_rank; }
int local_size() { return world().place.local_size; }
std::string backend() { return world().plain->backend(); }

Tensor allreduce(const Tensor& tensor, ReduceOp op, DType compression) {
  return grouped_allreduce({tensor}, op, compression)[0];
}

Tensors grouped_allreduce(const Tensors& tensors, ReduceOp op, DType compression) {
  require(!tensors.empty(), "allreduce: there are no tensors");
  for (const Tensor& tensor : tensors) {
    check_type("allreduce", tensor);
    require(tensor.dtype() == tensors[0].dtype(), "allreduce: a group has one dtype, got ", tensors[0].dtype(), " and ",
            tensor.dtype());
  }
  Tensors out;
  in_order([&](ProcessGroup& group) { out = reduced_of_type(group, tensors, op, compression); });
  return out;
}

Tensor allgather(const Tensor& tensor) {
  check_rows("allgather", tensor);
  std::vector<std::string> parts;
  in_order([&](ProcessGroup& group) { parts = group.all_gather(std::string_view(bytes_of(tensor))); });
  return from_rows(tensor.type(), parts, tensor.device());
}

Tensor broadcast(const Tensor& tensor, int root_rank) {
  std::string data = bytes_of(tensor);
  in_order([&](ProcessGroup& group) { group.broadcast(std::as_writable_bytes(std::span(data)), root_rank); });
  const Tensor out = Tensor::empty(tensor.type(), tensor.device());
  out.write(data.data());
  return out;
}

Tensor alltoall(const Tensor& tensor, const std::vector<std::int64_t>& splits) {
  check_rows("alltoall", tensor);
  const std::int64_t rows = tensor.size(0);
  std::vector<std::int64_t> counts = splits;
  if (counts.empty()) {
    require(rows % size() == 0, "alltoall: ", rows, " rows are no equal parts for ", size(), " ranks; give splits");
    counts.assign(static_cast<std::size_t>(size()), rows / size());
  }
  std::int64_t sum = 0;
  for (const std::int64_t count : counts) {
    require(count >= 0, "alltoall: a split has ", count, " rows");
    sum += count;
  }
  require(std::ssize(counts) == size() && sum == rows, "alltoall: ", counts.size(), " splits of ", sum, " rows for ",
          size(), " ranks and ", rows, " rows");
  const std::string data = bytes_of(tensor);
  const std::size_t of_row = data.size() / static_cast<std::size_t>(rows);
  std::vector<std::string> out, in;
  std::size_t at = 0;
  for (const std::int64_t count : counts) {
    out.push_back(data.substr(at, static_cast<std::size_t>(count) * of_row));
    at += out.back().size();
  }
  in_order([&](ProcessGroup& group) { in = group.all_to_all(out); });
  return from_rows(tensor.type(), in, tensor.device());
}

Tensor reducescatter(const Tensor& tensor, ReduceOp op) {
  check_rows("reducescatter", tensor);
  require(tensor.dtype() == DType::f32, "reducescatter: takes f32, got ", tensor.type());
  require(op == ReduceOp::Sum || op == ReduceOp::Average, "reducescatter: takes Sum and Average");
  std::vector<float> values = tensor.values<float>();
  const auto rows = static_cast<std::size_t>(std::int64_t{tensor.size(0)});
  const std::size_t of_row = values.size() / rows, ranks = static_cast<std::size_t>(size());
  std::vector<std::size_t> bounds{0};  // the first ranks have one row more
  for (std::size_t r = 0; r < ranks; ++r)
    bounds.push_back(bounds.back() + (rows / ranks + (r < rows % ranks)) * of_row);
  in_order([&](ProcessGroup& group) { group.reduce_scatter(values, bounds, DType::f32); });
  const auto own = static_cast<std::size_t>(rank());
  std::string part(reinterpret_cast<const char*>(values.data() + bounds[own]),
                   (bounds[own + 1] - bounds[own]) * sizeof(float));
  const Tensor sum = from_rows(tensor.type(), {part}, tensor.device());
  if (op == ReduceOp::Sum) return sum;
  std::vector<float> mean = sum.values<float>();
  for (float& value : mean) value /= static_cast<float>(size());
  sum.write(mean.data());
  return sum;
}

void barrier() {
  in_order([](ProcessGroup& group) { group.barrier(); });
}

int join() {
  int last = 0;
  in_order([&](ProcessGroup& group) { last = static_cast<JoinableGroup&>(group).join(); });
  return last;
}

struct Handle::State {
  AsyncGroup::Work work;
  Tensor result;
};

Handle allreduce_async(const Tensor& tensor, ReduceOp op, DType compression) {
  check_type("allreduce_async", tensor);
  Handle handle;
  handle.state_ = std::make_shared<Handle::State>();
  handle.state_->work = world().background->run([=, state = handle.state_](ProcessGroup& group) {
    state->result = reduced_of_type(group, {tensor}, op, compression)[0];
  });
  return handle;
}

bool poll(const Handle& handle) { return handle.state_->work.done(); }

Tensor synchronize(const Handle& handle) {
  handle.state_->work.wait();
  return handle.state_->result;
}

void broadcast_parameters(ModuleRef module, int root_rank) {
  for (const Parameter& parameter : named_parameters(module)) {
    const Tensor of_root = broadcast(parameter.tensor, root_rank);
    if (rank() != root_rank) parameter.tensor.write(bytes_of(of_root).data());
  }
}

void broadcast_optimizer_state(Optimizer& optimizer, int root_rank) {
  broadcast_parameters(ModuleRef(optimizer), root_rank);
}

void distribute(Optimizer& optimizer, DType compression, int backward_passes_per_step) {
  require(backward_passes_per_step >= 1, "DistributedOptimizer: backward_passes_per_step is ", backward_passes_per_step,
          "; it is at least 1");
  if (backward_passes_per_step > 1) optimizer.accumulate();
  if (size() == 1) return;
  const double bytes = seconds_in("HOROVOD_FUSION_THRESHOLD", static_cast<double>(kFusionThreshold));
  optimizer.add(std::make_unique<ReduceGradients>(world().number, compression, static_cast<std::size_t>(bytes)));
}

}  // namespace neurim::hvd
