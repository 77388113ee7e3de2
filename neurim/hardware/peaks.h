// What one thread of this machine reaches at best: the roof that kernels are measured against (Williams, Waterman and
// Patterson, "Roofline", CACM'09).
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace neurim {

struct Peaks {
  struct Arithmetic {
    std::string name;       ///< "fp32", "fp16", "bf16", "int8", and of matrix tiles (AMX) "bf16 tiles", "int8 tiles"
    double operations = 0;  ///< multiplications and additions a second; 0 where the processor has none of its own
  };
  struct Memory {
    std::string name;       ///< "L1", …, "DRAM"
    std::size_t bytes = 0;  ///< of the block that was read over and over
    double read = 0;        ///< bytes a second
  };
  std::vector<Arithmetic> arithmetic;  ///< of fused multiply-adds with independent sums in registers
  std::vector<Memory> memory;
  double page_fault = 0;  ///< seconds that the first touch of a 4 KiB page takes
};

/// Measures for about a second on the calling thread: the best of many short rounds, so that what else runs is left out.
Peaks measure_peaks();

}  // namespace neurim
