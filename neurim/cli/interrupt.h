// Ctrl-C and SIGTERM as a wish to stop, which a run grants between two steps.
#pragma once
#include <atomic>

namespace neurim::cli {

/// While one lives, the first SIGINT or SIGTERM is noted here; a second one ends the process at once.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  const std::atomic<int>& signal() const;  ///< 0: none so far
  /// The exit code that tells of it: 130 after SIGINT, 75 after SIGTERM.
  int exit_code() const;
};

}  // namespace neurim::cli
