// Which of the compiled instruction sets this machine runs.
#pragma once

namespace neurim::cpu {

enum class Isa { portable, avx2, avx512 };
/// The best that the machine has, or a lower one that NEURIM_ISA=portable|avx2|avx512 in the environment asks
/// for.
Isa isa();

}  // namespace neurim::cpu

/// Chooses one of the versions of a function that a file under simd/ defines: NEURIM_DISPATCH(relu)(args).
#define NEURIM_DISPATCH(function)                                                       \
  (::neurim::cpu::isa() == ::neurim::cpu::Isa::avx512 ? ::neurim::cpu::avx512::function \
   : ::neurim::cpu::isa() == ::neurim::cpu::Isa::avx2 ? ::neurim::cpu::avx2::function   \
                                                      : ::neurim::cpu::portable::function)

/// Declares a function in the namespace of every instruction set.
#define NEURIM_EACH_ISA(declaration) \
  namespace portable {               \
  declaration;                       \
  }                                  \
  namespace avx2 {                   \
  declaration;                       \
  }                                  \
  namespace avx512 {                 \
  declaration;                       \
  }
