// What this machine is, as the operating system and the processor tell it.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace neurim {

struct CpuCache {
  int level = 0;
  std::size_t bytes = 0;
  int cpus = 1;  ///< that share it
};

struct Machine {
  std::string processor;              ///< "Intel(R) Xeon(R) …"
  int cores = 0;                      ///< that this process may run on
  std::vector<std::string> features;  ///< of those that matter here: "avx2", "avx512f", "avx512_fp16", "avx512_vnni", …
  std::vector<CpuCache> caches;       ///< of one core, data and unified, the nearest first; empty where nobody tells
  std::size_t memory = 0, available = 0;  ///< bytes; of a container with a limit, what that leaves
  std::string huge_pages;                 ///< "always", "madvise", "never"; "" where nobody tells

  bool has(std::string_view feature) const;
};

Machine this_machine();

/// Its name in the network; "localhost" where it has none.
std::string host_name();

/// Bytes of the largest cache; where nobody tells how large the caches are, more than any.
std::size_t largest_cache();

/// The most physical memory that this process has had, in MiB.
double peak_rss_mib();

/// The most physical memory that this process has while such an object lives. One at a time.
class PeakWatch {
 public:
  PeakWatch();                                 ///< once what is free has gone back to the system
  double begin_mib() const { return begin_; }  ///< what it had then
  double peak_mib() const;                     ///< so far; of the whole process where the kernel does not begin anew

 private:
  double begin_;
};

}  // namespace neurim
