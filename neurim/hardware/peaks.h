// What threads of this machine reach at best: the roof that kernels are measured against (Williams, Waterman and
// Patterson, "Roofline", CACM'09).
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace neurim {

struct Peaks {
  struct Arithmetic {
    std::string name;       ///< "fp32", "fp16", "bf16", "int8", and of matrix tiles (AMX) "bf16 tiles", "int8 tiles"
    double operations = 0;  ///< multiplications and additions a second; 0 where the processor has none of its own
  };
  struct Memory {
    std::string name;  ///< "L1", …, "DRAM"
    /// Bytes that it holds for all the threads: each has caches of its own, and shares others.
    std::size_t capacity = 0;
    std::size_t bytes = 0;  ///< of the blocks that were read over and over, one a thread, together
    double read = 0;        ///< bytes a second; 0 where there was no memory for the blocks
  };
  int threads = 1;
  std::vector<Arithmetic> arithmetic;  ///< of fused multiply-adds with independent sums in registers
  std::vector<Memory> memory;
  double page_fault = 0;  ///< seconds that the first touch of a 4 KiB page takes
};

/// What so many threads reach together, all at work at the same time and each on data of its own: two seldom reach
/// twice what one does. Measures for about a second: the best of many short rounds, so that what else runs is left out.
/// Throws Error(usage) for no threads, Error(resource) when the system gives fewer.
Peaks measure_peaks(int threads = 1);

/// What kernels multiply in the shortest time by such measurements, "bf16", "fp16" or "f32": 16 bits count where they
/// are at least a quarter faster. bf16 may be that of matrix tiles.
std::string_view fastest_precision(const std::vector<Peaks::Arithmetic>& arithmetic);
/// The same of this machine's arithmetic, measured by so many threads in some milliseconds. Throws as measure_peaks().
std::string_view measured_precision(int threads);

/// The better arithmetic and memory of two measurements of as many threads, each by itself: a machine that is shared
/// may lend less for seconds.
Peaks best_of(Peaks one, const Peaks& other);

}  // namespace neurim
