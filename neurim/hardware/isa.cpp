#include "neurim/hardware/isa.h"

#include <algorithm>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "neurim/base/environment.h"
#include "neurim/base/error.h"

namespace neurim {

namespace {

Isa best() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq"))
    return Isa::avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Isa::avx2;
#endif
  return Isa::portable;
}

Isa asked() {
  const char* wanted = environment("NEURIM_ISA");
  if (!wanted) return best();
  const std::string_view name = wanted;
  require(name == "portable" || name == "avx2" || name == "avx512", "NEURIM_ISA: '", name,
          "' is not one of portable, avx2, avx512");
  return std::min(best(), name == "portable" ? Isa::portable : name == "avx2" ? Isa::avx2 : Isa::avx512);
}

Isa chosen() {
  const Isa isa = asked();
#if defined(NEURIM_ONLY_ISA)
#define NEURIM_TEXT(word) #word
#define NEURIM_TEXT_OF(macro) NEURIM_TEXT(macro)
  const std::string_view only = NEURIM_TEXT_OF(NEURIM_ONLY_ISA);
  require(name(isa) == only, "this build has kernels for ", only, " alone, and is to run those for ", name(isa));
#endif
  return isa;
}

}  // namespace

std::string_view name(Isa isa) { return isa == Isa::avx512 ? "avx512" : isa == Isa::avx2 ? "avx2" : "portable"; }

Isa isa() {
  static const Isa known = chosen();
  return known;
}

#if defined(__x86_64__)
/// Whether instructions that not all machines of Isa::avx512 have are asked for.
static bool beyond_avx512() { return isa() == Isa::avx512 && !environment("NEURIM_ISA"); }
/// Whether the processor's leaf 7 has all these bits in edx: of what compilers' own functions do not all know.
static bool processor_has(unsigned bits) {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & bits) == bits;
}
bool has_bf16() {
  static const bool known = beyond_avx512() && __builtin_cpu_supports("avx512bf16");
  return known;
}
bool has_f16() {
  static const bool known = beyond_avx512() && processor_has(1u << 23);
  return known;
}
bool has_vnni() {
  static const bool known = beyond_avx512() && __builtin_cpu_supports("avx512vnni");
  return known;
}
/// Asks Linux for room for the tiles, which it gives a process on request only.
static bool tiles_allowed() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // arch_prctl(2)
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}
bool has_tiles() {
  constexpr unsigned kTiles = 1u << 24, kBytes = 1u << 25, kBf16 = 1u << 22;
  static const bool known = beyond_avx512() && processor_has(kTiles | kBytes | kBf16) && tiles_allowed();
  return known;
}
#else
bool has_bf16() { return false; }
bool has_f16() { return false; }
bool has_vnni() { return false; }
bool has_tiles() { return false; }
#endif

#if defined(__aarch64__)
bool has_dot_products() {
  static const bool known = !environment("NEURIM_ISA") && (::getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  return known;
}
#else
bool has_dot_products() { return false; }
#endif

}  // namespace neurim
