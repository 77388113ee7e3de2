// Where a command talks to people and scripts: the terminal, log.txt and JSON lines.
#pragma once
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "neurim/base/file.h"
#include "neurim/base/json.h"

namespace neurim {

/// People's text goes to stdout, or to stderr when JSON lines have stdout. On a terminal `progress` rewrites
/// one line; elsewhere it prints a plain one when nothing was printed for 30 seconds.
class Console {
 public:
  struct Options {
    bool json = false;     ///< JSON lines on stdout
    bool quiet = false;    ///< no text for people; log.txt still gets it
    bool verbose = false;  ///< more text
  };
  Console() : Console(Options{}) {}
  explicit Console(Options options);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  bool json() const { return options_.json; }
  bool verbose() const { return options_.verbose; }
  void say(std::string_view line);         ///< one line, made printable
  void say_lines(std::string_view lines);  ///< the same of several
  void warn(std::string_view line);        ///< the same on stderr, where stdout is what was asked for
  void progress(std::string_view line);
  std::size_t progress_columns() const;  ///< that such a line may have: of the terminal, else any number
  void event(const JsonObject& object);  ///< one line, when JSON was asked for

  /// From now on all lines that are said go to the end of this file too. Throws Error(resource).
  void log_into(const fs::path& path);

 private:
  using Clock = std::chrono::steady_clock;
  void tell(std::string_view line, std::FILE* out);
  void wipe();

  Options options_;
  bool terminal_;
  bool drawn_ = false;      ///< a progress line stands on the terminal
  Clock::time_point next_;  ///< no progress is shown before
  int log_ = -1;
};

/// Writes to stdout or stderr at once. What stdout does not take is remembered.
void write_out(std::FILE* out, std::string_view words);
/// Why something that this process wrote to stdout did not arrive, or ""; a reader or a terminal that left is no
/// failure.
std::string lost_output();

std::string duration(double seconds);        ///< "0:09", "1:02:33"
std::string bar(double share, int columns);  ///< "▇▇▇▇····"

}  // namespace neurim
