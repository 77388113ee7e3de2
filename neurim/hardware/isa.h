// Which of the compiled instruction sets this machine runs.
#pragma once
#include <cstdint>
#include <string_view>

namespace neurim {

enum class Isa : std::uint8_t { portable, avx2, avx512 };
std::string_view name(Isa isa);
/// The best that the machine has, or a lower one that NEURIM_ISA=portable|avx2|avx512 in the environment asks
/// for.
Isa isa();

}  // namespace neurim
