#include "neurim/compile/roofline.h"

#include <algorithm>

#include "neurim/base/error.h"

namespace neurim {

namespace {

constexpr std::string_view kMemoryBound = "memory-bound", kOtherConvolutions = "other convolutions",
                           kWeightGradients = "weight gradients", kDataGradients = "data gradients",
                           kMatrixProducts = "matrix products";

const Peaks::Arithmetic& arithmetic_of(const Peaks& peaks, DType compute_dtype) {
  const auto named = [&](std::string_view name) {
    return std::find_if(peaks.arithmetic.begin(), peaks.arithmetic.end(),
                        [&](const Peaks::Arithmetic& one) { return one.name == name; });
  };
  const std::string own(compute_dtype == DType::bf16  ? "bf16"
                        : compute_dtype == DType::f16 ? "fp16"
                        : compute_dtype == DType::i8  ? "int8"
                                                      : "fp32");
  auto best = named("fp32");
  NEURIM_ASSERT(best != peaks.arithmetic.end() && best->operations > 0);
  for (const auto one : {named(own), named(own + " tiles")})
    if (one != peaks.arithmetic.end() && one->operations > best->operations) best = one;
  return *best;
}

const Peaks::Memory& level_of(std::size_t bytes, const Peaks& peaks) {
  for (const Peaks::Memory& level : peaks.memory)
    if (level.name != "L1" && level.read > 0 && (bytes <= level.capacity || &level == &peaks.memory.back()))
      return level;
  fail(Fault::failure,
       "roof: there was not enough free memory to measure the bandwidth of DRAM; free some and try again");
}

std::string_view kind_of(const PlanRow& row, const Roof& limit) {
  if (!limit.arithmetic) return kMemoryBound;
  const std::string& op = row.anchor;
  if (ends_with(op, "_weight_grad")) return kWeightGradients;
  if (ends_with(op, "_input_grad")) return kDataGradients;
  if (!starts_with(op, "conv")) return kMatrixProducts;
  const Shape &x = row.in[0].shape, &weight = row.in[1].shape;
  const bool dense = op == "conv2d" && x[1] == weight[1];
  if (dense && weight[2] == 3 && weight[3] == 3) return "3x3";
  if (dense && weight[2] == 1 && weight[3] == 1) return "1x1";
  return kOtherConvolutions;
}

}  // namespace

Roof roof(std::int64_t multiply_adds, std::size_t bytes, const Peaks& peaks, DType compute_dtype) {
  const Peaks::Memory& level = level_of(bytes, peaks);
  const Peaks::Arithmetic& peak = arithmetic_of(peaks, compute_dtype);
  const double arithmetic = 2 * static_cast<double>(multiply_adds) / peak.operations,
               memory = static_cast<double>(bytes) / level.read;
  return arithmetic > memory ? Roof{peak.name, arithmetic, true} : Roof{level.name, memory, false};
}

Roofline roofline(const std::vector<PlanRow>& rows, const Peaks& peaks) {
  Roofline result{.all = {.name = "all"}};
  for (const std::string_view kind : {std::string_view("3x3"), std::string_view("1x1"), kOtherConvolutions,
                                      kWeightGradients, kDataGradients, kMatrixProducts, kMemoryBound})
    result.kinds.push_back({.name = std::string(kind)});
  for (const PlanRow& row : rows) {
    const Roof limit = roof(row.multiply_adds, row.bytes, peaks, row.compute_dtype);
    const std::string_view name = kind_of(row, limit);
    result.tasks.push_back({row, std::string(name), limit});
    Roofline::Kind& kind = *std::find_if(result.kinds.begin(), result.kinds.end(),
                                         [&](const Roofline::Kind& one) { return one.name == name; });
    for (Roofline::Kind* sum : {&kind, &result.all}) {
      ++sum->tasks;
      sum->multiply_adds += row.multiply_adds;
      sum->bytes += row.bytes;
      sum->roof += limit.seconds;
      sum->seconds += row.seconds;
    }
  }
  std::erase_if(result.kinds, [](const Roofline::Kind& kind) { return kind.tasks == 0; });
  return result;
}

}  // namespace neurim
