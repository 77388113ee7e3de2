// Output of a command to people and scripts: the terminal, log.txt and JSON lines.
#pragma once
#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "neurim/base/file.h"
#include "neurim/base/json.h"

namespace neurim {

/// Text goes to stdout, or to stderr if JSON lines have stdout. On a terminal `progress` rewrites one line; elsewhere
/// it prints a plain line if nothing was printed for 30 seconds.
class Console {
 public:
  /// Options.
  struct Options {
    bool json = false;     ///< JSON lines on stdout
    bool quiet = false;    ///< no text; log.txt still gets it
    bool verbose = false;  ///< more text
    /// Gets each line in place of stdout and stderr; not what progress draws.
    std::function<void(std::string_view line)> on_line = {};
    std::function<void(const std::string& json)> on_event = {};  ///< gets each event, with json or without
  };
  Console() : Console(Options{}) {}
  explicit Console(Options options);  ///< Prints by these options.
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// Whether JSON lines are printed.
  bool json() const { return options_.json; }
  /// Whether more text is printed.
  bool verbose() const { return options_.verbose; }
  void print(std::string_view line);         ///< one line; control characters are escaped
  void print_lines(std::string_view lines);  ///< the same for several lines
  void warn(std::string_view line);          ///< the same on stderr, for commands whose stdout is the result
  void progress(std::string_view line);      ///< shows a progress line
  std::size_t progress_columns() const;      ///< columns of a progress line: those of the terminal, else unlimited
  void event(const JsonObject& object);      ///< one line, with --json

  /// From now on all printed lines are appended to this file too. Throws Error(resource).
  void log_into(const fs::path& path);

 private:
  using Clock = std::chrono::steady_clock;
  void print_to(std::string_view line, std::FILE* out);
  void wipe();

  Options options_;
  bool terminal_;
  bool drawn_ = false;      ///< a progress line is on the terminal
  Clock::time_point next_;  ///< the time of the next progress line
  int log_ = -1;
};

/// Writes to stdout or stderr, unbuffered. A failed write to stdout is recorded.
void write_out(std::FILE* out, std::string_view words);
/// Why output of this process to stdout was lost, or "". A reader that closed the pipe or a closed terminal is no
/// failure.
std::string lost_output();

std::string duration(double seconds);        ///< "0:09", "1:02:33"
std::string bar(double share, int columns);  ///< "▇▇▇▇····"

}  // namespace neurim
