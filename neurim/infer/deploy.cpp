#include "neurim/infer/deploy.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "neurim/base/error.h"
#include "neurim/base/json.h"
#include "neurim/base/process.h"
#include "neurim/base/sha256.h"
#include "neurim/core/random.h"
#include "neurim/infer/adapters.h"
#include "neurim/weights/npy.h"

namespace neurim {

namespace {

using Json = nlohmann::json;

/// Files that go again.
class PassingFile {
 public:
  explicit PassingFile(fs::path path) : path_(std::move(path)) {}
  ~PassingFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  PassingFile(const PassingFile&) = delete;
  PassingFile& operator=(const PassingFile&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// Runs an adapter and reads the line of JSON that it ends with. `install`: what to do where its modules are missing.
Writer run_adapter(std::string_view source, const std::string& python, std::vector<std::string> words,
                   const std::string& install) {
  std::vector<std::string> line{python, "-c", std::string(source)};
  line.insert(line.end(), words.begin(), words.end());
  Process adapter(line);
  Json said;
  for (std::string one = adapter.line(); !one.empty(); one = adapter.line())
    said = Json::parse(one, nullptr, false);  // the last line counts: modules may print others
  if (said.is_object() && said.contains("missing"))
    fail(Fault::usage, python, ": ", said["missing"].get<std::string>(), "; ", install,
         ", or name the Python that has it: python=PATH");
  if (said.is_object() && said.contains("refused")) {
    const std::string why = said["refused"];
    fail(Fault::failure, "the module refuses the model: ", why.substr(0, why.find('\n')));
  }
  if (!said.is_object() || !said.contains("version"))
    fail(Fault::failure, python, " could not write the file; see its message above");
  return {said["module"], said["version"]};
}

std::string sha256_of(const fs::path& file) {
  Sha256 sum;
  const std::string bytes = read_file(file);
  sum.add(std::as_bytes(std::span(bytes)));
  return sum.hex();
}

/// A drawn input of the session: one sample, other sizes that are open near what images have.
Tensor drawn_input(const OnnxPort& port) {
  Shape shape = port.shape.value_or(Shape{});
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (shape[axis].symbolic()) shape[axis] = axis == 0 ? 1 : 97 + 16 * axis;
  Random random(0);
  const auto count = static_cast<std::size_t>(std::int64_t{shape.numel()});
  const DType dtype = dtype_of(port.element);
  if (dtype == DType::u8) {
    std::vector<std::uint8_t> values(count);
    for (std::uint8_t& value : values) value = static_cast<std::uint8_t>(random.below(256));
    return Tensor::from({dtype, shape}, values.data());
  }
  require(dtype == DType::f32, "the input is ", port, "; only images of u8 and f32 are compared");
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(random.uniform(-2, 2));
  return Tensor::from(shape, values);
}

/// The sizes from an axis on; of the first, where it is open, `batch`.
std::string sizes_of(const OnnxPort& port, std::int64_t batch, int first, const char* between) {
  std::vector<std::string> sizes;
  for (int axis = first; axis < port.shape->rank(); ++axis) {
    const Dim size = (*port.shape)[axis];
    sizes.push_back(axis == 0 && size.symbolic() ? text(batch) : size.symbolic() ? "-1" : text(size));
  }
  return join(sizes, between);
}

Json sidecar(const fs::path& onnx, const EngineOptions& options, const Writer& by) {
  return {{"onnx_sha256", sha256_of(onnx)},
          {"gpus", options.gpus},
          {"batches", options.batches},
          {"module", by.module},
          {"version", by.version}};
}

fs::path sidecar_path(const fs::path& engine) { return text(engine.string(), ".json"); }

}  // namespace

Writer write_openvino(const fs::path& onnx, const fs::path& xml, bool half, const std::string& python,
                      double& difference) {
  const InferenceSession session = InferenceSession::open(onnx, {}, 1);
  const Tensor input = drawn_input(session.inputs()[0]);
  const PassingFile given(text(xml.string(), ".input.npy")), made(text(xml.string(), ".output.npy"));
  write_npy(given.path(), input);
  const Writer by = run_adapter(
      kOpenvinoAdapter, python,
      {onnx.string(), xml.string(), half ? "true" : "false", given.path().string(), made.path().string()},
      "install it: pip install openvino");
  const std::vector<float> here = session.run(Tensors{input})[0].values<float>(),
                           there = read_npy(made.path()).values<float>();
  require(here.size() == there.size(), "openvino: it gives ", there.size(), " numbers, and the model ", here.size());
  difference = 0;
  for (std::size_t i = 0; i < here.size(); ++i) {
    const double off = std::abs(static_cast<double>(here[i]) - there[i]);
    if (!(off <= difference)) difference = off;  // NaN too
  }
  return by;
}

Writer build_engine(const fs::path& onnx, const fs::path& engine, const EngineOptions& options) {
  const PassingFile next(text(engine.string(), ".new"));
  const auto& [least, usual, most] = options.batches;
  const Writer by = run_adapter(kTensorrtAdapter, options.python,
                                {onnx.string(), next.path().string(), options.gpus, text(least, ',', usual, ',', most)},
                                "install one: pip install tensorrt-rtx");
  std::error_code ignored;
  fs::remove(sidecar_path(engine), ignored);  // no engine is found with the description of another
  fs::rename(next.path(), engine);
  Json said = sidecar(onnx, options, by);
  said["engine_sha256"] = sha256_of(engine);
  write_file(sidecar_path(engine), said.dump(1) + "\n");
  return by;
}

std::string engine_is_old(const fs::path& onnx, const fs::path& engine, const EngineOptions& options) {
  if (!is_there(engine)) return "there is none";
  if (!is_there(sidecar_path(engine))) return text("it has no ", sidecar_path(engine).filename().string());
  const Json said = Json::parse(read_file(sidecar_path(engine)), nullptr, false);
  if (!said.is_object()) return "its description cannot be read";
  if (said.value("onnx_sha256", "") != sha256_of(onnx)) return "the model is another";
  if (said.value("gpus", "") != options.gpus) return text("it is for the GPUs ", said.value("gpus", ""));
  if (said.value("batches", std::array<std::int64_t, 3>{}) != options.batches) return "it is for other batches";
  if (said.value("engine_sha256", "") != sha256_of(engine)) return "the file was changed";
  return "";
}

std::string trtexec_command(const fs::path& onnx, const fs::path& engine, const InferenceSession& session,
                            const EngineOptions& options) {
  std::string out = text("trtexec --onnx=", onnx.string(), " --saveEngine=", engine.string(), " --stronglyTyped");
  const OnnxPort& input = session.inputs()[0];
  if (input.shape && input.shape->rank() > 0 && (*input.shape)[0].symbolic()) {
    constexpr const char* kNames[] = {"min", "opt", "max"};
    for (std::size_t i = 0; i < 3; ++i)
      out += text(" --", kNames[i], "Shapes=", input.name, ':', sizes_of(input, options.batches[i], 0, "x"));
  }
  return out;
}

std::string triton_config(const std::string& name, const InferenceSession& session, std::int64_t most_batch) {
  const OnnxPort &input = session.inputs()[0], &output = session.outputs()[0];
  for (const OnnxPort* one : {&input, &output})
    require(one->shape && one->shape->rank() > 0, "triton: the file does not say the sizes of ", one->name);
  // The server adds the axis of samples where it may collect them.
  const bool collects = (*input.shape)[0].symbolic() && most_batch > 0;
  const auto port = [&](const OnnxPort& one, const char* more) {
    const std::string dtype = text(dtype_of(one.element));  // "f32", "u8", "i64"
    const std::string type = text("TYPE_", dtype[0] == 'f' ? "FP" : dtype[0] == 'u' ? "UINT" : "INT", dtype.substr(1));
    return text("  {\n    name: ", JsonText(one.name).line(), "\n    data_type: ", type, "\n    dims: [ ",
                sizes_of(one, -1, collects ? 1 : 0, ", "), " ]\n", more, "  }\n");
  };
  return text("name: ", JsonText(name).line(),
              "\nbackend: \"onnxruntime\"\nmax_batch_size: ", collects ? most_batch : 0, "\ninput [\n", port(input, ""),
              "]\noutput [\n", port(output, "    label_filename: \"labels.txt\"\n"), "]\n",
              collects ? "dynamic_batching { }\n" : "");
}

}  // namespace neurim
