// Scalars for TensorBoard: an event file (TFRecord frames of Event messages) that grows while training runs.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "neurim/base/file.h"

namespace neurim {

/// One point of a curve; `tag` such as "loss/train" groups curves by its part before the slash.
struct Scalar {
  std::string_view tag;
  double value = 0;  ///< stored as float32
};

/// Appends to a new file `events.out.tfevents.<seconds>.<host>.<process>.<number>` in a folder. Every call
/// reaches the file before it returns, so that a killed run loses nothing.
class TensorBoardWriter {
 public:
  /// Makes the folder and the file. A run that resumes passes the first step it will write: TensorBoard then
  /// drops the points of earlier files in this folder from that step on. Throws Error(resource).
  explicit TensorBoardWriter(const fs::path& folder, std::optional<std::int64_t> resumed_at = {});
  ~TensorBoardWriter();
  TensorBoardWriter(const TensorBoardWriter&) = delete;
  TensorBoardWriter& operator=(const TensorBoardWriter&) = delete;

  /// Adds one point to each of the curves, all at `step` and the present time. Throws Error(resource).
  void write(std::int64_t step, std::span<const Scalar> scalars);

  const fs::path& path() const { return path_; }

 private:
  void append_record(std::string_view event);

  fs::path path_;
  int file_ = -1;
};

}  // namespace neurim
