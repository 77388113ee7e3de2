// What a model does to images and to its scores, as ONNX nodes around its network.
#pragma once
#include <string>

#include "neurim/model/onnx/export.h"
#include "neurim/train/checkpoint.h"

namespace neurim {

/// Why a file cannot hold the preprocessing of the model: "" where it can.
std::string embeds_no_preprocess(const ModelConfig& config);

/// Around a classifier: "image" u8(batch,height,width,channels), decoded and upright, of any size, becomes what the
/// network reads, as Transform makes it; logits become "probabilities" f32(batch,classes), by softmax, or of a
/// multi-label model by sigmoid. The resize, antialiased, is one product of matrices along each axis, whose weights the
/// nodes compute from the size of the image in whole numbers: runtimes differ in what their own Resize does. An image
/// is decoded whole (DecodeOptions::scaled is not followed), and of `nearest` a pixel that falls between two may come
/// from the other. `batch` is a size or a symbol. Throws Error(usage) where embeds_no_preprocess says why.
OnnxFrame preprocess_frame(const ModelConfig& config, Dim batch);

}  // namespace neurim
