// NEURIM_WIDE before a function: compiled for AVX2 as well, chosen at run time. Without fused multiply-add,
// so both versions give the same numbers.
#pragma once

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define NEURIM_WIDE [[gnu::target_clones("avx2", "default")]]
#else
#define NEURIM_WIDE
#endif
