// Fusion groups of element-by-element ops, run in one pass: blocks that fit the first-level cache, a vector function
// a step.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "neurim/backend/cpu/common/isa.h"
#include "neurim/graph/kernel.h"

namespace neurim::cpu {

/// The attributes of a step.
struct Numbers {
  float a = 0, b = 0;
};

/// out[i] = f(x[i], y[i], z[i]) for n elements; `out` may be one of the inputs. Truth values are 0 and 1.
using StepFunction = void (*)(float* out, const float* x, const float* y, const float* z, int n, Numbers numbers);

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

/// How a value of a fusion group meets memory.
struct PointwiseValue {
  enum Form : std::uint8_t {
    whole,   ///< of the shape and layout of the fusion group; f32 is worked on where it lies
    one,     ///< a single element
    spread,  ///< a smaller tensor, repeated along axes of stride 0
    inner,   ///< neither read from memory nor written
  };
  Form form = inner;
  enum Stored : std::uint8_t { f32, bf16, f16, truth, u8, i8 } stored = f32;  ///< in memory; f32 in buffers
  int buffer = -1;        ///< the block buffer that holds it, or -1: it is worked on where it lies
  int in = -1, out = -1;  ///< the argument that it is read from or written to, or -1
  int axes = 0;           ///< of a spread value: the loops over memory, outermost first
  std::int64_t size[kMostAxes] = {}, stride[kMostAxes] = {};
  std::int64_t
      run = 0;  ///< of a spread value, elements of memory over which it repeats its first 16: its channels in a block
};

struct PointwiseStep {
  StepFunction run;
  Numbers numbers;
  int in[3];
  int out;
};

/// A prepared fusion group over `count` elements of memory.
struct PointwiseGroup {
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
/// Computes elements [first, last) of memory; in blocked layouts `first` is a multiple of 16.
NEURIM_EACH_ISA(void run_pointwise(const PointwiseGroup& group, void* const* in, void* const* out, std::int64_t first,
                                   std::int64_t last))

/// Whether the operands of the request's first step are its first inputs one by one. A request of several steps has an
/// operand once that the step, or a later one, reads twice.
bool operands_apart(const KernelRequest& request);

/// The number among the outputs of the memory for output 0 of a step: its own, or, where nobody else reads it, that of
/// the last step; -1 where nobody reads that either.
int memory_of(const KernelRequest& request, std::size_t step);

/// Pointwise steps inside another kernel, which runs them over pieces of what it has computed while those are in its
/// cache.
class PointwiseSteps {
 public:
  /// Reads the request's steps [first, last). Those that are not the request's first begin with output 0 of the one
  /// before, x. On no, says why. Layouts are those of the request, but `rounds`, where it is given, says how y stands.
  bool read(KernelRequest& request, std::size_t first, std::size_t last, std::optional<StorageDtype> rounds = {});
  /// Elements [begin, end) of memory, in blocked layouts multiples of 16. y takes what the steps end with, and may be
  /// x. The pointers are to whole tensors, of which only these elements need to be there.
  void run(const Args& args, float* x, float* y, std::int64_t begin, std::int64_t end) const;

 private:
  PointwiseGroup group_;
  std::vector<std::size_t> in_,
      out_;  // numbers in Args; not of x, the fusion group's first input, and of y, its first output
  bool has_x_ = false;
};

}  // namespace neurim::cpu
