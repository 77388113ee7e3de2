#include "neurim/backend/cpu/common/add_relu.h"

namespace neurim::cpu {

AddRelu read_add_relu(const KernelRequest& request, std::size_t begin, std::size_t end, int value, bool gradient) {
  AddRelu read{.result = value, .end = begin};
  for (; read.end < end; ++read.end) {
    const Step& step = request.steps[read.end];
    if (step.op->name() == "add" && read.add < 0 && !read.relu.on) {
      const bool first = step.in[0] == read.result;
      const int other = step.in[first ? 1 : 0];
      if (first == (step.in[1] == read.result) || request.place_in(other) < 0 ||
          request.values[other].type != request.values[read.result].type)
        break;
      read.add = other, read.sum = step.out[0];
    } else if (Relu relu; !read.relu.on && read_relu(*step.op, relu, gradient)) {
      if (step.in[gradient ? 1 : 0] != read.result) break;
      if (gradient && (step.in[0] == read.result || request.place_in(step.in[0]) < 0)) break;
      read.relu = relu;
      if (gradient) read.mask = step.in[0];
    } else {
      break;
    }
    read.result = step.out[0];
  }
  return read;
}

}  // namespace neurim::cpu
