// ONNX models as functions: what files may say, how values are stored, and what is refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <thread>

#include "neurim/compile/plan.h"
#include "neurim/infer/session.h"
#include "neurim/model/onnx/export.h"
#include "neurim/model/onnx/layer.h"
#include "neurim/model/onnx/model.h"
#include "neurim/model/onnx/narrow.h"
#include "onnx/onnx-data.pb.h"
#include "tests/errors.h"

namespace neurim {
namespace {

/// Builds the message of a model.
class Builder {
 public:
  explicit Builder(std::int64_t opset = 17) {
    proto.set_ir_version(8);
    auto& version = *proto.add_opset_import();
    version.set_domain("");
    version.set_version(opset);
  }
  onnx::GraphProto& graph() { return *proto.mutable_graph(); }

  static void port(onnx::ValueInfoProto& info, const std::string& name, const std::vector<std::int64_t>& sizes) {
    info.set_name(name);
    auto& type = *info.mutable_type()->mutable_tensor_type();
    type.set_elem_type(1);
    for (const std::int64_t size : sizes) {
      auto& dim = *type.mutable_shape()->add_dim();
      if (size < 0)
        dim.set_dim_param("n");
      else
        dim.set_dim_value(size);
    }
  }
  void input(const std::string& name, const std::vector<std::int64_t>& sizes) {
    port(*graph().add_input(), name, sizes);
  }
  void output(const std::string& name, const std::vector<std::int64_t>& sizes) {
    port(*graph().add_output(), name, sizes);
  }
  static onnx::NodeProto& node(onnx::GraphProto& graph, const std::string& op, const std::vector<std::string>& in,
                               const std::vector<std::string>& out) {
    onnx::NodeProto& made = *graph.add_node();
    made.set_op_type(op);
    made.set_name("the " + op);
    for (const std::string& name : in) made.add_input(name);
    for (const std::string& name : out) made.add_output(name);
    return made;
  }
  onnx::NodeProto& node(const std::string& op, const std::vector<std::string>& in,
                        const std::vector<std::string>& out) {
    return node(graph(), op, in, out);
  }
  onnx::TensorProto& stored(const std::string& name, const std::vector<std::int64_t>& sizes,
                            const std::vector<float>& values) {
    onnx::TensorProto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(1);
    for (const std::int64_t size : sizes) tensor.add_dims(size);
    for (const float value : values) tensor.add_float_data(value);
    return tensor;
  }
  std::string bytes() const { return proto.SerializeAsString(); }
  OnnxModel model() const { return OnnxModel::parse(bytes()); }

  onnx::ModelProto proto;
};

Builder one_node(const std::string& op) {
  Builder builder;
  builder.input("x", {-1, 2});
  builder.node(op, {"x"}, {"y"});
  builder.output("y", {-1, 2});
  return builder;
}

std::vector<double> run(const OnnxModel& model, const Tensors& in) { return model(in)[0].values<double>(); }
const Tensor kRow = Tensor::from({1, 2}, std::vector<float>{-1, 2});

TEST(OnnxModel, RunsPlannedAndAtOnce) {
  const OnnxModel model = one_node("Relu").model();
  EXPECT_EQ(run(model, {kRow}), (std::vector<double>{0, 2}));
  const InferenceSession session(model);
  EXPECT_EQ(session.run(Tensors{kRow})[0].values<double>(), (std::vector<double>{0, 2}));
  EXPECT_EQ(session.eager_because({kRow.type()}), "");
  EXPECT_EQ(text(session.inputs()[0]), "f32(n,2)");
}

TEST(OnnxModel, ImagesMayHaveTheirChannelsLast) {
  const auto of = [](const Shape& sizes, const std::map<std::string, std::string>& metadata = {}) {
    Builder builder = one_node("Relu");
    auto* shape = builder.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
    shape->clear_dim();
    builder.graph().mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
    for (const Dim& size : sizes)
      size.symbolic() ? shape->add_dim()->set_dim_param(text(size)) : shape->add_dim()->set_dim_value(size);
    for (const auto& [key, value] : metadata) {
      auto* entry = builder.proto.add_metadata_props();
      entry->set_key(key), entry->set_value(value);
    }
    return builder.model();
  };
  const Dim n = Dim::symbol("n"), h = Dim::symbol("h"), w = Dim::symbol("w");
  for (const Shape& last : std::vector<Shape>{{n, 28, 28, 1}, {n, 224, 224, 3}, {n, h, w, 3}, {1, 32, w, 4}})
    EXPECT_TRUE(takes_channels_last(of(last))) << last;
  for (const Shape& first : std::vector<Shape>{
           {n, 1, 28, 28}, {n, 3, h, w}, {n, 3, 4, 3}, {n, 4, 4, 3}, {n, 2, 64, 1}, {n, h, h, w}, {n, 3}})
    EXPECT_FALSE(takes_channels_last(of(first))) << first;
  EXPECT_FALSE(takes_channels_last(of({n, 28, 28, 1}, {{"preprocess", "{}"}})));
  EXPECT_TRUE(takes_channels_last(of({n, 2, 64, 1}, {{"preprocess", "{}"}, {"input_layout", "nhwc"}})));
  EXPECT_EQ(image_of(of({n, 28, 20, 3}), {3, 224, 224}), (Shape{3, 28, 20}));

  const Tensor x = Tensor::from({1, 8, 8, 3}, std::vector<float>(192, -1));
  const InferenceSession session(of({n, 3, 8, 8}), {}, 4, InputLayout::nhwc);
  EXPECT_EQ(text(session.inputs()[0]), "f32(n,8,8,3)");
  EXPECT_EQ(session.run(Tensors{x})[0].shape(), (Shape{1, 3, 8, 8}));
  EXPECT_EQ(message_of([&] { session.run(Tensors{kRow}); }), "input 0 is f32(1,2); it is images (N,H,W,C)");
}

TEST(OnnxModel, ThreadsShareASession) {
  Builder builder = one_node("Relu");
  builder.node("Add", {"y", "y"}, {"z"});
  builder.graph().mutable_output(0)->set_name("z");
  const InferenceSession session(builder.model(), {}, 2);  // fewer plans than sizes
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&session, &wrong, thread] {
      for (int turn = 0; turn < 20; ++turn) {
        const std::int64_t rows = 1 + (thread + turn) % 3;
        const Tensor x = Tensor::full({DType::f32, {rows, 2}}, thread + 1);
        const std::vector<double> found = session.run(Tensors{x})[0].values<double>();
        wrong += found != std::vector<double>(static_cast<std::size_t>(2 * rows), 2 * (thread + 1));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(OnnxModel, WhatNeedsDataRunsOpByOp) {
  Builder builder = one_node("Abs");
  builder.node("NonZero", {"y"}, {"places"});
  builder.graph().mutable_output(0)->set_name("places");
  builder.graph().mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(7);
  const InferenceSession session(builder.model());
  EXPECT_EQ(session.eager_because({kRow.type()}), "NonZero needs the numbers of its input 0");
  EXPECT_EQ(session.run(Tensors{Tensor::from({1, 2}, std::vector<float>{0, 3})})[0].values<double>(),
            (std::vector<double>{0, 1}));
}

TEST(OnnxModel, UnsupportedOperatorsAreNamedAtOnce) {
  Builder builder = one_node("Quark");
  builder.node("Gluon", {"y"}, {"z"});
  builder.node("Quark", {"z"}, {"w"}).set_name("another");
  EXPECT_EQ(message_of([&] { builder.model(); }),
            "uses operators that are not supported: Gluon (node the Gluon); Quark (2 nodes: the Quark, another)");
  EXPECT_EQ(error_of([&] { one_node("Quark").model(); }),
            "uses operators that are not supported: Quark (node the Quark)");
}

TEST(OnnxModel, DamagedGraphsAreRefused) {
  const auto refused = [](const std::function<void(Builder&)>& change) {
    Builder builder = one_node("Relu");
    change(builder);
    return error_of([&] { builder.model(); });
  };
  expect_words(refused([](Builder& b) { b.node("Relu", {"later"}, {"z"}); }),
               {"the Relu", "'later'", "no node before"});
  expect_words(refused([](Builder& b) { b.node("Relu", {"x"}, {"y"}); }), {"'y' twice"});
  expect_words(refused([](Builder& b) { b.output("none", {}); }), {"'none'", "no node makes"});
  expect_words(refused([](Builder& b) { b.stored("w", {2, 2}, {1, 2, 3}); }), {"'w'", "3 numbers, not 4"});
  expect_words(refused([](Builder& b) { b.stored("w", {-2}, {}); }), {"'w'", "size -2"});
  expect_words(refused([](Builder& b) { b.stored("w", {1, 2}, {1, 2}), b.stored("w", {1, 2}, {1, 2}); }),
               {"two initializers", "'w'"});
  expect_words(refused([](Builder& b) { b.stored("w", {std::int64_t{1} << 40, std::int64_t{1} << 40}, {}); }), {"'w'"});
  expect_words(refused([](Builder& b) { b.node("Relu", {"x"}, {"z"}).set_domain("of.others"); }),
               {"of.others", "version"});
  expect_words(error_of([] { OnnxModel::parse("no model"); }), {"is no ONNX model"});
  expect_words(error_of([] { OnnxModel::parse(""); }), {"is no ONNX model"});
}

TEST(OnnxModel, NumbersOfWindowsThatOverflowAreRefused) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  for (const char* attribute : {"output_padding", "output_shape", "strides", "dilations", "pads", "kernel_shape"}) {
    Builder builder;
    builder.input("x", {1, 1, 4});
    builder.stored("w", {1, 1, 3}, {1, 2, 3});
    onnx::NodeProto& node = builder.node("ConvTranspose", {"x", "w"}, {"y"});
    const auto numbers = [&](const char* name, std::vector<std::int64_t> values) {
      onnx::AttributeProto& added = *node.add_attribute();
      added.set_name(name);
      added.set_type(onnx::AttributeProto::INTS);
      for (const std::int64_t value : values) added.add_ints(value);
    };
    const bool pads = std::string_view(attribute) == "pads";
    numbers(attribute, pads ? std::vector<std::int64_t>{kLeast, 1} : std::vector{kLeast});
    if (std::string_view(attribute) == "output_padding") numbers("pads", {1, 1});
    builder.output("y", {1, 1, -1});
    const OnnxModel model = builder.model();
    expect_words(usage_error([&] { model(Tensors{Tensor::full({DType::f32, {1, 1, 4}}, 1)}); }),
                 {attribute, "-9223372036854775808"});
  }
}

TEST(OnnxModel, InputsAreCompared) {
  const OnnxModel model = one_node("Relu").model();
  EXPECT_EQ(usage_error([&] { model(Tensors{}); }), "takes 1 inputs, got 0");
  EXPECT_EQ(usage_error([&] { model(Tensors{Tensor::full({DType::f64, {1, 2}}, 0)}); }),
            "input 'x' is f64(1,2), and the model takes f32(n,2)");
  EXPECT_EQ(usage_error([&] { model(Tensors{Tensor::full({DType::f32, {1, 3}}, 0)}); }),
            "input 'x' is f32(1,3), and the model takes f32(n,2)");
  EXPECT_EQ(usage_error([&] { model(Tensors{Tensor::full({DType::f32, {2}}, 0)}); }),
            "input 'x' is f32(2), and the model takes f32(n,2)");
}

TEST(OnnxModel, FunctionsTakeAttributesAndLeaveInputsOut) {
  Builder builder;
  builder.input("x", {-1, 2});
  builder.output("y", {-1, 2});
  auto& opset = *builder.proto.add_opset_import();
  opset.set_domain("own");
  opset.set_version(1);
  onnx::FunctionProto& function = *builder.proto.add_functions();
  function.set_domain("own");
  function.set_name("Leak");
  function.add_input("a");
  function.add_input("unused");
  function.add_output("b");
  function.add_attribute("slope");
  *function.add_opset_import() = builder.proto.opset_import(0);
  onnx::NodeProto& inner = *function.add_node();
  inner.set_op_type("LeakyRelu");
  inner.add_input("a");
  inner.add_output("b");
  auto& reference = *inner.add_attribute();
  reference.set_name("alpha");
  reference.set_ref_attr_name("slope");
  reference.set_type(onnx::AttributeProto::FLOAT);
  onnx::NodeProto& call = builder.node("Leak", {"x"}, {"y"});
  call.set_domain("own");
  auto& slope = *call.add_attribute();
  slope.set_name("slope");
  slope.set_f(0.5F);
  slope.set_type(onnx::AttributeProto::FLOAT);
  EXPECT_EQ(run(builder.model(), {kRow}), (std::vector<double>{-0.5, 2}));

  onnx::NodeProto& itself = *function.add_node();
  itself.set_op_type("Leak");
  itself.set_domain("own");
  itself.add_input("a");
  itself.add_output("c");
  expect_words(error_of([&] { builder.model(); }), {"Leak", "calls itself"});
}

TEST(OnnxModel, FunctionsThatGrowWithoutEndAreRefused) {
  Builder builder = one_node("F39");
  builder.graph().mutable_node(0)->set_domain("own");
  auto& opset = *builder.proto.add_opset_import();
  opset.set_domain("own");
  opset.set_version(1);
  for (int i = 0; i < 40; ++i) {
    onnx::FunctionProto& function = *builder.proto.add_functions();
    function.set_domain("own");
    function.set_name("F" + std::to_string(i));
    function.add_input("a");
    function.add_output("c");
    *function.add_opset_import() = builder.proto.opset_import(0);
    *function.add_opset_import() = opset;
    for (const auto& [in, out] : {std::pair("a", "b"), std::pair("b", "c")}) {
      onnx::NodeProto& node = *function.add_node();
      node.set_op_type(i == 0 ? "Relu" : "F" + std::to_string(i - 1));
      if (i > 0) node.set_domain("own");
      node.add_input(in);
      node.add_output(out);
    }
  }
  expect_words(error_of([&] { builder.model(); }), {"nodes when its functions are written out"});
}

TEST(OnnxModel, BranchesReadWhatIsAroundThem) {
  Builder builder;
  builder.input("x", {-1, 2});
  builder.output("y", {-1, 2});
  builder.stored("flag", {}, {1});
  auto& to = *builder.node("Cast", {"flag"}, {"condition"}).add_attribute();
  to.set_name("to");
  to.set_i(9);
  to.set_type(onnx::AttributeProto::INT);
  onnx::NodeProto& branch = builder.node("If", {"condition"}, {"y"});
  for (const auto& [name, op] : {std::pair("then_branch", "Neg"), std::pair("else_branch", "Relu")}) {
    auto& attribute = *branch.add_attribute();
    attribute.set_name(name);
    attribute.set_type(onnx::AttributeProto::GRAPH);
    Builder::node(*attribute.mutable_g(), op, {"x"}, {"z"});
    Builder::port(*attribute.mutable_g()->add_output(), "z", {-1, 2});
  }
  EXPECT_EQ(run(builder.model(), {kRow}), (std::vector<double>{1, -2}));
  EXPECT_EQ(InferenceSession(builder.model()).eager_because({kRow.type()}), "");  // the condition is known
}

/// A vector of whole numbers.
void numbers(Builder& builder, const std::string& name, const std::vector<std::int64_t>& values, bool scalar = false) {
  onnx::TensorProto& tensor = builder.stored(name, {}, {});
  tensor.set_data_type(7);
  if (!scalar) tensor.add_dims(static_cast<std::int64_t>(values.size()));
  for (const std::int64_t value : values) tensor.add_int64_data(value);
}

/// What exported models compute of the sizes of their input: x(n,2,3) -> (n*2,3), with a row of counts for each.
Builder of_sizes() {
  Builder b;
  b.input("x", {-1, 2, 3});
  numbers(b, "zero", {0}, true), numbers(b, "one", {1}, true), numbers(b, "first", {0}), numbers(b, "second", {1});
  numbers(b, "minus", {-1}), numbers(b, "three", {3}), numbers(b, "far", {std::numeric_limits<std::int64_t>::max()});
  b.node("Shape", {"x"}, {"sizes"});
  b.node("Gather", {"sizes", "zero"}, {"batch"});
  b.node("Gather", {"sizes", "one"}, {"rows"});
  b.node("Mul", {"batch", "rows"}, {"all"});
  b.node("Unsqueeze", {"all", "first"}, {"all_rows"});
  b.node("Concat", {"all_rows", "minus"}, {"wanted"}).add_attribute()->CopyFrom([] {
    onnx::AttributeProto axis;
    axis.set_name("axis"), axis.set_type(onnx::AttributeProto::INT), axis.set_i(0);
    return axis;
  }());
  b.node("Equal", {"wanted", "minus"}, {"open"});
  b.node("Where", {"open", "three", "wanted"}, {"shape"});
  b.node("Reshape", {"x", "shape"}, {"flat"});
  b.node("Range", {"zero", "all", "one"}, {"counts"});
  auto& cast = *b.node("Cast", {"counts"}, {"floats"}).add_attribute();
  cast.set_name("to"), cast.set_type(onnx::AttributeProto::INT), cast.set_i(1);
  b.node("Unsqueeze", {"floats", "second"}, {"column"});
  b.node("Expand", {"column", "shape"}, {"table"});
  b.node("Slice", {"flat", "first", "far", "first"}, {"whole"});
  b.node("Add", {"whole", "table"}, {"y"});
  b.output("y", {-1, 3});
  return b;
}

TEST(OnnxModel, SizesMayStaySymbols) {
  const OnnxModel model = of_sizes().model();
  const Function function = trace_function([&](const Tensors& in) { return model(in); },
                                           {{"x", {DType::f32, {Dim::symbol("n"), 2, 3}}}}, {"y"});
  EXPECT_EQ(text(function.output_ports()[0].type), "f32(2*n,3)");
  EXPECT_TRUE(function.graph.unequal.empty());  // it holds for one as for many
  const InferenceSession session(function);
  const OnnxExport again = onnx_of(function, "again.onnx");
  const OnnxModel read = OnnxModel::parse(again.model);
  for (const std::int64_t n : {1, 2, 5}) {
    std::vector<float> values(static_cast<std::size_t>(6 * n));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7);
    const Tensor x = Tensor::from({n, 2, 3}, values);
    const std::vector<double> expected = run(model, {x});
    EXPECT_EQ(expected[5], values[5] + 1);
    EXPECT_EQ(session.run(Tensors{x})[0].values<double>(), expected);
    EXPECT_EQ(run(read, {x}), expected);
  }
}

/// A folder of its own for each test.
class OnnxFolder : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder / "inside"); }
  void TearDown() override { fs::remove_all(folder); }

  /// What opening a model says whose data lie at that place; "" where nothing is wrong.
  std::string opened(const std::string& location, const std::string& offset = "0", const std::string& length = "8") {
    Builder builder = one_node("Relu");
    builder.node("Add", {"y", "w"}, {"z"});
    onnx::TensorProto& tensor = builder.stored("w", {2}, {});
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] :
         {std::pair("location", location), std::pair("offset", offset), std::pair("length", length)}) {
      auto& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    std::ofstream(folder / "model.onnx", std::ios::binary) << builder.bytes();
    try {
      OnnxModel::open(folder / "model.onnx");
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::data);
      return error.what();
    }
    return "";
  }

  const fs::path folder = fs::temp_directory_path() / ("neurim-onnx-" + std::to_string(::getpid()));
};

TEST_F(OnnxFolder, DataAreReadInsideTheFolderAlone) {
  const std::string eight(8, '\0');
  std::ofstream(folder / "data") << eight;
  std::ofstream(folder / "inside" / "data") << eight;
  std::ofstream(folder / "twice") << eight;
  fs::create_hard_link(folder / "twice", folder / "other-name");
  fs::create_symlink(folder / "data", folder / "link");
  fs::create_directory_symlink(folder / "inside", folder / "linked");
  EXPECT_EQ(opened("data"), "");
  EXPECT_EQ(opened("inside/data"), "");
  EXPECT_EQ(opened("./data"), "");
  for (const char* bad :
       {"/etc/passwd", "../data", "inside/../../data", "link", "linked/data", "twice", "", "inside", "data/x"})
    expect_words(opened(bad), {"model.onnx", "only files inside the folder are"});
  expect_words(opened("none"), {"cannot open"});
  expect_words(opened("data", "4"), {"holds 8 bytes", "4 to 12"});
  expect_words(opened("data", "0", "4"), {"has 4 bytes, not 8"});
  expect_words(opened("data", "18446744073709551615"), {"holds 8 bytes"});
  expect_words(opened("data", "-1"), {"'-1'"});
}

TEST_F(OnnxFolder, InfinitiesAreWrittenAndReadBack) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const OnnxValue value(Tensor::from({2}, std::vector<float>{infinity, -infinity}), OnnxElement::f8e5m2);
  write_onnx_value(folder / "value.pb", value, OnnxKind::tensor, "v");
  EXPECT_EQ(read_onnx_value(folder / "value.pb", OnnxKind::tensor).tensor().values<float>(),
            (std::vector<float>{infinity, -infinity}));
}

TEST_F(OnnxFolder, EveryElementTypeIsWrittenAndReadBack) {
  for (int number = 1; number <= 26; ++number) {
    const auto element = static_cast<OnnxElement>(number);
    if (number == 14 || number == 15) continue;  // complex numbers
    OnnxValue value;
    if (element == OnnxElement::string) {
      value = OnnxStrings{{3}, {"a", "", "ü"}};
    } else {
      const Tensor tensor = Tensor::full({dtype_of(element), {5}}, element == OnnxElement::f8e8m0 ? 4 : 1);
      value = {tensor, element};
    }
    const fs::path file = folder / "value.pb";
    write_onnx_value(file, value, OnnxKind::tensor, "v");
    const OnnxValue read = read_onnx_value(file, OnnxKind::tensor);
    EXPECT_EQ(read.element(), element);
    EXPECT_EQ(text(read), text(value));
    if (value.is_tensor()) {
      EXPECT_EQ(read.tensor().values<double>(), value.tensor().values<double>()) << name(element);
    } else {
      EXPECT_EQ(read.strings().values, value.strings().values);
    }
    write_onnx_value(file, OnnxValue(OnnxValues{value, value}), OnnxKind::sequence);
    EXPECT_EQ(text(read_onnx_value(file, OnnxKind::sequence)), "a sequence of 2");
    write_onnx_value(file, {}, OnnxKind::optional);
    EXPECT_FALSE(read_onnx_value(file, OnnxKind::optional));
    write_onnx_value(file, value, OnnxKind::optional);
    EXPECT_EQ(text(read_onnx_value(file, OnnxKind::optional)), text(value));
  }
}

TEST(OnnxNarrow, EveryPatternOfBitsComesBack) {
  for (int number = 17; number <= 26; ++number) {
    const auto element = static_cast<OnnxElement>(number);
    const int count = 1 << narrow_bits(element);
    for (int bits = 0; bits < count; ++bits) {
      const double value = from_narrow(element, static_cast<std::uint8_t>(bits));
      const double again = from_narrow(element, to_narrow(element, value, {.saturate = false}));
      EXPECT_TRUE(value == again || (std::isnan(value) && std::isnan(again)))
          << name(element) << ' ' << bits << ' ' << value << ' ' << again;
      EXPECT_EQ(static_cast<float>(value) == value || std::isnan(value), true);
    }
  }
}

TEST(OnnxNarrow, RoundsToTheNearestTiesToEven) {
  const auto rounded = [](OnnxElement element, double value, bool saturate = true) {
    return from_narrow(element, to_narrow(element, value, {.saturate = saturate}));
  };
  EXPECT_EQ(rounded(OnnxElement::f8e4m3fn, 17), 16);  // between 16 and 18
  EXPECT_EQ(rounded(OnnxElement::f8e4m3fn, 19), 20);
  EXPECT_EQ(rounded(OnnxElement::f8e4m3fn, 1e9), 448);
  EXPECT_TRUE(std::isnan(rounded(OnnxElement::f8e4m3fn, 1e9, false)));
  EXPECT_TRUE(std::isinf(rounded(OnnxElement::f8e5m2, 1e9, false)));
  EXPECT_EQ(rounded(OnnxElement::f4e2m1, 2.5), 2);
  EXPECT_EQ(rounded(OnnxElement::f4e2m1, -100), -6);
  EXPECT_EQ(rounded(OnnxElement::i4, 9), 7);
  EXPECT_EQ(rounded(OnnxElement::u2, -1), 0);
  EXPECT_EQ(rounded(OnnxElement::f8e8m0, 3), 4);  // up
}

}  // namespace
}  // namespace neurim
