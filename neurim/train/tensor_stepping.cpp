#include "neurim/train/tensor_stepping.h"

#include <algorithm>
#include <map>
#include <utility>

#include "neurim/base/error.h"
#include "neurim/distributed/group_kernel.h"
#include "neurim/distributed/team_ops.h"
#include "neurim/graph/value.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/linear.h"
#include "neurim/ops/scaled_dot_product_attention.h"

namespace neurim {

namespace {

constexpr std::int64_t kWide = 1 << 14;  // numbers of a weight that is spread

/// The axis of a layer's outputs; nothing where the node is no layer that can be spread over so many ranks.
std::optional<std::int64_t> spread_axis(const Graph& graph, const Graph::Node& node, int ranks) {
  const Op& op = *node.op;
  const bool linear = dynamic_cast<const Linear*>(&op) != nullptr;
  const auto* const one = dynamic_cast<const Conv1d*>(&op);
  const auto* const two = dynamic_cast<const Conv2d*>(&op);
  const auto* const three = dynamic_cast<const Conv3d*>(&op);
  const std::int64_t groups = one ? one->options.groups : two ? two->options.groups : three ? three->options.groups : 0;
  if (!linear && groups != 1) return {};
  for (std::size_t i = 1; i < node.in.size(); ++i) {
    const Tensor& tensor = graph.values[node.in[i]].captured;
    if (!tensor || !is_learnt(tensor) || tensor.dtype() != DType::f32) return {};
  }
  const Type& weight = graph.values[node.in[1]].type;
  if (weight.shape[0] % ranks != 0 || weight.shape.numel() < kWide) return {};
  return linear ? graph.values[node.in[0]].type.shape.rank() - 1 : 1;
}

/// Whether each rank can take some of the heads.
bool spreads_heads(const Graph& graph, const Graph::Node& node, int ranks) {
  if (!dynamic_cast<const ScaledDotProductAttention*>(node.op.get()) || node.in.size() != 3) return false;
  const auto heads = [&](int input) { return std::int64_t{graph.values[node.in[input]].type.shape[1]}; };
  return heads(0) == heads(1) && heads(0) % ranks == 0 && graph.values[node.in[0]].type.dtype == DType::f32;
}

class TensorStepping final : public Stepping {
 public:
  explicit TensorStepping(const StepParts& of)
      : of_(of),
        ranks_(static_cast<int>(of.options.parallel.tensor)),
        plan_([this](const Tensors& in) { return step(in, false); }, of.plans),
        holding_([this](const Tensors& in) { return step(in, true); }, of.plans) {
    spread(forward_graph(of_, of.task.types(2)));
  }

  std::vector<StepSums> run(const StepRequest& request) override {
    between_steps_ = !request.steps;
    for (const std::string& line : std::exchange(lines_, {})) of_.tell(line);
    of_.optimizer.set_lr(request.lr);
    own_->set_lr(request.lr);
    StepSums own{.stop = request.stop};
    if (const auto samples = static_cast<double>(of_.task.batch_size()); samples > 0) {
      const std::int64_t key[] = {of_.options.seed, request.step * of_.job.replicas() + of_.job.replica()};
      of_.random.write(key);
      std::optional<Plan> plan;
      guarded_step(of_.job, request.step,
                   [&] { plan = of_.task.run(request.steps ? plan_ : holding_, request.step, {}); });
      if (of_.job.rank() % ranks_ == 0)  // all of a team have the same
        own.loss = plan->outputs()[0].item() * samples, own.metric = plan->outputs()[1].item(), own.samples = samples;
    } else if (request.steps) {
      follow_->run(of_.job, request.step);
    }
    return {summed(own, of_.job)};
  }
  std::vector<StepSums> finish() override {
    for (const auto& [whole, part] : parts_) whole.write(joined(part).data());
    return {};
  }
  bool can_stop() const override { return !between_steps_; }
  std::size_t planned_bytes() const override {
    return plan_.instance_bytes() + holding_.instance_bytes() + follow_->instance_bytes();
  }
  void gather_state() override {
    of_.optimizer.all_buffers();
    const std::map<std::string, Tensor> whole = states(of_.optimizer);
    for (const auto& [name, own] : states(*own_)) {
      const Tensor& to = whole.at(name);
      to.write(to.type() == own.type() ? raw(own).data() : joined(own).data());
    }
  }
  void spread_state() override { of_.optimizer.keep(std::vector<bool>(of_.optimizer.weights().size())); }

 private:
  static std::map<std::string, Tensor> states(Optimizer& optimizer) {
    std::map<std::string, Tensor> all;
    for (const Parameter& state : named_parameters(optimizer)) all[state.name] = state.tensor;
    return all;
  }
  static std::string raw(const Tensor& tensor) {
    std::string data(bytes(tensor.type()), '\0');
    tensor.read(data.data());
    return data;
  }
  /// The parts of all ranks of the team, along axis 0.
  std::string joined(const Tensor& part) const {
    return join(group_of(of_.job.team_number()).all_gather(std::string_view(raw(part))), "");
  }
  /// This rank's rows.
  Tensor part_of(const Tensor& whole) const {
    Type type = whole.type();
    type.shape[0] = type.shape[0] / ranks_;
    const Tensor part = Tensor::empty(type, whole.device());
    part.write(raw(whole).data() + bytes(type) * static_cast<std::size_t>(of_.job.rank() % ranks_));
    return part;
  }

  /// Records a step of the team on a batch.
  Tensors step(const Tensors& in, bool holds) {
    Types types;
    for (const Tensor& input : in) types.push_back(input.type());
    const Tensors out = call(with_parts(forward_graph(of_, types)), in);
    own_->hold(holds);
    own_->minimize(out[0], static_cast<double>(std::int64_t{in[0].size(0)}));
    return out;
  }

  /// Makes the parts of weights, and the optimizer that steps them.
  void spread(const Graph& whole) {
    std::map<const Value*, int> readers, spread_readers;
    for (const Graph::Node& node : whole.nodes) {
      const bool spreads = spread_axis(whole, node, ranks_).has_value();
      for (const int value : node.in)
        if (const Tensor& captured = whole.values[value].captured) {
          ++readers[captured.value()];
          spread_readers[captured.value()] += spreads;
        }
    }
    std::int64_t spread_numbers = 0;
    Parameters parameters;
    for (const Parameter& parameter : named_parameters(Model(of_.model))) {
      const Value* const value = parameter.tensor.value();
      const auto found = spread_readers.find(value);
      if (parameter.role == Role::weight && found != spread_readers.end() && found->second > 0 &&
          found->second == readers[value] && part_by_weight_.count(value) == 0) {
        parts_.emplace_back(parameter.tensor, part_of(parameter.tensor));
        part_by_weight_[value] = parts_.back().second;
        spread_numbers += parameter.tensor.numel();
      }
      parameters.push_back(parameter);
      if (const auto part = part_by_weight_.find(value); part != part_by_weight_.end())
        parameters.back().tensor = part->second;
    }
    require(!parts_.empty(), "tensor is ", ranks_, ", and the model has no layer wide enough to be spread: of ", kWide,
            " weights, in a number of outputs that ", ranks_, " divides; leave tensor out");
    own_ = optimizer_of(of_.options, parameters, of_.job, [this](const Tensor& weight) {
      const bool spread = std::any_of(parts_.begin(), parts_.end(),
                                      [&](const auto& one) { return one.second.value() == weight.value(); });
      return of_.job.replicas() * (spread ? 1 : ranks_);
    });
    follow_.emplace(*own_, of_.plans);
    const std::map<std::string, Tensor> before = states(of_.optimizer);
    for (const auto& [name, state] : states(*own_)) {
      const Tensor& from = before.at(name);
      state.write(from.type() == state.type() ? raw(from).data() : raw(part_of(from)).data());
    }
    spread_state();
    lines_.push_back(text("  tensor  ", parts_.size(), " weights of ", thousands(spread_numbers),
                          " numbers are spread over the ", ranks_, " processes of a team"));
  }

  /// The network in which this rank computes its parts.
  Graph with_parts(const Graph& whole) const {
    const std::int64_t team = of_.job.team_number();
    return rewrite(whole, [&](const Graph::Node& node, const Tensors& in) -> Tensors {
      if (spreads_heads(whole, node, ranks_)) {
        Tensors heads;
        for (const Tensor& all : in) heads.push_back(team_part(team_copy(all, team), 1, team));
        return {team_gather(apply1(node.op, heads), 1, team)};
      }
      const auto axis = spread_axis(whole, node, ranks_);
      if (!axis) return {};
      Tensors own{team_copy(in[0], team)};
      for (std::size_t i = 1; i < in.size(); ++i) {
        const auto part = part_by_weight_.find(in[i].value());
        if (part == part_by_weight_.end()) return {};
        own.push_back(part->second);
      }
      return {team_gather(apply1(node.op, own), *axis, team)};
    });
  }

  const StepParts of_;
  const int ranks_;  // of a team
  Compiled plan_, holding_;
  std::vector<std::pair<Tensor, Tensor>> parts_;  // the model's weights, and this rank's parts of them
  std::map<const Value*, Tensor> part_by_weight_;
  std::unique_ptr<Optimizer> own_;  // of the parts, and of what is not spread
  std::optional<FollowPlan> follow_;
  std::vector<std::string> lines_;  // to be told
  bool between_steps_ = false;
};

}  // namespace

std::unique_ptr<Stepping> tensor_stepping(const StepParts& parts) { return std::make_unique<TensorStepping>(parts); }

}  // namespace neurim
