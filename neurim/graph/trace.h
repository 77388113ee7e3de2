// Recording: while a Trace lives, ops of this thread are recorded into a Graph instead of run.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "neurim/graph/op.h"

namespace neurim {

/// A recorded program. Nodes are in topological order; the graph owns them by index.
struct Graph {
  /// One op of the program.
  struct Node {
    std::shared_ptr<const Op> op;  ///< shared with the graphs that were rewritten from this one
    std::vector<int> in,           ///< indices into `values`
        out;                       ///< indices into `values`
    std::string where;             ///< module path, for messages and reports
  };
  /// An input, a stored tensor that was read, or an output of a node.
  struct Value {
    Type type;         ///< dtype and shape
    int node = -1;     ///< the producer; -1: an input or a captured tensor
    Tensor captured;   ///< the stored tensor that this value is
    std::string name;  ///< of an input or a captured tensor; may be empty
  };
  /// At the end of a replay `state` (a captured value) takes the data of `value`.
  struct Commit {
    int state,  ///< index of the captured value
        value;  ///< index of what it takes
  };

  std::vector<Node> nodes;      ///< in topological order
  std::vector<Value> values;    ///< what the numbers of nodes, inputs, outputs and commits index
  std::vector<int> inputs,      ///< in the order of Trace::input
      outputs;                  ///< in the order given to Trace::finish
  std::vector<Commit> commits;  ///< at most one a state
  Device device;                ///< where all of it runs
  bool training = false;        ///< whether it was recorded in a trace for training

  std::int64_t multiply_adds(const Node& node) const;  ///< as Op::multiply_adds
  std::string text() const;    ///< one line a node: %5 f32(8,6,28,28) = conv2d(%0, conv1.weight) {pad=[2,2,2,2]}
  std::uint64_t hash() const;  ///< of the text: structure, types and attributes, not data
};

/// Begins recording in this thread; nests. Ends with finish() or with the destructor (then nothing is kept).
class Trace {
 public:
  /// How a trace records.
  struct Options {
    bool training = false;  ///< what training() says: dropout drops, batch normalization takes batch statistics
    Device device = {};     ///< where the plan will run; stored tensors that are read have to be there
    Tensor random = {};     ///< the key state, i64(2) = {seed, step}: random ops read it, each replay commits step + 1
  };
  explicit Trace(const Options& options);  ///< begins recording
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  Tensor input(const Type& type, std::string name = {});  ///< a new input of the graph
  Graph finish(const Tensors& outputs);                   ///< ends the recording; each assigned state becomes a Commit

 private:
  friend struct Recorder;
  std::unique_ptr<struct Recorder> recorder_;
};

/// Runs ops of this thread at once for a scope, whatever is being traced.
class Untraced {
 public:
  Untraced();
  ~Untraced();
  Untraced(const Untraced&) = delete;
  Untraced& operator=(const Untraced&) = delete;

 private:
  struct Recorder* outer_;
};

/// Gets a node and its inputs in the new trace, where captured tensors stand for themselves, and returns its outputs
/// there; nothing: the node is recorded as it is.
using Visit = std::function<Tensors(const Graph::Node& node, const Tensors& in)>;
/// Rebuilds a graph node by node in a new trace. Nodes that nothing needs are dropped.
Graph rewrite(const Graph& graph, const Visit& visit);

/// The node of the current trace that made this value, or null for inputs and stored tensors.
const Graph::Node* producer(const Tensor& tensor);
/// A handle to a value of the current trace.
Tensor traced_value(int value);

/// The stored tensors that the current trace has read so far, in the order in which it met them.
Tensors captured();

/// Whether the code runs in a trace for training. Outside a trace: false.
bool training();

/// The key of a random op and its ordinal: in a trace the key state and the number of random ops so far; eagerly a key
/// of this thread that moves on at every call.
struct RandomKey {
  Tensor key;                ///< i64(2)
  std::int64_t ordinal = 0;  ///< which random op of the trace; eagerly 0
};
/// The key for one more random op. Throws Error(usage) in a trace without Options::random.
RandomKey next_random_key();
/// Sets the eager key of this thread.
void seed_random(std::uint64_t seed);

}  // namespace neurim
