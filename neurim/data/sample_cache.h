// Resized images that are kept from one epoch to the next, or from one run to the next.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace neurim {

/// Where resized images are kept.
enum class Cache : std::uint8_t {
  automatic,  ///< ram where all samples fit into LoaderOptions::cache_bytes, else none
  none,
  ram,
  disk,  ///< a file below $XDG_CACHE_HOME/neurim (or ~/.cache/neurim), which later runs use too
};

/// Room for the values of each sample of a split. Safe from several threads.
class SampleCache {
 public:
  /// In memory. Throws Error(resource) where that much is not free.
  SampleCache(std::int64_t samples, std::size_t bytes);
  /// In the file `key` of the cache folder, which is made where it is missing. Throws Error(resource).
  SampleCache(std::int64_t samples, std::size_t bytes, const std::string& key);
  ~SampleCache();
  SampleCache(const SampleCache&) = delete;
  SampleCache& operator=(const SampleCache&) = delete;

  /// Whether what a sample was made of has to be read even where it is kept, so that a file which has changed
  /// since is noticed.
  bool outlives_run() const { return mapped_ != nullptr; }
  /// The values that were kept of a sample whose stored bytes have this CRC-32 (0 where outlives_run is false); null
  /// where there are none, where they were of other bytes or have changed.
  const std::uint8_t* find(std::int64_t sample, std::uint32_t stored_crc) const;
  /// Stores a sample's pixel values.
  void keep(std::int64_t sample, std::uint32_t stored_crc, const std::uint8_t* values);

 private:
  struct Entry {
    std::atomic<std::uint32_t> state;  // 0 empty, 1 being written, 2 kept
    std::uint32_t stored_crc, crc;
  };
  std::uint8_t* values_of(std::int64_t sample) const { return values_ + static_cast<std::size_t>(sample) * bytes_; }

  std::int64_t samples_;
  std::size_t bytes_;  // of a sample
  std::unique_ptr<Entry[]> own_entries_;
  std::unique_ptr<std::uint8_t[]> own_levels_;
  void* mapped_ = nullptr;  // the file: entries, then values
  std::size_t mapped_bytes_ = 0;
  Entry* entries_ = nullptr;
  std::uint8_t* values_ = nullptr;
};

}  // namespace neurim
