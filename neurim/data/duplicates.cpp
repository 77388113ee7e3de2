#include "neurim/data/duplicates.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <map>
#include <numeric>
#include <unordered_map>

#include "neurim/base/sha256.h"
#include "neurim/base/thread_pool.h"
#include "neurim/data/transform.h"

namespace neurim {
namespace {

constexpr int kThumbnail = 16;    // pixels
constexpr int kMostBits = 3;      // of 64 that may differ
constexpr int kMostLevels = 6;    // that thumbnails may differ by, in the mean
constexpr int kChunks = kMostBits + 1;  // hashes that differ in fewer bits agree in one of these whole

using Thumbnail = std::array<std::uint8_t, kThumbnail * kThumbnail>;

/// What is kept of a picture.
struct Print {
  SampleId sample;
  std::string digest;  // empty: it could not be read
  std::uint64_t gradients = 0;
  Thumbnail thumbnail;
};

/// What a thread needs.
struct Printer {
  static Preprocess gray(int height, int width) {
    return {.channels = 1, .height = height, .width = width, .resize = ResizeMode::squash};
  }

  Decoder decoder;
  std::vector<std::byte> buffer;
  Transform small{gray(8, 9)}, thumbnail{gray(kThumbnail, kThumbnail)};

  void take(const Dataset& dataset, Print& print) {
    const StoredImage stored = dataset.read(print.sample.split, print.sample.index, buffer);
    Random none(0);
    decoder.open(stored);
    const std::uint8_t* levels = small.fit(decoder, none).data();
    for (int y = 0; y < 8; ++y)
      for (int x = 0; x < 8; ++x)
        print.gradients = print.gradients << 1 | (levels[y * 9 + x] < levels[y * 9 + x + 1]);
    decoder.open(stored);
    std::copy_n(thumbnail.fit(decoder, none).data(), print.thumbnail.size(), print.thumbnail.begin());
    Sha256 sha;
    sha.add(stored.bytes);
    print.digest = sha.hex();
  }
};

bool alike(const Print& a, const Print& b) {
  if (std::popcount(a.gradients ^ b.gradients) > kMostBits) return false;
  int sum = 0;
  for (std::size_t i = 0; i < a.thumbnail.size(); ++i) sum += std::abs(a.thumbnail[i] - b.thumbnail[i]);
  return sum <= kMostLevels * static_cast<int>(a.thumbnail.size());
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
  std::vector<Printer> printers(static_cast<std::size_t>(threads));
  for (std::size_t begin = 0; begin < prints.size(); begin += kSome) {
    const std::size_t end = std::min(begin + kSome, prints.size());
    std::atomic<std::size_t> next{begin};
    pool.each(threads, [&](int thread) {
      for (std::size_t i; (i = next++) < end;) try {
          printers[static_cast<std::size_t>(thread)].take(dataset, prints[i]);
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
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    constexpr int kBits = 64 / kChunks;
    std::unordered_map<std::uint64_t, std::vector<std::size_t>> same;
    for (const std::size_t i : unique)
      same[prints[i].gradients >> (chunk * kBits) & ((std::uint64_t{1} << kBits) - 1)].push_back(i);
    for (const auto& [bits, members] : same)
      for (std::size_t a = 0; a < members.size(); ++a)
        for (std::size_t b = a + 1; b < members.size(); ++b)
          if (alike(prints[members[a]], prints[members[b]])) unions.join(members[a], members[b]);
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
