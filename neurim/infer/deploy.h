// ONNX files in the form that servers and other runtimes take. What only Python modules of the user's can write is
// written by them: the sources in adapters/ run in the user's Python.
#pragma once
#include <array>
#include <string>

#include "neurim/base/file.h"
#include "neurim/infer/session.h"

namespace neurim {

/// The module that has written a file.
struct Writer {
  std::string module, version;  ///< "openvino", "2026.2.0"
};

/// Writes OpenVINO's IR, XML and a .bin beside it, by the module openvino of this Python; `half`: weights in f16.
/// `difference` becomes how far its outputs are from those of the ONNX file on a drawn input. Throws Error(usage) where
/// the module is not there, Error(failure) with its message where it fails.
Writer write_openvino(const fs::path& onnx, const fs::path& xml, bool half, const std::string& python,
                      double& difference);

/// How an engine is built.
struct EngineOptions {
  std::string gpus;                               ///< compute capabilities, "80,86"; "": of the GPU that is here
  std::array<std::int64_t, 3> batches{1, 8, 32};  ///< the least, the usual and the largest
  std::string python = "python3";
};

/// Builds a TensorRT engine by the module tensorrt_rtx or tensorrt of this Python, strongly typed, and writes beside it
/// ENGINE.json, which says of what it was built, by what, and for which GPUs. Throws as write_openvino.
Writer build_engine(const fs::path& onnx, const fs::path& engine, const EngineOptions& options);

/// Why an engine has to be built anew for that file and these options: "" where it is there and of them.
std::string engine_is_old(const fs::path& onnx, const fs::path& engine, const EngineOptions& options);

/// The command that builds the same engine with NVIDIA's trtexec.
std::string trtexec_command(const fs::path& onnx, const fs::path& engine, const InferenceSession& session,
                            const EngineOptions& options);

/// config.pbtxt of a model in the repository of Triton Inference Server, for its backend onnxruntime: at most
/// `most_batch` samples at once, which the server collects where the file takes any number; 0: it collects none.
/// Classes have the names of labels.txt.
std::string triton_config(const std::string& name, const InferenceSession& session, std::int64_t most_batch);

}  // namespace neurim
