// Other programs that are asked and answer.
#pragma once
#include <sys/types.h>

#include <cstdio>
#include <string>
#include <vector>

namespace neurim {

/// A program that runs beside this one, with its stdin and stdout as lines of text; its stderr is this process's or a
/// file. It ends with the object.
class Process {
 public:
  /// Starts the program, which is searched for in PATH. `errors`: the file that its stderr goes to; "": where ours
  /// goes. Throws Error(resource) where it cannot be started.
  explicit Process(const std::vector<std::string>& words, const std::string& errors = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Writes a line and waits for the next one; "" where the program has ended.
  std::string ask(const std::string& line);
  /// The next line; "" where the program has ended.
  std::string line();

 private:
  pid_t child_ = 0;
  std::FILE *to_ = nullptr, *from_ = nullptr;
};

}  // namespace neurim
