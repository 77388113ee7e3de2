// The one exception type of the house, and the assertion for our own bugs.
#pragma once
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "neurim/base/text.h"

namespace neurim {

/// What went wrong, as a caller or a script distinguishes it. The values are the process exit codes of `neurim`.
enum class Fault : int {
  failure = 1,   ///< a run-time failure that none of the others names
  usage = 2,     ///< a wrong option, argument, shape or type: the caller must change the call
  data = 3,      ///< a problem in the user's data, a model file or a checkpoint
  resource = 4,  ///< out of memory or disk, or another process has what is needed
  gate = 5,      ///< a parity or accuracy gate failed
};

/// A user-visible error: one line that says what, where, the likely cause and the fix.
class Error : public std::runtime_error {
 public:
  /// How much of the path of a module the message begins with: what is not whole grows on the way out of it.
  enum class Path : std::uint8_t { none, some, whole };

  /// `message` is what() as it stands.
  Error(Fault fault, const std::string& message, Path path = Path::none)
      : std::runtime_error(message), fault_(fault), path_(path) {}
  Fault fault() const { return fault_; }  ///< the exit code when the error ends a process

  /// The same from inside a part: "linear: …" of the part 3 is "3: linear: …", and of the part 1 "1.3: linear: …".
  Error inside(std::string_view part) const {
    if (path_ == Path::whole) return *this;
    return {fault_, text(part, path_ == Path::some ? "." : ": ", what()), Path::some};
  }

 private:
  Fault fault_;
  Path path_;
};

/// Throws Error(fault) with the parts joined to one message.
template <class... Parts>
[[noreturn]] void fail(Fault fault, const Parts&... parts) {
  throw Error(fault, text(parts...));
}

/// Throws a usage error unless `holds`.
template <class... Parts>
void require(bool holds, const Parts&... parts) {
  if (!holds) fail(Fault::usage, parts...);
}

/// Prints the condition and its place, and aborts.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

/// Runs `step`; an Error that it throws gets `name()` and a colon in front.
template <class Name, class Step>
auto naming(const Name& name, const Step& step) {
  try {
    return step();
  } catch (const Error& error) {
    throw Error(error.fault(), text(name(), ": ", error.what()));
  }
}

}  // namespace neurim

/// An invariant of our own code: prints file and line and aborts. Never used for user errors.
#define NEURIM_ASSERT(condition) ((condition) ? (void)0 : ::neurim::assertion_failed(#condition, __FILE__, __LINE__))
