#include "neurim/compile/plan_instance.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <set>

#include "neurim/base/error.h"
#include "neurim/compile/passes.h"
#include "neurim/graph/trace.h"
#include "neurim/graph/value.h"

namespace neurim {

constexpr std::array kHalves{DType::f16, DType::bf16};
constexpr int kFixedChunks = 8;  // of deterministic plans: enough to feed eight threads

Program build(const Graph& traced, const PlanOptions& options) {
  const LowerOptions lowering{.interpret = options.interpret,
                              .training = options.training && !options.interpret,
                              .chunks = options.deterministic ? kFixedChunks : threads(),
                              .compute_dtype = options.compute_dtype,
                              .winograd = options.winograd,
                              .tuning = options.tuning.get()};
  Graph graph = traced;
  if (options.freeze) graph = freeze(graph);
  // Kernels are made for f32 and round as compute_dtype says; reference kernels take every type.
  if (options.freeze && !options.interpret) graph = recognise(computed_in(graph, DType::f32, kHalves));
  graph = decompose(graph, lowering);  // first: gradients may repeat what a forward op decomposes to
  if (!options.interpret) {
    graph = fold(slice_first(graph));
    if (options.freeze) graph = fold(fold_batch_norm(graph));
    graph = quantize_first(graph);
    graph = dequantize_apart(graph);                           // after fold, which would make them one again
    if (options.training) graph = recompute(graph, lowering);  // last: fold would make one value of two
  }
  Program program = lower(std::move(graph), lowering);
  plan_memory(program);
  return program;
}

PlanInstance::PlanInstance(Graph graph, PlanOptions with, std::shared_ptr<const Program> lowered,
                           std::shared_ptr<Storage> memory)
    : traced(std::move(graph)), options(std::move(with)), program(std::move(lowered)), arena(std::move(memory)) {
  stream = driver(options.device).stream(options.device.index);
  for (int slot : program->inputs) inputs.push_back(Tensor::empty(type_of(slot), options.device));
  for (int slot : program->outputs) outputs.push_back(Tensor::empty(type_of(slot), options.device));
  resolve();
}

/// Fills the pointer table; again whenever a state's storage has moved.
void PlanInstance::resolve() {
  if (!arena || arena->bytes() < program->arena_bytes)
    arena = std::make_shared<Storage>(options.device, program->arena_bytes);
  states.clear();
  std::set<const Value*> assigned;
  for (const Graph::Commit& commit : program->graph.commits)
    assigned.insert(program->graph.values[commit.state].captured.value());
  const auto follow = [&](const Tensor& tensor, const Layout& layout, bool changes) {
    states.push_back({tensor.value(), tensor.value()->epoch, layout, changes});
  };
  for (const Slot& slot : program->slots)
    if (slot.place == Slot::stored && slot.tensor && !slot.tensor.value()->constant)
      follow(slot.tensor, slot.layout, assigned.count(slot.tensor.value()) > 0);
  for (const Tensor& tensor : inputs) follow(tensor, {}, true);
  for (const Tensor& tensor : outputs) follow(tensor, {}, true);
  calls.clear();
  pointers.clear();
  for (const Task& task : program->tasks) {
    calls.push_back({task.launch, static_cast<std::uint32_t>(pointers.size()),
                     static_cast<std::uint16_t>(task.in.size()), static_cast<std::uint16_t>(task.out.size()),
                     task.commits, task.workspace_step});
    for (int slot : task.in) pointers.push_back(pointer(slot));
    for (int slot : task.out) pointers.push_back(pointer(slot));
    pointers.push_back(task.scratch ? static_cast<char*>(arena->data()) + task.scratch_offset : nullptr);
    pointers.push_back(task.launch.workspace ? static_cast<char*>(arena->data()) + task.workspace_offset : nullptr);
  }
}

void* PlanInstance::memory(int number) const {
  const Slot& slot = program->slots[program->owner(number)];
  switch (slot.place) {
    case Slot::arena: return static_cast<char*>(arena->data()) + slot.offset;
    case Slot::stored: return slot.tensor.value()->storage->data();
    case Slot::input: return inputs[slot.index].value()->storage->data();
    case Slot::output: return outputs[slot.index].value()->storage->data();
  }
  return nullptr;
}

void PlanInstance::follow_states() {
  bool moved = false, repacked = false;
  for (const State& state : states) {
    const std::string_view name = state.value->name;
    require(state.value->device == options.device, "plan: ", name.empty() ? "a state" : name, " was placed on ",
            state.value->device, " after it was planned for ", options.device, "; plan again, or place it back");
    if (state.changes) about_to_change(*state.value);  // before its epoch is compared
    moved |= state.value->epoch != state.epoch;
    repacked |= state.value->layout != state.layout;
  }
  if (repacked) program = std::make_shared<const Program>(build(traced, options));
  if (moved || repacked) resolve();
}

void PlanInstance::copy(const Tensor& from, const Tensor& to) const {
  if (from.value()->storage == to.value()->storage) return;
  const Tensor source = plain(from);
  about_to_change(*to.value());
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

void PlanInstance::check_status() {
  if (status & kStatusIndexOutOfRange) fail(Fault::data, data_fault(), "; nothing was changed by this step");
  if (status & kStatusOutOfMemory)
    fail(Fault::resource,
         "out of memory; nothing was changed by this step; use a smaller batch or imgsz, or fewer threads");
  if (status)
    fail(Fault::failure, "plan: ", options.device, " reported fault ", status, "; nothing was changed by this step");
}

/// The message of the first launch that finds its data at fault. The launches run again one by one: a failed step has
/// changed nothing, and the data that a launch read are there until the next one runs.
std::string PlanInstance::data_fault() {
  status = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    stream->run({&calls[i], 1}, pointers.data(), &status);
    stream->wait();
    if (!(status & kStatusIndexOutOfRange)) continue;
    const Task& task = program->tasks[i];
    const auto node_of = [&](int n) -> const Graph::Node& { return program->graph.nodes[n]; };
    const auto at = std::find_if(task.nodes.begin(), task.nodes.end(),
                                 [&](int n) { return node_of(n).op->checks_data(); });
    NEURIM_ASSERT(at != task.nodes.end());
    const Graph::Node& node = node_of(*at);
    Tensors in;  // the checked data were made before the task
    for (const int value : node.in) in.push_back(read_by(task, value));
    return text(node.where, node.where.empty() ? "" : ": ", data_fault_of(*node.op, in));
  }
  return "plan: a label or an index is outside its range";
}

/// A value as the task has just read it, on the CPU; of floating ones the type alone.
Tensor PlanInstance::read_by(const Task& task, int value) const {
  const Type& type = program->graph.values[value].type;
  const Tensor read = Tensor::empty(type);
  if (is_floating(type.dtype)) return read;
  const auto slot = std::find_if(task.in.begin(), task.in.end(),
                                 [&](int number) { return program->slots[number].value == value; });
  NEURIM_ASSERT(slot != task.in.end());
  const Layout& layout = program->slots[*slot].layout;
  std::vector<std::byte> physical(bytes(type, layout)), host(bytes(type));
  stream->download(physical.data(), pointer(*slot), physical.size());
  stream->wait();
  unpack(type, layout, physical.data(), host.data());
  read.write(host.data());
  return read;
}

std::vector<double> PlanInstance::run_timed(const std::vector<bool>& which) {
  std::vector<double> seconds(calls.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (!which[i]) continue;
    const auto start = std::chrono::steady_clock::now();
    stream->run({&calls[i], 1}, pointers.data(), &status);
    stream->wait();
    seconds[i] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return seconds;
}

}  // namespace neurim
