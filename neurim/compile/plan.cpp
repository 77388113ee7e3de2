#include "neurim/compile/plan.h"

#include <malloc.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "neurim/base/error.h"
#include "neurim/compile/plan_instance.h"
#include "neurim/compile/tune.h"
#include "neurim/compile/tuning.h"
#include "neurim/graph/trace.h"
#include "neurim/graph/value.h"

namespace neurim {

namespace {

/// Builds no text unless it throws: a replay allocates nothing.
void check(std::span<const Tensor> tensors, const Tensors& own, const char* what) {
  require(tensors.size() == own.size(), "plan: got ", tensors.size(), ' ', what, "s, was planned for ", own.size());
  for (std::size_t i = 0; i < own.size(); ++i) {
    const Tensor& tensor = tensors[i];
    if (!tensor || tensor.type() != own[i].type())
      fail(Fault::usage, "plan: ", what, ' ', i, " is ", tensor ? text(tensor.type()) : "undefined",
           ", was planned as ", own[i].type());
    require(!tensor.traced(), "plan: ", what, ' ', i,
            " is a value of a trace, which has no data; call the plan outside the traced function, or "
            "call the function that it was made of inside");
    require(tensor.device() == own[i].device() || tensor.device() == Device{}, "plan: ", what, ' ', i, " is on ",
            tensor.device(), "; it has to be on ", own[i].device(), ", where the plan runs, or on cpu");
  }
}

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
Tensors Plan::constants() const {
  Tensors all;
  for (const Slot& slot : instance_->program->slots)
    if (slot.place == Slot::stored && slot.tensor && slot.tensor.value()->constant) all.push_back(slot.tensor);
  return all;
}
std::size_t Plan::arena_bytes() const { return instance_->program->arena_bytes; }
std::size_t Plan::instance_bytes() const {
  std::size_t sum = arena_bytes();
  for (const Tensors& buffers : {inputs(), outputs()})
    for (const Tensor& buffer : buffers) sum += bytes(buffer.type());
  return sum;
}
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
    PlanRow row{.kernel = task.kernel, .compute_dtype = task.compute_dtype, .declined = task.declined};
    for (int number : task.nodes) {
      const Graph::Node& node = program.graph.nodes[number];
      if (!row.op.empty()) row.op += '+';
      row.op += node.op->name();
      if (row.where.empty()) row.where = node.where;
      row.multiply_adds += program.graph.multiply_adds(node);
    }
    if (task.anchor >= 0) {
      const Graph::Node& anchor = program.graph.nodes[task.anchor];
      row.anchor = anchor.op->name();
      for (int value : anchor.in) row.in.push_back(program.graph.values[value].type);
    }
    auto count = [&](int number) {
      const Slot& slot = program.slots[number];
      row.bytes += bytes(program.type(slot), slot.layout);
    };
    std::for_each(task.in.begin(), task.in.end(), count);
    std::for_each(task.out.begin(), task.out.end(), count);
    if (!task.out.empty()) row.layout = text(program.slots[task.out[0]].layout);
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
    const std::vector<double> times = instance.run_timed(std::vector<bool>(instance.calls.size(), true));
    for (std::size_t i = 0; i < times.size(); ++i) seconds[i].push_back(times[i]);
  }
  instance.check_status();
  std::vector<PlanRow> rows = this->rows();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::sort(seconds[i].begin(), seconds[i].end());
    if (!seconds[i].empty()) rows[i].seconds = seconds[i][seconds[i].size() / 2];
  }
  return rows;
}

double rounded_share(const std::vector<PlanRow>& rows) {
  std::int64_t all = 0, rounded = 0;
  for (const PlanRow& row : rows) {
    all += row.multiply_adds;
    if (storage_of(row.compute_dtype)) rounded += row.multiply_adds;
  }
  return all == 0 ? 0 : static_cast<double>(rounded) / static_cast<double>(all);
}

/// The graph without custom_gradient: gradients have been taken, and its functions hold what the caller gave them.
static Graph without_custom_gradients(Graph graph) {
  const auto own = [](const Graph::Node& node) { return node.op->name() == "custom_gradient"; };
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), own)) return graph;
  return rewrite(graph, [&](const Graph::Node& node, const Tensors& in) {
    return own(node) ? node.op->decompose(in) : Tensors();
  });
}

Plan plan(const std::function<Tensors(Tensors)>& function, const Types& inputs, const PlanOptions& options) {
  require(options.compute_dtype == DType::f32 || storage_of(options.compute_dtype),
          "products: they are of f32, bf16 or f16, not ", options.compute_dtype);
  Trace trace({.training = options.training, .device = options.device, .random = options.random});
  Tensors in;
  for (std::size_t i = 0; i < inputs.size(); ++i) in.push_back(trace.input(inputs[i], text("input_", i)));
  Graph graph = without_custom_gradients(trace.finish(function(in)));
  auto program = std::make_shared<const Program>(build(graph, options));
  if (options.tuning && to_measure(*program, *options.tuning)) {
    tune(graph, options);
    program = std::make_shared<const Program>(build(graph, options));
  }
  if (options.training) ::malloc_trim(0);  // weights have moved: their old blocks go back to the system
  Plan planned;
  planned.instance_ = std::make_shared<PlanInstance>(std::move(graph), options, std::move(program));
  return planned;
}

Plan plan(const Graph& graph, const Types& inputs, const PlanOptions& options) {
  return plan([&](const Tensors& in) { return call(graph, in); }, inputs, options);
}

/// The plans of one signature.
struct Compiled::Signature {
  Types types;
  std::mutex planning;
  std::optional<Plan> first;  ///< what plan_for gives; calls run forks of it
  std::mutex mutex;           ///< of the list
  std::vector<Plan> idle;     ///< forks that no call runs
};

Compiled::Compiled(std::function<Tensors(Tensors)> function, const PlanOptions& options, std::size_t most)
    : function_(std::move(function)), options_(options), most_(most), mutex_(std::make_unique<std::mutex>()) {
  require(most >= 1, "compiled: at least one plan has to be kept");
}

Compiled::Compiled(const Graph& graph, const PlanOptions& options, std::size_t most)
    : Compiled([graph = std::make_shared<const Graph>(graph)](const Tensors& in) { return call(*graph, in); }, options,
               most) {}

std::size_t Compiled::size() const {
  const std::lock_guard lock(*mutex_);
  return signatures_.size();
}

std::size_t Compiled::instance_bytes() const {
  const std::lock_guard lock(*mutex_);
  std::size_t sum = 0;
  for (const auto& kept : signatures_) {
    const std::lock_guard list(kept->mutex);
    if (kept->first) sum += kept->first->instance_bytes();
    for (const Plan& fork : kept->idle) sum += fork.instance_bytes();
  }
  return sum;
}

std::shared_ptr<Compiled::Signature> Compiled::signature(const Types& inputs) {
  std::shared_ptr<Signature> found;
  {
    const std::lock_guard lock(*mutex_);
    const auto at = std::find_if(signatures_.begin(), signatures_.end(),
                                 [&](const auto& each) { return each->types == inputs; });
    if (at != signatures_.end()) {
      std::rotate(at, at + 1, signatures_.end());
    } else {
      signatures_.push_back(std::make_shared<Signature>());
      signatures_.back()->types = inputs;
    }
    found = signatures_.back();
  }
  const std::lock_guard lock(found->planning);
  if (found->first) return found;
  try {
    found->first = plan(function_, inputs, options_);
  } catch (...) {
    const std::lock_guard list(*mutex_);
    std::erase(signatures_, found);
    throw;
  }
  const std::lock_guard list(*mutex_);  // only what could be planned takes the place of another one
  if (signatures_.size() > most_) signatures_.erase(signatures_.begin());
  return found;
}

Plan Compiled::plan_for(const Types& inputs) { return *signature(inputs)->first; }

Tensors Compiled::operator()(const Tensors& in) {
  if (std::any_of(in.begin(), in.end(), [](const Tensor& tensor) { return tensor.traced(); })) return function_(in);
  Types types;
  for (const Tensor& tensor : in) types.push_back(tensor.type());
  const std::shared_ptr<Signature> own = signature(types);
  std::optional<Plan> mine;
  {
    const std::lock_guard lock(own->mutex);
    if (!own->idle.empty()) mine = std::move(own->idle.back()), own->idle.pop_back();
  }
  if (!mine) mine = own->first->fork();
  Tensors out = (*mine)(in);
  const std::lock_guard lock(own->mutex);
  own->idle.push_back(std::move(*mine));
  return out;
}

}  // namespace neurim
