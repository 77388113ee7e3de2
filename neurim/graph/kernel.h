// Kernels: what a backend registers, and what a plan asks it for.
#pragma once
#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/base/text.h"
#include "neurim/core/launch.h"
#include "neurim/graph/op.h"

namespace neurim {

/// A value of a request.
struct TensorDesc {
  Type type;                                          ///< dtype and shape
  Layout layout;                                      ///< the physical one
  bool constant = false;                              ///< as weights of a frozen plan are
  const void* known = nullptr;                        ///< in prepare, on the CPU: a constant's data in that layout
  Layout::StorageDtype may_store_as = Layout::exact;  ///< a kernel may propose a layout with this storage dtype
};

/// One op of a request; the numbers index KernelRequest::values.
struct Step {
  const Op* op = nullptr;  ///< what it computes
  std::vector<int> in,     ///< the values it reads
      out;                 ///< the values it makes
};

/// A fusion group that a kernel is asked for, often one op. No path between two of its ops leaves it.
struct KernelRequest {
  std::span<const Step> steps;   ///< in topological order
  int anchor = 0;                ///< the step whose name finds the kernels
  std::span<TensorDesc> values;  ///< of all steps
  std::span<const int> in,       ///< values in the order of Args
      out;                       ///< the same; an inner value that is needed elsewhere is here too
  int chunks = 1;  ///< logical pieces that a kernel cuts its work into; a reduction combines them in a fixed order
  DType compute_dtype = DType::f32;  ///< what kernels may round the factors of products to, and what
                                     ///< TensorDesc::may_store_as says
  bool winograd = true;              ///< whether they may take Winograd's points
  bool training = false;  ///< whether the plan trains: weights change, and fully connected layers take rows of features

  // Written by the kernel.
  std::size_t scratch = 0;        ///< bytes of Args::scratch
  DType used_dtype = DType::f32;  ///< what it rounds the factors of products to
  std::string why = {};           ///< the reason for declining

  Layout::StorageDtype storage() const { return storage_of(compute_dtype); }  ///< what `compute_dtype` is stored as
  /// How many tasks to cut `pieces` images, or other equal pieces, into: up to four for each chunk, so that other
  /// threads help one that is delayed, and of at least `least` pieces where there are enough.
  std::int64_t tasks_for(std::int64_t pieces, std::int64_t least = 1) const {
    return chunks * std::clamp<std::int64_t>(pieces / (chunks * least), 1, 4);
  }
  const Op& op() const { return *steps[anchor].op; }                ///< the anchor
  int place_in(int value) const { return place(in, value); }        ///< its number among the inputs, or -1
  int place_out(int value) const { return place(out, value); }      ///< its number among the outputs, or -1
  const TensorDesc& input(int i) const { return values[in[i]]; }    ///< number i
  const TensorDesc& output(int i) const { return values[out[i]]; }  ///< number i

 private:
  static int place(std::span<const int> list, int value) {
    const auto at = std::find(list.begin(), list.end(), value);
    return at == list.end() ? -1 : static_cast<int>(at - list.begin());
  }
};

/// Declines with the reason that `neurim info --plan` prints.
template <class... Words>
Launch decline(KernelRequest& request, const Words&... words) {
  request.why = text(words...);
  return {};
}

/// What computes an op, or a fusion group, on a kind of device. A kernel is asked once per request.
struct Kernel {
  std::string_view op;      ///< the name of the anchor op
  std::string_view name;    ///< "onednn", "reference", …
  std::uint8_t device = 0;  ///< the kind of device
  int rank = 0;             ///< highest first; the reference is 0
  /// Sees the layouts as they will be, and builds the launch or declines.
  Launch (*prepare)(KernelRequest&) = nullptr;
  /// Optional: may set the layouts of the request's inputs and outputs to what the kernel would like, and says no by
  /// returning false. Without it a kernel is asked with plain layouts only.
  bool (*propose_layouts)(KernelRequest&) = nullptr;
  bool fused_only = false;  ///< takes only requests of several steps
  bool fuses = false;       ///< takes requests of several steps too; without either it is never asked about one
  bool prologues = false;   ///< also those with steps before the anchor, which make its operands (Op::precedes)
  bool endings = false;     ///< also those whose last op ends a group (FusionTraits::ends_group)
  bool series = false;      ///< only those of several ops of that name, each of which alone reads the one before
};
void add(const Kernel& kernel);  ///< to the registry
/// The kernels for an op on a kind of device, best first. Throws Error(usage) where there are none at all:
/// nobody called initialize().
std::span<const Kernel> kernels(std::string_view op, std::uint8_t device);

}  // namespace neurim
