// The state of one trace. Internal to graph/.
#pragma once
#include <map>

#include "neurim/graph/trace.h"

namespace neurim {

struct Recorder {
  Graph graph;
  std::uint64_t id = 0;
  Recorder* outer = nullptr;
  Tensor random;
  std::int64_t random_ops = 0;

  /// The innermost trace of this thread, or null.
  static Recorder* current();

  /// The value that reading `tensor` gives now: a traced value itself, the current value of a state, or a new capture.
  int read(const Tensor& tensor);
  /// A handle to a value of this graph.
  Tensor handle(int value) const;
  Tensors record(std::shared_ptr<const Op> op, std::vector<int> in, Types out);
  void assign(const Tensor& state, const Tensor& next);

  /// The gradients of values with respect to values over the nodes from `first` on.
  Tensors backward(std::size_t first, std::span<const int> of, std::span<const int> wrt, std::span<const Tensor> seeds);

 private:
  std::map<const Value*, int> current_;  // tensor -> the value that reading it gives
};

}  // namespace neurim
