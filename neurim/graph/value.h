// What a Tensor handle points to. For the graph, the compiler and the device placement; users see Tensor.
#pragma once
#include <memory>
#include <string>

#include "neurim/core/device.h"
#include "neurim/graph/tensor.h"

namespace neurim {

struct Value {
  Type type;
  Device device;
  std::string name;

  // Stored: the data in their physical layout. Whoever replaces `storage` or `layout` counts `epoch` up, so that plans
  // that hold the old pointer notice.
  std::shared_ptr<Storage> storage;
  Layout layout;
  std::uint64_t epoch = 0;

  bool constant = false;   // made inside a trace: its data never change and may be folded
  bool parameter = false;  // made to be learnt: a part of some module

  // Traced: which trace, and which value of its graph.
  std::uint64_t trace = 0;
  int id = -1;
};

/// The same data in the plain layout: the handle itself when it is plain already.
Tensor plain(const Tensor& tensor);
/// A copy in another physical layout.
Tensor repacked(const Tensor& tensor, const Layout& layout);
/// Changes the physical layout of a stored tensor, keeping the handle; counts the epoch up.
void repack(const Tensor& tensor, const Layout& layout);

}  // namespace neurim
