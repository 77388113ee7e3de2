// The lowered form of a graph: tasks over slots. Internal to compile/.
#pragma once
#include <string>
#include <vector>

#include "neurim/core/launch.h"
#include "neurim/graph/trace.h"

namespace neurim {

inline constexpr std::size_t kAlignment = 64;  ///< in bytes, of every slot's memory

/// A value of the graph in one physical layout.
struct Slot {
  enum Place : std::uint8_t {
    arena,   ///< at `offset` in the instance's arena
    stored,  ///< the storage of a captured tensor
    input,   ///< an input buffer of the instance, number `index`
    output,  ///< an output buffer of the instance, number `index`
  };
  int value = -1;
  Layout layout;
  Place place = arena;
  int alias = -1;         ///< the slot whose memory this is, or -1: its own
  std::size_t shift = 0;  ///< where it begins there, in bytes
  std::size_t offset = 0;
  int index = -1;
  Tensor tensor;  ///< the captured tensor of a stored slot; undefined: a constant that no task reads so
};

/// One launch of the program.
struct Task {
  std::vector<int> nodes;  ///< of the graph; empty: a reorder or a copy that lowering added
  int anchor = -1;         ///< the one of them that named the kernel
  std::string key;         ///< tuning key of the anchor; empty without tuning
  std::vector<int> in, out;
  Launch launch;
  std::string kernel;
  DType compute_dtype = DType::f32;   ///< KernelRequest::used_dtype
  std::vector<std::string> declined;  ///< "kernel: why"
  std::size_t scratch = 0, scratch_offset = 0;
  std::size_t workspace_offset = 0, workspace_step = 0;  ///< of what Launch::workspace asks for
  bool commits = false;
};

struct Program {
  Graph graph;
  std::vector<Slot> slots;
  std::vector<Task> tasks;
  std::vector<int> inputs, outputs;  ///< slots
  std::size_t arena_bytes = 0;

  Type type(const Slot& slot) const { return graph.values[slot.value].type; }
  /// The slot that owns the memory of this one.
  int owner(int slot) const {
    while (slots[slot].alias >= 0) slot = slots[slot].alias;
    return slot;
  }
  /// Where the slot begins in its owner's memory, in bytes.
  std::size_t shift(int slot) const {
    std::size_t bytes = 0;
    for (; slots[slot].alias >= 0; slot = slots[slot].alias) bytes += slots[slot].shift;
    return bytes;
  }
};

struct LowerOptions {
  bool interpret = false;                ///< reference kernels only, one op at a time
  bool training = false;                 ///< the plan trains, and may change the layout in which captured tensors live
  int chunks = 1;                        ///< logical pieces of a kernel's work
  DType compute_dtype = DType::f32;      ///< see PlanOptions
  bool winograd = true;                  ///< the same
  const class Tuning* tuning = nullptr;  ///< the same
};

/// Chooses kernels and layouts; the tasks come in an order that respects the graph.
Program lower(Graph graph, const LowerOptions& options);

/// Places every slot: states in place where no reader is harmed, the rest by lifetime in one arena, greedily by size.
void plan_memory(Program& program);

}  // namespace neurim
