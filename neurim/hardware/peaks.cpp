#include "neurim/hardware/peaks.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <thread>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/base/thread_pool.h"
#include "neurim/hardware/isa.h"
#include "neurim/hardware/machine.h"
#include "neurim/hardware/tile_scope.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace neurim {

namespace {

using Clock = std::chrono::steady_clock;

// In flight: more than the latency of two units needs, and they fit the registers, of which AVX-512 has 32 and
// others 16. Sums that do not fit go through memory, and the peak is a tenth too low, or half where threads share a
// core.
constexpr int kSums = 24, kFewSums = 12;
constexpr int kRounds = 40,
              kSteps = 20000;  // a tenth of a millisecond: threads begin within a microsecond of each other

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

/// The least time of some rounds, seconds. In each all threads of the pool call run(number of the thread) at once; it
/// lasts from the first begin to the last end. Before, each calls prepare(number).
template <class Prepare, class Run>
double best(ThreadPool& pool, int rounds, const Prepare& prepare, const Run& run) {
  const int threads = pool.threads();
  std::vector<Clock::time_point> begins(static_cast<std::size_t>(threads * rounds)), ends(begins.size());
  std::atomic<int> ready{0};
  // One part a thread: none ends before all have begun. A part stays on its thread, whose caches hold its data.
  pool.each(threads, [&](int thread) {
    prepare(thread);
    for (int round = 0; round < rounds; ++round) {
      ready.fetch_add(1);
      while (ready.load() < threads * (round + 1)) std::this_thread::yield();
      const auto at = static_cast<std::size_t>(round * threads + thread);
      begins[at] = Clock::now();
      run(thread);
      ends[at] = Clock::now();
    }
  });
  double least = 1e9;
  for (std::ptrdiff_t at = 0; at < std::ssize(begins); at += threads)
    least = std::min(least, seconds_between(*std::min_element(begins.begin() + at, begins.begin() + at + threads),
                                            *std::max_element(ends.begin() + at, ends.begin() + at + threads)));
  return least;
}

thread_local volatile float sink;

// --- arithmetic
// --------------------------------------------------------------------------------------------------------

/// A loop of multiply-adds and all its operations; null where the machine has none.
struct Loop {
  void (*run)() = nullptr;
  double operations = 0;
};

void fp32_portable() {
  volatile float half = 0.5f;  // read for each sum: the compiler must not find them equal
  float sums[kSums];
  for (float& sum : sums) sum = half;
  const float a = half, b = half;
  for (int i = 0; i < kSteps; ++i)
    for (int k = 0; k < kSums; ++k) sums[k] = sums[k] * a + b;
  for (const float sum : sums) sink = sum;
}

#if defined(__x86_64__)

// Each function is compiled for its own instruction set. The empty assembly keeps the compiler from knowing the
// operands, from finding the sums equal and from dropping them.
#define NEURIM_PEAK(function, isa, count, Vec, start, step)                                     \
  __attribute__((target(isa))) void function() {                                                \
    Vec sums[count], a = start, b = start;                                                      \
    asm volatile("" : "+v"(a), "+v"(b));                                                        \
    _Pragma("GCC unroll 24") for (int k = 0; k < count; ++k) {                                  \
      sums[k] = start;                                                                          \
      asm volatile("" : "+v"(sums[k]));                                                         \
    }                                                                                           \
    for (int i = 0; i < kSteps * kSums / count; ++i) {                                          \
      _Pragma("GCC unroll 24") for (int k = 0; k < count; ++k) sums[k] = step(sums[k], a, b);   \
    }                                                                                           \
    _Pragma("GCC unroll 24") for (int k = 0; k < count; ++k) asm volatile("" : : "v"(sums[k])); \
  }

#define NEURIM_BF16(sum, a, b) _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b))
NEURIM_PEAK(fp32_avx2, "avx2,fma", kFewSums, __m256, _mm256_set1_ps(0.5f), _mm256_fmadd_ps)
NEURIM_PEAK(fp32_avx512, "avx512f", kSums, __m512, _mm512_set1_ps(0.5f), _mm512_fmadd_ps)
NEURIM_PEAK(fp16_avx512, "avx512fp16", kSums, __m512h, _mm512_set1_ph(_Float16(0.5)), _mm512_fmadd_ph)
NEURIM_PEAK(bf16_avx512, "avx512f,avx512bf16", kSums, __m512, _mm512_set1_ps(0.5f), NEURIM_BF16)
NEURIM_PEAK(int8_avx512, "avx512f,avx512vnni", kSums, __m512i, _mm512_set1_epi8(1), _mm512_dpbusd_epi32)
NEURIM_PEAK(int8_avx2, "avx2,avxvnni", kFewSums, __m256i, _mm256_set1_epi8(1), _mm256_dpbusd_avx_epi32)
#undef NEURIM_BF16
#undef NEURIM_PEAK

// Matrix tiles of 16 rows of 64 bytes: four sums, two and two operands.
constexpr int kTileSteps = 2000, kTiles = 4;

#define NEURIM_TILE_PEAK(function, isa, step)    \
  __attribute__((target(isa))) void function() { \
    const TileScope scope;                       \
    for (int i = 0; i < kTileSteps; ++i) {       \
      step(0, 4, 6);                             \
      step(1, 4, 7);                             \
      step(2, 5, 6);                             \
      step(3, 5, 7);                             \
    }                                            \
  }
NEURIM_TILE_PEAK(bf16_tiles, "amx-tile,amx-bf16", _tile_dpbf16ps)
NEURIM_TILE_PEAK(int8_tiles, "amx-tile,amx-int8", _tile_dpbusd)
#undef NEURIM_TILE_PEAK

#endif

std::vector<Peaks::Arithmetic> arithmetic(const Machine& machine, ThreadPool& pool) {
  Loop fp32{fp32_portable, 2.0 * kSums * kSteps}, fp16, bf16, int8, tiles16, tiles8;
#if defined(__x86_64__)
  const auto loop = [](void (*run)(), double lanes) { return Loop{run, 2 * lanes * kSums * kSteps}; };
  const auto tiles = [](void (*run)(), double depth) { return Loop{run, 2 * 16 * 16 * depth * kTiles * kTileSteps}; };
  if (machine.has("avx512f"))
    fp32 = loop(fp32_avx512, 16);
  else if (machine.has("avx2") && machine.has("fma"))
    fp32 = loop(fp32_avx2, 8);
  if (machine.has("avx512_fp16")) fp16 = loop(fp16_avx512, 32);
  if (machine.has("avx512_bf16")) bf16 = loop(bf16_avx512, 32);
  if (machine.has("avx512_vnni"))
    int8 = loop(int8_avx512, 64);
  else if (machine.has("avx_vnni"))
    int8 = loop(int8_avx2, 32);
  if (has_tiles()) tiles16 = tiles(bf16_tiles, 32), tiles8 = tiles(int8_tiles, 64);
#else
  (void)machine;
#endif
  std::vector<Peaks::Arithmetic> all;
  for (const auto& [name, loop_of] : {std::pair{"fp32", fp32},
                                      {"fp16", fp16},
                                      {"bf16", bf16},
                                      {"int8", int8},
                                      {"bf16 tiles", tiles16},
                                      {"int8 tiles", tiles8}}) {
    Peaks::Arithmetic& one = all.emplace_back();
    one.name = name;
    if (void (*const run)() = loop_of.run)
      one.operations = pool.threads() * loop_of.operations / best(pool, kRounds, [](int) {}, [run](int) { run(); });
  }
  return all;
}

// --- memory
// ------------------------------------------------------------------------------------------------------------

/// Vector is one that a register holds: the compiler keeps wider ones in memory.
template <class Vector>
[[gnu::always_inline]] inline void read_by(const char* data, std::size_t size) {
  Vector sums[8] = {};
  for (std::size_t at = 0; at + sizeof sums <= size; at += sizeof sums)
    for (std::size_t k = 0; k < 8; ++k) {
      Vector vector;
      std::memcpy(&vector, data + at + k * sizeof vector, sizeof vector);
      sums[k] += vector;
    }
  float all = 0;
  for (const Vector& sum : sums) all += sum[0];
  sink = all;
}

using Read = void (*)(const char* data, std::size_t size);
typedef float Vector16 __attribute__((vector_size(16)));
void read_portable(const char* data, std::size_t size) { read_by<Vector16>(data, size); }
#if defined(__x86_64__)
typedef float Vector32 __attribute__((vector_size(32)));
typedef float Vector64 __attribute__((vector_size(64)));
__attribute__((target("avx2"))) void read_avx2(const char* data, std::size_t size) { read_by<Vector32>(data, size); }
__attribute__((target("avx512f"))) void read_avx512(const char* data, std::size_t size) {
  read_by<Vector64>(data, size);
}
#endif

Read widest_read(const Machine& machine) {
#if defined(__x86_64__)
  if (machine.has("avx512f")) return read_avx512;
  if (machine.has("avx2")) return read_avx2;
#else
  (void)machine;
#endif
  return read_portable;
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

/// The threads read a block each.
Peaks::Memory read_bandwidth(Read read, ThreadPool& pool, std::string name, std::size_t capacity, std::size_t block) {
  const auto threads = static_cast<std::size_t>(pool.threads());
  Peaks::Memory result{std::move(name), capacity, block * threads};
  std::deque<Mapping> blocks;
  for (std::size_t i = 0; i < threads; ++i)
    if (!blocks.emplace_back(block)) return result;
  const auto touch = [&](int thread) {
    const Mapping& own = blocks[thread];
    ::madvise(own.data(), block, MADV_HUGEPAGE);
    std::memset(own.data(), 1, block);
  };
  // Small blocks several times a round, which is to last longer than the clock is coarse.
  const std::size_t times = std::max<std::size_t>(1, (std::size_t{8} << 20) / block);
  const double seconds = best(pool, block > (std::size_t{64} << 20) ? 5 : 20, touch, [&](int thread) {
    for (std::size_t i = 0; i < times; ++i) read(blocks[thread].data(), block);
  });
  result.read = static_cast<double>(result.bytes * times) / seconds;
  return result;
}

std::vector<Peaks::Memory> memory(const Machine& machine, ThreadPool& pool) {
  constexpr std::size_t kMostCached = std::size_t{32} << 20, kUncached = std::size_t{512} << 20;
  const int threads = pool.threads();
  const Read read = widest_read(machine);
  std::vector<Peaks::Memory> all;
  std::size_t largest = 0;
  for (const CpuCache& cache : machine.caches) {
    const int sharers = std::min(cache.cpus, threads), copies = (threads + sharers - 1) / sharers;
    largest = cache.bytes * static_cast<std::size_t>(copies);
    all.push_back(read_bandwidth(read, pool, text('L', cache.level), largest,
                                 std::min(cache.bytes / 2 / static_cast<std::size_t>(sharers), kMostCached)));
  }
  const std::size_t uncached = std::min(std::max(kUncached, 2 * largest), machine.available / 4);
  all.push_back(read_bandwidth(read, pool, "DRAM", machine.memory, uncached / static_cast<std::size_t>(threads)));
  return all;
}

double page_fault() {
  constexpr std::size_t kPage = 4096, kPages = 4096;
  double least = 1e9;
  for (int round = 0; round < 5; ++round) {
    const Mapping fresh(kPage * kPages);
    if (!fresh) return 0;
    ::madvise(fresh.data(), kPage * kPages, MADV_NOHUGEPAGE);
    const Clock::time_point begin = Clock::now();
    for (std::size_t page = 0; page < kPages; ++page) fresh.data()[page * kPage] = 1;
    least = std::min(least, seconds_between(begin, Clock::now()));
  }
  return least / kPages;
}

}  // namespace

Peaks measure_peaks(int threads) {
  const Machine machine = this_machine();
  ThreadPool pool(threads);
  return {.threads = threads,
          .arithmetic = arithmetic(machine, pool),
          .memory = memory(machine, pool),
          .page_fault = page_fault()};
}

std::string_view fastest_precision(const std::vector<Peaks::Arithmetic>& arithmetic) {
  const auto peak = [&](std::string_view name) {
    const auto one = std::find_if(arithmetic.begin(), arithmetic.end(),
                                  [&](const Peaks::Arithmetic& other) { return other.name == name; });
    return one == arithmetic.end() ? 0 : one->operations;
  };
  constexpr double kWorthIt = 1.25;
  const double bf16 = std::max(peak("bf16"), peak("bf16 tiles")), fp16 = peak("fp16");
  if (std::max(bf16, fp16) <= kWorthIt * peak("fp32")) return "f32";
  return bf16 >= fp16 ? "bf16" : "fp16";
}

std::string_view measured_precision(int threads) {
  ThreadPool pool(threads);
  return fastest_precision(arithmetic(this_machine(), pool));
}

Peaks best_of(Peaks one, const Peaks& other) {
  NEURIM_ASSERT(one.threads == other.threads && one.arithmetic.size() == other.arithmetic.size() &&
                one.memory.size() == other.memory.size());
  for (std::size_t i = 0; i < one.arithmetic.size(); ++i)
    one.arithmetic[i].operations = std::max(one.arithmetic[i].operations, other.arithmetic[i].operations);
  for (std::size_t i = 0; i < one.memory.size(); ++i)
    one.memory[i].read = std::max(one.memory[i].read, other.memory[i].read);
  return one;
}

}  // namespace neurim
