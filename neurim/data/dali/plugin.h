// What the library and a plug-in that makes batches must agree on.
#pragma once
#include <string>

#include "neurim/base/text.h"
#include "neurim/data/batch_source.h"

namespace neurim {

/// A plug-in exports two C functions: neurim_plugin_version, which returns its plugin_version(), and
/// neurim_plugin_loader, which returns a new BatchSource or throws an Error.
using PluginVersion = const char*();
using PluginLoader = BatchSource*(const Dataset&, Split, const Preprocess&, const Augment&, const LoaderOptions&);

/// The release, the ABI of C++ and the sizes of the types that are handed over: equal where both were
/// compiled from the same headers.
inline std::string plugin_version() {
  return text("neurim " NEURIM_VERSION ", C++ ABI ", __GXX_ABI_VERSION, ", types of ", sizeof(BatchSource), ' ',
              sizeof(Dataset), ' ', sizeof(Preprocess), ' ', sizeof(Augment), ' ', sizeof(LoaderOptions), " bytes");
}

}  // namespace neurim
