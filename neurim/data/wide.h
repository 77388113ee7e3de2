// NEURIM_WIDE before a function: compiled for AVX2 as well, chosen at run time. Without fused multiply-add,
// so both versions give the same numbers.
#pragma once
#include "neurim/base/target_clones.h"

#define NEURIM_WIDE NEURIM_TARGET_CLONES("avx2", "default")
