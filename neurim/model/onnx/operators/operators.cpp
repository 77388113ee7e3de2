#include "neurim/model/onnx/operators/operators.h"

namespace neurim {

void add_onnx_operators(OnnxOperators& to) {
  add_pointwise_operators(to);
  add_activation_operators(to);
  add_reduction_operators(to);
  add_cast_operators(to);
  add_shape_operators(to);
  add_index_operators(to);
  add_product_operators(to);
  add_pool_operators(to);
  add_norm_operators(to);
  add_recurrent_operators(to);
  add_attention_operators(to);
  add_loss_operators(to);
  add_image_operators(to);
  add_signal_operators(to);
  add_random_operators(to);
  add_control_operators(to);
  add_text_operators(to);
  add_classic_operators(to);
  add_tree_operators(to);
}

}  // namespace neurim
