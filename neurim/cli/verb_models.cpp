#include <fnmatch.h>

#include <cstdio>

#include "neurim/cli/verbs.h"
#include "neurim/neurim.h"

namespace neurim::cli {

int verb_models(const Words& words) {
  CommandLine line({"models",
                    "lists the models that are known by name, with what one image costs them",
                    "pattern",
                    {"neurim models", "neurim models 'timm/*'", "neurim models --json"}});
  std::string pattern = "*";
  line.options("pattern", pattern, "which names: a part of them, or a pattern with * and ?");
  if (!line.parse(words)) return 0;
  initialize();
  Console console(line.console());
  char row[128];
  std::snprintf(row, sizeof row, "%-26s %12s %16s %16s %10s %8s", "name", "parameters", "multiply-adds",
                "activations, KiB", "input", "classes");
  const bool is_part = pattern.find_first_of("*?[") == std::string::npos;
  const std::string fit = is_part ? text('*', pattern, '*') : pattern;
  std::vector<std::string> fitting;
  for (const std::string& name : model_names())
    if (::fnmatch(fit.c_str(), name.c_str(), 0) == 0) fitting.push_back(name);
  std::vector<std::string> recurrent;
  for (const std::string& name : recurrent_model_names())
    if (::fnmatch(fit.c_str(), name.c_str(), 0) == 0) recurrent.push_back(name);
  require(!fitting.empty() || !recurrent.empty(), "no name fits '", pattern, "'; `neurim models` lists all");
  if (!fitting.empty()) console.print(row);
  for (const std::string& name : fitting) {
    const Model model = create_model(name, {.seed = {}});
    const std::int64_t parameters = parameter_count(Model(model));
    const ModelCost cost = total(layer_costs(model, {model.in_chans, model.image_size, model.image_size}));
    const std::int64_t activation_bytes = 4 * cost.activations;
    std::snprintf(row, sizeof row, "%-26s %12s %16s %16s %10s %8s", name.c_str(), thousands(parameters).c_str(),
                  thousands(cost.multiply_adds).c_str(), thousands(activation_bytes >> 10).c_str(),
                  text(model.in_chans, 'x', model.image_size, 'x', model.image_size).c_str(),
                  thousands(model.num_classes).c_str());
    console.print(row);
    console.event({{"event", "model"},
                   {"name", name},
                   {"parameters", parameters},
                   {"multiply_adds", cost.multiply_adds},
                   {"activation_bytes", activation_bytes},
                   {"in_chans", model.in_chans},
                   {"imgsz", model.image_size},
                   {"num_classes", model.num_classes}});
  }
  for (const std::string& name : recurrent) {
    console.print(text(name, "  for series and texts, as large as hidden_size and num_layers say"));
    console.event({{"event", "recurrent_model"}, {"name", name}});
  }
  console.event({{"event", "summary"}, {"models", fitting.size() + recurrent.size()}});
  return 0;
}

}  // namespace neurim::cli
