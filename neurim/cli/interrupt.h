// Ctrl-C and the signals of terminals and batch systems as a wish to stop, which a run grants between two steps.
#pragma once
#include <atomic>

#include "neurim/base/file.h"

namespace neurim::cli {

/// While one lives, the first of SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 and SIGXCPU is noted here and answered on
/// stderr; a second SIGINT or SIGTERM ends the process at once. What the process was begun with as ignored stays so,
/// but SIGINT.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  const std::atomic<int>& signal() const;  ///< 0: none so far
  /// The exit code that tells of it: 130 after SIGINT, 75 after the others.
  int exit_code() const;
  /// From now on the second one leaves a run in this folder to go on with.
  void saved(const fs::path& run) const;
};

}  // namespace neurim::cli
