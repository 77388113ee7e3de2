// What plans make of constants, shared by all plans of the process that need the same. Internal to compile/.
#pragma once
#include <functional>
#include <string>

#include "neurim/graph/tensor.h"

namespace neurim {

/// What `make` gives, marked as constant: weights in a layout, a folded node. Where a plan that lives has made the same
/// of the same data, it is that. `what` says all on which the result depends but `of`, which are constants. The result
/// lives as long as somebody holds it. Safe from many threads.
Tensors shared_constants(const std::string& what, const Tensors& of, const std::function<Tensors()>& make);

/// A constant with the same data, which other plans may have too.
Tensor shared_by_content(const Tensor& constant);

}  // namespace neurim
