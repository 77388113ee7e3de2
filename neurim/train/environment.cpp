#include "neurim/train/environment.h"

#include <sys/utsname.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "neurim/base/text.h"
#include "neurim/core/device.h"

namespace neurim {

namespace {

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (starts_with(line, "model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

}  // namespace

std::string version() { return NEURIM_VERSION; }

std::string environment_json() {
  utsname system{};
  ::uname(&system);
  return nlohmann::ordered_json{{"neurim", version()},
                                {"compiler", __VERSION__},
                                {"system", text(system.sysname, ' ', system.release, ' ', system.machine)},
                                {"processor", processor()},
                                {"threads", threads()}}
      .dump(2);
}

}  // namespace neurim
