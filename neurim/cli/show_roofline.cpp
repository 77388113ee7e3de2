#include "neurim/cli/show_roofline.h"

#include <algorithm>
#include <cstdio>

#include "neurim/base/text.h"
#include "neurim/cli/drawn_batch.h"
#include "neurim/compile/roofline.h"
#include "neurim/core/device.h"

namespace neurim::cli {

namespace {

/// Prints the measured peaks that the rows are compared with.
void print_peaks(const Peaks& peaks, Console& console) {
  std::vector<JsonObject> memory;
  std::string line = text("  ", peaks.threads, peaks.threads == 1 ? " thread:" : " threads at once:");
  const auto peak = [&](std::string_view name) {
    const auto& all = peaks.arithmetic;
    const auto one = std::find_if(all.begin(), all.end(),
                                  [&](const Peaks::Arithmetic& other) { return other.name == name; });
    return one == all.end() ? 0 : one->operations;
  };
  const double f32 = peak("fp32"), bf16 = peak("bf16"), fp16 = peak("fp16"), tiles = peak("bf16 tiles");
  line += text(" fp32 ", fixed(f32 * 1e-9, 0), bf16 > 0 ? text(", bf16 ", fixed(bf16 * 1e-9, 0)) : "",
               fp16 > 0 ? text(", fp16 ", fixed(fp16 * 1e-9, 0)) : "",
               tiles > 0 ? text(", bf16 tiles ", fixed(tiles * 1e-9, 0)) : "", " GFLOP/s");
  for (const Peaks::Memory& level : peaks.memory) {
    if (level.name == "L1") continue;
    line += text(", ", level.name, ' ', fixed(level.read * 1e-9, 1), " GB/s");
    memory.push_back({{"name", level.name}, {"capacity_bytes", level.capacity}, {"read_bytes_per_second", level.read}});
  }
  console.print(line);
  console.print(
      "  roof: what they allow; a task's data are in the nearest level that holds them; Winograd's "
      "convolution counts as a direct one");
  console.event({{"event", "peaks"},
                 {"threads", peaks.threads},
                 {"fp32_operations_per_second", f32},
                 {"bf16_operations_per_second", bf16},
                 {"fp16_operations_per_second", fp16},
                 {"bf16_tiles_operations_per_second", tiles},
                 {"memory", memory}});
}

std::string millions(std::int64_t number) { return fixed(static_cast<double>(number) * 1e-6, 1); }
std::string kib(std::size_t bytes) { return thousands(static_cast<std::int64_t>(bytes >> 10)); }

void show_task(const Roofline::Task& task, Console& console) {
  const PlanRow& row = task.row;
  const double share = task.roof.seconds / row.seconds;
  char line[512];
  std::snprintf(line, sizeof line, "  %-26s %-40s %-14s %12s %10s %-6s %9.3f %9.3f %6.1f", row.where.c_str(),
                row.op.c_str(), row.kernel.c_str(), millions(row.multiply_adds).c_str(), kib(row.bytes).c_str(),
                task.roof.bound.c_str(), task.roof.seconds * 1e3, row.seconds * 1e3, 100 * share);
  console.print(line);
  std::vector<std::vector<std::int64_t>> shapes;
  for (const Type& type : row.in) shapes.emplace_back(type.shape.begin(), type.shape.end());
  console.event({{"event", "task"},
                 {"where", row.where},
                 {"op", row.op},
                 {"in", shapes},
                 {"kernel", row.kernel},
                 {"layout", row.layout},
                 {"kind", task.kind},
                 {"multiply_adds", row.multiply_adds},
                 {"bytes", row.bytes},
                 {"bound", task.roof.bound},
                 {"roof_ms", task.roof.seconds * 1e3},
                 {"ms", row.seconds * 1e3},
                 {"share", share},
                 {"declined", row.declined}});
}

void show_kind(const Roofline::Kind& kind, Console& console) {
  const double share = kind.roof / kind.seconds;
  char line[256];
  std::snprintf(line, sizeof line, "  %-20s %6d %12s %10s %9.3f %9.3f %6.1f", kind.name.c_str(), kind.tasks,
                millions(kind.multiply_adds).c_str(), kib(kind.bytes).c_str(), kind.roof * 1e3, kind.seconds * 1e3,
                100 * share);
  console.print(line);
  console.event({{"event", "kind"},
                 {"kind", kind.name},
                 {"tasks", kind.tasks},
                 {"multiply_adds", kind.multiply_adds},
                 {"bytes", kind.bytes},
                 {"roof_ms", kind.roof * 1e3},
                 {"ms", kind.seconds * 1e3},
                 {"share", share}});
}

}  // namespace

void show_roofline(const Plan& plan, std::int64_t classes, Console& console) {
  draw_batch(plan, classes);
  const Peaks before = measure_peaks(threads());
  const auto profile = plan.profile(kReplays);
  const Peaks peaks = best_of(before, measure_peaks(threads()));
  const Roofline found = roofline(profile, peaks);
  print_peaks(peaks, console);

  char head[256];
  std::snprintf(head, sizeof head, "  %-26s %-40s %-14s %12s %10s %-6s %9s %9s %6s", "where", "op", "kernel",
                "M mult-adds", "KiB", "bound", "roof ms", "ms", "%");
  console.print(head);
  for (const Roofline::Task& task : found.tasks) show_task(task, console);

  std::snprintf(head, sizeof head, "  %-20s %6s %12s %10s %9s %9s %6s", "kind", "tasks", "M mult-adds", "KiB",
                "roof ms", "ms", "%");
  console.print(head);
  for (const Roofline::Kind& kind : found.kinds) show_kind(kind, console);
  show_kind(found.all, console);
}

}  // namespace neurim::cli
