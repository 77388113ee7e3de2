// The epochs of a run as they are written.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "neurim/base/file.h"

namespace neurim {

/// Follows a metrics.jsonl. Of each metric at most 4,096 points are kept, evenly over the epochs, so that memory stays
/// bounded however long the file is.
class RunLog {
 public:
  using Points = std::vector<std::pair<double, double>>;  // epoch, value

  explicit RunLog(fs::path file) : file_(std::move(file)) {}
  /// Reads what was appended; begins anew where the file is another. Unfinished lines wait.
  void update();
  const std::map<std::string, Points>& curves() const { return curves_; }
  std::int64_t epochs() const { return epochs_; }

 private:
  void add(const std::string& line);

  fs::path file_;
  std::uintmax_t read_ = 0;
  std::string rest_;  // a line whose end is not there yet
  std::map<std::string, Points> curves_;
  std::int64_t epochs_ = 0, stride_ = 1;
};

/// The numbers of the last whole line of a metrics.jsonl, without reading the others; none where there is none.
std::map<std::string, double> last_epoch(const fs::path& file);

}  // namespace neurim
