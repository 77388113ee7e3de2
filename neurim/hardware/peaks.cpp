#include "neurim/hardware/peaks.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "neurim/base/target_clones.h"
#include "neurim/base/text.h"
#include "neurim/hardware/machine.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace neurim {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kSums = 24;  // in flight: more than the latency of two units needs, and they fit the registers
constexpr int kRounds = 40, kSteps = 2000;

/// The least time of some runs, seconds.
template <class Run>
double best(int rounds, Run run) {
  double least = 1e9;
  for (int i = 0; i < rounds; ++i) {
    const Clock::time_point start = Clock::now();
    run();
    least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return least;
}

volatile float sink;

// --- arithmetic --------------------------------------------------------------------------------------------------------

/// A loop of multiply-adds and all its operations; null where the machine has none.
struct Loop {
  void (*run)() = nullptr;
  double operations = 0;
};

#if defined(__x86_64__)

// Each function is compiled for its own instruction set. The empty assembly keeps the compiler from knowing the operands and
// from dropping the sums.
#define NEURIM_PEAK(function, isa, Vec, start, step)                                          \
  __attribute__((target(isa))) void function() {                                              \
    Vec sums[kSums], a = start, b = start;                                                    \
    for (Vec& sum : sums) sum = start;                                                        \
    asm volatile("" : "+v"(a), "+v"(b));                                                      \
    for (int i = 0; i < kSteps; ++i) {                                                        \
      _Pragma("GCC unroll 24") for (int k = 0; k < kSums; ++k) sums[k] = step(sums[k], a, b); \
    }                                                                                         \
    _Pragma("GCC unroll 24") for (int k = 0; k < kSums; ++k) asm volatile("" : : "v"(sums[k])); \
  }

#define NEURIM_BF16(sum, a, b) _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b))
NEURIM_PEAK(fp32_avx2, "avx2,fma", __m256, _mm256_set1_ps(0.5f), _mm256_fmadd_ps)
NEURIM_PEAK(fp32_avx512, "avx512f", __m512, _mm512_set1_ps(0.5f), _mm512_fmadd_ps)
NEURIM_PEAK(fp16_avx512, "avx512fp16", __m512h, _mm512_set1_ph(_Float16(0.5)), _mm512_fmadd_ph)
NEURIM_PEAK(bf16_avx512, "avx512f,avx512bf16", __m512, _mm512_set1_ps(0.5f), NEURIM_BF16)
NEURIM_PEAK(int8_avx512, "avx512f,avx512vnni", __m512i, _mm512_set1_epi8(1), _mm512_dpbusd_epi32)
NEURIM_PEAK(int8_avx2, "avx2,avxvnni", __m256i, _mm256_set1_epi8(1), _mm256_dpbusd_avx_epi32)
#undef NEURIM_BF16
#undef NEURIM_PEAK

// Matrix tiles of 16 rows of 64 bytes: four sums, two and two operands.
constexpr int kTileSteps = 2000, kTiles = 4;

/// Asks the system for the tiles, once for the process; false: it has none for us.
bool tiles_allowed() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // arch_prctl(2)
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14]{};
  std::uint16_t row_bytes[16]{64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16]{16, 16, 16, 16, 16, 16, 16, 16};
};

#define NEURIM_TILE_PEAK(function, isa, step)        \
  __attribute__((target(isa))) void function() {     \
    static constexpr TileConfig config; /* on the stack, its stores would be taken for dead */ \
    _tile_loadconfig(&config);                       \
    for (int i = 0; i < kTileSteps; ++i) {           \
      step(0, 4, 6);                                 \
      step(1, 4, 7);                                 \
      step(2, 5, 6);                                 \
      step(3, 5, 7);                                 \
    }                                                \
    _tile_release();                                 \
  }
NEURIM_TILE_PEAK(bf16_tiles, "amx-tile,amx-bf16", _tile_dpbf16ps)
NEURIM_TILE_PEAK(int8_tiles, "amx-tile,amx-int8", _tile_dpbusd)
#undef NEURIM_TILE_PEAK

#else

void fp32_portable() {
  float sums[kSums];
  std::fill_n(sums, kSums, sink);
  const float a = sink, b = sink;
  for (int i = 0; i < kSteps; ++i)
    for (int k = 0; k < kSums; ++k) sums[k] = sums[k] * a + b;
  for (const float sum : sums) sink = sum;
}

#endif

std::vector<Peaks::Arithmetic> arithmetic(const Machine& machine) {
  const auto has = [&](const char* feature) {
    return std::find(machine.features.begin(), machine.features.end(), feature) != machine.features.end();
  };
  Loop fp32, fp16, bf16, int8, tiles16, tiles8;
#if defined(__x86_64__)
  const auto loop = [](void (*run)(), double lanes) { return Loop{run, 2 * lanes * kSums * kSteps}; };
  const auto tiles = [](void (*run)(), double depth) { return Loop{run, 2 * 16 * 16 * depth * kTiles * kTileSteps}; };
  if (has("avx512f"))
    fp32 = loop(fp32_avx512, 16);
  else if (has("avx2") && has("fma"))
    fp32 = loop(fp32_avx2, 8);
  if (has("avx512_fp16")) fp16 = loop(fp16_avx512, 32);
  if (has("avx512_bf16")) bf16 = loop(bf16_avx512, 32);
  if (has("avx512_vnni"))
    int8 = loop(int8_avx512, 64);
  else if (has("avx_vnni"))
    int8 = loop(int8_avx2, 32);
  if (has("amx_tile") && tiles_allowed()) {
    if (has("amx_bf16")) tiles16 = tiles(bf16_tiles, 32);
    if (has("amx_int8")) tiles8 = tiles(int8_tiles, 64);
  }
#else
  (void)has;
  fp32 = {fp32_portable, 2.0 * kSums * kSteps};
#endif
  std::vector<Peaks::Arithmetic> all;
  for (const auto& [name, loop_of] : {std::pair{"fp32", fp32},
                                      {"fp16", fp16},
                                      {"bf16", bf16},
                                      {"int8", int8},
                                      {"bf16 tiles", tiles16},
                                      {"int8 tiles", tiles8}})
    all.push_back({name, loop_of.run ? loop_of.operations / best(kRounds, loop_of.run) : 0});
  return all;
}

// --- memory ------------------------------------------------------------------------------------------------------------

typedef float Line __attribute__((vector_size(64)));

NEURIM_TARGET_CLONES("avx512f", "avx2", "default")
void read_all(const char* data, std::size_t bytes) {
  Line sums[8] = {};
  for (std::size_t at = 0; at + sizeof sums <= bytes; at += sizeof sums)
    for (std::size_t k = 0; k < 8; ++k) {
      Line line;
      std::memcpy(&line, data + at + k * sizeof line, sizeof line);
      sums[k] += line;
    }
  float all = 0;
  for (const Line& sum : sums) all += sum[0];
  sink = all;
}

/// Zeroed memory of its own mapping, in huge pages where they are to be had.
class Mapping {
 public:
  explicit Mapping(std::size_t bytes) : bytes_(bytes) {
    data_ = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  ~Mapping() {
    if (*this) ::munmap(data_, bytes_);
  }
  Mapping(const Mapping&) = delete;
  explicit operator bool() const { return data_ != MAP_FAILED; }
  char* data() const { return static_cast<char*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

Peaks::Memory read_bandwidth(std::string name, std::size_t bytes) {
  const Mapping block(bytes);
  Peaks::Memory result{std::move(name), bytes};
  if (!block) return result;
  ::madvise(block.data(), bytes, MADV_HUGEPAGE);
  std::memset(block.data(), 1, bytes);
  // Small blocks several times a round, which is to last longer than the clock is coarse.
  const std::size_t times = std::max<std::size_t>(1, (std::size_t{8} << 20) / bytes);
  const double seconds = best(bytes > (std::size_t{64} << 20) ? 5 : 20, [&] {
    for (std::size_t i = 0; i < times; ++i) read_all(block.data(), bytes);
  });
  result.read = static_cast<double>(bytes * times) / seconds;
  return result;
}

std::vector<Peaks::Memory> memory(const Machine& machine) {
  constexpr std::size_t kMostCached = std::size_t{32} << 20, kUncached = std::size_t{512} << 20;
  std::vector<Peaks::Memory> all;
  std::size_t largest = 0;
  for (const CpuCache& cache : machine.caches) {
    all.push_back(read_bandwidth(text('L', cache.level), std::min(cache.bytes / 2, kMostCached)));
    largest = cache.bytes;
  }
  all.push_back(read_bandwidth("DRAM", std::min(std::max(kUncached, 2 * largest), machine.available / 4)));
  return all;
}

double page_fault() {
  constexpr std::size_t kPage = 4096, kPages = 4096;
  double least = 1e9;
  for (int round = 0; round < 5; ++round) {
    const Mapping fresh(kPage * kPages);
    if (!fresh) return 0;
    ::madvise(fresh.data(), kPage * kPages, MADV_NOHUGEPAGE);
    least = std::min(least, best(1, [&] {
                       for (std::size_t page = 0; page < kPages; ++page) fresh.data()[page * kPage] = 1;
                     }));
  }
  return least / kPages;
}

}  // namespace

Peaks measure_peaks() {
  const Machine machine = this_machine();
  return {.arithmetic = arithmetic(machine), .memory = memory(machine), .page_fault = page_fault()};
}

}  // namespace neurim
