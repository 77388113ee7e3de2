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
  /// Pairs of symbolic sizes of which the recorded function has assumed that they differ.
  std::vector<std::pair<Dim, Dim>> unequal;

  std::int64_t multiply_adds(const Node& node) const;  ///< as Op::multiply_adds
  /// A line for each input, stored tensor, node, commit and output; see docs/guides/functions.md.
  std::string text(const std::vector<std::string>& output_names = {}) const;
};

/// How many nodes, outputs and commits read each value.
std::vector<int> count_readers(const Graph& graph);

/// The stored tensors of a graph and of the bodies of its nodes, each under the name that Graph::text gives it.
std::vector<std::pair<std::string, Tensor>> stored_tensors(const Graph& graph);

/// A graph that was read.
struct ParsedGraph {
  Graph graph;                       ///< as it was printed
  std::vector<std::string> outputs;  ///< the names of its outputs
};
/// Finds a stored tensor by its name.
using FindTensor = std::function<Tensor(const std::string& name, const Type& type)>;
/// Reads what Graph::text prints; `device` is that of the stored tensors. Types are inferred, and compared with those
/// of the text. Throws Error(usage) with the line's number.
ParsedGraph parse_graph(std::string_view text, const FindTensor& stored, Device device = {});

/// Runs the ops of a graph one by one: eagerly at once, in a trace as a part of it. Symbols take the sizes of `in`.
/// Commits assign. Throws Error(usage) where the types of `in` are not those of the inputs, and where sizes are equal
/// of which the graph assumes that they differ. `see` gets each value that a node makes, with its number.
Tensors call(const Graph& graph, const Tensors& in,
             const std::function<void(int value, const Tensor& tensor)>& see = {});
/// The same graph for inputs of these types.
Graph bound(const Graph& graph, const Types& in);

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

/// Whether ops of this thread are recorded.
bool tracing();
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
