// Rewrites of the graph before it is lowered to kernels. Each takes a graph and gives a new one that computes the same.
#pragma once
#include "neurim/compile/program.h"
#include "neurim/graph/trace.h"

namespace neurim {

/// A tensor whose numbers are known and stay as they are.
bool constant(const Tensor& tensor);

/// Snapshots every captured tensor that no replay commits: later passes see constants.
Graph freeze(const Graph& graph);

/// Computes in `dtype` what is of one of the other types; inputs, outputs and stored tensors keep theirs.
Graph computed_in(const Graph& graph, DType dtype, std::span<const DType> replaced);

/// Computes nodes whose inputs are all constant, but weights of bytes that kernels read as such, and drops repeated
/// nodes (same op, attributes and inputs).
Graph fold(const Graph& graph);

/// Inference: finds ops that imported models write out in others: gelu by erf, silu, attention, the bias of a fully
/// connected layer, and transposes one after the other.
Graph recognise(const Graph& graph);

/// Gives each reader of a dequantize one of its own, so that kernels may take it with the reader and read its bytes.
Graph dequantize_apart(const Graph& graph);

/// Takes slices before the transposes that they alone read, and transposes gradients of slices before those are put
/// into zeros.
Graph slice_first(const Graph& graph);

/// Quantizes before ops that only move data (FusionTraits::data_movement), and removes quantize after dequantize where
/// the bytes stay the same.
Graph quantize_first(const Graph& graph);

/// Inference: folds y = batch_norm(conv2d(x)) with constant statistics into the convolution's weight and bias; other
/// norms of that kind become a product and a sum.
Graph fold_batch_norm(const Graph& graph);

/// Training: computes rematerializable values again instead of keeping them for the gradients, and in the prologue of
/// each reader whose kernels accept them with these options.
Graph recompute(const Graph& graph, const LowerOptions& options);

/// Replaces ops by their decompositions if no kernel of the device takes them with these options; in training all
/// without a reference kernel, since their gradient is that of the decomposition, unless Op::own_gradient.
Graph decompose(const Graph& graph, const LowerOptions& options);

}  // namespace neurim
