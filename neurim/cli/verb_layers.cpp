#include <fnmatch.h>

#include <algorithm>

#include "neurim/cli/verbs.h"
#include "neurim/neurim.h"

namespace neurim::cli {

int verb_layers(const Words& words) {
  CommandLine line({"layers",
                    "lists the layers that model files can name, with their options and defaults",
                    "pattern",
                    {"neurim layers", "neurim layers 'Conv*'", "neurim layers pool plugins=libmine.so --json"}});
  std::string pattern = "*";
  line.options("pattern", pattern, "which names: a part of them, or a pattern with * and ?");
  if (!line.parse(words)) return 0;
  initialize();
  Console console(line.console());
  const bool is_part = pattern.find_first_of("*?[") == std::string::npos;
  const std::string fit = is_part ? text('*', pattern, '*') : pattern;
  std::int64_t count = 0;
  for (const std::string& name : nn::layer_names()) {
    if (::fnmatch(fit.c_str(), name.c_str(), FNM_CASEFOLD) != 0) continue;
    ++count;
    const std::unique_ptr<nn::NamedLayer> layer = nn::make_layer(name);
    std::string options = attributes([&](Fields& f) { layer->fields(f); });
    if (!options.empty()) options = options.substr(1, options.size() - 2);  // without the braces
    std::string row = name;
    if (!options.empty()) row.resize(std::max<std::size_t>(name.size() + 2, 20), ' ');
    console.print(row + options);
    console.event({{"event", "layer"}, {"name", name}, {"options", options}});
  }
  require(count > 0, "no name fits '", pattern, "'; `neurim layers` lists all");
  console.event({{"event", "summary"}, {"layers", count}});
  return 0;
}

}  // namespace neurim::cli
