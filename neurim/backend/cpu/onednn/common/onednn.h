// The few oneDNN calls that the kernels need. Primitives run on one thread each, inside the tasks of a launch, so
// results do not depend on the number of threads. Included by the onednn_*.cpp files only.
#pragma once
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <vector>

#include "neurim/graph/kernel.h"

namespace neurim::cpu {

dnnl::engine& engine();

/// Limits oneDNN's OpenMP to one thread in the calling thread for a scope: at creation, where primitives fix their
/// number of threads, and at execution.
class OneThread {
 public:
  OneThread();
  ~OneThread();

 private:
  int saved_;
};

/// The same, for creating primitives. oneDNN dereferences a null pointer if it gets no memory for its small objects, so
/// this throws std::bad_alloc if too little is left.
class Creation {
 public:
  Creation();

 private:
  OneThread one_;
};

using dnnl::memory;

/// The descriptor of a type in one of our layouts; three to five axes if blocked.
memory::desc descriptor(const Type& type, const Layout& layout);
/// The same, or nothing for a layout that oneDNN does not know.
std::optional<memory::desc> known_descriptor(const Type& type, const Layout& layout);

/// Our layout of this weight descriptor: plain, or a packed format that is registered here.
Layout packed_layout(const Type& type, const dnnl::memory::desc& desc);

/// Why oneDNN has no such primitive. Throws std::bad_alloc if it ran out of memory, which is no reason to take another
/// kernel.
const char* refusal(const dnnl::error& error);

/// Appends a ReLU as x * clip(x * (largest float), 0, 1). It differs from ReLU only below the smallest normal number
/// and at minus infinity, which becomes NaN. oneDNN's own ReLU turns NaN into 0, which would hide that training
/// diverged.
void append_relu(dnnl::post_ops& after);

/// A primitive and its argument numbers. Data pointers come with each run.
class Primitive {
 public:
  Primitive() = default;
  Primitive(const dnnl::primitive& primitive, std::vector<std::pair<int, dnnl::memory::desc>> arguments)
      : primitive_(primitive), arguments_(std::move(arguments)) {}
  explicit operator bool() const { return static_cast<bool>(primitive_); }
  /// `data[i]` is the memory of argument i. Sets a bit of `status` if oneDNN fails, which it can, as it allocates in
  /// each run.
  void run(void* const* data, std::uint32_t* status) const noexcept;

 private:
  bool execute(void* const* data) const noexcept;

  dnnl::primitive primitive_;
  std::vector<std::pair<int, dnnl::memory::desc>> arguments_;
};

}  // namespace neurim::cpu
