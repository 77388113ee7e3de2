#include "neurim/train/pipeline_stepping.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "neurim/base/error.h"
#include "neurim/compile/stages.h"
#include "neurim/distributed/async_group.h"
#include "neurim/distributed/group_kernel.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/common/rules.h"

namespace neurim {

namespace {

/// Tensors as the bytes of one message.
std::vector<std::byte> packed(const Tensors& tensors) {
  std::size_t size = 0;
  for (const Tensor& tensor : tensors) size += bytes(tensor.type());
  std::vector<std::byte> all(size);
  size = 0;
  for (const Tensor& tensor : tensors) {
    tensor.read(all.data() + size);
    size += bytes(tensor.type());
  }
  return all;
}

std::size_t size_of(const Types& types) {
  std::size_t size = 0;
  for (const Type& type : types) size += bytes(type);
  return size;
}

/// The floating ones, which have gradients.
Types floating(const Types& types) {
  Types some;
  std::copy_if(types.begin(), types.end(), std::back_inserter(some),
               [](const Type& type) { return is_floating(type.dtype); });
  return some;
}

class PipelineStepping final : public Stepping {
 public:
  explicit PipelineStepping(const StepParts& of)
      : of_(of),
        stages_(static_cast<int>(of.options.parallel.pipeline)),
        stage_(of.job.rank() % stages_),
        inputs_([](const Tensors& in) { return in; }, of.plans),
        sends_(messages_ = of.job.group().duplicate()),
        follow_(of.optimizer, of.plans) {
    if (!of.job.writes()) of.optimizer.accumulated()->forget();  // rank 0 has what a resumed run had
    const std::int64_t parts = of.options.parallel.microbatches;
    choose_stages(
        forward_graph(of_, of.task.types(std::max<std::int64_t>(2, share_of_batch(of.options, of.job) / parts))));
  }

  std::vector<StepSums> run(const StepRequest& request) override {
    step_ = request.step;
    between_steps_ = !request.steps;
    of_.optimizer.set_lr(request.lr);
    own_ = {.stop = request.stop};
    for (const std::string& line : std::exchange(lines_, {})) of_.tell(line);
    begin_batch();
    const std::int64_t count = std::ssize(parts_);
    const std::int64_t ahead = ahead_of(count);
    for (std::int64_t next = 0; next < count + ahead; ++next) {
      if (next < count && !is_last()) forward(next);
      if (next >= ahead) backward(next - ahead);
    }
    const auto begin = std::chrono::steady_clock::now();
    for (const AsyncGroup::Work& work : works_) work.wait();
    waited_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    works_.clear();
    if (request.steps) follow_.run(of_.job, step_);
    return {summed(own_, of_.job)};
  }
  std::vector<StepSums> finish() override {
    share();
    return {};
  }
  bool can_stop() const override { return !between_steps_; }
  double waited() const override { return waited_; }
  std::size_t planned_bytes() const override {
    std::size_t sum = inputs_.instance_bytes() + follow_.instance_bytes();
    const std::int64_t parts = of_.options.parallel.microbatches;
    for (const auto& [samples, plans] : plans_) {
      if (plans.forward) sum += plans.forward->instance_bytes();
      sum += plans.backward->instance_bytes();
      std::size_t kept = size_of(plans.in) + size_of(plans.out);  // of a micro-batch that waits for its way back
      for (const Tensor& input : plans.backward->inputs()) kept += bytes(input.type());
      sum += kept * static_cast<std::size_t>(std::min(parts, ahead_of(parts) + 1));
    }
    return sum;
  }
  void gather_state() override {
    of_.job.collect(of_.optimizer, owners_);
    of_.optimizer.accumulated()->restore();
  }
  void spread_state() override {
    of_.job.keep_own(of_.optimizer, owners_);
    std::vector<bool> kept;
    for (const int owner : owners_) kept.push_back(owner == stage_);
    of_.optimizer.accumulated()->keep(kept);
  }

 private:
  /// The plans of this stage for micro-batches of one size.
  struct Plans {
    std::optional<Plan> forward;  // of all stages but the last
    std::optional<Plan> backward;
    Types in, out;  // what comes from the stage before, and goes to the one after
  };
  /// What a micro-batch leaves for its way back.
  struct Kept {
    Tensors in;  // of the stage's graph
    Plans* plans = nullptr;
  };

  /// How many micro-batches of so many go forward before the first comes back.
  std::int64_t ahead_of(std::int64_t count) const {
    const bool at_once = of_.options.parallel.schedule == "gpipe";
    return at_once ? count : std::min<std::int64_t>(count, stages_ - 1 - stage_);
  }
  bool is_first() const { return stage_ == 0; }
  bool is_last() const { return stage_ + 1 == stages_; }

  /// The micro-batches of the loaded batch that have samples.
  void begin_batch() {
    parts_.clear(), kept_.clear();
    const std::int64_t count = of_.options.parallel.microbatches;
    for (Part part{.count = count}; part.index < count; ++part.index)
      if (part.size(of_.task.batch_size()) > 0) parts_.push_back(part);
    kept_.resize(parts_.size());
  }

  void write_key(std::int64_t number) {  // the same on the way forward and back, on all stages
    const std::int64_t of_batch = of_.options.parallel.microbatches * of_.job.replicas(),
                       key[] = {of_.options.seed, step_ * of_batch + number * of_.job.replicas() + of_.job.replica()};
    of_.random.write(key);
  }

  /// What the stage takes of a micro-batch: from the stage before, and of the batch.
  void take(std::int64_t number) {
    const Part& part = parts_[static_cast<std::size_t>(number)];
    const Tensors own = of_.task.run(inputs_, step_, part).inputs();
    Kept& kept = kept_[static_cast<std::size_t>(number)];
    kept.plans = &plans_for(own, part.size(of_.task.batch_size()));
    kept.in = received(kept.plans->in, of_.job.rank() - 1);
    for (const Tensor& tensor : own) {
      kept.in.push_back(Tensor::empty(tensor.type(), tensor.device()));
      kept.in.back().assign(tensor);  // the next micro-batch overwrites it
    }
  }

  void forward(std::int64_t number) {
    take(number);
    const Kept& kept = kept_[static_cast<std::size_t>(number)];
    write_key(number);
    send(kept.plans->forward.value()(kept.in), of_.job.rank() + 1);
  }

  void backward(std::int64_t number) {
    if (is_last()) take(number);
    Kept& kept = kept_[static_cast<std::size_t>(number)];
    Tensors in = std::move(kept.in);
    if (!is_last())
      for (const Tensor& seed : received(floating(kept.plans->out), of_.job.rank() + 1)) in.push_back(seed);
    write_key(number);
    Tensors out = kept.plans->backward.value()(in);
    if (is_last()) {
      own_.metric += out.back().item();
      out.pop_back();
      const auto samples = static_cast<double>(parts_[static_cast<std::size_t>(number)].size(of_.task.batch_size()));
      own_.loss += out.back().item() * samples, own_.samples += samples;
      out.pop_back();
    }
    if (!is_first()) send(out, of_.job.rank() - 1);
  }

  void send(const Tensors& tensors, int to) {
    works_.push_back(sends_.run([data = packed(tensors), to](ProcessGroup& group) { group.send(data, to); }));
  }
  Tensors received(const Types& types, int from) {
    Tensors tensors;
    if (types.empty()) return tensors;
    std::vector<std::byte> data(size_of(types));
    try {
      messages_->receive(data, from);
    } catch (const Error& error) {
      fail(Fault::failure, error.what(), ", at step ", step_ + 1);
    }
    const std::byte* at = data.data();
    for (const Type& type : types) {
      tensors.push_back(Tensor::empty(type, of_.plans.device));
      tensors.back().write(at);
      at += bytes(type);
    }
    return tensors;
  }

  Plans& plans_for(const Tensors& inputs, std::int64_t samples) {
    const auto known = plans_.find(samples);
    if (known != plans_.end()) return known->second;
    Types types;
    for (const Tensor& input : inputs) types.push_back(input.type());
    const Graph whole = forward_graph(of_, types);
    require(whole.nodes.size() == ends_.back(), "pipeline: a micro-batch of ", samples,
            " samples makes another network than the first; give batch as a multiple of microbatches");
    const Stage stage = cut(whole, ends_, std::vector<double>(whole.nodes.size()))[static_cast<std::size_t>(stage_)];
    return plans_[samples] = plan_stage(stage, samples);
  }

  Plans plan_stage(const Stage& stage, std::int64_t samples) {
    Plans plans;
    Types types;
    for (std::size_t i = 0; i < stage.graph.inputs.size(); ++i) {
      types.push_back(stage.graph.values[stage.graph.inputs[i]].type);
      if (i < stage.from_before) plans.in.push_back(types.back());
    }
    for (const int value : stage.graph.outputs) plans.out.push_back(stage.graph.values[value].type);
    if (!is_last()) {
      Graph forward = stage.graph;
      forward.commits.clear();  // states change on the way back, where the stage is computed again
      plans.forward = plan(forward, types, of_.plans);
      const Types seeds = floating(plans.out);
      types.insert(types.end(), seeds.begin(), seeds.end());
    }
    plans.backward = plan([&](const Tensors& in) { return go_back(stage, in, samples); }, types, of_.plans);
    return plans;
  }

  /// Records the stage, its gradients and their sums. Returns the gradients of what came from the stage before; of the
  /// last stage also loss and metric.
  Tensors go_back(const Stage& stage, const Tensors& in, std::int64_t samples) {
    const auto inputs = static_cast<std::ptrdiff_t>(stage.graph.inputs.size());
    const Tensors outputs = call(stage.graph, {in.begin(), in.begin() + inputs});
    Tensors of, seeds(in.begin() + inputs, in.end()), wrt;
    if (is_last()) {
      of = {of_.optimizer.scaled(outputs[0])};
      seeds = {Tensor::scalar(static_cast<double>(samples), DType::f32, of_.plans.device)};
    } else {
      std::copy_if(outputs.begin(), outputs.end(), std::back_inserter(of),
                   [](const Tensor& tensor) { return is_floating(tensor.dtype()); });
    }
    for (std::size_t i = 0; i < stage.from_before; ++i)
      if (is_floating(in[i].dtype())) wrt.push_back(in[i]);
    of_.optimizer.hold(true);
    Tensors back = of_.optimizer.backward(of, seeds, static_cast<double>(samples), wrt);
    for (std::size_t i = 0; i < back.size(); ++i)
      if (!back[i]) back[i] = broadcast_to(scalar_like(wrt[i], 0), wrt[i].shape());
    if (is_last()) back.insert(back.end(), outputs.begin(), outputs.end());
    if (back.empty()) back.push_back(Tensor::scalar(0, DType::f32, of_.plans.device));
    return back;
  }

  /// Rank 0 measures, and all ranks cut alike.
  void choose_stages(const Graph& whole) {
    std::string said;
    std::vector<double> costs;
    PlanOptions untuned = of_.plans;
    untuned.tuning = {};  // the others wait
    if (of_.job.writes()) said = nlohmann::json(measured_costs(whole, untuned)).dump();
    costs = nlohmann::json::parse(of_.job.of_first(said)).get<std::vector<double>>();
    ends_ = stage_ends(whole, costs, stages_);
    const std::vector<Stage> stages = cut(whole, ends_, costs);
    const Tensors& weights = of_.optimizer.weights();
    owners_.assign(weights.size(), 0);
    double all = 0;
    for (const Stage& stage : stages) all += stage.cost;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      std::int64_t numbers = 0;
      for (std::size_t i = 0; i < weights.size(); ++i)
        for (const Tensor& own : stages[s].weights)
          if (own.value() == weights[i].value()) owners_[i] = static_cast<int>(s), numbers += weights[i].numel();
      for (const Tensor& state : stages[s].states)
        if (state.dtype() == DType::f32) states_.emplace_back(state, static_cast<int>(s));
      lines_.push_back(text(
          "  stage   ", s + 1, " of ", stages_, ": ", plural(std::ssize(stages[s].graph.nodes), "op"), ", ",
          fixed(100 * stages[s].cost / all, 0), " % of the time, ", thousands(numbers), " parameters",
          s + 1 < stages.size() ? text(", hands on ", fixed(static_cast<double>(stages[s].bytes_out) / (1 << 20), 2),
                                       " MiB of a micro-batch")
                                : ""));
    }
    spread_state();
  }

  /// Every rank gets weights and states of all stages.
  void share() const {
    const Tensors& weights = of_.optimizer.weights();
    for (std::size_t i = 0; i < weights.size(); ++i) of_.job.broadcast(weights[i], owners_[i]);
    Tensors own_states;
    for (const auto& [state, owner] : states_)
      if (owner == stage_) own_states.push_back(state);
    of_.job.average(own_states, group_of(of_.job.data_number()));
    for (const auto& [state, owner] : states_) of_.job.broadcast(state, owner);
  }

  const StepParts of_;
  const int stages_, stage_;
  Compiled inputs_;  // takes what the task loads
  std::shared_ptr<ProcessGroup> messages_;
  AsyncGroup sends_;  // over messages_, while this thread receives from it
  FollowPlan follow_;
  std::vector<AsyncGroup::Work> works_;  // of this batch
  std::vector<std::size_t> ends_;        // of the stages
  std::vector<int> owners_;              // the stage of each weight
  std::vector<std::pair<Tensor, int>> states_;
  std::map<std::int64_t, Plans> plans_;  // by the samples of a micro-batch
  std::vector<Part> parts_;
  std::vector<Kept> kept_;
  StepSums own_;
  std::vector<std::string> lines_;  // on the stages, to be told
  double waited_ = 0;
  std::int64_t step_ = 0;
  bool between_steps_ = false;
};

}  // namespace

std::unique_ptr<Stepping> pipeline_stepping(const StepParts& parts) {
  return std::make_unique<PipelineStepping>(parts);
}

}  // namespace neurim
