// NEURIM_TARGET_CLONES("avx2", "default") before a function: compiled for each of these, chosen at run time. Once for
// all where the compiler cannot, and beneath sanitizers, as the function that chooses would run before they are ready.
#pragma once

#if defined(__x86_64__) && defined(__gnu_linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define NEURIM_TARGET_CLONES(...) [[gnu::target_clones(__VA_ARGS__)]]
#else
#define NEURIM_TARGET_CLONES(...)
#endif
