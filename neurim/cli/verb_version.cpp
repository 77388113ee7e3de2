#include "neurim/base/text.h"
#include "neurim/cli/verbs.h"
#include "neurim/train/environment.h"

namespace neurim::cli {

int verb_version(const Words& words) {
  CommandLine line(
      {"version", "prints the version", "", {"neurim version", "neurim version --json", "neurim --version"}});
  if (!line.parse(words)) return 0;
  Console console(line.console());
  if (!console.json()) console.print(text("neurim ", version()));
  console.event({{"event", "summary"}, {"version", version()}});
  return 0;
}

}  // namespace neurim::cli
