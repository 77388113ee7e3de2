#include "neurim/data/cut.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "neurim/base/error.h"
#include "neurim/core/random.h"

namespace neurim {
namespace {

// Keep these choices apart from other uses of the same seed.
constexpr std::uint32_t kSplitStream = 0x73706c74, kTestStream = 0x74657374;

std::int64_t first_of(const Listing& listing, std::int64_t item) {
  return listing.same_as.empty() ? item : listing.same_as[item];
}

/// Takes those items out of train that show what an earlier one shows.
std::vector<std::int64_t> take_repeats(Listing& listing) {
  std::vector<std::int64_t>& train = listing[Split::train];
  const auto middle = std::stable_partition(train.begin(), train.end(),
                                            [&](std::int64_t item) { return first_of(listing, item) == item; });
  const std::vector<std::int64_t> repeats(middle, train.end());
  train.erase(middle, train.end());
  return repeats;
}

/// Puts each where its first one is now: into `to`, else into train.
void add_repeats(Listing& listing, const std::vector<std::int64_t>& repeats, Split to) {
  if (repeats.empty()) return;
  const std::set<std::int64_t> cut(listing[to].begin(), listing[to].end());
  for (const std::int64_t item : repeats)
    listing[cut.contains(first_of(listing, item)) ? to : Split::train].push_back(item);
}

std::vector<std::vector<std::int64_t>> train_by_class(Listing& listing) {
  std::vector<std::vector<std::int64_t>> by_class(listing.class_names.size());
  for (const std::int64_t item : listing[Split::train]) by_class[listing.labels[item]].push_back(item);
  return by_class;
}

using Units = std::map<std::string, std::vector<std::int64_t>>;

/// The items of a split by what is never separated: their groups, or, without one, those that show the same.
Units units_of(Listing& listing, Split split) {
  Units units;
  for (const std::int64_t item : listing[split]) {
    const std::string group = listing.groups.empty() ? "" : listing.groups[item];
    // An item without a group is one of its own; no other name holds a zero byte and a number.
    units[group.empty() ? text('\0', first_of(listing, item)) : group].push_back(item);
  }
  return units;
}

std::vector<std::vector<std::int64_t>> smallest_first(const Units& by_name) {
  std::vector<std::vector<std::int64_t>> units;
  for (const auto& [name, items] : by_name) units.push_back(items);
  std::stable_sort(units.begin(), units.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return units;
}

/// How many items of train show each class.
class Shown {
 public:
  explicit Shown(Listing& listing) : listing_(listing), counts_(listing.class_names.size(), 0) {
    count(listing[Split::train], 1);
  }
  void count(const std::vector<std::int64_t>& items, std::int64_t each) {
    for (const std::int64_t item : items)
      for (const std::int64_t c : classes_of(listing_, item)) counts_[c] += each;
  }
  /// A class of these items that none of train shows.
  std::optional<std::int64_t> missing(const std::vector<std::int64_t>& items) const {
    for (const std::int64_t item : items)
      for (const std::int64_t c : classes_of(listing_, item))
        if (counts_[c] == 0) return c;
    return {};
  }

 private:
  const Listing& listing_;
  std::vector<std::int64_t> counts_;
};

/// Takes the smallest unit out of train without which train shows the same classes; none where there is no such.
std::vector<std::int64_t> take_spare(Listing& listing, Shown& shown) {
  std::vector<std::int64_t>& train = listing[Split::train];
  for (const std::vector<std::int64_t>& unit : smallest_first(units_of(listing, Split::train))) {
    shown.count(unit, -1);
    if (unit.size() < train.size() && !shown.missing(unit)) {
      const std::set<std::int64_t> taken(unit.begin(), unit.end());
      std::erase_if(train, [&](std::int64_t item) { return taken.contains(item); });
      return unit;
    }
    shown.count(unit, 1);
  }
  return {};
}

/// Takes back into train those units of `to`, the smallest ones, without which a class would have nothing there; where
/// nothing is left in `to` then, gives it what train can spare. Where no cut keeps every class in train, the one that
/// was made stays.
void keep_classes(Listing& listing, Split to) {
  Shown shown(listing);
  const std::optional<std::int64_t> missing = shown.missing(listing[to]);
  if (!missing) return;
  const auto before = listing.splits;
  std::vector<std::int64_t> kept, left;
  for (const std::vector<std::int64_t>& unit : smallest_first(units_of(listing, to))) {
    const bool keep = shown.missing(unit).has_value();
    std::vector<std::int64_t>& into = keep ? kept : left;
    into.insert(into.end(), unit.begin(), unit.end());
    if (keep) shown.count(unit, 1);
  }
  listing[Split::train].insert(listing[Split::train].end(), kept.begin(), kept.end());
  if (left.empty()) left = take_spare(listing, shown);
  if (left.empty()) {
    listing.splits = before;
    return;
  }
  listing[to] = std::move(left);
  listing.notes.push_back(text(plural(std::ssize(kept), "image"), " stayed in training, as it would have none of ",
                               listing.class_names[*missing], " otherwise"));
}

/// Cuts train into parts of these shares (their sum is 1) that never separate a group and have nearly the
/// same shares of each class, and of the items without one: the groups, from the largest on and equal ones in
/// an order of the seed, go each where most is missing. No part is empty where there are groups enough.
std::vector<std::vector<std::int64_t>> cut_groups(Listing& listing, const std::vector<double>& shares,
                                                  std::uint64_t seed, std::uint32_t stream) {
  const Units units = units_of(listing, Split::train);
  std::vector<const std::vector<std::int64_t>*> groups;
  for (const auto& [group, items] : units) groups.push_back(&items);
  if (groups.size() < shares.size())
    fail(Fault::data, "training has ", groups.size(), " group", groups.size() == 1 ? "" : "s", ", too few for ",
         shares.size(), " parts that separate none; name more groups, or give a val split (or val_split 0)");
  Random random(seed, 0, stream);
  shuffle(groups, random);
  std::stable_sort(groups.begin(), groups.end(), [](auto* a, auto* b) { return a->size() > b->size(); });

  const std::size_t classless = listing.class_names.size();  // counts as a class of its own
  const auto count_into = [&](auto& counts, std::int64_t item) {
    const std::span<const std::int64_t> classes = classes_of(listing, item);
    for (const std::int64_t c : classes) ++counts[c];
    if (classes.empty()) ++counts[classless];
  };
  std::vector<double> totals(classless + 1, 0);
  for (const std::int64_t item : listing[Split::train]) count_into(totals, item);
  std::vector<std::vector<double>> have(shares.size(), std::vector<double>(totals.size(), 0));
  std::vector<std::vector<std::int64_t>> parts(shares.size());
  std::size_t empty = parts.size();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    std::map<std::size_t, double> counts;  // of each class in the group
    for (const std::int64_t item : *groups[g]) count_into(counts, item);
    std::size_t best = parts.size();
    double least = 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      if (empty == groups.size() - g && !parts[p].empty()) continue;  // the last groups fill empty parts
      double cost = 0;  // the change of the squared distances from the shares, each class counting the same
      for (const auto& [c, count] : counts) {
        cost += count * (2 * (have[p][c] - shares[p] * totals[c]) + count) / (totals[c] * totals[c]);
      }
      if (best == parts.size() || cost < least || (cost == least && parts[p].size() < parts[best].size()))
        best = p, least = cost;
    }
    for (const auto& [c, count] : counts) have[best][c] += count;
    if (parts[best].empty()) --empty;
    parts[best].insert(parts[best].end(), groups[g]->begin(), groups[g]->end());
  }
  return parts;
}

void sort_splits(Listing& listing) {
  for (const Split part : kSplits) std::sort(listing[part].begin(), listing[part].end());
}

/// Where items cannot be dealt out class by class.
bool cut_by_groups(const Listing& listing) { return !listing.groups.empty() || !listing.label_sets.empty(); }

}  // namespace

std::span<const std::int64_t> classes_of(const Listing& listing, std::int64_t item) {
  const std::int64_t& label = listing.labels[item];
  if (listing.label_sets.empty()) return {&label, 1};
  return listing.label_sets[label];
}

void split_off(Listing& listing, Split to, double share, std::uint64_t seed) {
  const std::uint32_t stream = to == Split::test ? kTestStream : kSplitStream;
  if (cut_by_groups(listing)) {
    std::vector<std::vector<std::int64_t>> parts = cut_groups(listing, {1 - share, share}, seed, stream);
    listing[Split::train] = std::move(parts[0]);
    listing[to] = std::move(parts[1]);
    keep_classes(listing, to);
    return sort_splits(listing);
  }
  const std::vector<std::int64_t> repeats = take_repeats(listing);
  std::vector<std::vector<std::int64_t>> by_class = train_by_class(listing);
  listing[Split::train].clear();
  for (std::size_t c = 0; c < by_class.size(); ++c) {
    std::vector<std::int64_t>& items = by_class[c];
    Random random(seed, c, stream);
    shuffle(items, random);
    const auto size = static_cast<std::int64_t>(items.size());
    const std::int64_t taken = size < 2 ? 0
                                        : std::clamp<std::int64_t>(std::llround(static_cast<double>(size) * share), 1,
                                                                   size - 1);
    listing[to].insert(listing[to].end(), items.begin(), items.begin() + taken);
    listing[Split::train].insert(listing[Split::train].end(), items.begin() + taken, items.end());
  }
  add_repeats(listing, repeats, to);
  sort_splits(listing);
}

void choose_fold(Listing& listing, int folds, int fold, std::uint64_t seed) {
  std::vector<std::vector<std::int64_t>> parts(folds);
  if (listing[Split::train].size() < parts.size())
    fail(Fault::data, "training has ", listing[Split::train].size(), " images, too few for ", folds,
         " folds; use fewer");
  std::vector<std::int64_t> repeats;
  if (cut_by_groups(listing)) {
    parts = cut_groups(listing, std::vector<double>(parts.size(), 1.0 / folds), seed, kSplitStream);
  } else {
    repeats = take_repeats(listing);
    std::vector<std::vector<std::int64_t>> by_class = train_by_class(listing);
    std::size_t dealt = 0;
    for (std::size_t c = 0; c < by_class.size(); ++c) {
      Random random(seed, c, kSplitStream);
      shuffle(by_class[c], random);
      for (const std::int64_t item : by_class[c]) parts[dealt++ % parts.size()].push_back(item);
    }
  }
  listing[Split::train].clear();
  for (std::size_t p = 0; p < parts.size(); ++p) {
    std::vector<std::int64_t>& to = listing[p == static_cast<std::size_t>(fold) ? Split::val : Split::train];
    to.insert(to.end(), parts[p].begin(), parts[p].end());
  }
  add_repeats(listing, repeats, Split::val);
  keep_classes(listing, Split::val);
  sort_splits(listing);
}

}  // namespace neurim
