// Functions that are compiled once for each instruction set.
#pragma once
#include "neurim/core/types.h"
#include "neurim/hardware/isa.h"

namespace neurim::cpu {

/// How f32 tensors are stored: as floats, or in 16 bits.
using StorageDtype = Layout::StorageDtype;

}  // namespace neurim::cpu

/// Chooses one of the versions of a function that a file under simd/ defines: NEURIM_DISPATCH(relu)(args).
#if defined(NEURIM_ONLY_ISA)
#define NEURIM_DISPATCH(function) (::neurim::cpu::NEURIM_ONLY_ISA::function)
#else
#define NEURIM_DISPATCH(function)                                             \
  (::neurim::isa() == ::neurim::Isa::avx512 ? ::neurim::cpu::avx512::function \
   : ::neurim::isa() == ::neurim::Isa::avx2 ? ::neurim::cpu::avx2::function   \
                                            : ::neurim::cpu::portable::function)
#endif

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
