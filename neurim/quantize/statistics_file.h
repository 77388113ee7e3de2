// Statistics that are kept, so that a model is quantized again without its images.
#pragma once
#include <optional>

#include "neurim/base/file.h"
#include "neurim/quantize/statistics.h"

namespace neurim {

/// Statistics of a model over some images.
struct KeptStatistics {
  Statistics values;        ///< by the values of the model's graph
  std::int64_t images = 0;  ///< that were looked at
};

/// Writes a safetensors file. The values have the names of the layers that read them.
void write_statistics(const FloatModel& model, const KeptStatistics& statistics, const fs::path& path);

/// Reads one. Throws Error(data) where it is damaged or of other weights.
KeptStatistics read_statistics(const FloatModel& model, const fs::path& path);

}  // namespace neurim
