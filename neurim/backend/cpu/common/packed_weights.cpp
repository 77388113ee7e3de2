#include "neurim/backend/cpu/common/packed_weights.h"

#include <cstring>

#include "neurim/backend/cpu/common/interned.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/base/error.h"
#include "neurim/base/text.h"

namespace neurim::cpu {

namespace {

constexpr std::int64_t kLanes = 16;

/// visit(place among the plain weights, place among the packed ones).
template <class Visit>
void each_weight(const PackedWeights& own, Visit visit) {
  const Shape& s = own.weight.shape;
  const std::int64_t taps = s[2] * s[3], out_blocks = blocks_of(s[0]), in_blocks = blocks_of(s[1]);
  for (std::int64_t o = 0, plain = 0; o < s[0]; ++o)
    for (std::int64_t i = 0; i < s[1]; ++i)
      for (std::int64_t tap = 0; tap < taps; ++tap, ++plain) {
        const std::int64_t ob = o / kLanes, ib = i / kLanes, ol = o % kLanes, il = i % kLanes;
        if (own.form == PackedWeights::forward)
          visit(plain, (((ob * in_blocks + ib) * taps + tap) * kLanes + il) * kLanes + ol);
        else if (own.form == PackedWeights::gradient)
          visit(plain, (((ib * out_blocks + ob) * taps + tap) * kLanes + ol) * kLanes + il);
        else
          visit(plain, (ob * taps + tap) * kLanes + ol);
      }
}

void pack_weights(const void* self, const void* plain, void* packed) {
  const auto& own = *static_cast<const PackedWeights*>(self);
  const auto* const from = static_cast<const float*>(plain);
  auto* const to = static_cast<float*>(packed);
  std::memset(packed, 0, own.bytes());
  each_weight(own, [&](std::int64_t one, std::int64_t place) { to[place] = from[one]; });
}

void unpack_weights(const void* self, const void* packed, void* plain) {
  const auto* const from = static_cast<const float*>(packed);
  auto* const to = static_cast<float*>(plain);
  each_weight(*static_cast<const PackedWeights*>(self),
              [&](std::int64_t one, std::int64_t place) { to[one] = from[place]; });
}

Layout layout_of(PackedWeights::Form form, const Type& given) {
  static constexpr std::string_view kNames[] = {"forward weights ", "gradient weights ", "depthwise weights "};
  NEURIM_ASSERT(given.dtype == DType::f32);
  Type weight = given;
  while (weight.shape.rank() < 4)
    weight.shape.push_back(1);  // a fully connected layer's are those of a 1x1 convolution
  const PackedWeights* const own = interned(PackedWeights{form, weight});
  return {Layout::packed, 0,
          register_format({text(kNames[form], weight), own->bytes(), pack_weights, unpack_weights, own})};
}

}  // namespace

std::size_t PackedWeights::bytes() const {
  const Shape& s = weight.shape;
  const std::int64_t in = form == depthwise ? 1 : blocks_of(s[1]) * kLanes;
  return blocks_of(s[0]) * kLanes * in * s[2] * s[3] * sizeof(float);
}

Layout forward_weights(const Type& weight) { return layout_of(PackedWeights::forward, weight); }
Layout gradient_weights(const Type& weight) { return layout_of(PackedWeights::gradient, weight); }
Layout depthwise_weights(const Type& weight) { return layout_of(PackedWeights::depthwise, weight); }

const PackedWeights* packed_weights_of(const Layout& layout) {
  return interned_for<PackedWeights>(layout, pack_weights);
}

}  // namespace neurim::cpu
