#include "neurim/hardware/machine.h"

#include <malloc.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cctype>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>

#include "neurim/base/text.h"

namespace neurim {

namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// The "key : value" lines of a file of /proc, the first of each key.
std::map<std::string, std::string> table(const std::string& path) {
  std::map<std::string, std::string> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    std::string key = line.substr(0, colon);
    key.erase(key.find_last_not_of(" \t") + 1);
    const std::size_t value = line.find_first_not_of(" \t", colon + 1);
    rows.emplace(key, value == std::string::npos ? "" : line.substr(value));
  }
  return rows;
}

/// "48K" -> 49152; 0 where it is not a size.
std::size_t size_of(const std::string& word) {
  std::istringstream in(word);
  std::size_t number = 0;
  char unit = ' ';
  in >> number >> unit;
  return number << (unit == 'K' ? 10 : unit == 'M' ? 20 : unit == 'G' ? 30 : 0);
}

/// The bits of a mask of CPUs, "00000000,00000003" -> 2; 1 where nobody tells.
int count_cpus(const std::string& mask) {
  int cpus = 0;
  for (const char digit : mask)
    if (std::isxdigit(static_cast<unsigned char>(digit)))
      cpus += std::popcount(static_cast<unsigned>(std::stoi(std::string(1, digit), nullptr, 16)));
  return std::max(cpus, 1);
}

std::vector<CpuCache> caches() {
  std::vector<CpuCache> all;
  for (int i = 0;; ++i) {
    const std::string folder = text("/sys/devices/system/cpu/cpu0/cache/index", i, '/');
    const std::string level = first_line(folder + "level");
    if (level.empty()) break;
    if (first_line(folder + "type") == "Instruction") continue;
    all.push_back(
        {level[0] - '0', size_of(first_line(folder + "size")), count_cpus(first_line(folder + "shared_cpu_map"))});
  }
  std::sort(all.begin(), all.end(), [](const CpuCache& a, const CpuCache& b) { return a.level < b.level; });
  return all;
}

std::vector<std::string> features(const std::string& flags) {
  const std::vector<std::string> all = split(flags, ' ');
  std::vector<std::string> known;
  for (const char* feature : {"sse4_2", "avx", "avx2", "fma", "avx_vnni", "avx512f", "avx512bw", "avx512dq", "avx512vl",
                              "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8"})
    if (std::find(all.begin(), all.end(), feature) != all.end()) known.emplace_back(feature);
  return known;
}

/// The word in brackets of "always [madvise] never".
std::string chosen(const std::string& line) {
  const std::size_t begin = line.find('['), end = line.find(']');
  return begin == std::string::npos || end == std::string::npos ? "" : line.substr(begin + 1, end - begin - 1);
}

/// What a memory limit of the control group leaves, or `otherwise` without one.
std::size_t limited(std::size_t otherwise, std::size_t used) {
  const std::string most = first_line("/sys/fs/cgroup/memory.max");
  if (most.empty() || most == "max") return otherwise;
  const std::size_t bytes = size_of(most);
  return std::min(otherwise, bytes - std::min(bytes, used));
}

}  // namespace

bool Machine::has(std::string_view feature) const {
  return std::find(features.begin(), features.end(), feature) != features.end();
}

std::size_t largest_cache() {
  static const std::size_t known = [] {
    const Machine machine = this_machine();
    return machine.caches.empty() ? std::numeric_limits<std::size_t>::max() : machine.caches.back().bytes;
  }();
  return known;
}

Machine this_machine() {
  const auto cpu = table("/proc/cpuinfo"), memory = table("/proc/meminfo");
  const auto of = [](const std::map<std::string, std::string>& rows, const char* key) {
    const auto at = rows.find(key);
    return at == rows.end() ? std::string() : at->second;
  };
  const auto kib = [&](const char* key) { return size_of(of(memory, key)) << 10; };
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool known = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  return {.processor = of(cpu, "model name").empty() ? "unknown" : of(cpu, "model name"),
          .cores = known ? CPU_COUNT(&allowed) : 1,
          .features = features(of(cpu, "flags")),
          .caches = caches(),
          .memory = limited(kib("MemTotal"), 0),
          .available = limited(kib("MemAvailable"), size_of(first_line("/sys/fs/cgroup/memory.current"))),
          .huge_pages = chosen(first_line("/sys/kernel/mm/transparent_hugepage/enabled"))};
}

namespace {

std::atomic<double> peak_before_watches = 0;  // MiB

double peak_so_far() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace

double peak_rss_mib() { return std::max(peak_before_watches.load(), peak_so_far()); }

PeakWatch::PeakWatch() {
  peak_before_watches = peak_rss_mib();
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;  // proc(5): the peak becomes what there is now
  begin_ = peak_so_far();
}

double PeakWatch::peak_mib() const { return peak_so_far(); }

std::string host_name() {
  char name[256] = "";
  return ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

}  // namespace neurim
