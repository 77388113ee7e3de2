// DALI's C API as one function: from image files and where their parts go to a batch of floats.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "neurim/data/augment.h"
#include "neurim/data/transform.h"

struct _DALIPipeline;

namespace neurim::dali {

/// The samples of a batch as DALI's operators take them, one after the other in each list.
struct Inputs {
  std::vector<std::byte> files;
  std::vector<std::int64_t> file_bytes;              ///< of each sample
  std::vector<std::int32_t> part_start, part_shape;  ///< x, y and width, height: what is decoded
  std::vector<float> size;                           ///< height, width: what that is scaled to …
  std::vector<float> roi_start, roi_end;             ///< y, x: … and from which rectangle of it
  std::vector<std::int32_t> corner;                  ///< x, y of the result's first pixel in that
  std::vector<std::int32_t> mirror;                  ///< 0 or 1

  void clear();
  /// The sample whose bytes were added to `files` last. `part`: what is taken of the upright image.
  void add(std::int64_t bytes, const Box& part, const Placement& placement, const Pose& pose);
  std::size_t samples() const { return file_bytes.size(); }
};

/// Decodes a part, scales it, pads it where `pads`, mirrors and normalises it as the Preprocess says. What
/// DALI refuses throws Error(failure) with its words.
class Pipeline {
 public:
  Pipeline(const Preprocess& preprocess, bool pads, int most_samples, int threads);

  /// Writes samples x channels x height x width floats. Once it has thrown, the pipeline is of no use.
  void run(const Inputs& inputs, float* out);

 private:
  struct Destroy {
    void operator()(_DALIPipeline* pipeline) const;
  };
  std::unique_ptr<_DALIPipeline, Destroy> pipeline_;
  const std::size_t floats_;  // of a sample
  const bool pads_;
};

}  // namespace neurim::dali
