#include "neurim/quantize/aware_training.h"

#include "neurim/base/error.h"
#include "neurim/graph/value.h"
#include "neurim/model/function_model.h"
#include "neurim/model/state.h"
#include "neurim/ops/abs.h"
#include "neurim/ops/add.h"
#include "neurim/ops/clamp.h"
#include "neurim/ops/detach.h"
#include "neurim/ops/maximum.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/quantize.h"
#include "neurim/ops/reduce_max.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/sub.h"

namespace neurim {

namespace {

/// `rounded` with the gradient of x.
Tensor straight_through(const Tensor& x, const Tensor& rounded) { return x + detach(rounded - x); }

Tensor rounded_input(const Tensor& x, const ByteScale& to, DType dtype) {
  const double least = dtype == DType::u8 ? 0 : -128, most = dtype == DType::u8 ? 255 : 127;
  const auto zero = static_cast<double>(to.zero_point);
  const Tensor within = clamp(x, (least - zero) * to.scale, (most - zero) * to.scale);
  const Tensor scale = Tensor::full({DType::f32, {}}, to.scale);
  return straight_through(within, dequantize(quantize(within, scale, to.zero_point, dtype), scale, to.zero_point));
}

/// Weights (rows, …) in whole numbers from -most to most, with a scale for each row; these are never cut off.
Tensor rounded_rows(const Tensor& weight, double most) {
  std::vector<std::int64_t> axes;
  for (int axis = 1; axis < weight.rank(); ++axis) axes.push_back(axis);
  const Tensor scale = maximum(detach(reduce_max(abs(weight), axes, true)) * (1 / most),
                               Tensor::full({DType::f32, {}}, 1e-30));
  return straight_through(weight, dequantize(quantize(weight, scale, 0, DType::i8), scale));
}

}  // namespace

AwareModel::AwareModel(const FloatModel& model, const Statistics& statistics, const std::vector<bool>& bytes,
                       const ByteOptions& options)
    : model_(model), function_(model.function) {
  const auto of_input = [&](int value, const Tensor& x) {
    const Range range = byte_range(statistics.at(value).numbers, options.method, options.activations);
    return rounded_input(x, byte_scale(range, options.activations), options.activations);
  };
  build(bytes, of_input, [](const Tensor& weight) { return rounded_rows(weight, 127); });
}

AwareModel::AwareModel(const FloatModel& model) : model_(model), function_(model.function) {
  build(std::vector<bool>(model.layers.size()), {}, {});
}

AwareModel::AwareModel(const FloatModel& model, int bits, std::int64_t group, const std::vector<bool>& chosen)
    : model_(model), function_(model.function) {
  const auto of_weight = [&](const Tensor& weight) {
    const WeightGroups groups = weight_groups(weight.shape(), bits, group);
    const Tensor rows = reshape(weight, {weight.numel() / groups.size, groups.size});
    return reshape(rounded_rows(rows, groups.most), weight.shape());
  };
  build(chosen, [](int, const Tensor& x) { return x; }, of_weight);
}

void AwareModel::build(const std::vector<bool>& chosen,
                       const std::function<Tensor(int value, const Tensor& x)>& of_input,
                       const std::function<Tensor(const Tensor& weight)>& of_weight) {
  const Graph& graph = model_.function.graph;
  std::map<std::size_t, const QuantLayer*> layers, adds;
  for (std::size_t i = 0; i < model_.layers.size(); ++i) {
    const QuantLayer& layer = model_.layers[i];
    for (const int value : graph.nodes[layer.node].in) {  // those of f32 layers learn too
      const Tensor& stored = graph.values[value].captured;
      if (!stored || stored.dtype() != DType::f32 || learnt_.count(value)) continue;
      Tensor& own = learnt_[value] = stored.clone();
      own.set_name(text(layer.name, value == layer.weight ? ".weight" : ".bias"));
      own.value()->parameter = true;
    }
    if (!chosen[i]) continue;
    layers[layer.node] = &layer;
    if (layer.beside >= 0) adds[layer.add] = &layer;
  }
  std::map<int, Tensor> known;  // rounded inputs, which their readers share
  const auto input = [&](int value, const Tensor& x) {
    Tensor& once = known[value];
    return once ? once : once = of_input(value, x);
  };
  function_.graph = rewrite(graph, [&](const Graph::Node& node, const Tensors& in) -> Tensors {
    const auto number = static_cast<std::size_t>(&node - graph.nodes.data());
    const auto layer = layers.find(number), add = adds.find(number);
    Tensors read = in;
    bool changed = layer != layers.end() || add != adds.end();
    for (std::size_t i = 0; i < read.size(); ++i)
      if (const auto own = learnt_.find(node.in[i]); own != learnt_.end()) read[i] = own->second, changed = true;
    if (!changed) return {};
    if (layer != layers.end()) {
      read[0] = input(layer->second->x, read[0]);
      read[1] = of_weight(read[1]);
    }
    for (std::size_t i = 0; add != adds.end() && i < read.size(); ++i)
      if (node.in[i] == add->second->beside) {
        read[i] = input(add->second->beside, read[i]);
        break;
      }
    return neurim::apply(node.op, read);
  });
}

FloatModel AwareModel::trained() const {
  FloatModel model = model_;
  for (const auto& [value, learnt] : learnt_) {
    Tensor& stored = model.function.graph.values[value].captured;
    Tensor now = learnt.clone();
    now.set_name(std::string(stored.name()));
    now.value()->constant = true;
    stored = now;
  }
  return model;
}

bool fine_tune(const AwareModel& aware, const Checkpoint& checkpoint, const Dataset& dataset, TrainOptions options,
               const FineTuning& how, const TrainControl& control) {
  Model model = model_of(aware.function(), checkpoint.config.model);
  model.mean = checkpoint.model.mean, model.std = checkpoint.model.std;
  options.epochs = how.epochs, options.lr = how.lr, options.sched = "cosine";
  const TrainOptions plain;  // of other schedules nothing stays
  options.min_lr = 0, options.milestones.clear(), options.step_epochs = plain.step_epochs;
  options.gamma = plain.gamma, options.power = plain.power, options.warmup_lr = plain.warmup_lr;
  options.warmup_epochs = 0, options.patience = 0, options.mixup = 0, options.cutmix = 0;
  options.pretrained.clear();
  options.train_imgsz = options.imgsz;  // the one that the function takes
  options.project = how.run.has_parent_path() ? how.run.parent_path().string() : ".",
  options.name = how.run.filename().string();
  options.exist_ok = true;
  TrainControl own = control;
  own.saved = {};  // as the run's model is made here, nobody could resume it
  const TrainResult run = train(model, dataset, options, own);
  if (run.stopped) return false;
  load_model(model, read_state_dict(run.model));
  return true;
}

}  // namespace neurim
