#include "neurim/data/sample_cache.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "neurim/base/error.h"
#include "neurim/base/file.h"

namespace neurim {
namespace {

constexpr std::uint32_t kEmpty = 0, kWriting = 1, kKept = 2;

std::uint32_t crc_of(const std::uint8_t* bytes, std::size_t size) {
  return static_cast<std::uint32_t>(crc32_z(0, bytes, size));
}

/// Bytes that the system can give without swapping; a large number where it does not say.
std::uint64_t available_bytes() {
  std::ifstream info("/proc/meminfo");
  for (std::string word; info >> word;)
    if (word == "MemAvailable:") {
      std::uint64_t kib = 0;
      info >> kib;
      return kib << 10;
    }
  return ~0ull;
}

}  // namespace

SampleCache::SampleCache(std::int64_t samples, std::size_t bytes) : samples_(samples), bytes_(bytes) {
  const std::size_t count = samples;
  if (const std::uint64_t free = available_bytes(); bytes * count > free)
    fail(Fault::resource, "cache=ram: the resized images take ", bytes * count >> 20, " MiB, of which ", free >> 20,
         " are free; use cache=disk or a smaller imgsz");
  own_entries_ = std::make_unique<Entry[]>(count);
  own_levels_.reset(new std::uint8_t[count * bytes]);  // untouched memory costs nothing until it is filled
  entries_ = own_entries_.get();
  values_ = own_levels_.get();
}

SampleCache::SampleCache(std::int64_t samples, std::size_t bytes, const std::string& key)
    : samples_(samples), bytes_(bytes) {
  const fs::path folder = naming([] { return "cache=disk"; }, [] { return cache_folder(); }), path = folder / key;
  const auto give_up = [&](std::string_view step) {
    fail(Fault::resource, path.string(), ": cannot ", step, ": ", std::strerror(errno), "; ", mapped_bytes_,
         " bytes are needed; free some, set XDG_CACHE_HOME to another disk, or use cache=none");
  };
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    fail(Fault::resource, folder.string(), ": cannot make the folder of the cache: ", error.message(),
         "; set XDG_CACHE_HOME to another place, or use cache=none");
  const std::size_t count = samples;
  const std::size_t entries_bytes = (count * sizeof(Entry) + 4095) / 4096 * 4096;
  mapped_bytes_ = entries_bytes + count * bytes;
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) give_up("make this file of the cache");
  // Room that is promised cannot be missing later, when a page is written without asking.
  errno = ::posix_fallocate(file, 0, static_cast<off_t>(mapped_bytes_));
  const bool has_room = errno == 0;
  void* at = has_room ? ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  if (!has_room) ::unlink(path.c_str());  // what was promised of it takes room too
  ::close(file);
  if (at == MAP_FAILED) give_up("make room in this file of the cache");
  mapped_ = at;
  entries_ = static_cast<Entry*>(at);
  values_ = static_cast<std::uint8_t*>(at) + entries_bytes;
  for (std::size_t i = 0; i < count; ++i) {  // what another process left half written
    std::uint32_t writing = kWriting;
    entries_[i].state.compare_exchange_strong(writing, kEmpty);
  }
}

SampleCache::~SampleCache() {
  if (mapped_) ::munmap(mapped_, mapped_bytes_);
}

const std::uint8_t* SampleCache::find(std::int64_t sample, std::uint32_t stored_crc) const {
  const Entry& entry = entries_[sample];
  if (entry.state.load(std::memory_order_acquire) != kKept) return nullptr;
  const std::uint8_t* values = values_of(sample);
  const bool same = !outlives_run() || (entry.stored_crc == stored_crc && entry.crc == crc_of(values, bytes_));
  return same ? values : nullptr;
}

void SampleCache::keep(std::int64_t sample, std::uint32_t stored_crc, const std::uint8_t* values) {
  Entry& entry = entries_[sample];
  // A sample may be read by two workers at once; the first to claim its place fills it, for good: others may read it.
  std::uint32_t empty = kEmpty;
  if (!entry.state.compare_exchange_strong(empty, kWriting)) return;
  std::memcpy(values_of(sample), values, bytes_);
  entry.stored_crc = stored_crc;
  if (outlives_run()) entry.crc = crc_of(values, bytes_);
  entry.state.store(kKept, std::memory_order_release);
}

}  // namespace neurim
