// What a trace records into. Internal to graph/.
#pragma once
#include <map>
#include <optional>

#include "neurim/graph/trace.h"

namespace neurim {

/// The state of one trace.
struct Recorder {
  Graph graph;                                  ///< as far as it is recorded
  std::uint64_t id = 0;                         ///< of the trace, Value::trace; later traces have larger ones
  Recorder* outer = nullptr;                    ///< the trace around this one
  Tensor random;                                ///< Trace::Options::random
  std::int64_t random_ops = 0;                  ///< recorded so far
  Dim::Assumptions::Pairs unequal;              ///< Graph::unequal
  std::optional<Dim::Assumptions> assumptions;  ///< collects these

  /// The innermost trace of this thread, or null.
  static Recorder* current();

  /// The value that reading `tensor` gives now: a traced value itself, the current value of a state, or a new capture.
  int read(const Tensor& tensor);
  /// A handle to a value of this graph.
  Tensor handle(int value) const;
  Tensors record(std::shared_ptr<const Op> op, std::vector<int> in, const Types& out);  ///< adds a node; its outputs
  void assign(const Tensor& state, const Tensor& next);                                 ///< Tensor::assign in a trace

  /// The gradients of values with respect to values over the nodes from `first` on.
  Tensors backward(std::size_t first, std::span<const int> of, std::span<const int> wrt, std::span<const Tensor> seeds);

 private:
  std::map<const Value*, int> current_;  // tensor -> the value that reading it gives
};

}  // namespace neurim
