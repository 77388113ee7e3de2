// Models of ONNX files: each is a function of tensors, made of the rules of its operators.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "neurim/base/file.h"
#include "neurim/model/onnx/call.h"
#include "neurim/model/onnx/tensor_file.h"

namespace neurim {

/// An input or output of an ONNX model, as the file describes it.
struct OnnxPort {
  std::string name;                         ///< of the value
  OnnxKind kind = OnnxKind::tensor;         ///< a tensor, a sequence of tensors, or an optional
  OnnxElement element = OnnxElement::none;  ///< of the tensor, or of those in it; none: it does not say
  std::optional<Shape> shape = {};          ///< sizes that the file leaves open are symbols; nothing: any shape
};
void append(std::string& out, const OnnxPort& port);  ///< "input f32(batch,3,224,224)"

/// How a model is read that is to be trained.
struct OnnxTraining {
  /// How many classes it shall tell apart: where it gives another number, the weights of its last layer are drawn anew.
  /// 0: as many as it has.
  std::int64_t classes = 0;
  std::uint64_t seed = 0;  ///< of these weights
};

/// The key of the metadata that names the value of a file where its preprocessing ends and the network begins.
inline constexpr std::string_view kOnnxPixels = "pixels";

/// A part of a file; of one that names no such value each is the whole.
enum class OnnxPart : std::uint8_t {
  whole,
  preprocess,  ///< up to the value that kOnnxPixels names
  network,     ///< from there on
};

/// How a file is read.
struct OnnxReading {
  std::optional<OnnxTraining> training = {};  ///< where it is to be trained
  OnnxPart part = OnnxPart::whole;            ///< what of it is the model
};

/// A weight of a model that was read for training.
struct OnnxWeight {
  std::string name;    ///< of the initializer
  Tensor tensor;       ///< parameter, or state
  bool learnt = true;  ///< false: a running statistic
};

/// A model of an ONNX file. Copies share what was read. Calling it is safe from many threads.
class OnnxModel {
 public:
  /// Reads the file and the files with data beside it. Throws Error(data): what is damaged, or the unsupported
  /// operators and the nodes that have them.
  static OnnxModel open(const fs::path& path, const OnnxReading& reading = {});
  /// The same of the bytes of a file; `folder` is where files with data lie. Of a model for training the floating
  /// initializers that layers read as weights are no constants. Throws Error(data) too where its last layer is not
  /// found.
  static OnnxModel parse(std::string_view bytes, const fs::path& folder = {}, const OnnxReading& reading = {});

  const std::vector<OnnxPort>& inputs() const;                 ///< without those that are initializers
  const std::vector<OnnxPort>& outputs() const;                ///< in the order of the file
  const std::map<std::string, std::string>& metadata() const;  ///< metadata_props
  std::map<std::string, std::int64_t> operators() const;       ///< how many nodes of the main graph have each
  std::int64_t stored_numbers() const;                         ///< elements of its initializers
  std::int64_t opset() const;                                  ///< of ONNX's own domain; 0: it uses none of it

  /// The values of the outputs: ops are recorded in a trace, where what depends on no traced value is computed at once;
  /// outside of one all run at once. Throws Error(usage) for values that are not those of the inputs, OnnxNeedsData in
  /// a trace that does not know what it needs.
  OnnxValues operator()(const OnnxValues& in) const;
  /// The same of tensors alone.
  Tensors operator()(const Tensors& in) const;
  /// The same with these weights.
  Tensors operator()(const Tensors& in, const std::vector<OnnxWeight>& weights) const;

  const std::vector<OnnxWeight>& weights() const;  ///< of a model that was read for training
  /// The bytes of the file without the data of these weights: parse() of them for training gives the model with weights
  /// that have no values yet.
  std::string graph_bytes() const;

 private:
  OnnxValues run(const OnnxValues& in, const std::vector<OnnxWeight>& weights) const;

  std::shared_ptr<const struct OnnxProgram> program_;
};

}  // namespace neurim
