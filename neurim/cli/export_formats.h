// The formats of `neurim export` that are made of an ONNX file.
#pragma once
#include <string>

#include "neurim/base/json.h"
#include "neurim/infer/deploy.h"
#include "neurim/train/checkpoint.h"
#include "neurim/train/console.h"

namespace neurim::cli {

/// What `neurim export format=` takes, and what becomes of it.
struct ExportFormat {
  std::string name, output;  ///< "engine", and the path that was asked for; "": the default one
  EngineOptions engine;      ///< of format=engine; openvino has its Python, triton its largest batch
  bool half = false;

  bool known() const;                                 ///< one of onnx, neurim, openvino, engine, triton, pt, timm
  bool of_weights() const;                            ///< weights for PyTorch: pt, timm
  bool from_onnx() const;                             ///< written from an ONNX file beside it
  fs::path path(const Checkpoint& checkpoint) const;  ///< of what is made: a file, of triton the model's folder
  fs::path onnx(const Checkpoint& checkpoint) const;  ///< of the ONNX file

  /// Makes it of the ONNX file, prints what it is, and adds to the summary. False: it answers otherwise than the file,
  /// by more than `tolerance`.
  bool make(const Checkpoint& checkpoint, double tolerance, Console& console, JsonObject& summary) const;
};

}  // namespace neurim::cli
