#include "neurim/backend/cpu/conv_steps.h"

#include <algorithm>

#include "neurim/backend/cpu/conv_site.h"

namespace neurim::cpu {

bool Before::read_steps(Site& site) {
  const auto anchor = static_cast<std::size_t>(site.anchor);
  const int activation = site.steps[anchor].in[direction_of(site) == Direction::weight_grad ? 1 : 0];
  read = site.place_in(activation);
  if (anchor == 0) return true;
  if (site.steps[anchor - 1].out[0] != activation) return decline(site, "takes steps that make its activation"), false;
  return steps.emplace().read(site, 0, anchor);
}

float* Before::activation(const Args& args, float* room, std::int64_t begin, std::int64_t end) const {
  if (!steps) return static_cast<float*>(args.in[static_cast<std::size_t>(read)]) + begin;
  steps->run(args, nullptr, room - begin, begin, end);
  return room;
}

bool Behind::read_steps(Site& site) {
  const auto anchor = static_cast<std::size_t>(site.anchor);
  result = memory_of(site, anchor), last = memory_of(site, site.steps.size() - 1);
  if (std::any_of(site.steps.begin(), site.steps.end(),
                  [](const Step& step) { return starts_with(step.op->name(), "batch_norm"); }))
    return norm.emplace().read_any(site);
  return anchor + 1 == site.steps.size() || steps.emplace().read(site, anchor + 1, site.steps.size());
}

void Behind::ask_scratch(Site& site, int parts, std::size_t own) {
  own_ = own;
  if (norm)
    norm->ask_scratch(site, own);
  else
    site.scratch = static_cast<std::size_t>(parts) * own;
}

void* Behind::own(const Args& args, int part) const {
  return norm ? norm->own(args, part) : static_cast<char*>(args.scratch) + static_cast<std::size_t>(part) * own_;
}

float* Behind::results(const Args& args) const {
  return norm ? norm->result(args) : static_cast<float*>(args.out[static_cast<std::size_t>(result)]);
}

void Behind::run(const Args& args, const ConvEpilogue& part, std::int64_t block, std::int64_t blocks, std::int64_t begin,
                 std::int64_t end, bool first) const {
  if (steps) steps->run(args, results(args), static_cast<float*>(args.out[static_cast<std::size_t>(last)]), begin, end);
  if (!norm) return;
  norm->run_steps(args, begin, end);
  const std::int64_t size = (end - begin) / blocks;
  for (std::int64_t at = begin; at < end; at += size, ++block) NEURIM_DISPATCH(add_pixels)
  (part.sums[block], norm->raw(args) + at, part.factor ? part.factor + at : nullptr, size / 16, part.first && first);
}

}  // namespace neurim::cpu
