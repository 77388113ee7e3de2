#include "neurim/compile/plan.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "neurim/base/error.h"
#include "neurim/compile/passes.h"
#include "neurim/compile/program.h"
#include "neurim/graph/trace.h"
#include "neurim/graph/value.h"

namespace neurim {

namespace {

constexpr int kFixedChunks = 8;  // of deterministic plans: enough to feed eight threads

Program build(const Graph& traced, const PlanOptions& options) {
  Graph graph = traced;
  const int chunks = options.deterministic ? kFixedChunks : threads();
  const LowerOptions lowering{options.interpret, options.training && !options.interpret, chunks, options.products, options.winograd};
  if (options.freeze) graph = freeze(graph);
  graph = decompose(graph, options.interpret, options.training);  // first: gradients may repeat what a forward op decomposes to
  if (!options.interpret) {
    graph = fold(graph);
    if (options.freeze) graph = fold(fold_batch_norm(graph));
    graph = dequantize_apart(graph);  // after fold, which would make them one again
    if (options.training) graph = recompute(graph, lowering);  // last: fold would make one value of two
  }
  Program program = lower(std::move(graph), lowering);
  plan_memory(program);
  return program;
}

/// Builds no text unless it throws: a replay allocates nothing.
void check(std::span<const Tensor> tensors, const Tensors& own, const char* what) {
  require(tensors.size() == own.size(), "plan: got ", tensors.size(), ' ', what, "s, was planned for ", own.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    const Tensor& tensor = tensors[i];
    if (!tensor || tensor.type() != own[i].type())
      fail(Fault::usage, "plan: ", what, ' ', i, " is ", tensor ? text(tensor.type()) : "undefined", ", was planned as ",
           own[i].type());
    require(tensor.device() == own[i].device() || tensor.device() == Device{}, "plan: ", what, ' ', i, " is on ",
            tensor.device(), "; it has to be on ", own[i].device(), ", where the plan runs, or on cpu");
  }
}

}  // namespace

/// What a replay needs, resolved to pointers.
struct PlanInstance {
  Graph traced;
  PlanOptions options;
  std::shared_ptr<const Program> program;
  std::unique_ptr<Storage> arena;
  Tensors inputs, outputs;
  std::vector<Call> calls;
  std::vector<void*> pointers;
  struct State {
    Value* value;
    std::uint64_t epoch;
    Layout layout;
  };
  std::vector<State> states;
  std::unique_ptr<Stream> stream;
  std::uint32_t status = 0;
  std::atomic<bool> busy{false};

  PlanInstance(Graph graph, PlanOptions with, std::shared_ptr<const Program> lowered)
      : traced(std::move(graph)), options(std::move(with)), program(std::move(lowered)) {
    stream = driver(options.device).stream(options.device.index);
    for (int slot : program->inputs) inputs.push_back(Tensor::empty(type_of(slot), options.device));
    for (int slot : program->outputs) outputs.push_back(Tensor::empty(type_of(slot), options.device));
    resolve();
  }

  Type type_of(int slot) const { return program->type(program->slots[static_cast<std::size_t>(slot)]); }

  /// Fills the pointer table; again whenever a state's storage has moved.
  void resolve() {
    if (!arena || arena->bytes() < program->arena_bytes)
      arena = std::make_unique<Storage>(options.device, program->arena_bytes);
    states.clear();
    for (const Slot& slot : program->slots)
      if (slot.place == Slot::stored && slot.tensor && !slot.tensor.value()->constant)
        states.push_back({slot.tensor.value(), slot.tensor.value()->epoch, slot.layout});
    calls.clear();
    pointers.clear();
    for (const Task& task : program->tasks) {
      calls.push_back({task.launch, static_cast<std::uint32_t>(pointers.size()), static_cast<std::uint16_t>(task.in.size()),
                       static_cast<std::uint16_t>(task.out.size()), task.commits});
      for (int slot : task.in) pointers.push_back(pointer(slot));
      for (int slot : task.out) pointers.push_back(pointer(slot));
      pointers.push_back(task.scratch ? static_cast<char*>(arena->data()) + task.scratch_offset : nullptr);
    }
  }

  void* pointer(int number) const { return static_cast<char*>(memory(number)) + program->shift(number); }
  void* memory(int number) const {
    const Slot& slot = program->slots[static_cast<std::size_t>(program->owner(number))];
    switch (slot.place) {
      case Slot::arena: return static_cast<char*>(arena->data()) + slot.offset;
      case Slot::stored: return slot.tensor.value()->storage->data();
      case Slot::input: return inputs[static_cast<std::size_t>(slot.index)].value()->storage->data();
      case Slot::output: return outputs[static_cast<std::size_t>(slot.index)].value()->storage->data();
    }
    return nullptr;
  }

  /// Follows states that were moved (new pointers) or repacked by another plan (lowered again).
  void follow_states() {
    bool moved = false, repacked = false;
    for (const State& state : states) {
      const std::string_view name = state.value->name;
      require(state.value->device == options.device, "plan: ", name.empty() ? "a state" : name, " was placed on ",
              state.value->device, " after it was planned for ", options.device, "; plan again, or place it back");
      moved |= state.value->epoch != state.epoch;
      repacked |= state.value->layout != state.layout;
    }
    if (repacked) program = std::make_shared<const Program>(build(traced, options));
    if (moved || repacked) resolve();
  }

  /// Queues a copy between two tensors on the plan's device, or between one there and one on the CPU.
  void copy(const Tensor& from, const Tensor& to) const {
    if (from.value()->storage == to.value()->storage) return;
    const Tensor source = plain(from);
    void* const target = to.value()->storage->data();
    const void* const data = source.value()->storage->data();
    if (from.device() == to.device())
      stream->copy(target, data, bytes(from.type()));
    else if (from.device() == Device{})
      stream->upload(target, data, bytes(from.type()));
    else
      stream->download(target, data, bytes(from.type()));
    if (source.value() != from.value()) stream->wait();
  }

  void check_status() {
    if (status & kStatusIndexOutOfRange) fail(Fault::data, data_fault(), "; nothing was changed by this step");
    if (status) fail(Fault::failure, "plan: ", options.device, " reported fault ", status, "; nothing was changed by this step");
  }

  /// What the first launch says that finds its data at fault. The launches run again one by one: a failed step has changed
  /// nothing, and what that launch has read is there until the next one runs.
  std::string data_fault() {
    status = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      stream->run({&calls[i], 1}, pointers.data(), &status);
      stream->wait();
      if (!(status & kStatusIndexOutOfRange)) continue;
      const Task& task = program->tasks[i];
      const Graph::Node& node = program->graph.nodes[static_cast<std::size_t>(task.nodes[0])];
      Tensors in;  // all made before the task: the node is its first
      for (const int value : node.in) in.push_back(read_by(task, value));
      return text(node.where, node.where.empty() ? "" : ": ", data_fault_of(*node.op, in));
    }
    return "plan: a label or an index is outside its range";
  }

  /// A value as the task has just read it, on the CPU; of floating ones the type alone.
  Tensor read_by(const Task& task, int value) const {
    const Type& type = program->graph.values[static_cast<std::size_t>(value)].type;
    const Tensor read = Tensor::empty(type);
    if (is_floating(type.dtype)) return read;
    const auto slot = std::find_if(task.in.begin(), task.in.end(), [&](int number) {
      return program->slots[static_cast<std::size_t>(number)].value == value;
    });
    NEURIM_ASSERT(slot != task.in.end());
    const Layout& layout = program->slots[static_cast<std::size_t>(*slot)].layout;
    std::vector<std::byte> physical(bytes(type, layout)), host(bytes(type));
    stream->download(physical.data(), pointer(*slot), physical.size());
    stream->wait();
    unpack(type, layout, physical.data(), host.data());
    read.write(host.data());
    return read;
  }
};

namespace {

/// Holds a plan for one replay.
class Busy {
 public:
  explicit Busy(PlanInstance& instance) : instance_(instance) {
    require(!instance.busy.exchange(true, std::memory_order_acquire),
            "plan: is running already; fork() it to run the same program from another thread");
  }
  ~Busy() { instance_.busy.store(false, std::memory_order_release); }

 private:
  PlanInstance& instance_;
};

}  // namespace

void Plan::run(std::span<const Tensor> in, std::span<const Tensor> out) const {
  PlanInstance& instance = *instance_;
  const Busy busy(instance);
  check(in, instance.inputs, "input");
  check(out, instance.outputs, "output");
  instance.follow_states();
  for (std::size_t i = 0; i < in.size(); ++i) instance.copy(in[i], instance.inputs[i]);
  instance.status = 0;
  instance.stream->run(instance.calls, instance.pointers.data(), &instance.status);
  for (std::size_t i = 0; i < out.size(); ++i) instance.copy(instance.outputs[i], out[i]);
  instance.stream->wait();
  instance.check_status();
}

Tensors Plan::operator()(const Tensors& in) const {
  Tensors out;
  for (const Tensor& own : instance_->outputs) out.push_back(Tensor::empty(own.type(), own.device()));
  run(in, out);
  return out;
}

const Tensors& Plan::inputs() const { return instance_->inputs; }
const Tensors& Plan::outputs() const { return instance_->outputs; }
std::size_t Plan::arena_bytes() const { return instance_->program->arena_bytes; }
const Graph& Plan::graph() const { return instance_->program->graph; }

Plan Plan::fork() const {
  Plan other;
  other.instance_ = std::make_shared<PlanInstance>(instance_->traced, instance_->options, instance_->program);
  return other;
}

std::vector<PlanRow> Plan::rows() const {
  const Program& program = *instance_->program;
  std::vector<PlanRow> rows;
  for (const Task& task : program.tasks) {
    PlanRow row{.kernel = task.kernel, .products = task.products, .declined = task.declined};
    for (int number : task.nodes) {
      const Graph::Node& node = program.graph.nodes[static_cast<std::size_t>(number)];
      if (!row.op.empty()) row.op += '+';
      row.op += node.op->name();
      if (row.where.empty()) row.where = node.where;
      row.multiply_adds += program.graph.multiply_adds(node);
    }
    if (task.anchor >= 0) {
      const Graph::Node& anchor = program.graph.nodes[static_cast<std::size_t>(task.anchor)];
      row.anchor = anchor.op->name();
      for (int value : anchor.in) row.in.push_back(program.graph.values[static_cast<std::size_t>(value)].type);
    }
    auto count = [&](int number) {
      const Slot& slot = program.slots[static_cast<std::size_t>(number)];
      row.bytes += bytes(program.type(slot), slot.layout);
    };
    std::for_each(task.in.begin(), task.in.end(), count);
    std::for_each(task.out.begin(), task.out.end(), count);
    if (!task.out.empty()) row.layout = text(program.slots[static_cast<std::size_t>(task.out[0])].layout);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<PlanRow> Plan::profile(int replays) const {
  PlanInstance& instance = *instance_;
  const Busy busy(instance);
  instance.follow_states();
  std::vector<std::vector<double>> seconds(instance.calls.size());
  for (int replay = 0; replay < replays; ++replay) {
    instance.status = 0;
    for (std::size_t i = 0; i < instance.calls.size(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      instance.stream->run({&instance.calls[i], 1}, instance.pointers.data(), &instance.status);
      instance.stream->wait();
      seconds[i].push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  }
  instance.check_status();
  std::vector<PlanRow> rows = this->rows();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::sort(seconds[i].begin(), seconds[i].end());
    if (!seconds[i].empty()) rows[i].seconds = seconds[i][seconds[i].size() / 2];
  }
  return rows;
}

double bf16_share(const std::vector<PlanRow>& rows) {
  std::int64_t all = 0, rounded = 0;
  for (const PlanRow& row : rows) {
    all += row.multiply_adds;
    if (row.products == DType::bf16) rounded += row.multiply_adds;
  }
  return all == 0 ? 0 : static_cast<double>(rounded) / static_cast<double>(all);
}

Plan plan(const std::function<Tensors(Tensors)>& function, const Types& inputs, const PlanOptions& options) {
  require(options.products == DType::f32 || options.products == DType::bf16, "products: they are of f32 or bf16, not ", options.products);
  Trace trace({.training = options.training, .device = options.device, .random = options.random});
  Tensors in;
  for (std::size_t i = 0; i < inputs.size(); ++i) in.push_back(trace.input(inputs[i], text("input_", i)));
  Graph graph = trace.finish(function(in));
  Plan planned;
  auto program = std::make_shared<const Program>(build(graph, options));
  planned.instance_ = std::make_shared<PlanInstance>(std::move(graph), options, std::move(program));
  return planned;
}

Compiled::Compiled(std::function<Tensors(Tensors)> function, const PlanOptions& options)
    : function_(std::move(function)), options_(options) {}

const Plan& Compiled::plan_for(const Types& inputs) {
  for (const auto& [types, known] : plans_)
    if (types == inputs) return known;
  return plans_.emplace_back(inputs, plan(function_, inputs, options_)).second;
}

Tensors Compiled::operator()(const Tensors& in) {
  Types types;
  for (const Tensor& tensor : in) types.push_back(tensor.type());
  return plan_for(types)(in);
}

}  // namespace neurim
