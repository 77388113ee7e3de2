// Who makes the batches.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/data/batch_source.h"

namespace neurim {

/// "neurim", our own threads (Loader), and "dali", a CPU pipeline of NVIDIA DALI in a plug-in: the same
/// samples in the same order with the same random choices, decoded, scaled and normalised by DALI, whose
/// values are near ours.
std::vector<std::string> loader_names();

/// The source of that name. A plug-in is the file that the environment variable NEURIM_DALI_PLUGIN names, or
/// else libneurim_dali.so beside this library. Throws Error(usage) for an unknown name, where there is no
/// plug-in or it is of another release, and where it cannot do what `augment` or `options` ask for; and what
/// the sources throw.
std::unique_ptr<BatchSource> open_loader(std::string_view loader, const Dataset& dataset, Split split,
                                         const Preprocess& preprocess, const Augment& augment = {},
                                         const LoaderOptions& options = {});

}  // namespace neurim
