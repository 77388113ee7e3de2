// What a loader gives in an epoch.
#pragma once
#include <gtest/gtest.h>

#include <vector>

#include "neurim/data/batch_source.h"

namespace neurim {

struct Epoch {
  std::vector<float> images;
  std::vector<std::int64_t> labels, indices;
  std::vector<int> sizes;
  bool operator==(const Epoch&) const = default;
};

inline Epoch epoch_of(BatchSource& loader, std::uint32_t epoch, std::int64_t first_batch = 0) {
  Epoch all;
  Batch batch;
  loader.start(epoch, first_batch);
  while (loader.next(batch)) {
    all.images.insert(all.images.end(), batch.images.begin(), batch.images.end());
    all.labels.insert(all.labels.end(), batch.labels.begin(), batch.labels.end());
    all.indices.insert(all.indices.end(), batch.indices.begin(), batch.indices.end());
    all.sizes.push_back(batch.size);
  }
  EXPECT_FALSE(loader.next(batch));
  return all;
}

}  // namespace neurim
