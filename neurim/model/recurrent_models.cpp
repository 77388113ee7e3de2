#include "neurim/model/recurrent_models.h"

#include <algorithm>

#include "neurim/base/error.h"
#include "neurim/graph/trace.h"
#include "neurim/nn/embedding.h"
#include "neurim/nn/linear.h"
#include "neurim/nn/recurrent.h"
#include "neurim/ops/add.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/div.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/reshape.h"
#include "neurim/ops/slice.h"
#include "neurim/ops/sub.h"

namespace neurim {

namespace {

/// Layers that take (N,T,features).
nn::RecurrentLayers recurrent_layers(std::string_view name, std::int64_t in, const RecurrentModelOptions& o) {
  if (name == "gru") return nn::GRU(in, o.hidden_size, {.num_layers = o.num_layers, .batch_first = true});
  if (name == "lstm") return nn::LSTM(in, o.hidden_size, {.num_layers = o.num_layers, .batch_first = true});
  if (name == "rnn") return nn::RNN(in, o.hidden_size, {.num_layers = o.num_layers, .batch_first = true});
  const std::string near = nearest(name, recurrent_model_names());
  fail(Fault::usage, "model: there is no '", name, "' of series and texts; ",
       near.empty() ? "" : text("did you mean '", near, "'? "), "known are ", join(recurrent_model_names(), ", "));
}

Tensor list_of(const std::vector<double>& values) {
  return Tensor::from({DType::f64, {std::ssize(values)}}, values.data());
}

/// A mean or a std in the dtype of what it meets. It does not change, so that it is a constant of that dtype where this
/// is traced: few runtimes of exported files know f64.
Tensor like(const Tensor& measured, const Tensor& x, const char* name) {
  if (x.dtype() == measured.dtype()) return measured;
  const Untraced untraced;
  const Tensor narrow = cast(measured, x.dtype());
  narrow.set_name(name);
  return narrow;
}

struct Forecaster {
  Forecaster(std::string_view name, const ForecasterColumns& columns, const RecurrentModelOptions& o)
      : mean(list_of(columns.mean)),
        std(list_of(columns.std)),
        rnn(recurrent_layers(name, mean.numel(), o)),
        head(o.hidden_size, columns.horizon),
        target(columns.target),
        options(o) {}

  void parts(Parts& p) { p("mean", mean, Role::state)("deviation", std, Role::state)("rnn", rnn)("head", head); }
  Tensor operator()(const Tensor& x) const {
    require(x.rank() == 3 && x.size(2) == mean.numel(), "forecaster: takes (batch,steps,columns) of ", mean.numel(),
            " columns, got ", x.shape());
    const Dim batch = x.size(0), steps = x.size(1);
    const std::int64_t layers = options.num_layers;
    const Tensor scale = like(std, x, "deviation");
    const Tensor states = rnn(cast((x - like(mean, x, "mean")) / scale, DType::f32)).last.h;
    const Tensor state = reshape(slice(states, {layers - 1}, {layers}), {batch, options.hidden_size});
    const Tensor last = reshape(slice(x, {steps - 1, target}, {steps, target + 1}, {1, 2}), {batch, 1});
    return last + cast(head(state), x.dtype()) * slice(scale, {target}, {target + 1});
  }

  Tensor mean, std;
  nn::RecurrentLayers rnn;
  nn::Linear head;
  std::int64_t target;
  RecurrentModelOptions options;
};

struct LanguageModel {
  LanguageModel(std::string_view name, std::int64_t characters, const RecurrentModelOptions& o)
      : embedding(characters, o.hidden_size),
        rnn(recurrent_layers(name, o.hidden_size, o)),
        head(o.hidden_size, characters) {}

  void parts(Parts& p) { p("embedding", embedding)("rnn", rnn)("head", head); }
  Tensor operator()(const Tensor& x) const { return head(rnn(embedding(x)).y); }

  nn::Embedding embedding;
  nn::RecurrentLayers rnn;
  nn::Linear head;
};

/// Weights are drawn by the seed, or left to be loaded.
Model initialised(Model model, const RecurrentModelOptions& options) {
  if (options.seed)
    initialise(model, *options.seed);
  else
    named_parameters(model);  // for the names
  return model;
}

}  // namespace

std::vector<std::string> recurrent_model_names() { return {"gru", "lstm", "rnn"}; }

bool is_recurrent_model(std::string_view name) {
  const std::vector<std::string> names = recurrent_model_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

Model create_forecaster(std::string_view name, const ForecasterColumns& columns, const RecurrentModelOptions& options) {
  const std::int64_t count = std::ssize(columns.mean);
  require(std::ssize(columns.std) == count && columns.target >= 0 && columns.target < count, "model: ", name,
          " takes a mean and a std for each column, of which one is the target; got ", count, " means, ",
          columns.std.size(), " stds and the target ", columns.target);
  const nn::Undrawn undrawn;
  return initialised({.name = std::string(name),
                      .image_size = 0,
                      .in_chans = count,
                      .num_classes = columns.horizon,
                      .mean = columns.mean,
                      .std = columns.std,
                      .net = Forecaster(name, columns, options)},
                     options);
}

Model create_language_model(std::string_view name, std::int64_t characters, const RecurrentModelOptions& options) {
  const nn::Undrawn undrawn;
  return initialised({.name = std::string(name),
                      .image_size = 0,
                      .in_chans = 0,
                      .num_classes = characters,
                      .mean = {},
                      .std = {},
                      .net = LanguageModel(name, characters, options)},
                     options);
}

}  // namespace neurim
