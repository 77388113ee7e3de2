// Which options have no effect given others.
#include <algorithm>
#include <map>

#include "neurim/base/error.h"
#include "neurim/train/train_options.h"

namespace neurim {

namespace {

/// An option that has an effect only if another one has one of these values, or none if it has.
struct Dependence {
  std::string option, on;
  std::vector<std::string> only, never;
  std::vector<std::string> resolved;  ///< what TrainOptions::resolved fills in regardless
};
const Dependence kDependences[] = {
    {.option = "momentum", .on = "opt", .only = {"sgd"}, .resolved = {"0"}},
    {.option = "nesterov", .on = "opt", .only = {"sgd"}, .resolved = {"false"}},
    {.option = "nesterov", .on = "momentum", .never = {"0"}, .resolved = {"false"}},
    {.option = "decay_norms", .on = "weight_decay", .never = {"0"}, .resolved = {"true"}},
    {.option = "clip_mode", .on = "clip_grad", .never = {"0"}},
    {.option = "milestones", .on = "sched", .only = {"multistep"}},
    {.option = "step_epochs", .on = "sched", .only = {"step"}},
    {.option = "gamma", .on = "sched", .only = {"step", "multistep"}},
    {.option = "power", .on = "sched", .only = {"polynomial"}},
    {.option = "min_lr", .on = "sched", .only = {"cosine", "polynomial"}},
    {.option = "warmup_lr", .on = "warmup_epochs", .never = {"0"}},
    {.option = "reject_keep", .on = "multi_label", .never = {"true"}},
    {.option = "scale", .on = "random_resized_crop", .never = {"false"}, .resolved = {"[0.35, 1]"}},
    {.option = "ratio", .on = "random_resized_crop", .never = {"false"}, .resolved = {"[0.75, 1.3333333333333333]"}},
    {.option = "crop_pct", .on = "resize", .only = {"crop", "shortest"}, .resolved = {"1", "0.875"}},
    {.option = "decode", .on = "interpolation", .never = {"nearest"}},
    {.option = "microbatches", .on = "pipeline", .never = {"1"}},
    {.option = "pipeline_schedule", .on = "pipeline", .never = {"1"}},
    {.option = "cache_mib", .on = "cache", .only = {"auto"}},
};

/// All options as text.
std::map<std::string, std::string> words_of(TrainOptions options) {
  Options named;
  options.visit(named);
  std::map<std::string, std::string> words;
  for (const Option& option : named.list()) words[option.name] = option.get();
  return words;
}

}  // namespace

void TrainOptions::check_effects(const TrainOptions& others) const {
  const std::map<std::string, std::string> given = words_of(*this), unsaid = words_of({}), chosen = words_of(others);
  const auto has = [](const std::vector<std::string>& list, const std::string& word) {
    return std::find(list.begin(), list.end(), word) != list.end();
  };
  for (const Dependence& d : kDependences) {
    const std::string &value = given.at(d.option), &other = chosen.at(d.on);
    if (value == unsaid.at(d.option) || has(d.resolved, value) || other == "auto") continue;
    require(d.only.empty() || has(d.only, other), d.option, " is an option of ", d.on, '=', join(d.only, " and "),
            ", and ", d.on, " is ", other, "; give ", d.on, '=', d.only.empty() ? "" : d.only[0], ", or leave ",
            d.option, " out");
    require(!has(d.never, other), d.option, " is ", value, ", which has no effect with ", d.on, '=', other, "; leave ",
            d.option, " out, or give another ", d.on);
  }
}

}  // namespace neurim
