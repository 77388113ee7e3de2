#include "neurim/train/environment.h"

#include <sys/utsname.h>

#include <ctime>
#include <fstream>

#include "neurim/base/json.h"
#include "neurim/base/text.h"
#include "neurim/core/device.h"
#include "neurim/hardware/machine.h"

namespace neurim {

namespace {

/// The command line of this process.
std::vector<std::string> command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  return words;
}

std::string now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char out[32];
  std::strftime(out, sizeof out, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return out;
}

}  // namespace

std::string version() { return NEURIM_VERSION; }

std::string environment_json() {
  utsname system{};
  ::uname(&system);
  return JsonObject{{"neurim", version()},
                    {"compiler", __VERSION__},
                    {"system", text(system.sysname, ' ', system.release, ' ', system.machine)},
                    {"processor", this_machine().processor},
                    {"threads", threads()},
                    {"command", command()},
                    {"started", now()}}
      .indented();
}

}  // namespace neurim
