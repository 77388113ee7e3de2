// Position embeddings of vision transformers, for images of another size.
#pragma once
#include <vector>

#include "neurim/model/model.h"
#include "neurim/weights/state_dict.h"

namespace neurim {

/// Whether a tensor of this shape can be position embeddings: (1,1+side*side,width), of the class token and of the
/// patches of a square image, row by row.
bool are_positions(const Shape& shape);

/// The size of images that the weights are for, of a model whose position embeddings tell it: they may be of another
/// size than the model's. 0: they do not.
std::int64_t image_size_of(const Model& model, const StateDict& weights);

/// positions(1,1+side*side,width) -> (1,tokens,width), where tokens - 1 is a square too. The class token's stay, and
/// those of the patches are resampled as pixels are: by Keys' cubic kernel with a = -0.5, which widens where the grid
/// shrinks, as timm.layers.resample_abs_pos_embed does (interpolate of PyTorch, bicubic with antialias).
std::vector<float> resampled_positions(const Tensor& positions, std::int64_t tokens);

}  // namespace neurim
