#include <cstdio>

#include "neurim/cli/verbs.h"
#include "neurim/hardware/isa.h"
#include "neurim/hardware/machine.h"
#include "neurim/hardware/peaks.h"
#include "neurim/neurim.h"
#include "neurim/train/environment.h"

namespace neurim::cli {

namespace {

std::string mib(std::size_t bytes) {
  const double kib = static_cast<double>(bytes) / 1024;
  return kib < 1024          ? text(fixed(kib, 0), " KiB")
         : kib < 1024 * 1024 ? text(fixed(kib / 1024, 0), " MiB")
                             : text(fixed(kib / 1024 / 1024, 1), " GiB");
}

JsonObject show_peaks(const Peaks& peaks, Console& console) {
  console.print(peaks.threads == 1 ? "  best of one thread:" : text("  best of ", peaks.threads, " threads together:"));
  std::vector<JsonObject> arithmetic, memory;
  for (const Peaks::Arithmetic& one : peaks.arithmetic) {
    console.print(text("    ", one.name, std::string(12 - one.name.size(), ' '),
                       one.operations > 0
                           ? text(fixed(one.operations * 1e-9, 0), " G multiplications and additions a second")
                           : "no instructions of its own"));
    arithmetic.push_back({{"name", one.name}, {"operations_per_second", one.operations}});
  }
  for (const Peaks::Memory& one : peaks.memory) {
    console.print(text("    ", one.name, std::string(12 - one.name.size(), ' '), "read ", fixed(one.read * 1e-9, 1),
                       " GB/s (", mib(one.bytes), ")"));
    memory.push_back({{"name", one.name},
                      {"capacity_bytes", one.capacity},
                      {"bytes", one.bytes},
                      {"read_bytes_per_second", one.read}});
  }
  return {{"threads", peaks.threads}, {"arithmetic", arithmetic}, {"memory", memory}};
}

}  // namespace

int verb_doctor(const Words& words) {
  CommandLine line({"doctor",
                    "tells what this machine is and what Neurim uses of it; --bench: what it reaches",
                    "",
                    {"neurim doctor", "neurim doctor --bench", "neurim doctor --bench --json"}});
  bool bench = false;
  line.options("bench", bench,
               "measure its peaks, of one thread and of all together: arithmetic, memory, page faults (a few seconds)");
  if (!line.parse(words)) return 0;
  initialize();
  Console console(line.console());
  const Machine machine = this_machine();
  const std::string used(name(isa()));

  console.print(text("neurim ", version(), "  doctor"));
  console.print(text("  processor  ", machine.processor, ", ", machine.cores, " cores; Neurim runs its ", used,
                     " kernels on ", threads(), " threads"));
  if (!machine.features.empty()) console.print(text("             ", join(machine.features, " ")));
  std::vector<std::string> caches;
  std::vector<JsonObject> cache_sizes;
  for (const CpuCache& cache : machine.caches) {
    caches.push_back(text('L', cache.level, ' ', mib(cache.bytes), cache.cpus > 1 ? text(" for ", cache.cpus) : ""));
    cache_sizes.push_back({{"level", cache.level}, {"bytes", cache.bytes}, {"cpus", cache.cpus}});
  }
  if (!caches.empty()) console.print(text("  caches     ", join(caches, ", ")));
  console.print(text("  memory     ", mib(machine.memory), ", ", mib(machine.available), " available",
                     machine.huge_pages.empty() ? "" : text(", huge pages: ", machine.huge_pages)));
  console.print("  devices    cpu");
  JsonObject summary{{"event", "summary"},
                     {"version", version()},
                     {"processor", machine.processor},
                     {"cores", machine.cores},
                     {"features", machine.features},
                     {"isa", used},
                     {"threads", threads()},
                     {"caches", cache_sizes},
                     {"memory_bytes", machine.memory},
                     {"available_bytes", machine.available},
                     {"huge_pages", machine.huge_pages},
                     {"devices", std::vector{"cpu"}}};
  if (bench) {
    const Peaks one = measure_peaks();
    std::vector<JsonObject> peaks{show_peaks(one, console)};
    if (threads() > 1) peaks.push_back(show_peaks(measure_peaks(threads()), console));
    console.print(text("  first touch of a page of 4 KiB: ", fixed(one.page_fault * 1e6, 2), " us"));
    summary.add("peaks", peaks);
    summary.add("page_fault_seconds", one.page_fault);
  }
  console.event(summary);
  return 0;
}

}  // namespace neurim::cli
