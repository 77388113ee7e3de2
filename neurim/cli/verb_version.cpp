#include <cstdio>

#include "neurim/base/json.h"
#include "neurim/base/text.h"
#include "neurim/cli/verbs.h"
#include "neurim/train/environment.h"

namespace neurim::cli {

int verb_version(const Words& words) {
  CommandLine line(
      {"version", "prints the version", "", {"neurim version", "neurim version --json", "neurim --version"}});
  if (!line.parse(words)) return 0;
  const std::string out = line.console().json
                              ? JsonObject{{"event", "summary"}, {"version", version()}}.line()
                              : text("neurim ", version());
  std::printf("%s\n", out.c_str());
  return 0;
}

}  // namespace neurim::cli
