#include <set>

#include "neurim/cli/verbs.h"
#include "neurim/distributed/group_costs.h"
#include "neurim/hardware/machine.h"
#include "neurim/train/console.h"
#include "neurim/train/environment.h"

namespace neurim::cli {

namespace {

std::string shown_bytes(std::size_t bytes) {
  if (bytes >= 1 << 20) return text(bytes >> 20, " MiB");
  return bytes >= 1 << 10 ? text(bytes >> 10, " KiB") : text(bytes, " B");
}

}  // namespace

int verb_collectives(const Words& words) {
  CommandLine line({"collectives",
                    "measures how fast the processes of a job add up numbers, as training does with gradients",
                    "",
                    {"neurim launch np=2 -- collectives", "mpirun -np 4 neurim collectives largest=67108864",
                     "srun -N 2 -n 2 neurim collectives --json"}});
  std::int64_t largest = 16 << 20;
  double seconds = 1;
  line.options("largest", largest, "bytes of the largest sum; others are 1/16, 1/256 … of it, down to 4 KiB");
  line.options("seconds", seconds, "how long each size is measured");
  if (!line.parse(words)) return 0;
  constexpr std::int64_t kLeast = 4096, kMost = std::int64_t{1} << 32;
  require(largest >= kLeast && largest <= kMost && largest % 4 == 0, "largest is ", largest,
          "; it is a multiple of 4, ", kLeast, " to ", kMost);
  require(seconds > 0, "seconds is ", seconds, "; it is above 0");
  std::vector<std::size_t> sizes;
  for (std::int64_t size = largest; size >= kLeast; size = size / 16 / 4 * 4)
    sizes.insert(sizes.begin(), static_cast<std::size_t>(size));
  const Place place = place_of_process();
  require(place.size > 1, "collectives: this process is alone; start several: neurim launch np=2 -- collectives");
  Console console(place.rank == 0 ? line.console() : Console::Options{.quiet = true});
  if (line.dry_run()) return line.end_dry_run(console, "measure sums", {{"processes", std::int64_t{place.size}}});
  const std::shared_ptr<ProcessGroup> group = join_job(place);
  const std::vector<std::string> hosts = group->all_gather(host_name());
  console.print(text("neurim ", version(), "  collectives  ", group->size(), " processes by ", group->backend(),
                     ", on ", std::set<std::string>(hosts.begin(), hosts.end()).size(), " host(s)"));
  console.print(cell("bytes", 12) + cell("median ms", 12) + cell("least", 12) + cell("most", 12) + cell("GB/s", 10) +
                cell("link GB/s", 12));
  constexpr double kGiga = 1e9;
  const std::vector<GroupCost> costs = measured_sums(*group, sizes, seconds);
  for (const GroupCost& cost : costs) {
    console.print(cell(shown_bytes(cost.bytes), 12) + cell(cost.seconds * 1e3, 3, 12) + cell(cost.least * 1e3, 3, 12) +
                  cell(cost.most * 1e3, 3, 12) + cell(cost.bandwidth() / kGiga, 2, 10) +
                  cell(cost.link_bandwidth(group->size()) / kGiga, 2, 12));
    console.event({{"event", "sum"},
                   {"bytes", static_cast<std::int64_t>(cost.bytes)},
                   {"seconds", cost.seconds},
                   {"least_seconds", cost.least},
                   {"most_seconds", cost.most},
                   {"repetitions", cost.repetitions},
                   {"bytes_per_second", cost.bandwidth()}});
  }
  JsonObject summary{{"event", "summary"}, {"processes", group->size()}, {"backend", group->backend()}};
  const std::optional<LinkCosts> link = costs.size() > 1 ? fitted_link(costs, group->size()) : std::nullopt;
  if (link) {
    console.print(text("a link of ", fixed(link->latency * 1e6, 1), " us and ", fixed(link->bandwidth / kGiga, 2),
                       " GB/s explains these best"));
    summary.add("latency_seconds", link->latency), summary.add("bandwidth_bytes_per_second", link->bandwidth);
  }
  console.event(summary);
  return 0;
}

}  // namespace neurim::cli
