#include "neurim/backend/cpu/conv_steps.h"

#include <algorithm>

#include "neurim/backend/cpu/conv_site.h"
#include "neurim/backend/cpu/physical.h"
#include "neurim/backend/cpu/reorder.h"

namespace neurim::cpu {

bool Before::read_steps(Site& site, Half pairs) {
  const auto anchor = static_cast<std::size_t>(site.anchor);
  const int activation = site.steps[anchor].in[direction_of(site) == Direction::weight_grad ? 1 : 0];
  read = site.place_in(activation);
  rounded = anchor == 0 ? site.values[static_cast<std::size_t>(activation)].layout.rounded : pairs;
  if (anchor == 0) return true;
  if (site.steps[anchor - 1].out[0] != activation) return decline(site, "takes steps that make its activation"), false;
  return steps.emplace().read(site, 0, anchor, rounded);
}

float* Before::activation(const Args& args, float* room, std::int64_t begin, std::int64_t end) const {
  if (!steps) return element(static_cast<float*>(args.in[static_cast<std::size_t>(read)]), begin, rounded);
  steps->run(args, nullptr, element(room, -begin, rounded), begin, end);
  return room;
}

float* Before::floats(const Args& args, float* room, std::int64_t begin, std::int64_t end) const {
  return floats_of(activation(args, room, begin, end), rounded, end - begin, room);
}

bool Behind::read_steps(Site& site) {
  const auto anchor = static_cast<std::size_t>(site.anchor);
  result = memory_of(site, anchor), last = memory_of(site, site.steps.size() - 1);
  rounds = result >= 0 ? site.output(result).layout.rounded : Half::exact;
  stand = site.place_out(site.steps[anchor].out[0]) >= 0;
  if (std::any_of(site.steps.begin(), site.steps.end(),
                  [](const Step& step) { return starts_with(step.op->name(), "batch_norm"); })) {
    if (!norm.emplace().read_any(site)) return false;
    rounds = norm->result_rounded();
    return true;
  }
  return anchor + 1 == site.steps.size() || steps.emplace().read(site, anchor + 1, site.steps.size());
}

std::vector<Tile> cut_tiles(std::int64_t first, std::int64_t last, std::int64_t units, std::int64_t most) {
  const std::int64_t together = std::max<std::int64_t>(1, most / units);
  std::vector<Tile> tiles;
  while (first < last) {
    const std::int64_t image = first / units, unit = first % units, rest = std::min(units - unit, last - first);
    if (rest == units && units <= most) {
      const std::int64_t images = std::min(together, (last - first) / units);
      tiles.push_back({image, images, 0, units});
      first += images * units;
      continue;
    }
    for (std::int64_t i = 0, count = (rest + most - 1) / most; i < count; ++i)
      tiles.push_back({image, 1, unit + rest * i / count, rest * (i + 1) / count - rest * i / count});
    first += rest;
  }
  return tiles;
}

std::vector<Run> Behind::cut(const Site& site, std::int64_t images, std::int64_t units, std::int64_t unit_pixels, std::int64_t channels) {
  const std::int64_t all = images * units, blocks = blocks_of(channels);
  std::vector<Run> runs;
  if (norm) {
    const auto& begin = norm->cut(site, images);
    for (std::size_t i = 0; i + 1 < begin.size(); ++i) runs.push_back({begin[i] * units, begin[i + 1] * units, 0, blocks});
  } else if (all * unit_pixels < channels && blocks >= site.chunks) {
    for (int i = 0; i < site.chunks; ++i) runs.push_back({0, all, blocks * i / site.chunks, blocks * (i + 1) / site.chunks});
  } else {
    const std::int64_t count = std::min(all, site.parts_for(images));
    for (std::int64_t i = 0; i < count; ++i) runs.push_back({all * i / count, all * (i + 1) / count, 0, blocks});
  }
  return runs;
}

float* Behind::results(const Args& args) const {
  return norm ? norm->result(args) : static_cast<float*>(args.out[static_cast<std::size_t>(result)]);
}

void Behind::run(const Args& args, const ConvEpilogue& part, std::int64_t block, std::int64_t blocks, std::int64_t begin,
                 std::int64_t end, bool first, float* made) const {
  if (steps) steps->run(args, apart() ? made - begin : results(args), static_cast<float*>(args.out[static_cast<std::size_t>(last)]), begin, end);
  if (!norm) return;
  norm->run_steps(args, begin, end, apart() ? made : nullptr);
  const std::int64_t size = (end - begin) / blocks;
  for (std::int64_t at = begin; at < end; at += size, ++block) NEURIM_DISPATCH(add_pixels)
  (part.sums[block], element(norm->raw(args), at, norm->raw_rounded()), norm->raw_rounded(), element(part.factor, at, part.factor_rounded),
   part.factor_rounded, size / 16, part.first && first);
}

}  // namespace neurim::cpu
