#include <fnmatch.h>

#include "neurim/cli/verbs.h"
#include "neurim/model/onnx/call.h"
#include "neurim/neurim.h"

namespace neurim::cli {

int verb_operators(const Words& words) {
  CommandLine line({"operators",
                    "lists the operators of ONNX that models may have",
                    "pattern",
                    {"neurim operators", "neurim operators 'Reduce*'", "neurim operators pool --json"}});
  std::string pattern = "*";
  line.options("pattern", pattern, "which names: a part of them, or a pattern with * and ?");
  if (!line.parse(words)) return 0;
  initialize();
  Console console(line.console());
  const bool is_part = pattern.find_first_of("*?[") == std::string::npos;
  const std::string fit = is_part ? text('*', pattern, '*') : pattern;
  std::int64_t count = 0;
  for (const auto& [name, since] : onnx_operators().list()) {
    if (::fnmatch(fit.c_str(), name.c_str(), FNM_CASEFOLD) != 0) continue;
    ++count;
    std::string row = name;
    row.resize(std::max<std::size_t>(name.size() + 2, 44), ' ');
    console.print(text(row, "since opset ", since));
    console.event({{"event", "operator"}, {"name", name}, {"since", since}});
  }
  require(count > 0, "no operator fits '", pattern, "'; `neurim operators` lists all");
  console.event({{"event", "summary"}, {"operators", count}});
  return 0;
}

}  // namespace neurim::cli
