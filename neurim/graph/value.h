// Values after Tensor handles. For the graph, the compiler and the device placement; users see Tensor.
#pragma once
#include <memory>
#include <string>

#include "neurim/core/device.h"
#include "neurim/graph/tensor.h"

namespace neurim {

/// What a Tensor handle points to.
struct Value {
  Type type;         ///< dtype and shape
  Device device;     ///< where the data are
  std::string name;  ///< Tensor::name

  std::shared_ptr<Storage> storage;  ///< the data of a stored one, in their physical layout; null of a traced one
  Layout layout;                     ///< of `storage`
  /// Whoever replaces `storage` or `layout` counts it up, so that plans that hold the old pointer notice.
  std::uint64_t epoch = 0;

  bool constant = false;   ///< made inside a trace: its data never change and may be folded
  bool parameter = false;  ///< made to be learnt: a part of some module

  std::uint64_t trace = 0;  ///< of a traced one: which trace; 0: a stored one
  int id = -1;              ///< of a traced one: which value of the graph
};

/// The same data in the plain layout: the handle itself when it is plain already.
Tensor plain(const Tensor& tensor);
/// A copy in another physical layout.
Tensor repacked(const Tensor& tensor, const Layout& layout);
/// Changes the physical layout of a stored tensor, keeping the handle; counts the epoch up.
void repack(const Tensor& tensor, const Layout& layout);

}  // namespace neurim
