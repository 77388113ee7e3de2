// oneDNN behind the few calls that the adapters need. Its primitives run on one thread each, inside the tasks of a
// launch: the cut is ours, so results do not depend on the number of threads. Included by the onednn_*.cpp files alone.
#pragma once
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>
#include <vector>

#include "neurim/graph/kernel.h"

namespace neurim::cpu {

dnnl::engine& engine();

/// Keeps oneDNN's OpenMP at one thread in the calling thread for a scope: at creation, where primitives fix their
/// number of threads, and at execution.
class OneThread {
 public:
  OneThread();
  ~OneThread();

 private:
  int saved_;
};

/// The same where primitives are made. oneDNN uses a null pointer where it gets no memory for its small objects: throws
/// std::bad_alloc where there is too little for them.
class Creation {
 public:
  Creation();

 private:
  OneThread one_;
};

using dnnl::memory;

/// The descriptor of data of ours in a layout of ours; of three to five axes where blocked.
memory::desc descriptor(const Type& type, const Layout& layout);
/// The same, or nothing for a form that is not oneDNN's.
std::optional<memory::desc> known_descriptor(const Type& type, const Layout& layout);

/// The layout of ours that has this physical form for weights: plain, or a packed format registered here.
Layout packed_layout(const Type& type, const dnnl::memory::desc& desc);

/// Why oneDNN has no such primitive. Throws std::bad_alloc where it had no memory, which is no reason to take another
/// kernel.
const char* refusal(const dnnl::error& error);

/// Appends relu as a post-op: as x * clip(x * (largest float), 0, 1), which differs from it only below the smallest
/// normal number and at minus infinity, which becomes NaN. oneDNN's own relu makes 0 of NaN, and training that has
/// diverged looks healthy.
void append_relu(dnnl::post_ops& after);

/// A primitive with the arguments that it takes, by number; data pointers come with each run.
class Primitive {
 public:
  Primitive() = default;
  Primitive(const dnnl::primitive& primitive, std::vector<std::pair<int, dnnl::memory::desc>> arguments)
      : primitive_(primitive), arguments_(std::move(arguments)) {}
  explicit operator bool() const { return static_cast<bool>(primitive_); }
  /// `data[i]` is the memory of the i-th argument. Sets a bit of `status` where oneDNN fails, which allocates in each
  /// run.
  void run(void* const* data, std::uint32_t* status) const noexcept;

 private:
  bool execute(void* const* data) const noexcept;

  dnnl::primitive primitive_;
  std::vector<std::pair<int, dnnl::memory::desc>> arguments_;
};

}  // namespace neurim::cpu
