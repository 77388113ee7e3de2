#include "neurim/data/duplicates.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <unordered_map>

#include "neurim/base/sha256.h"
#include "neurim/base/thread_pool.h"
#include "neurim/data/transform.h"

namespace neurim {
namespace {

constexpr int kSide = 24;            // of a thumbnail, pixels
constexpr int kWaves = 11;           // of which the hash looks at the slowest, in each direction
constexpr double kLeastWave = 0.02;  // of the root of all energy: the sign of a weaker wave is chance
constexpr int kMostBits = 7;         // of 64 that may differ
constexpr int kChunkBits = 16;       // hashes that differ in 7 bits differ in one of four chunks in at most one
constexpr double kLeastCorrelation = 0.985;
constexpr double kFlat = 2;        // std of pixel values of images that have nothing to correlate
constexpr double kMostLevels = 6;  // that the means of two of those may differ by

using Thumbnail = std::array<std::uint8_t, kSide * kSide>;

/// What is kept of an image.
struct Print {
  SampleId sample;
  std::string digest;  // empty: it could not be read
  std::uint64_t waves = 0;
  double mean = 0, std = 0;
  Thumbnail thumbnail;
};

/// Of the 64 slowest waves of the discrete cosine transform, but the constant one, which are positive and not
/// weak.
std::uint64_t waves_of(const Thumbnail& values, double std) {
  using Waves = std::array<std::array<double, kSide>, kWaves>;
  static const Waves waves = [] {
    Waves made;
    for (int u = 0; u < kWaves; ++u)
      for (int x = 0; x < kSide; ++x)
        made[u][x] = std::sqrt((u ? 2.0 : 1.0) / kSide) * std::cos(std::numbers::pi * u * (x + 0.5) / kSide);
    return made;
  }();
  Waves rows{};  // of each row, the waves along it
  for (int v = 0; v < kWaves; ++v)
    for (int y = 0; y < kSide; ++y)
      for (int x = 0; x < kSide; ++x) rows[v][y] += waves[v][x] * values[y * kSide + x];
  std::uint64_t bits = 0;
  for (int u = 0, taken = 0; u < kWaves; ++u)
    for (int v = u == 0; u + v < kWaves && taken < 64; ++v, ++taken) {
      double amplitude = 0;
      for (int y = 0; y < kSide; ++y) amplitude += waves[u][y] * rows[v][y];
      bits = bits << 1 | (amplitude > kLeastWave * kSide * std);
    }
  return bits;
}

/// What a thread needs.
struct Printer {
  Decoder decoder;
  std::vector<std::byte> buffer;
  Transform small{Preprocess{.channels = 1, .height = kSide, .width = kSide, .resize = ResizeMode::squash}};

  void take(const Dataset& dataset, Print& print) {
    const StoredImage stored = dataset.read(print.sample.split, print.sample.index, buffer);
    Random none(0);
    decoder.open(stored);
    std::copy_n(small.fit(decoder, none).data(), print.thumbnail.size(), print.thumbnail.begin());
    double sum = 0, squares = 0;
    for (const double value : print.thumbnail) sum += value, squares += value * value;
    print.mean = sum / kSide / kSide;
    print.std = std::sqrt(std::max(squares / kSide / kSide - print.mean * print.mean, 0.0));
    if (print.std >= kFlat) print.waves = waves_of(print.thumbnail, print.std);
    Sha256 sha;
    sha.add(stored.bytes);
    print.digest = sha.hex();
  }
};

/// Of prints whose waves are alike.
bool alike(const Print& a, const Print& b) {
  if (a.std < kFlat || b.std < kFlat) return a.std < kFlat && b.std < kFlat && std::abs(a.mean - b.mean) <= kMostLevels;
  int products = 0;
  for (std::size_t i = 0; i < a.thumbnail.size(); ++i) products += a.thumbnail[i] * b.thumbnail[i];
  return static_cast<double>(products) / kSide / kSide - a.mean * b.mean >= kLeastCorrelation * a.std * b.std;
}

/// Sets that grow together.
class Unions {
 public:
  explicit Unions(std::size_t size) : parents_(size) { std::iota(parents_.begin(), parents_.end(), std::size_t{0}); }
  std::size_t root(std::size_t i) {
    while (parents_[i] != i) i = parents_[i] = parents_[parents_[i]];
    return i;
  }
  void join(std::size_t a, std::size_t b) { parents_[std::max(root(a), root(b))] = std::min(root(a), root(b)); }

 private:
  std::vector<std::size_t> parents_;
};

}  // namespace

Duplicates find_duplicates(const Dataset& dataset, int threads,
                           const std::function<void(std::int64_t, std::int64_t)>& progress) {
  std::vector<Print> prints;
  for (const Split split : kSplits)
    for (std::int64_t i = 0; i < dataset.size(split); ++i) prints.push_back({.sample = {split, i}});
  Duplicates found;
  std::vector<std::string> reasons(prints.size());
  constexpr std::size_t kSome = 256;
  ThreadPool pool(threads);
  std::vector<Printer> printers(threads);
  for (std::size_t begin = 0; begin < prints.size(); begin += kSome) {
    const std::size_t end = std::min(begin + kSome, prints.size());
    std::atomic<std::size_t> next{begin};
    pool.each(threads, [&](int thread) {
      for (std::size_t i; (i = next++) < end;) try {
          printers[thread].take(dataset, prints[i]);
        } catch (const Error& error) {
          reasons[i] = text(dataset.name(prints[i].sample.split, prints[i].sample.index), ": ", error.what());
        }
    });
    if (progress) progress(static_cast<std::int64_t>(end), static_cast<std::int64_t>(prints.size()));
  }
  for (const std::string& reason : reasons)
    if (!reason.empty()) found.unreadable.push_back(reason);
  std::erase_if(prints, [](const Print& print) { return print.digest.empty(); });

  Unions unions(prints.size());
  std::unordered_map<std::string, std::size_t> first;
  std::vector<std::size_t> unique;  // one of each set of equal files
  for (std::size_t i = 0; i < prints.size(); ++i) {
    const auto [at, is_new] = first.emplace(prints[i].digest, i);
    if (is_new)
      unique.push_back(i);
    else
      unions.join(at->second, i);
  }
  for (int shift = 0; shift < 64; shift += kChunkBits) {
    const auto chunk = [&](std::size_t i) { return prints[i].waves >> shift & ((1u << kChunkBits) - 1); };
    struct Seen {
      std::uint64_t waves;  // here, as most that are looked up differ in them
      std::size_t print;
    };
    std::vector<std::vector<Seen>> same(std::size_t{1} << kChunkBits);
    for (const std::size_t a : unique) {
      const auto join_alike = [&](std::size_t bits) {
        for (const auto& [waves, b] : same[bits])
          if (std::popcount(waves ^ prints[a].waves) <= kMostBits && unions.root(a) != unions.root(b) &&
              alike(prints[a], prints[b]))
            unions.join(a, b);
      };
      join_alike(chunk(a));
      for (int bit = 0; bit < kChunkBits; ++bit) join_alike(chunk(a) ^ std::size_t{1} << bit);
      same[chunk(a)].push_back({prints[a].waves, a});
    }
  }

  std::map<std::size_t, std::vector<std::size_t>> sets;
  for (std::size_t i = 0; i < prints.size(); ++i) sets[unions.root(i)].push_back(i);
  for (const auto& [root, members] : sets) {
    if (members.size() < 2) continue;
    DuplicateGroup group{.exact = true};
    const auto label = [&](const SampleId& id) { return dataset.label(id.split, id.index); };
    for (const std::size_t i : members) {
      const SampleId& id = prints[i].sample;
      group.samples.push_back(id);
      group.exact = group.exact && prints[i].digest == prints[root].digest;
      group.across_splits = group.across_splits || id.split != prints[root].sample.split;
      group.labels_differ = group.labels_differ || label(id) != label(prints[root].sample);
    }
    found.groups.push_back(std::move(group));
  }
  std::stable_sort(found.groups.begin(), found.groups.end(), [](const DuplicateGroup& a, const DuplicateGroup& b) {
    return std::pair(!a.across_splits, !a.labels_differ) < std::pair(!b.across_splits, !b.labels_differ);
  });
  return found;
}

}  // namespace neurim
