// Fusion groups of pointwise ops in one pass over memory: blocks that fit the first-level cache, one vector function
// for each step.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "neurim/backend/cpu/common/isa.h"
#include "neurim/graph/kernel.h"
#include "neurim/ops/common/formulas.h"

namespace neurim::cpu {

/// The attributes of a step.
using Numbers = FormulaNumbers<float>;

/// out[i] = f(x[i], y[i], z[i]) for n elements; `out` may be one of the inputs. Truth values are 0 and 1.
using StepFunction = void (*)(float* out, const float* x, const float* y, const float* z, int n, Numbers numbers);

/// A vector function, by the name of its formula.
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

/// How a fusion group reads and writes a value.
struct PointwiseValue {
  enum Form : std::uint8_t {
    whole,   ///< of the fusion group's shape and layout; f32 is computed in place
    one,     ///< a single element
    spread,  ///< a smaller tensor, broadcast along axes of stride 0
    inner,   ///< not in memory
  };
  Form form = inner;
  enum Stored : std::uint8_t { f32, bf16, f16, truth, u8, i8 } stored = f32;  ///< in memory; f32 in buffers
  int buffer = -1;        ///< the block buffer that holds it, or -1: computed in place
  int in = -1, out = -1;  ///< the argument that it is read from or written to, or -1
  int axes = 0;           ///< of a spread value: the loops over memory, outermost first
  std::int64_t size[kMostAxes] = {}, stride[kMostAxes] = {};
  /// Of a spread value: the elements of memory over which it repeats its first 16, its channels in a block.
  std::int64_t run = 0;
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
  // For a blocked layout with padding: elements of a channel block, blocks, and channels in the last one. Outputs are
  // zero in the padding; spread operands are not read there. 0: no padding.
  std::int64_t block_elements = 0, blocks = 0;
  int last_channels = 0;
};

NEURIM_EACH_ISA(StepTable step_table())
/// Computes elements [first, last) of memory; in blocked layouts `first` is a multiple of 16.
NEURIM_EACH_ISA(void run_pointwise(const PointwiseGroup& group, void* const* in, void* const* out, std::int64_t first,
                                   std::int64_t last))

/// Whether the first step's operands are the request's first inputs, one by one. A request of several steps lists an
/// operand once that the step reads twice, or a later step reads too.
bool operands_apart(const KernelRequest& request);

/// The output index of the memory for output 0 of a step: its own or, if nobody else reads it, that of the last step;
/// -1 if nobody reads that either.
int memory_of(const KernelRequest& request, std::size_t step);

/// Pointwise steps inside another kernel, which runs them over pieces of its result while those are in the cache.
class PointwiseSteps {
 public:
  /// Reads the request's steps [first, last). Unless they begin the request, they start with x, output 0 of the step
  /// before. If not possible, sets request.why. Layouts are those of the request; `rounds` replaces the storage of y.
  bool read(KernelRequest& request, std::size_t first, std::size_t last, std::optional<StorageDtype> rounds = {});
  /// Computes elements [begin, end) of memory, in blocked layouts multiples of 16. y is the last step's output and may
  /// be x. Pointers are to whole tensors, of which only these elements are accessed.
  void run(const Args& args, float* x, float* y, std::int64_t begin, std::int64_t end) const;

 private:
  PointwiseGroup group_;
  std::vector<std::size_t> in_,
      out_;  // indices in Args, without x, the first input, and y, the first output
  bool has_x_ = false;
};

}  // namespace neurim::cpu
