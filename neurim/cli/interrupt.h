// Handles Ctrl-C and the signals of terminals and batch systems: a run stops between two steps.
#pragma once
#include <atomic>

#include "neurim/base/file.h"

namespace neurim::cli {

/// While an object lives, the first of SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 and SIGXCPU is recorded and
/// acknowledged on stderr; a second SIGINT or SIGTERM ends the process at once. Signals that were ignored when the
/// process began stay ignored, except SIGINT.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  const std::atomic<int>& signal() const;  ///< 0: none so far
  /// The exit code after it: 130 after SIGINT, 75 after the others.
  int exit_code() const;
  /// From now on, after a second signal the message says how to resume this run.
  void saved(const fs::path& run) const;
};

}  // namespace neurim::cli
