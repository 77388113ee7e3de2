#include "neurim/infer/session.h"

#include <algorithm>
#include <functional>
#include <mutex>

#include "neurim/base/error.h"
#include "neurim/model/state.h"
#include "neurim/train/onnx_checkpoint.h"

namespace neurim {

struct InferenceSession::State {
  std::vector<OnnxPort> inputs, outputs;
  std::function<OnnxValues(const OnnxValues&)> call;  ///< in a trace or at once
  std::optional<Compiled> compiled;

  std::mutex mutex;  ///< of what follows
  /// Signatures that run op by op, and why.
  std::vector<std::pair<Types, std::string>> eager;
  std::vector<OnnxElement> elements;  ///< of the outputs, as a trace found them

  std::string reason(const Types& types) {
    const std::lock_guard lock(mutex);
    const auto found = std::find_if(eager.begin(), eager.end(), [&](const auto& each) { return each.first == types; });
    return found == eager.end() ? "" : found->second;
  }
  void set_eager(const Types& types, std::string why) {
    const std::lock_guard lock(mutex);
    if (eager.size() == kMostEager) eager.erase(eager.begin());
    eager.emplace_back(types, std::move(why));
  }
  static constexpr std::size_t kMostEager = 64;

  /// The function that is planned: of tensors alone.
  Tensors traced(const Tensors& in) {
    OnnxValues values;
    for (std::size_t i = 0; i < in.size(); ++i)
      values.push_back(
          {in[i], inputs[i].element == OnnxElement::none ? onnx_element(in[i].dtype()) : inputs[i].element});
    Tensors out;
    std::vector<OnnxElement> found;
    for (const OnnxValue& value : call(values)) {
      if (!value.is_tensor()) throw OnnxNeedsData(text("an output is ", value));
      out.push_back(value.tensor());
      found.push_back(value.element());
    }
    const std::lock_guard lock(mutex);
    elements = std::move(found);
    return out;
  }
};

namespace {

PlanOptions frozen(PlanOptions options) {
  options.freeze = true;
  return options;
}

OnnxPort port_of(const Function::Port& port) {
  return {.name = port.name, .element = onnx_element(port.type.dtype), .shape = port.type.shape};
}

}  // namespace

InferenceSession::InferenceSession(OnnxModel model, const PlanOptions& options, std::size_t most_plans)
    : state_(std::make_shared<State>()) {
  state_->inputs = model.inputs(), state_->outputs = model.outputs();
  state_->call = [model = std::move(model)](const OnnxValues& in) { return model(in); };
  state_->compiled.emplace([state = state_.get()](const Tensors& in) { return state->traced(in); }, frozen(options),
                           most_plans);
}

InferenceSession::InferenceSession(Function function, const PlanOptions& options, std::size_t most_plans)
    : state_(std::make_shared<State>()) {
  for (const Function::Port& port : function.input_ports()) state_->inputs.push_back(port_of(port));
  for (const Function::Port& port : function.output_ports()) state_->outputs.push_back(port_of(port));
  state_->call = [function = std::move(function)](const OnnxValues& in) {
    Tensors tensors;
    for (const OnnxValue& value : in) tensors.push_back(value.tensor());
    const Tensors out = function(tensors);
    return OnnxValues(out.begin(), out.end());
  };
  state_->compiled.emplace([state = state_.get()](const Tensors& in) { return state->traced(in); }, frozen(options),
                           most_plans);
}

InferenceSession::InferenceSession(const Checkpoint& checkpoint, const PlanOptions& options, std::size_t most_plans)
    : state_(std::make_shared<State>()) {
  const Type input = input_type(checkpoint.config, Dim::symbol("batch"), Dim::symbol("time"));
  state_->inputs = {port_of({"input", input})};
  state_->outputs = {
      {.name = checkpoint.config.task() == TaskKind::forecast ? "forecast" : "logits", .element = OnnxElement::f32}};
  state_->call = [model = checkpoint.model](const OnnxValues& in) {
    require(in.size() == 1, "the model takes one input, got ", in.size());
    return OnnxValues{model(in[0].tensor())};
  };
  PlanOptions own = frozen(options);
  own.device = device_of(checkpoint.model);
  state_->compiled.emplace([state = state_.get()](const Tensors& in) { return state->traced(in); }, own, most_plans);
}

InferenceSession InferenceSession::open(const fs::path& path, const PlanOptions& options, std::size_t most_plans) {
  if (is_onnx_file(path)) return InferenceSession(OnnxModel::open(path), options, most_plans);
  return InferenceSession(load_checkpoint(path), options, most_plans);
}

const std::vector<OnnxPort>& InferenceSession::inputs() const { return state_->inputs; }
const std::vector<OnnxPort>& InferenceSession::outputs() const { return state_->outputs; }

std::string InferenceSession::eager_because(const Types& inputs) const {
  if (std::string known = state_->reason(inputs); !known.empty()) return known;
  try {
    state_->compiled->plan_for(inputs);
    return "";
  } catch (const OnnxNeedsData& why) {
    state_->set_eager(inputs, why.what());
    return why.what();
  }
}

Types InferenceSession::output_types(const Types& inputs) const {
  Types types;
  if (eager_because(inputs).empty())
    for (const Tensor& out : state_->compiled->plan_for(inputs).outputs()) types.push_back(out.type());
  return types;
}

OnnxValues InferenceSession::run(const OnnxValues& in) const {
  require(in.size() == state_->inputs.size(), "the model takes ", state_->inputs.size(), " inputs, got ", in.size());
  Tensors tensors;
  Types types;
  for (const OnnxValue& value : in) {
    if (!value.is_tensor()) return state_->call(in);
    tensors.push_back(value.tensor());
    types.push_back(value.tensor().type());
  }
  if (!eager_because(types).empty()) return state_->call(in);
  const Tensors out = (*state_->compiled)(tensors);
  const std::lock_guard lock(state_->mutex);
  OnnxValues values;
  for (std::size_t i = 0; i < out.size(); ++i) values.push_back({out[i], state_->elements[i]});
  return values;
}

Tensors InferenceSession::run(const Tensors& in) const {
  Tensors out;
  for (const OnnxValue& value : run(OnnxValues(in.begin(), in.end()))) out.push_back(value.tensor());
  return out;
}

}  // namespace neurim
