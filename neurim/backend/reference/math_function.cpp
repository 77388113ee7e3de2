#include "neurim/ops/math_function.h"

#include "neurim/backend/reference/view.h"

namespace neurim {

void reference_math_function() {
  reference::define_reference("math_function", [](const Op& op, std::span<const reference::View> in,
                                                  std::span<const reference::View> out, std::uint32_t&) {
    const auto function = math_function_named(static_cast<const MathFunction&>(op).function);
    for (std::int64_t i = 0, count = out[0].numel(); i < count; ++i) out[0].set(i, function(in[0][i]));
  });
}

}  // namespace neurim
