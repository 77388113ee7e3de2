#include "neurim/train/stepping.h"

#include <deque>
#include <utility>

#include "neurim/base/error.h"
#include "neurim/distributed/all_reduce.h"
#include "neurim/distributed/shards.h"
#include "neurim/distributed/stale_sums.h"
#include "neurim/ops/batch_norm.h"
#include "neurim/train/part_states.h"
#include "neurim/train/pipeline_stepping.h"
#include "neurim/train/tensor_stepping.h"

namespace neurim {

StepSums summed(const StepSums& own, const Job& job) {
  std::vector<double> sums{own.loss, own.metric, own.samples, own.stop ? 1.0 : 0.0};
  job.group().all_reduce(sums);
  return {sums[0], sums[1], sums[2], sums[3] > 0};
}

Graph forward_graph(const StepParts& of, const Types& types) {
  of.optimizer.only_forward(true);
  Trace trace({.training = true, .device = of.plans.device, .random = of.random});
  Tensors inputs;
  for (const Type& type : types) inputs.push_back(trace.input(type));
  Graph graph = trace.finish(of.task.step(of.optimizer)(inputs));
  of.optimizer.only_forward(false);
  return graph;
}

FollowPlan::FollowPlan(Optimizer& optimizer, const PlanOptions& plans, std::size_t last_part)
    : plan_(
          [&optimizer, last_part](const Tensors&) -> Tensors {
            optimizer.hold(false, last_part);
            optimizer.follow();
            return {Tensor::scalar(0, DType::f32, optimizer.weights().front().device())};
          },
          plans) {}

void FollowPlan::run(const Job& job, std::int64_t step) {
  const Plan plan = plan_.plan_for({});
  guarded_step(job, step, [&] { plan.run({}, plan.outputs()); });
}

void guarded_step(const Job& job, std::int64_t step, const std::function<void()>& call) {
  try {
    call();
  } catch (const Error&) {
    for (const std::int64_t group : {job.number(), job.team_number(), job.data_number()}) {
      const std::string lost = job.alone() ? "" : group_failure(group);
      if (!lost.empty()) fail(Fault::failure, lost, ", at step ", step + 1);
    }
    throw;
  }
}

namespace {

/// The plans of steps, and what they are run on.
class PlannedStepping : public Stepping {
 protected:
  explicit PlannedStepping(const StepParts& of)
      : of_(of),
        parts_(of.job.parts(of.options.deterministic)),
        follow_(of.optimizer, of.plans, static_cast<std::size_t>(parts_ - 1)) {}

  /// A plan that records the task's step for a part; `holds`: its gradients are only added up.
  Compiled plan_of(bool holds, std::int64_t part) const {
    const std::int64_t group = of_.job.number();
    const bool shares = of_.options.parallel.sync_bn && !of_.job.alone();
    const auto step = [=, optimizer = &of_.optimizer, step = of_.task.step(of_.optimizer)](const Tensors& in) {
      optimizer->hold(holds, static_cast<std::size_t>(part));
      std::optional<SharedStatistics> statistics;
      if (shares) statistics.emplace([group](const Tensors& sums) { return all_reduce(sums, group); });
      return step(in);
    };
    return {step, of_.plans};
  }
  /// Steps with what was added up, without samples.
  void run_follow() { follow_.run(of_.job, step_); }
  /// Runs a part that has samples; adds to the sums.
  void run_part(Compiled& plans, const Part& part, StepSums& sums) {
    if (all_parts() > 1) {  // each part has random numbers of its own, on whichever rank it is
      const std::int64_t number = part.index * of_.job.size() + of_.job.rank(),
                         key[] = {of_.options.seed, step_ * all_parts() + number};
      of_.random.write(key);
    }
    const auto samples = static_cast<double>(part.size(of_.task.batch_size()));
    std::optional<Plan> plan;
    guarded_step(of_.job, step_, [&] { plan = of_.task.run(plans, step_, part); });
    sums.loss += plan->outputs()[0].item() * samples;
    sums.metric += plan->outputs()[1].item();
    sums.samples += samples;
  }
  /// The memory of these plans, and of that of steps without samples.
  std::size_t bytes_of(const std::vector<const Compiled*>& plans) const {
    std::size_t sum = follow_.instance_bytes();
    for (const Compiled* one : plans) sum += one->instance_bytes();
    return sum;
  }
  std::int64_t all_parts() const { return parts_ * of_.job.size(); }  // of a batch

  const StepParts of_;
  const std::int64_t parts_;  // of this rank's share of a batch
  std::int64_t step_ = 0;     // the one that is asked for

 private:
  FollowPlan follow_;
};

/// Bulk-synchronous: every step has the gradients of all ranks.
class TogetherStepping final : public PlannedStepping {
 public:
  explicit TogetherStepping(const StepParts& of) : PlannedStepping(of), last_(plan_of(false, parts_ - 1)) {
    const bool adds_up = of.options.grad_accum_steps > 1;
    for (std::int64_t part = 0; part < parts_ - (adds_up ? 0 : 1); ++part) holding_.push_back(plan_of(true, part));
    if (of.options.deterministic) states_.emplace(of.model);
    spread_state();
    if (adds_up && !of.job.writes()) of.optimizer.accumulated()->forget();  // rank 0 has what a resumed run had
  }

  std::vector<StepSums> run(const StepRequest& request) override {
    step_ = request.step;
    between_steps_ = !request.steps;
    of_.optimizer.set_lr(request.lr);
    StepSums own{.stop = request.stop};
    if (states_) states_->begin();
    for (Part part{.count = parts_}; part.index < parts_; ++part.index) {
      const bool last = request.steps && part.index + 1 == parts_;
      if (part.size(of_.task.batch_size()) == 0) {
        if (last) run_follow();
        continue;
      }
      run_part(last ? last_ : holding_[static_cast<std::size_t>(part.index)], part, own);
      if (states_) states_->end_part();
    }
    if (states_) states_->finish(of_.job, static_cast<std::size_t>(parts_));
    return {summed(own, of_.job)};
  }
  void gather_state() override {
    if (is_sharded()) of_.job.collect(of_.optimizer, owners_of(of_.optimizer.weights(), of_.job.size()));
  }
  void spread_state() override {
    if (is_sharded()) of_.job.keep_own(of_.optimizer, owners_of(of_.optimizer.weights(), of_.job.size()));
  }
  std::size_t planned_bytes() const override {
    std::vector<const Compiled*> plans{&last_};
    for (const Compiled& one : holding_) plans.push_back(&one);
    return bytes_of(plans);
  }
  // Gradients that several parts have added up are not saved.
  bool can_stop() const override { return all_parts() == 1 || !between_steps_; }

 private:
  bool is_sharded() const { return !of_.job.alone() && of_.options.parallel.zero > 0; }

  Compiled last_;                     // of the last part
  std::vector<Compiled> holding_;     // of parts whose gradients are only added up
  std::optional<PartStates> states_;  // where parts are to come to the same on any rank
  bool between_steps_ = false;
};

/// Each rank steps by itself; every so many steps weights and the optimizer's state become the means over the ranks.
class LocalStepping final : public PlannedStepping {
 public:
  LocalStepping(const StepParts& of, std::int64_t steps)
      : PlannedStepping(of), steps_(steps), plan_(plan_of(false, 0)), holding_(plan_of(true, 0)) {}

  std::vector<StepSums> run(const StepRequest& request) override {
    step_ = request.step;
    of_.optimizer.set_lr(request.lr);
    own_.stop = own_.stop || request.stop;
    if (of_.task.batch_size() > 0)
      run_part(request.steps ? plan_ : holding_, {}, own_);
    else if (request.steps && of_.optimizer.accumulated()->sums().back() > 0)
      run_follow();  // else there is nothing to step with
    since_ += request.steps;
    if (since_ == steps_) return finish();
    together_ = false;
    return {};
  }
  std::vector<StepSums> finish() override {
    if (together_) return {};
    of_.job.average(of_.optimizer);
    together_ = true, since_ = 0;
    return {summed(std::exchange(own_, {}), of_.job)};
  }
  bool can_stop() const override { return together_; }
  std::size_t planned_bytes() const override { return bytes_of({&plan_, &holding_}); }

 private:
  const std::int64_t steps_;
  Compiled plan_, holding_;
  StepSums own_;            // since ranks were together
  std::int64_t since_ = 0;  // steps
  bool together_ = true;
};

/// Stale-synchronous: steps have the gradients of all ranks, and a rank that is ahead of others goes on without those
/// of the last few steps, but with its own.
class StaleStepping final : public PlannedStepping {
 public:
  StaleStepping(const StepParts& of, std::int64_t bound)
      : PlannedStepping(of), sums_(of.job.group().duplicate(), bound), holding_(plan_of(true, 0)) {
    states_ = of.optimizer.weights();
    for (const Parameter& state : named_parameters(of.optimizer)) states_.push_back(state.tensor);
  }

  std::vector<StepSums> run(const StepRequest& request) override {
    step_ = request.step;
    const bool adds_up = of_.options.grad_accum_steps > 1;
    const std::vector<float> so_far = adds_up ? of_.optimizer.accumulated()->sums() : std::vector<float>();
    std::vector<StepSums> known = take(false);
    read();
    if (adds_up) of_.optimizer.accumulated()->set_sums(so_far);  // steps with other sums have overwritten them
    StepSums now{.stop = request.stop};
    if (of_.task.batch_size() > 0) run_part(holding_, {}, now);
    own_.loss += now.loss, own_.metric += now.metric, own_.stop = own_.stop || now.stop;
    if (!request.steps) return known;
    std::vector<float> values = of_.optimizer.accumulated()->sums();
    of_.optimizer.accumulated()->forget();
    for (const double more : {own_.loss, own_.metric, own_.stop ? 1.0 : 0.0})
      values.push_back(static_cast<float>(more));
    own_ = {};
    unseen_.push_back({values, request.lr});
    sums_.put(std::move(values));
    return known;
  }
  std::vector<StepSums> finish() override { return take(true); }
  // A rank that has seen the wish to stop at some clock is at most `bound` clocks further, in one more step; all stop
  // there.
  bool can_stop() const override { return stop_at_ && sums_.clock() >= *stop_at_; }
  double waited() const override { return sums_.waited(); }
  std::size_t planned_bytes() const override {
    std::size_t sum = bytes_of({&holding_});
    for (const Tensor& state : states_) sum += bytes(state.type());  // kept_
    // Gradients of steps whose sums are not known yet: these, what is sent of them, and what has come.
    const std::size_t steps = static_cast<std::size_t>(sums_.bound()) + 1;
    for (const Tensor& weight : of_.optimizer.weights()) sum += 3 * steps * bytes(weight.type());
    return sum;
  }
  std::string reads() override { return join(of_.job.group().all_gather(std::exchange(reads_, "")), ""); }

 private:
  struct Unseen {
    std::vector<float> values;
    double lr;
  };

  /// Steps with gradients' sums as AccumulateGradients gives them.
  void step(std::span<const float> sums, double lr) {
    of_.optimizer.set_lr(lr);
    of_.optimizer.accumulated()->set_sums(sums);
    run_follow();
  }

  /// Steps with the sums of all ranks that are known, or have to be.
  std::vector<StepSums> take(bool all) {
    std::vector<StepSums> known;
    while (auto sums = guarded_take(all)) {
      go_back();
      const std::size_t own = sums->size() - kMore;
      step(std::span(*sums).first(own), unseen_.front().lr);
      unseen_.pop_front();
      known.push_back({(*sums)[own], (*sums)[own + 1], (*sums)[own - 1], (*sums)[own + 2] > 0});
      if (known.back().stop && !stop_at_) stop_at_ = sums_.taken() + sums_.bound() + 1;
    }
    if (all) go_back();
    return known;
  }
  std::optional<std::vector<float>> guarded_take(bool all) {
    try {
      return sums_.take(all);
    } catch (const Error& error) {
      fail(Fault::failure, error.what(), ", at step ", step_ + 1);
    }
  }

  /// Adds this rank's own steps of which the sums are not known yet: as if other ranks had given nothing.
  void read() {
    reads_ += text(of_.job.rank(), ',', sums_.clock(), ',', sums_.taken(), ',', unseen_.size(), '\n');
    if (unseen_.empty() || ahead_ == unseen_.size()) return;
    go_back();
    for (const Tensor& state : states_) state.read(kept_.emplace_back(bytes(state.type())).data());
    for (const Unseen& own : unseen_) {
      std::vector<float> values(own.values.begin(), own.values.end() - kMore);
      values.back() *= static_cast<float>(of_.job.size());  // samples
      step(values, own.lr);
    }
    ahead_ = unseen_.size();
  }
  /// Back to the weights that all ranks come to.
  void go_back() {
    for (std::size_t i = 0; i < kept_.size(); ++i) states_[i].write(kept_[i].data());
    kept_.clear();
    ahead_ = 0;
  }

  static constexpr std::size_t kMore = 3;  // numbers after those of the gradients

  StaleSums sums_;
  Compiled holding_;
  Tensors states_;                            // of the optimizer, with the weights
  std::vector<std::vector<std::byte>> kept_;  // what they are without own steps
  std::deque<Unseen> unseen_;                 // own steps whose sums were not taken yet
  std::size_t ahead_ = 0;                     // how many of them the weights have
  StepSums own_;                              // since the last step
  std::optional<std::int64_t> stop_at_;
  std::string reads_;
};

}  // namespace

std::unique_ptr<Stepping> stepping_of(const StepParts& parts) {
  if (parts.options.parallel.pipeline > 1) return pipeline_stepping(parts);
  if (parts.options.parallel.tensor > 1) return tensor_stepping(parts);
  const Sync sync = parts.options.parallel.how();
  switch (parts.job.alone() ? Sync::Kind::together : sync.kind) {
    case Sync::Kind::together: return std::make_unique<TogetherStepping>(parts);
    case Sync::Kind::local: return std::make_unique<LocalStepping>(parts, sync.steps);
    case Sync::Kind::stale: return std::make_unique<StaleStepping>(parts, sync.steps);
  }
  return nullptr;
}

}  // namespace neurim
