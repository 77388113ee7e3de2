// Scalars, images, histograms, hyperparameters and the graph for TensorBoard: an event file (TFRecord frames of Event
// messages) that grows while training runs.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "neurim/base/file.h"
#include "neurim/graph/trace.h"

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

  /// Adds an image file of this size, a PNG or JPEG, as it is. Throws Error(resource), as the others do.
  void write_image(std::int64_t step, std::string_view tag, std::string_view bytes, int height, int width);
  /// Adds how often values occur, in 30 ranges of equal width. Nothing for values that are not all finite, or for none.
  void write_histogram(std::int64_t step, std::string_view tag, std::span<const float> values);
  /// Adds the options of the run for the table of hyperparameters; numbers and true and false are such. `metric`: the
  /// tag of the scalar that it shows beside them.
  void write_hparams(const std::map<std::string, std::string>& options, std::string_view metric);
  /// Adds a graph: a node for each op, by the modules that they lie in.
  void write_graph(const Graph& graph);

  const fs::path& path() const { return path_; }

 private:
  void append_record(std::string_view event);
  void append_summary(std::int64_t step, std::string_view summary);
  void write_plugin(std::string_view tag, std::string_view data);

  fs::path path_;
  int file_ = -1;
};

}  // namespace neurim
