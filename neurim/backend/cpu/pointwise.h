// Chains of element-by-element ops, run in one pass: blocks that fit the first-level cache, a vector function
// a step.
#pragma once
#include <cstdint>

#include "neurim/backend/cpu/isa.h"

namespace neurim::cpu {

/// The attributes of a step.
struct Numbers {
  float a = 0, b = 0;
};

/// out[i] = f(x[i], y[i], z[i]) for n elements; `out` may be one of the inputs. Truth values are 0 and 1.
using StepFunction = void (*)(float* out, const float* x, const float* y, const float* z, int n,
                              Numbers numbers);

/// A vector function by the name of its op; a variant of an op has a second word.
struct StepRow {
  const char* name;
  StepFunction run;
};
struct StepTable {
  const StepRow* rows;
  int count;
};

constexpr int kPointwiseBlock = 512;  ///< floats
constexpr int kMostValues = 24;
constexpr int kMostAxes = 9;

/// How a value of a chain meets memory: f32 or bool.
struct PointwiseValue {
  enum Form : std::uint8_t {
    whole,   ///< of the shape and layout of the chain; f32 is worked on where it lies
    one,     ///< a single element
    spread,  ///< a smaller tensor, repeated along axes of stride 0
    inner,   ///< neither read from memory nor written
  };
  Form form = inner;
  bool boolean = false;
  int buffer = -1;        ///< the block buffer that holds it, or -1: it is worked on where it lies
  int in = -1, out = -1;  ///< the argument that it is read from or written to, or -1
  int axes = 0;           ///< of a spread value: the loops over memory, outermost first
  std::int64_t size[kMostAxes] = {}, stride[kMostAxes] = {};
};

struct PointwiseStep {
  StepFunction run;
  Numbers numbers;
  int in[3];
  int out;
};

/// A prepared chain over `count` elements of memory.
struct PointwiseChain {
  int values = 0, steps = 0;
  PointwiseValue value[kMostValues];
  PointwiseStep step[kMostValues];
  std::int64_t count = 0;
  // Of a blocked layout with a tail: elements of memory a channel block, blocks, and channels in the last
  // one; outputs are made zero beyond them, spread operands are not read there. 0: no tail.
  std::int64_t block_elements = 0, blocks = 0;
  int last_channels = 0;
};

NEURIM_EACH_ISA(StepTable step_table())
/// Computes elements [first, last) of memory; `first` is a multiple of kPointwiseBlock.
NEURIM_EACH_ISA(void run_pointwise(const PointwiseChain& chain, void* const* in, void* const* out,
                                   std::int64_t first, std::int64_t last))

}  // namespace neurim::cpu
