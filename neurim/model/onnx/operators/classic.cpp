// Of the domain ai.onnx.ml what is simple: encoders, scalers, linear models.
#include <cmath>
#include <map>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/model/onnx/operators/operators.h"
#include "neurim/ops/abs.h"
#include "neurim/ops/add.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/div.h"
#include "neurim/ops/gather.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/reduce_max.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/sqrt.h"
#include "neurim/ops/square.h"
#include "neurim/ops/sub.h"
#include "neurim/ops/sum.h"

namespace neurim {

namespace {

constexpr std::string_view kClassic = "ai.onnx.ml";

Tensor floats_of(const std::vector<double>& values) {
  return cast(Tensor::from({DType::f64, {std::ssize(values)}}, values.data()), DType::f32);
}

OnnxValues scaler_rule(const OnnxCall& call) {
  const Tensor x = cast(call.tensor(0), DType::f32);
  return {(x - floats_of(call.numbers("offset"))) * floats_of(call.numbers("scale"))};
}

OnnxValues normalizer_rule(const OnnxCall& call) {
  const Tensor x = cast(call.tensor(0), DType::f32);
  const std::string norm = call.word("norm", "MAX");
  if (norm == "MAX") return {x / reduce_max(abs(x), {-1}, true)};
  if (norm == "L1") return {x / sum(abs(x), {-1}, true)};
  require(norm == "L2", "norm is '", norm, "', not MAX, L1 or L2");
  return {x / sqrt(sum(square(x), {-1}, true))};
}

OnnxValues binarizer_rule(const OnnxCall& call) {
  const Tensor& x = call.tensor(0);
  return {cast(greater(x, Tensor::scalar(call.number("threshold", 0.0), x.dtype())), x.dtype())};
}

OnnxValues feature_extractor(const OnnxCall& call) {
  const Tensor &x = call.tensor(0), &places = call.tensor(1);
  const Tensor flat = reshape(places, {places.numel()});
  const Tensor out = gather(x, flat, -1);
  return {x.rank() == 1 ? reshape(out, {1, places.numel()}) : out};
}

OnnxValues linear_regressor(const OnnxCall& call) {
  const Tensor x = cast(call.tensor(0), DType::f32);
  const std::int64_t targets = call.integer("targets", std::int64_t{1});
  const std::string after = call.word("post_transform", "NONE");
  require(after == "NONE", "post_transform is '", after, "', and only NONE is supported");
  const Tensor weights = floats_of(call.numbers("coefficients"));
  require(targets > 0 && weights.size(0) % targets == 0, "there are ", weights.size(0), " coefficients for ", targets,
          " targets");
  const Tensor y = matmul(x, reshape(weights, {targets, weights.size(0) / targets}), false, true);
  return {call.has("intercepts") ? y + floats_of(call.numbers("intercepts")) : y};
}

/// A key as text: numbers that are equal are equal texts.
std::string key_of(double value) { return std::isnan(value) ? "NaN" : text(value); }

std::vector<std::string> texts_of(const OnnxValue& value) {
  if (value.is_strings()) return value.strings().values;
  if (value.tensor().traced()) throw OnnxNeedsData("LabelEncoder needs the labels");
  std::vector<std::string> all;
  for (const double each : value.tensor().values<double>()) all.push_back(key_of(each));
  return all;
}

/// What the keys become: texts, whole numbers or floating ones, as attributes or as a tensor.
OnnxValues label_encoder(const OnnxCall& call) {
  const std::vector<std::string> labels = texts_of(call.in(0));
  std::vector<std::string> keys = call.version() < 2 ? call.words("classes_strings") : call.words("keys_strings");
  for (const std::int64_t key : call.integers("keys_int64s")) keys.push_back(key_of(static_cast<double>(key)));
  for (const double key : call.numbers("keys_floats")) keys.push_back(key_of(key));
  if (call.has("keys_tensor")) keys = texts_of(call.value("keys_tensor"));
  std::map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < keys.size(); ++i) known.emplace(keys[i], i);
  const auto look_up = [&](auto values, auto otherwise) {
    std::vector<decltype(otherwise)> out;
    for (const std::string& label : labels) {
      const auto found = known.find(label);
      out.push_back(found == known.end() ? otherwise : static_cast<decltype(otherwise)>(values.at(found->second)));
    }
    return out;
  };
  const Shape& shape = call.in(0).shape();
  if (call.version() < 2) {
    require(call.in(0).is_strings(), "numbers as labels are not supported before version 2");
    std::vector<std::int64_t> numbers(keys.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i);
    return {Tensor::from(shape, look_up(numbers, call.integer("default_int64", std::int64_t{-1})))};
  }
  if (call.has("values_strings"))
    return {OnnxStrings{shape, look_up(call.words("values_strings"), call.word("default_string", "_Unused"))}};
  if (call.has("values_int64s"))
    return {
        Tensor::from(shape, look_up(call.integers("values_int64s"), call.integer("default_int64", std::int64_t{-1})))};
  if (call.has("values_floats"))
    return {Tensor::from(
        shape, look_up(call.numbers("values_floats"), static_cast<float>(call.number("default_float", 0.0))))};
  const OnnxValue values = call.value("values_tensor"), otherwise = call.value("default_tensor");
  if (values.is_strings())
    return {OnnxStrings{shape, look_up(values.strings().values,
                                       otherwise ? otherwise.strings().values.at(0) : std::string("_Unused"))}};
  const bool whole = !is_floating(values.tensor().dtype());
  const double rest = otherwise ? otherwise.tensor().values<double>().at(0) : whole ? -1 : 0;
  const std::vector<double> out = look_up(values.tensor().values<double>(), rest);
  return {cast(Tensor::from({DType::f64, shape}, out.data()), values.tensor().dtype())};
}

}  // namespace

void add_classic_operators(OnnxOperators& to) {
  to.add("Scaler", 1, scaler_rule, kClassic);
  to.add("Normalizer", 1, normalizer_rule, kClassic);
  to.add("Binarizer", 1, binarizer_rule, kClassic);
  to.add("ArrayFeatureExtractor", 1, feature_extractor, kClassic);
  to.add("LinearRegressor", 1, linear_regressor, kClassic);
  to.add("LabelEncoder", 1, label_encoder, kClassic);
}

}  // namespace neurim
