// One instance of a program: its arena, its buffers and what a replay needs, resolved to pointers. Internal to
// compile/.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "neurim/compile/plan.h"
#include "neurim/compile/program.h"
#include "neurim/core/device.h"

namespace neurim {

/// Passes, lowering and the memory plan of a traced graph.
Program build(const Graph& traced, const PlanOptions& options);

struct PlanInstance {
  Graph traced;
  PlanOptions options;
  std::shared_ptr<const Program> program;
  std::shared_ptr<Storage> arena;
  Tensors inputs, outputs;
  std::vector<Call> calls;
  std::vector<void*> pointers;
  struct State {
    Value* value;
    std::uint64_t epoch;
    Layout layout;
    bool changes;  ///< the program assigns to it
  };
  std::vector<State> states;  ///< and the buffers
  std::unique_ptr<Stream> stream;
  std::uint32_t status = 0;
  std::atomic<bool> busy{false};

  /// `memory`: reused as the arena if it is large enough. Instances that share one run one at a time.
  PlanInstance(Graph graph, PlanOptions with, std::shared_ptr<const Program> lowered,
               std::shared_ptr<Storage> memory = {});

  /// Follows states that were moved (new pointers) or repacked by another plan (lowered again).
  void follow_states();
  /// Queues a copy between two tensors on the plan's device, or between one there and one on the CPU.
  void copy(const Tensor& from, const Tensor& to) const;
  void check_status();

  /// Runs the tasks of which `which` is true one by one, in order; returns the seconds of each, 0 of others.
  std::vector<double> run_timed(const std::vector<bool>& which);

 private:
  Type type_of(int slot) const { return program->type(program->slots[slot]); }
  void resolve();
  void* pointer(int number) const { return static_cast<char*>(memory(number)) + program->shift(number); }
  void* memory(int number) const;
  std::string data_fault();
  Tensor read_by(const Task& task, int value) const;
};

}  // namespace neurim
