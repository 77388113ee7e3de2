// Whether this build has oneDNN's kernels: not on AArch64, for which PyPI carries none. There the reference stands in
// for them.
#pragma once
#include <algorithm>

#include "neurim/base/text.h"
#include "neurim/graph/kernel.h"

namespace neurim {

inline bool has_onednn() {
  const auto list = kernels("linear", 0);
  return std::any_of(list.begin(), list.end(), [](const Kernel& kernel) { return starts_with(kernel.name, "onednn"); });
}

}  // namespace neurim
