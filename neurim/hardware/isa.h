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
/// Whether there are AVX512-BF16's products too. False where NEURIM_ISA is set, which asks for the code that all such
/// machines run.
bool has_bf16();
/// The same of AVX512-FP16's arithmetic.
bool has_f16();
/// The same of AVX512-VNNI's products of bytes, four of u8 and i8 for each sum.
bool has_vnni();
/// The same of AArch64's dot products of bytes, four of i8 and i8 for each sum (Armv8.2).
bool has_dot_products();
/// The same of AMX's matrix tiles and their products of bf16 and of bytes. Asks the system for them, once.
bool has_tiles();

}  // namespace neurim
