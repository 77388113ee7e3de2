#include "neurim/backend/cpu/common/priorities.h"

#include <algorithm>
#include <iterator>

#include "neurim/base/error.h"
#include "neurim/base/text.h"

namespace neurim::cpu {

namespace {

struct Priority {
  std::string_view family, kernel;  // family: how the names of its ops begin
  int rank;
};

constexpr int kOnly = 20;  // the rank of an op's only kernel

// Highest rank first. Kernels of equal rank accept different requests. A fusion group is formed only if its kernel
// ranks at least as high as the kernel that accepts the anchor alone.
constexpr Priority kPriorities[] = {
    {"conv", "cpu int8 tiles", 42},      // as cpu tiles
    {"conv", "cpu int8 winograd", 41},   // 2.25 times fewer multiplications than "cpu int8", where 3x3 kernels allow it
    {"conv", "cpu int8", 40},            // groups that quantize, which no other kernel accepts
    {"conv", "cpu tiles direct", 35},    // 15 times the multiplications of vectors, where the machine has matrix tiles
    {"conv", "cpu winograd", 30},        // 2.25 to 4 times fewer multiplications than a direct sum
    {"conv", "cpu winograd fused", 30},  // the same, followed by a norm
    {"conv", "cpu row-tiled", 25},       // several layers at once: intermediate values stay in L2
    {"conv", "cpu tiles", 24},           // the same of what no Winograd kernel takes
    {"conv", "cpu gemv", 22},            // one pixel: reads each weight once and pads no block of pixels
    {"conv", "cpu 1x1", 20},             // a matrix product: reads x once, without windows
    {"conv", "cpu depthwise", 20},       // one channel a group: no product would fill the registers
    {"conv", "cpu direct", 18},          // blocks of channels; fuses more than oneDNN
    {"conv", "cpu nchw16n", 15},         // few channels: blocks of images waste no lanes
    {"conv", "cpu nchw", 14},            // few channels of fewer images than a block has
    {"conv", "onednn", 10},              // requests that no kernel above accepts
    {"conv", "onednn fused", 10},        // the same, with a norm before or after it
    {"conv", "onednn_loops", 1},         // oneDNN's plain loops: faster than the reference alone

    {"linear", "cpu int8 tiles", 42},      // as of conv
    {"linear", "cpu int8", 40},            // as of conv
    {"linear", "cpu tiles", 35},           // as of conv
    {"linear", "cpu row-tiled", 25},       // as of conv: the two layers of a transformer's MLP
    {"linear", "cpu 1x1", 20},             // shares the blocked layout of the layers around it
    {"linear", "cpu gemv", 15},            // one row: oneDNN's blocks would be mostly padding
    {"linear", "cpu rounded matmul", 15},  // weights packed in 16 bits; oneDNN would round them in each call
    {"linear", "onednn", 10},
    {"linear", "cpu matmul", 5},  // in builds without oneDNN

    {"matmul", "cpu rounded matmul", 15},  // as of linear
    {"matmul", "onednn", 10},
    {"matmul", "cpu matmul", 5},  // in builds without oneDNN

    {"multihead_attention", "cpu", 20},       // tiles of queries and keys in registers
    {"multihead_attention", "cpu rows", 15},  // other layouts, and the gradient

    {"reorder", "cpu winograd", 30},  // into its own packed format alone
    {"reorder", "cpu vnni", 30},      // into its own packed format alone
    {"reorder", "cpu", 20},           // between the layouts of activations
    {"reorder", "onednn", 10},        // any other pair
};

int rank_of(const Kernel& kernel) {
  const auto at = std::find_if(std::begin(kPriorities), std::end(kPriorities), [&](const Priority& row) {
    return starts_with(kernel.op, row.family) && row.kernel == kernel.name;
  });
  NEURIM_ASSERT(at != std::end(kPriorities) || kernel.name == "cpu");
  return at == std::end(kPriorities) ? kOnly : at->rank;
}

}  // namespace

void add_kernel(Kernel kernel) {
  kernel.rank = rank_of(kernel);
  add(kernel);
}

}  // namespace neurim::cpu
