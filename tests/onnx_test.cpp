// ONNX export: what is refused, and files for parity/onnx_test.py to run elsewhere.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "neurim/base/environment.h"
#include "neurim/base/error.h"
#include "neurim/compile/plan.h"
#include "neurim/model/onnx/export.h"
#include "neurim/model/recurrent_models.h"
#include "neurim/model/state.h"
#include "neurim/model/zoo.h"
#include "neurim/nn/positions.h"
#include "neurim/nn/recurrent.h"
#include "neurim/nn/transformer.h"
#include "neurim/ops/adaptive_pool.h"
#include "neurim/ops/add.h"
#include "neurim/ops/avg_pool.h"
#include "neurim/ops/broadcast_to.h"
#include "neurim/ops/cast.h"
#include "neurim/ops/common/rules.h"
#include "neurim/ops/compare.h"
#include "neurim/ops/concat.h"
#include "neurim/ops/group_norm.h"
#include "neurim/ops/interpolate.h"
#include "neurim/ops/layer_norm.h"
#include "neurim/ops/local_response_norm.h"
#include "neurim/ops/lp_pool.h"
#include "neurim/ops/matmul.h"
#include "neurim/ops/mean.h"
#include "neurim/ops/mul.h"
#include "neurim/ops/pad.h"
#include "neurim/ops/slice.h"
#include "tests/op_table.h"

namespace neurim {
namespace {

using TensorFunction = std::function<Tensors(Tensors)>;

/// A folder that goes with the test, or the one that the parity test reads.
class OnnxFiles : public testing::Test {
 protected:
  OnnxFiles() {
    const char* asked = environment("NEURIM_ONNX");
    own_ = !asked;
    folder_ = asked ? fs::path(asked) : fs::temp_directory_path() / text("neurim-onnx-", ::getpid());
    fs::create_directories(folder_);
  }
  ~OnnxFiles() override {
    if (own_) fs::remove_all(folder_);
  }

  fs::path path(std::string_view name) const { return folder_ / name; }

  /// The message of the usage error that the export throws; no file is left.
  template <class... Args>
  std::string refused(const Args&... args) const {
    try {
      export_onnx(args...);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::usage) << error.what();
      EXPECT_FALSE(fs::exists(path("refused.onnx")));
      return error.what();
    }
    return "the model was written";
  }
  std::string refused_function(const TensorFunction& function, const Type& input,
                               const OnnxExportOptions& options = {}) const {
    return refused(function, std::vector<Function::Port>{{"x", input}}, std::vector<std::string>{"y"},
                   path("refused.onnx"), options);
  }

  /// For the parity test: inputs "in0", … and expected outputs "out0", … (with a description of each) of the
  /// model `name`.onnx.
  void expect_run(std::string_view name, int run, const Tensors& in, const Tensors& out, double tolerance,
                  const std::vector<std::string>& what = {}) const {
    if (own_) return;
    std::vector<std::pair<std::string, Tensor>> tensors;
    Metadata metadata{{"tolerance", text(tolerance)}};
    for (std::size_t i = 0; i < in.size(); ++i) tensors.emplace_back(text("in", i), in[i]);
    for (std::size_t i = 0; i < out.size(); ++i) tensors.emplace_back(text("out", i), out[i]);
    for (std::size_t i = 0; i < what.size(); ++i) metadata[text("out", i)] = what[i];
    write_safetensors(path(text(name, ".run", run, ".safetensors")), tensors, metadata);
  }

 private:
  fs::path folder_;
  bool own_;
};

void expect_says(const std::string& message, std::string_view part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

/// A model of one function; its image is (3,4,4).
Model model_of(nn::Layer net) { return {"test", 4, 3, 10, {0}, {1}, std::move(net)}; }

Tensor random_tensor(const Shape& shape, std::uint64_t seed) {
  Random random(seed);
  const Type type{DType::f32, shape};
  return op_table::from_doubles(type, op_table::numbers(type, {-2, 2}, random));
}

/// Ops that have no place in an inference graph.
bool for_training(std::string_view op) {
  return ends_with(op, "_grad") || ends_with(op, "_step") || op == "dropout" || op == "all_finite" ||
         op.find("all_reduce") == 0 || op == "reduce_scatter" || op == "all_gather" || op == "team_copy" ||
         op == "team_gather" || op == "random_uniform" || op == "cross_entropy" || op == "ctc_loss" ||
         op == "batch_norm_train" || ends_with(op, "_recurrence");
}

/// Ops that rules of ONNX's operators are made of, and that are no such operators themselves.
bool of_rules(std::string_view op) {
  return op == "deform_columns" || op == "max_unpool" || op == "max_pool_indices" || op == "max_roi_pool" ||
         op == "linear_attention" || op == "scatter" || op == "grid_sample" || op == "roi_align";
}

/// What of an op has no form although the op has: an LSTM whose outputs are projected cannot begin with given
/// states, and attention cannot drop weights; or what its parts have none of. "" for other ops.
std::string without_form(const Op& op) {
  if (op.name() == "multihead_attention_grad") return "softmax_grad";
  const std::string said = attributes(op);
  const auto says = [&](std::string_view word) { return said.find(word) != said.npos; };
  if (op.name() == "integer" && says("shift")) return "integer";
  if (op.name() == "lstm" && says("state=true") && says("projection=true")) return "lstm";
  const auto* attention = dynamic_cast<const ScaledDotProductAttention*>(&op);
  if (const auto* heads = dynamic_cast<const MultiheadAttentionOp*>(&op)) attention = &heads->attention;
  return attention && attention->dropout_p > 0 ? "dropout" : "";
}

struct Interface {
  std::vector<Function::Port> in;
  std::vector<std::string> out;
};

Interface interface_of(const Types& in, std::size_t outputs) {
  Interface names;
  for (std::size_t i = 0; i < in.size(); ++i) names.in.push_back({text("in", i), in[i]});
  for (std::size_t i = 0; i < outputs; ++i) names.out.push_back(text("out", i));
  return names;
}

/// Several samples as one function, so that a whole op is one file.
struct Samples {
  std::vector<Sample> rows;

  Types types() const {
    Types all;
    for (const Sample& row : rows) all.insert(all.end(), row.in.begin(), row.in.end());
    return all;
  }
  Tensors inputs() const {
    Tensors all;
    for (const Sample& row : rows)
      for (const Tensor& input : op_table::inputs(row, row.in, 1)) all.push_back(input);
    return all;
  }
  Tensors operator()(const Tensors& in) const {
    Tensors all;
    auto next = in.begin();
    for (const Sample& row : rows) {
      const auto end = next + static_cast<std::ptrdiff_t>(row.in.size());
      for (const Tensor& output : apply(row.op, {next, end})) all.push_back(output);
      next = end;
    }
    return all;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const Sample& row : rows)
      for (std::size_t i = 0; i < row.op->infer(row.in).size(); ++i)
        all.push_back(text(op_table::reproducer(*row.op, row.in, 1), ", output ", i));
    return all;
  }
};

/// Whether the exporter can say the op in others where the opset has no form of it.
bool replaceable(const Op& op, const Types& types, std::int64_t opset) {
  if (op.name() == "gelu") return true;
  Trace trace({});
  Tensors in;
  for (const Type& type : types) in.push_back(trace.input(type));
  const Graph graph = trace.finish(op.decompose(in));
  return !graph.nodes.empty() && std::all_of(graph.nodes.begin(), graph.nodes.end(), [&](const Graph::Node& node) {
    Types of;
    for (const int value : node.in) of.push_back(graph.values[value].type);
    return node.op->onnx().since <= opset || replaceable(*node.op, of, opset);
  });
}

bool has_bf16(const Sample& sample) {
  Types types = sample.op->infer(sample.in);
  types.insert(types.end(), sample.in.begin(), sample.in.end());
  return std::any_of(types.begin(), types.end(), [](const Type& type) { return type.dtype == DType::bf16; });
}

TEST_F(OnnxFiles, EveryOpIsWrittenOrIsForTraining) {
  for (const std::string& name : op_names())
    for (const std::int64_t opset : {17, 22}) {
      Samples usual, bf16;  // apart, as ONNX Runtime's Python takes no bf16
      const OnnxExportOptions options{.opset = opset, .dynamic_batch = false};
      for (const Sample& sample : make_op(name)->samples()) {
        SCOPED_TRACE(op_table::reproducer(*sample.op, sample.in, 1));
        const bool too_new = sample.op->onnx().since > opset && !replaceable(*sample.op, sample.in, opset);
        const std::string part = without_form(*sample.op);
        if (!for_training(name) && !of_rules(name) && !too_new && part.empty()) {
          (has_bf16(sample) ? bf16 : usual).rows.push_back(sample);
          continue;
        }
        const auto [in, out] = interface_of(sample.in, sample.op->infer(sample.in).size());
        const TensorFunction function = [&](const Tensors& inputs) { return apply(sample.op, inputs); };
        expect_says(refused(function, in, out, path("refused.onnx"), options),
                    too_new ? "export with that opset" : (part.empty() ? name : part) + ": ONNX has no form");
      }
      for (const auto& [samples, kind] : {std::pair(&usual, ""), std::pair(&bf16, "-bf16")}) {
        if (samples->rows.empty()) continue;
        const std::string file = text(name, "-opset", opset, kind);
        const auto [in, out] = interface_of(samples->types(), samples->names().size());
        export_onnx(*samples, in, out, path(file + ".onnx"), options);
        const Tensors inputs = samples->inputs();
        expect_run(file, 0, inputs, (*samples)(inputs), 1e-5, samples->names());
      }
    }
}

TEST_F(OnnxFiles, SizesFollowTheBatch) {
  const Tensor row = random_tensor({1, 4}, 9);
  const std::vector<std::pair<std::string, TensorFunction>> cases{
      {"reshape-merges-the-batch",
       [](const Tensors& in) -> Tensors { return {reshape(in[0], {in[0].size(0) * 2, 2})}; }},
      {"one-row-more",
       [row](const Tensors& in) -> Tensors {
         const Tensor longer = concat({in[0], row}, 0);
         return {longer, broadcast_to(row, {longer.size(0) * 2, 4})};
       }},
      {"every-second-row",
       [](const Tensors& in) -> Tensors {
         const Tensor half = slice(in[0], {0}, {in[0].size(0)}, {0}, {2});
         return {half, broadcast_to(Tensor::full({DType::f32, {4}}, 1), {half.size(0), 4})};
       }},
      {"reshape-to-two-sizes-that-vary",
       [](const Tensors& in) -> Tensors {
         const Dim n = in[0].size(0);
         return {reshape(matmul(in[0], in[0], false, true), {n, 1, n})};
       }},
      {"reshape-beside-an-empty-axis",
       [](const Tensors& in) -> Tensors { return {reshape(slice(in[0], {0}, {0}, {1}), {0, in[0].size(0)}), in[0]}; }},
      {"broadcast-to-multiples",
       [row](const Tensors& in) -> Tensors {
         const Dim n = in[0].size(0);
         return {broadcast_to(row, {2, 3 * n, 4}), broadcast_to(row, {n, 4})};
       }},
      {"recurrent-layers",
       [](const Tensors& in) -> Tensors {
         static const nn::LSTM net(1, 5, {.num_layers = 2, .batch_first = true, .bidirectional = true, .proj_size = 3});
         const nn::RecurrentOutput out = net(reshape(in[0], {in[0].size(0), 4, 1}));
         return {out.y, out.last.c};
       }},
      {"transformer-layers",
       [](const Tensors& in) -> Tensors {
         static const nn::TransformerEncoder encoder(
             8, 2, 2, {.dim_feedforward = 16, .activation = "gelu", .norm_first = true}, true);
         static const nn::TransformerDecoderLayer decoder(8, 2, {.dim_feedforward = 16});
         const Dim n = in[0].size(0);
         const Tensor x = broadcast_to(reshape(in[0], {n, 4, 1}), {n, 4, 8});
         const Tensor padding = greater(in[0], scalar_like(in[0], 0));
         const Tensor memory = encoder(nn::SinusoidalPositions()(x), {.key_padding_mask = padding});
         return {memory, decoder(nn::RotaryPositions()(x), memory, {.is_causal = true})};
       }},
      {"slice-by-the-batch",
       [](const Tensors& in) -> Tensors {
         const Dim n = in[0].size(0);
         return {slice(concat({in[0], in[0] * 2.0}, 0), {n}, {2 * n}, {0}, {1})};
       }},
      {"norms-resampling-and-pads",
       [row](const Tensors& in) -> Tensors {
         const Tensor x = reshape(in[0], {in[0].size(0), 2, 2, 1}), weight = reshape(row, {4});
         const Tensor exact = layer_norm(cast(in[0], DType::f64), {4}, weight, weight);
         return {group_norm(x, 1),
                 instance_norm(x),
                 cast(exact, DType::f32),
                 interpolate(x, {.size = {3, 4}}),
                 interpolate(x, {.scale_factor = {2}, .mode = "bilinear"}),
                 local_response_norm(x, {.size = 4}),
                 pad(x, {0, 0, 1, 0, 0, 0, 1, 0}, "reflect"),
                 pad(x, {0, 0, 1, 0, 0, 0, 1, 0}, "circular")};
       }},
      {"pooling-of-uneven-windows",
       [](const Tensors& in) -> Tensors {
         const Tensor x = reshape(in[0], {in[0].size(0), 1, 4});
         return {adaptive_avg_pool1d(x, 3), adaptive_max_pool1d(x, 3), lp_pool1d(x)};
       }},
      {"outputs-of-every-kind",
       [row](const Tensors& in) -> Tensors {
         const Tensor mean_of_batch = mean(in[0], {0});
         return {in[0], mean_of_batch, mean_of_batch, row};
       }},
  };
  for (const auto& [name, function] : cases) {
    const std::size_t outputs = function({random_tensor({2, 4}, 0)}).size();
    const auto [in, out] = interface_of({{DType::f32, {1, 4}}}, outputs);
    export_onnx(function, in, out, path(name + ".onnx"));
    for (const int batch : {1, 4, 5}) {
      const Tensors inputs{random_tensor({batch, 4}, 7)};
      expect_run(name, batch, inputs, function(inputs), 1e-5);
    }
  }
}

TEST_F(OnnxFiles, Models) {
  const char* data = environment("NEURIM_DATA");
  for (const auto& [name, image] : std::vector<std::pair<std::string, Shape>>{
           {"lenet5", {1, 28, 28}}, {"resnet20", {3, 32, 32}}, {"resnet18", {3, 64, 64}}}) {
    const Model model = create_model(name);
    if (name == "resnet20" && data)
      load_model(Model(model), fs::path(data) / "weights" / "resnet20-cifar10.safetensors");
    export_onnx(model, path(name + ".onnx"),
                {.metadata = {{"names", R"(["cat","dög"])"}, {"imgsz", "32"}}, .image = image});
    for (const int batch : {1, 5}) {
      const Tensor x = random_tensor({batch, image[0], image[1], image[2]}, 3);
      const Plan frozen = plan([&](const Tensors& in) -> Tensors { return {model(in[0])}; }, {x.type()},
                               {.freeze = true});
      expect_run(name, batch, {x}, frozen({x}), 1e-4);
    }
  }
}

TEST_F(OnnxFiles, RecurrentModels) {
  for (const std::string& kind : recurrent_model_names()) {
    const Model forecaster = create_forecaster(kind, {.mean = {3, -1}, .std = {2, 0.5}, .target = 1, .horizon = 3},
                                               {.hidden_size = 6, .num_layers = 2});
    const Model writer = create_language_model(kind, 9, {.hidden_size = 6});
    const Dim batch = Dim::symbol("batch"), time = Dim::symbol("time");
    const auto exported = [&](const std::string& name, const Model& model, const Type& type, const auto& of_size) {
      const TensorFunction function = [&](const Tensors& in) -> Tensors { return {model(in[0])}; };
      export_onnx(trace_function(function, {{"in0", type}}, {"out0"}), path(name + ".onnx"));
      int run = 0;
      for (const auto& [rows, steps] : std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 7}, {4, 7}, {3, 2}}) {
        const Tensors inputs{of_size(rows, steps)};
        expect_run(name, run++, inputs, function(inputs), 1e-5);
      }
    };
    exported("forecaster-" + kind, forecaster, {DType::f32, {batch, time, 2}},
             [](std::int64_t rows, std::int64_t steps) { return random_tensor({rows, steps, 2}, 3); });
    exported("language-" + kind, writer, {DType::i64, {batch, time}}, [](std::int64_t rows, std::int64_t steps) {
      std::vector<std::int64_t> characters(static_cast<std::size_t>(steps * rows));
      for (std::size_t i = 0; i < characters.size(); ++i) characters[i] = static_cast<std::int64_t>(i * i % 9);
      return Tensor::from({rows, steps}, std::span<const std::int64_t>(characters));
    });
  }
}

/// Whether the file has a node of that type: op_type is field 4 of a NodeProto.
bool has_node(const std::string& file, const std::string& type) {
  return file.find(text('\x22', static_cast<char>(type.size()), type)) != std::string::npos;
}

TEST_F(OnnxFiles, WhatIsConstantIsAnInitializer) {
  for (const char* name : {"lstm_classifier", "gru_classifier", "rnn_classifier"}) {
    const std::string file = onnx_of(create_model(name), path("constant.onnx")).model;
    for (const char* type : {"Gather", "Concat"}) EXPECT_FALSE(has_node(file, type)) << name << ' ' << type;
    EXPECT_NE(file.find("rnn.weight_ih_l0"), std::string::npos) << name;  // in ONNX's order of gates
    EXPECT_LT(file.size(), 4.2 * static_cast<double>(parameter_count(create_model(name))) + 4000)
        << name;  // and nothing twice
  }
  const Tensor w = random_tensor({4, 4}, 1);
  const auto of = [&](const TensorFunction& function, bool dynamic = true) {
    return onnx_of(function, {{"x", {DType::f32, {1, 4}}}}, {"y"}, path("constant.onnx"), {.dynamic_batch = dynamic})
        .model;
  };
  const std::string sums = of(
      [&](const Tensors& in) -> Tensors { return {matmul(in[0], w * 2.0 + 1.0, false, true)}; });
  EXPECT_TRUE(has_node(sums, "MatMul"));
  for (const char* type : {"Mul", "Add", "Transpose"}) EXPECT_FALSE(has_node(sums, type)) << type;
  EXPECT_TRUE(
      has_node(of([&](const Tensors&) -> Tensors { return {w * 2.0}; }), "Identity"));  // an output is no initializer
  // A repeated value would take more room than what it is made of.
  EXPECT_TRUE(has_node(
      of([&](const Tensors& in) -> Tensors { return {in[0] + broadcast_to(random_tensor({1, 4}, 2), {8, 4})}; }, false),
      "Expand"));
}

TEST_F(OnnxFiles, TheSameModelGivesTheSameBytes) {
  const Model model = create_model("lenet5");
  OnnxExportOptions options{.metadata = {{"b", "2"}, {"a", "1"}}};
  export_onnx(model, path("first.onnx"), options);
  export_onnx(model, path("second.onnx"), options);
  const std::string bytes = read_file(path("first.onnx"));
  EXPECT_EQ(bytes, read_file(path("second.onnx")));
  options.dynamic_batch = false;
  export_onnx(model, path("second.onnx"), options);
  EXPECT_NE(bytes, read_file(path("second.onnx")));
  fs::remove(path("first.onnx"));
  fs::remove(path("second.onnx"));
}

TEST_F(OnnxFiles, WhatDependsOnTheBatchOtherwiseIsRefused) {
  const Type x{DType::f32, {1, 4}};
  expect_says(refused_function(
                  [](const Tensors& in) -> Tensors { return {in[0] * (1.0 / static_cast<double>(in[0].size(0)))}; }, x),
              "the size batch is not known here");
  expect_says(
      refused_function([](const Tensors& in) -> Tensors { return {in[0].size(0) > 2 ? in[0] * 2.0 : in[0]}; }, x),
      "whether 2 or batch is the larger size is not known");
  expect_says(refused_function([](const Tensors& in) -> Tensors { return {mean(in[0], {in[0].size(0) - 2})}; }, x),
              "the size batch-2 is not known");
  expect_says(
      refused_function([](const Tensors& in) -> Tensors { return {in[0].size(0) == 2 ? in[0] * 2.0 : in[0]}; }, x),
      "assumes that batch is not 2");
  expect_says(refused_function([](const Tensors& in) -> Tensors { return in; }, {DType::f32, {}}), "no batch axis");
}

TEST_F(OnnxFiles, UsageErrors) {
  const Type x{DType::f32, {1, 4}};
  const TensorFunction same = [](const Tensors& in) { return in; };
  expect_says(refused_function(same, x, {.opset = 12}), "opset 12 is not one of 13 to 23");
  expect_says(refused_function(same, x, {.opset = 24}), "opset 24");
  expect_says(refused_function([](const Tensors&) { return Tensors{}; }, x), "1 names for 0 outputs");
  expect_says(refused(same, std::vector<Function::Port>{{"y", x}}, std::vector<std::string>{"y"}, path("refused.onnx")),
              "'y'");
  const Tensor state = Tensor::full({DType::f32, {}}, 1);
  expect_says(refused_function([&](const Tensors& in) { return state.assign(state + 1.0), in; }, x), "assigns");
  expect_says(refused(create_model("lenet5"), path("refused.onnx"), OnnxExportOptions{.image = {28, 28}}),
              "not (C,H,W)");
  expect_says(refused(create_model("lenet5"), path("refused.onnx"), OnnxExportOptions{.image = {3, 28, 28}}),
              "c1: conv2d: input (batch,3,28,28) has 3 channels");
  EXPECT_THROW(export_onnx(create_model("lenet5"), path("no/such/folder/a.onnx")), Error);
}

TEST_F(OnnxFiles, WeightsThatDoNotFitAreBesideTheModel) {
  const Model model = create_model("lenet5");
  const std::string inside = onnx_of(model, path("lenet5.onnx")).model;
  EXPECT_EQ(onnx_of(model, path("lenet5.onnx"), {.most_bytes = inside.size()}).model, inside);
  EXPECT_GT(inside.size(), 200'000u);

  const OnnxExportOptions small{.most_bytes = inside.size() - 1};
  const OnnxExport files = onnx_of(model, path("beside.onnx"), small);
  EXPECT_EQ(files.names(), (std::vector<std::string>{path("beside.onnx"), path("beside.onnx.data")}));
  EXPECT_EQ(files.size(), files.model.size() + files.data.size());
  EXPECT_LT(files.model.size(), 8'000u);
  EXPECT_EQ(onnx_of(model, path("beside.onnx"), small).data, files.data);
  write_file(path("beside.onnx"), "another model");
  write_file(path("beside.onnx.data"), "and its weights");
  export_onnx(model, path("beside.onnx"), small);
  EXPECT_EQ(read_file(path("beside.onnx")), files.model);
  EXPECT_EQ(read_file(path("beside.onnx.data")), files.data);
  const Tensor x = random_tensor({5, 1, 28, 28}, 3);
  expect_run("beside", 5, {x}, {model(x)}, 1e-4);

  fs::create_symlink("linked.onnx", path("link.onnx"));
  export_onnx(model, path("link.onnx"), small);
  export_onnx(model, path("link.onnx"), small);
  EXPECT_TRUE(fs::is_symlink(path("link.onnx")));
  EXPECT_EQ(read_file(path("linked.onnx")), onnx_of(model, path("link.onnx"), small).model);
  for (const char* name : {"link.onnx", "linked.onnx", "link.onnx.data"}) fs::remove(path(name));
}

TEST_F(OnnxFiles, TheOlderModelStaysWhereTheWeightsBesideItCannotBeWritten) {
  const Model model = create_model("lenet5");
  const OnnxExportOptions small{.most_bytes = 0};
  expect_says(refused(model, fs::path("/dev/null"), small), "/dev/null.data cannot be; give the name of a file");
  fs::create_directories(path("kept") / "a.onnx.data");
  write_file(path("kept") / "a.onnx", "before");
  EXPECT_THROW(export_onnx(model, path("kept") / "a.onnx", small), Error);
  EXPECT_EQ(read_file(path("kept") / "a.onnx"), "before");
  fs::create_directory(path("kept") / "b.onnx");
  EXPECT_THROW(export_onnx(model, path("kept") / "b.onnx", small), Error);
  EXPECT_FALSE(fs::exists(path("kept") / "b.onnx.data"));
  EXPECT_EQ(std::distance(fs::directory_iterator(path("kept")), {}), 3);  // no temporary file either
  fs::remove_all(path("kept"));
}

TEST_F(OnnxFiles, AFailedExportLeavesTheOldFile) {
  write_file(path("kept.onnx"), "before");
  const Model model = model_of([](const Tensor& x) { return avg_pool2d(x, {.dilation = {2, 2}}); });
  EXPECT_THROW(export_onnx(model, path("kept.onnx")), Error);
  EXPECT_EQ(read_file(path("kept.onnx")), "before");
  fs::remove(path("kept.onnx"));
}

}  // namespace
}  // namespace neurim
