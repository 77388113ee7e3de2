// Kernels: what a backend registers, and how a site of the graph asks for one.
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

/// A value at a site: its type and its physical layout; whether it is constant, as weights of a frozen plan are; and then at
/// prepare, on the CPU, its data in that layout.
struct Spec {
  Type type;
  Layout layout;
  bool constant = false;
  const void* known = nullptr;
  Layout::Half may_round = Layout::exact;  ///< a kernel may ask for it in a layout that is rounded so
};

/// One op of a site; the numbers index Site::values.
struct Step {
  const Op* op = nullptr;
  std::vector<int> in, out;
};

/// A convex piece of the graph, often one op, that asks for a kernel.
struct Site {
  std::span<const Step> steps;  ///< in topological order
  int anchor = 0;               ///< the step whose name finds the kernels
  std::span<Spec> values;
  std::span<const int> in, out; ///< values in the order of Args; an inner value that is needed elsewhere is in out too
  int chunks = 1;               ///< into how many logical pieces a kernel cuts its work; a reduction joins them in fixed order
  DType products = DType::f32;  ///< what kernels may round the factors of products to, and what Spec::may_round says
  bool winograd = true;         ///< whether they may take Winograd's points
  bool training = false;        ///< whether the plan trains: weights change, and fully connected layers take rows of features

  // Written by the kernel.
  std::size_t scratch = 0;      ///< bytes of Args::scratch
  DType rounds = DType::f32;    ///< what it rounds the factors of products to
  std::string why = {};         ///< the reason for declining

  Layout::Half half() const { return half_of(products); }
  /// Into how many parts to cut so many images, or pieces as good: a few for each chunk, so that a thread that is held up is helped by
  /// others, of `least` pieces at least where there are more of them than chunks.
  std::int64_t parts_for(std::int64_t pieces, std::int64_t least = 1) const { return chunks * std::clamp<std::int64_t>(pieces / (chunks * least), 1, 4); }
  const Op& op() const { return *steps[static_cast<std::size_t>(anchor)].op; }
  /// The number of a value among the arguments, or -1.
  int place_in(int value) const { return place(in, value); }
  int place_out(int value) const { return place(out, value); }
  const Spec& input(int i) const { return values[static_cast<std::size_t>(in[static_cast<std::size_t>(i)])]; }
  const Spec& output(int i) const { return values[static_cast<std::size_t>(out[static_cast<std::size_t>(i)])]; }

 private:
  static int place(std::span<const int> list, int value) {
    const auto at = std::find(list.begin(), list.end(), value);
    return at == list.end() ? -1 : static_cast<int>(at - list.begin());
  }
};

/// Says no, with the reason that `neurim info --plan` prints.
template <class... Parts>
Launch decline(Site& site, const Parts&... parts) {
  site.why = text(parts...);
  return {};
}

/// A kernel is asked once per call site. `wants` (optional) may set the layouts of the site's inputs and outputs to what
/// the kernel would like, and says no by returning false; `prepare` sees the layouts as they will be, and builds the
/// launch or declines. Without `wants` a kernel is asked with plain layouts only.
struct Kernel {
  std::string_view op;    ///< the name of the anchor op
  std::string_view name;  ///< "onednn", "reference", …
  std::uint8_t device = 0;
  int rank = 0;           ///< highest first; the reference is 0
  Launch (*prepare)(Site&) = nullptr;
  bool (*wants)(Site&) = nullptr;
  bool chains = false;    ///< takes only sites of several steps
  bool fuses = false;     ///< takes sites of several steps too; without either it is never asked about one
  bool prologues = false; ///< of those also such with steps before the anchor, which make operands of it (Op::precedes)
  bool pools = false;     ///< also such with a max pooling behind all others
  bool series = false;    ///< takes only those of several ops of that name, each of which alone reads the one before
};
void add(const Kernel& kernel);
/// The kernels for an op on a kind of device, best first. Throws Error(usage) where there are none at all:
/// nobody called initialize().
std::span<const Kernel> kernels(std::string_view op, std::uint8_t device);

}  // namespace neurim
