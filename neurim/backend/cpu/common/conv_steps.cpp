#include "neurim/backend/cpu/common/conv_steps.h"

#include <algorithm>

#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/packing/reorder.h"

namespace neurim::cpu {

bool FusedPrologue::read(KernelRequest& request, const ConvPattern& pattern, StorageDtype pairs) {
  const int activation = pattern.direction == Direction::weight_grad ? pattern.x : pattern.source();
  read_from = request.place_in(activation);
  rounded = pattern.prologue ? pairs : request.values[activation].layout.storage;
  if (!pattern.prologue) return true;
  const auto anchor = static_cast<std::size_t>(request.anchor);
  if (request.steps[anchor - 1].out[0] != activation)
    return decline(request, "takes steps that make its activation"), false;
  return steps.emplace().read(request, 0, anchor, rounded);
}

float* FusedPrologue::activation(const Args& args, float* room, std::int64_t begin, std::int64_t end) const {
  if (!steps) return element(static_cast<float*>(args.in[read_from]), begin, rounded);
  steps->run(args, nullptr, element(room, -begin, rounded), begin, end);
  return room;
}

float* FusedPrologue::floats(const Args& args, float* room, std::int64_t begin, std::int64_t end) const {
  return floats_of(activation(args, room, begin, end), rounded, end - begin, room);
}

bool FusedEpilogue::read(KernelRequest& request, const ConvPattern& pattern) {
  const auto anchor = static_cast<std::size_t>(request.anchor);
  result = memory_of(request, anchor), last = memory_of(request, request.steps.size() - 1);
  rounds = result >= 0 ? request.output(result).layout.storage : StorageDtype::exact;
  stand = request.place_out(request.steps[anchor].out[0]) >= 0;
  if (std::any_of(request.steps.begin(), request.steps.end(),
                  [](const Step& step) { return starts_with(step.op->name(), "batch_norm"); })) {
    if (!norm.emplace().read_any(request, pattern)) return false;
    rounds = norm->result_rounded();
    return true;
  }
  return anchor + 1 == request.steps.size() || steps.emplace().read(request, anchor + 1, request.steps.size());
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

std::vector<Run> FusedEpilogue::cut(const KernelRequest& request, std::int64_t images, std::int64_t units,
                                    std::int64_t unit_pixels, std::int64_t channels) {
  const std::int64_t all = images * units, blocks = blocks_of(channels);
  std::vector<Run> runs;
  if (norm) {
    const auto& begin = norm->cut(request, images);
    for (std::size_t i = 0; i + 1 < begin.size(); ++i)
      runs.push_back({begin[i] * units, begin[i + 1] * units, 0, blocks});
  } else if (all * unit_pixels < channels && blocks >= request.chunks) {
    for (int i = 0; i < request.chunks; ++i)
      runs.push_back({0, all, blocks * i / request.chunks, blocks * (i + 1) / request.chunks});
  } else {
    const std::int64_t count = std::min(all, request.tasks_for(images));
    for (std::int64_t i = 0; i < count; ++i) runs.push_back({all * i / count, all * (i + 1) / count, 0, blocks});
  }
  return runs;
}

float* FusedEpilogue::results(const Args& args) const {
  return norm ? norm->result(args) : static_cast<float*>(args.out[result]);
}

void FusedEpilogue::run(const Args& args, const ConvEpilogue& task, std::int64_t block, std::int64_t blocks,
                        std::int64_t begin, std::int64_t end, bool first, float* made) const {
  if (steps) steps->run(args, apart() ? made - begin : results(args), static_cast<float*>(args.out[last]), begin, end);
  if (!norm) return;
  norm->run_steps(args, begin, end, apart() ? made : nullptr);
  const std::int64_t size = (end - begin) / blocks;
  for (std::int64_t at = begin; at < end; at += size, ++block) NEURIM_DISPATCH(add_pixels)
  (task.sums[block], element(norm->raw(args), at, norm->raw_rounded()), norm->raw_rounded(),
   element(task.factor, at, task.factor_rounded), task.factor_rounded, size / 16, task.first && first);
}

bool read_steps(KernelRequest& request, const ConvPattern& pattern, FusedPrologue& prologue, FusedEpilogue& epilogue) {
  if (!prologue.read(request, pattern, pattern.storage) || !epilogue.read(request, pattern)) return false;
  const bool other = epilogue.norm && pattern.linear;  // its channels are another axis
  return !other || (decline(request, "takes no batch norm after a fully connected layer"), false);
}

}  // namespace neurim::cpu
