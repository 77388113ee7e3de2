// Shared libraries with ops, kernels and layers of one's own: docs/guides/models.md.
#pragma once
#include "neurim/base/file.h"
#include "neurim/model/abi.h"  // generated: cmake/Abi.cmake

#define NEURIM_QUOTED(token) #token
#define NEURIM_VALUE_QUOTED(macro) NEURIM_QUOTED(macro)

/// Makes a shared library a plug-in: `define_all`, a function without arguments, is called when it is loaded
/// and defines what the library has (define of graph/op.h, reference::define_reference, add of
/// graph/kernel.h, nn::define_layer).
#define NEURIM_PLUGIN(define_all)                                             \
  extern "C" const char* neurim_plugin_abi() { return ::neurim::kPluginAbi; } \
  extern "C" void neurim_plugin_define() { define_all(); }                    \
  static_assert(true)

namespace neurim {

/// What a plug-in and the library that loads it have in common: the release, every header that a plug-in may
/// be made from, and the ABI of C++.
inline constexpr const char* kPluginAbi = NEURIM_HEADERS ", C++ ABI " NEURIM_VALUE_QUOTED(__GXX_ABI_VERSION);

/// Loads a plug-in for as long as the process lives, once. Call initialize() first. The library's code runs
/// with all rights of the process: load what you trust. Throws Error(usage) where there is no such file,
/// where it is no plug-in or was built for other headers, and what its definitions throw.
void load_library(const fs::path& path);

}  // namespace neurim
