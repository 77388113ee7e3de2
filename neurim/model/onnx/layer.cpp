#include "neurim/model/onnx/layer.h"

#include <array>

#include "neurim/base/error.h"
#include "neurim/function/image_layout.h"
#include "neurim/graph/trace.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/clamp.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/log.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/softmax.h"
#include "neurim/ops/sub.h"

namespace neurim {

namespace {

constexpr double kLeast = 1e-37;  // what f32 has of probabilities

std::string_view ports(std::size_t count) { return count == 1 ? "" : "s"; }

}  // namespace

bool takes_channels_last(const OnnxModel& model) {
  if (takes_channels_last(model.metadata())) return true;
  if (model.metadata().count("preprocess") > 0 || model.inputs().empty()) return false;  // of ours without a word on it
  const auto& shape = model.inputs()[0].shape;
  if (!shape || shape->rank() != 4) return false;
  const auto within = [&](int axis, std::int64_t least, std::int64_t most) {
    const Dim size = (*shape)[axis];
    return size.symbolic() ? most > 4 : size >= least && size <= most && size != 2;
  };
  return within(3, 1, 4) && within(1, 5, 1 << 30) && within(2, 5, 1 << 30);
}

Shape image_of(const OnnxModel& model, const Shape& otherwise) {
  if (model.inputs().size() != 1 || model.outputs().size() != 1)
    fail(Fault::data, "has ", model.inputs().size(), " input", ports(model.inputs().size()), " and ",
         model.outputs().size(), " output", ports(model.outputs().size()),
         ", and a classifier of images has one of each; `neurim run` runs such models");
  const OnnxPort& input = model.inputs()[0];
  const bool floating = input.element == OnnxElement::f32 || input.element == OnnxElement::f16 ||
                        input.element == OnnxElement::bf16 || input.element == OnnxElement::f64;
  if (input.kind != OnnxKind::tensor || !floating || !input.shape || input.shape->rank() != 4)
    fail(Fault::data, "takes ", input,
         ", and a classifier takes floating images (N,C,H,W); `neurim run` runs such models");
  Shape image = otherwise;
  const std::array<int, 3> axes = takes_channels_last(model) ? std::array{3, 1, 2} : std::array{1, 2, 3};
  for (int i = 0; i < 3; ++i)
    if (const Dim size = (*input.shape)[axes[static_cast<std::size_t>(i)]]; !size.symbolic()) image[i] = size;
  return image;
}

OnnxLayer::OnnxLayer(OnnxModel model, const Shape& image)
    : model_(std::move(model)), weights_(model_.weights()), channels_last_(takes_channels_last(model_)) {
  const Dim group = (*model_.inputs()[0].shape)[0];
  if (!group.symbolic()) group_ = group;
  const Untraced untraced;
  Trace trace({});
  const Tensor x = trace.input({DType::f32, {group_ == 0 ? Dim(1) : group, image[0], image[1], image[2]}}, "input");
  try {
    const Tensor y = output(x);
    classes_ = y.size(1);
    const Graph::Node* last = producer(y);
    for (; last && (last->op->name() == "reshape" || last->op->name() == "cast" || last->op->name() == "flatten");)
      last = producer(traced_value(last->in[0]));
    const auto* softmax = last ? dynamic_cast<const Softmax*>(last->op.get()) : nullptr;
    if (softmax &&
        normal_axis(softmax->axis, last->out.empty() ? 0 : traced_value(last->out[0]).rank(), "softmax") == 1)
      scores_ = OnnxScores::softmax;
    if (last && last->op->name() == "sigmoid") scores_ = OnnxScores::sigmoid;
  } catch (const OnnxNeedsData& why) {
    fail(Fault::data, "has no plan, as ", why.what(), "; `neurim run` runs it op by op");
  }
}

void OnnxLayer::parts(Parts& p) {
  for (OnnxWeight& weight : weights_) p(weight.name, weight.tensor, weight.learnt ? Role::weight : Role::state);
}

Tensor OnnxLayer::output(const Tensor& x) const {
  const Dim images = x.size(0);
  if (group_ > 0 && images != group_) {
    require(!images.symbolic() && images % group_ == 0, "onnx: the file takes ", group_,
            " images at a time, and there are ", images);
    Tensors parts;
    for (std::int64_t first = 0; first < images; first += group_)
      parts.push_back(output(slice(x, {first}, {first + group_}, {0})));
    return concat(parts, 0);
  }
  const Tensor given = cast(channels_last_ ? channels_last(x) : x, dtype_of(model_.inputs()[0].element));
  const Tensor y = cast(model_(Tensors{given}, weights_)[0], DType::f32);
  const int rank = y.rank();
  bool scores = rank >= 2 && y.size(0) == x.size(0);
  for (int axis = 2; scores && axis < rank; ++axis) scores = y.size(axis) == 1;
  if (!scores)
    fail(Fault::data, "gives ", y.type(), " for ", x.type(),
         ", and a classifier gives (N,classes); `neurim run` runs such models");
  return rank == 2 ? y : reshape(y, {y.size(0), y.size(1)});
}

Tensor OnnxLayer::operator()(const Tensor& x) const {
  const Tensor y = output(x);
  if (scores_ == OnnxScores::logits) return y;
  const Graph::Node* last = tracing() ? producer(y) : nullptr;
  const bool same = last && scores_ == OnnxScores::softmax && last->op->name() == "softmax";
  if (same) return traced_value(last->in[0]);  // logits: equal to the logarithms but for a number for each image
  const Tensor log_share = log(clamp(y, kLeast, 1));
  return scores_ == OnnxScores::softmax ? log_share : log_share - log(clamp(1.0 - y, kLeast, 1));
}

}  // namespace neurim
