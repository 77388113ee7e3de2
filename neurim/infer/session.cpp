#include "neurim/infer/session.h"

#include <algorithm>
#include <functional>
#include <mutex>

#include "neurim/base/error.h"
#include "neurim/model/onnx/layer.h"
#include "neurim/model/state.h"
#include "neurim/train/onnx_checkpoint.h"

namespace neurim {

namespace {

PlanOptions frozen(PlanOptions options) {
  options.freeze = true;
  return options;
}

OnnxPort port_of(const Function::Port& port) {
  return {.name = port.name, .element = onnx_element(port.type.dtype), .shape = port.type.shape};
}

/// A tensor as the value of a port, whose elements may be narrower than its dtype.
OnnxValue value_of(const Tensor& tensor, const OnnxPort& port) {
  const bool held = port.element != OnnxElement::none && port.element != OnnxElement::string &&
                    dtype_of(port.element) == tensor.dtype();
  return held ? OnnxValue(tensor, port.element) : OnnxValue(tensor);
}

}  // namespace

/// A function of values with its plans.
struct InferenceSession::Stage {
  using Call = std::function<OnnxValues(const OnnxValues&)>;

  Stage(const std::vector<OnnxPort>& in, std::vector<OnnxPort> out, Call function, const PlanOptions& options,
        std::size_t most_plans, InputLayout layout)
      : inputs(in_layout(in, layout)),
        outputs(std::move(out)),
        call_(layout == InputLayout::nhwc ? turning(in, std::move(function)) : std::move(function)),
        compiled_([this](const Tensors& traced_in) { return traced(traced_in); }, frozen(options), most_plans) {}

  std::string eager_because(const Types& types) {
    if (std::string known = reason(types); !known.empty()) return known;
    try {
      compiled_.plan_for(types);
      return "";
    } catch (const OnnxNeedsData& why) {
      set_eager(types, why.what());
      return why.what();
    }
  }

  Types output_types(const Types& types) {
    Types out;
    if (eager_because(types).empty())
      for (const Tensor& tensor : compiled_.plan_for(types).outputs()) out.push_back(tensor.type());
    return out;
  }

  OnnxValues run(const OnnxValues& in) {
    Tensors tensors;
    Types types;
    for (const OnnxValue& value : in) {
      if (!value.is_tensor()) return call_(in);
      tensors.push_back(value.tensor());
      types.push_back(value.tensor().type());
    }
    if (!eager_because(types).empty()) return call_(in);
    const Tensors out = compiled_(tensors);
    const std::lock_guard lock(mutex_);
    OnnxValues values;
    for (std::size_t i = 0; i < out.size(); ++i) values.push_back({out[i], elements_[i]});
    return values;
  }

  const std::vector<OnnxPort> inputs, outputs;

 private:
  static constexpr std::size_t kMostEager = 64;

  std::string reason(const Types& types) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(eager_.begin(), eager_.end(),
                                    [&](const auto& each) { return each.first == types; });
    return found == eager_.end() ? "" : found->second;
  }
  void set_eager(const Types& types, std::string why) {
    const std::lock_guard lock(mutex_);
    if (eager_.size() == kMostEager) eager_.erase(eager_.begin());
    eager_.emplace_back(types, std::move(why));
  }

  /// The function that is planned: of tensors alone.
  Tensors traced(const Tensors& in) {
    OnnxValues values;
    for (std::size_t i = 0; i < in.size(); ++i) values.push_back(value_of(in[i], inputs[i]));
    Tensors out;
    std::vector<OnnxElement> found;
    for (const OnnxValue& value : call_(values)) {
      if (!value.is_tensor()) throw OnnxNeedsData(text("an output is ", value));
      out.push_back(value.tensor());
      found.push_back(value.element());
    }
    const std::lock_guard lock(mutex_);
    elements_ = std::move(found);
    return out;
  }

  static bool is_images(const OnnxPort& port) {
    return port.kind == OnnxKind::tensor && port.shape && port.shape->rank() == 4;
  }
  /// The ports as images (N,H,W,C) are given to them.
  static std::vector<OnnxPort> in_layout(std::vector<OnnxPort> ports, InputLayout layout) {
    if (layout == InputLayout::model) return ports;
    require(std::any_of(ports.begin(), ports.end(), is_images),
            "input_layout: the model takes no images (N,C,H,W), so there is no other order of their axes");
    for (OnnxPort& port : ports)
      if (is_images(port)) port.shape = channels_last(*port.shape);
    return ports;
  }
  /// The call with images (N,H,W,C), of a function with these ports.
  static Call turning(const std::vector<OnnxPort>& ports, Call function) {
    std::vector<bool> turned;
    for (const OnnxPort& port : ports) turned.push_back(is_images(port));
    return [turned, function = std::move(function)](OnnxValues in) {
      for (std::size_t i = 0; i < std::min(turned.size(), in.size()); ++i) {
        if (!turned[i] || !in[i].is_tensor()) continue;
        require(in[i].tensor().rank() == 4, "input ", i, " is ", in[i].tensor().type(), "; it is images (N,H,W,C)");
        in[i] = OnnxValue(channels_first(in[i].tensor()), in[i].element());
      }
      return function(in);
    };
  }

  const Call call_;  ///< in a trace or at once
  Compiled compiled_;

  std::mutex mutex_;  ///< of what follows
  /// Signatures that run op by op, and why.
  std::vector<std::pair<Types, std::string>> eager_;
  std::vector<OnnxElement> elements_;  ///< of the outputs, as a trace found them
};

InferenceSession::InferenceSession(const OnnxModel& model, const PlanOptions& options, std::size_t most_plans,
                                   InputLayout layout)
    : stages_{std::make_shared<Stage>(
          model.inputs(), model.outputs(), [model](const OnnxValues& in) { return model(in); }, options, most_plans,
          layout)} {}

InferenceSession::InferenceSession(Function function, const PlanOptions& options, std::size_t most_plans,
                                   InputLayout layout) {
  std::vector<OnnxPort> inputs, outputs;
  for (const Function::Port& port : function.input_ports()) inputs.push_back(port_of(port));
  for (const Function::Port& port : function.output_ports()) outputs.push_back(port_of(port));
  const auto call = [function = std::move(function)](const OnnxValues& in) {
    Tensors tensors;
    for (const OnnxValue& value : in) tensors.push_back(value.tensor());
    const Tensors out = function(tensors);
    return OnnxValues(out.begin(), out.end());
  };
  stages_.push_back(std::make_shared<Stage>(std::move(inputs), std::move(outputs), call, options, most_plans, layout));
}

InferenceSession::InferenceSession(const Checkpoint& checkpoint, const PlanOptions& options, std::size_t most_plans,
                                   InputLayout layout) {
  const Type input = input_type(checkpoint.config, Dim::symbol("batch"), Dim::symbol("time"));
  const OnnxPort output{.name = checkpoint.config.task().output, .element = OnnxElement::f32};
  const auto call = [model = checkpoint.model](const OnnxValues& in) {
    require(in.size() == 1, "the model takes one input, got ", in.size());
    return OnnxValues{model(in[0].tensor())};
  };
  PlanOptions own = options;
  own.device = device_of(checkpoint.model);
  stages_.push_back(std::make_shared<Stage>(std::vector{port_of({"input", input})}, std::vector{output}, call, own,
                                            most_plans, layout));
}

InferenceSession InferenceSession::open(const fs::path& path, const PlanOptions& options, std::size_t most_plans,
                                        InputLayout layout) {
  if (!is_onnx_file(path)) {
    const Checkpoint checkpoint = load_checkpoint(path);
    return InferenceSession(checkpoint, options, most_plans, std::max(layout, checkpoint.layout));
  }
  const OnnxModel network = OnnxModel::open(path, {.part = OnnxPart::network});
  const bool of_pixels = network.metadata().count(std::string(kOnnxPixels)) > 0;  // u8 (N,H,W,C)
  if (of_pixels || takes_channels_last(network)) layout = InputLayout::model;
  InferenceSession session(network, options, most_plans, layout);
  if (!of_pixels) return session;
  PlanOptions exact = options;
  exact.compute_dtype = DType::f32;  // pixels that are rounded in 16 bits would be others
  InferenceSession all(OnnxModel::open(path, {.part = OnnxPart::preprocess}), exact, most_plans);
  all.stages_.push_back(session.stages_[0]);
  return all;
}

const std::vector<OnnxPort>& InferenceSession::inputs() const { return stages_.front()->inputs; }
const std::vector<OnnxPort>& InferenceSession::outputs() const { return stages_.back()->outputs; }

std::string InferenceSession::eager_because(const Types& inputs) const {
  Types types = inputs;
  for (const auto& stage : stages_) {
    if (std::string why = stage->eager_because(types); !why.empty()) return why;
    types = stage->output_types(types);
  }
  return "";
}

Types InferenceSession::output_types(const Types& inputs) const {
  Types types = inputs;
  for (const auto& stage : stages_) {
    types = stage->output_types(types);
    if (types.empty()) break;
  }
  return types;
}

OnnxValues InferenceSession::run(const OnnxValues& in) const {
  require(in.size() == inputs().size(), "the model takes ", inputs().size(), " inputs, got ", in.size());
  OnnxValues values = in;
  for (const auto& stage : stages_) values = stage->run(values);
  return values;
}

Tensors InferenceSession::run(const Tensors& in) const {
  Tensors out;
  for (const OnnxValue& value : run(OnnxValues(in.begin(), in.end()))) out.push_back(value.tensor());
  return out;
}

}  // namespace neurim
