#include "neurim/data/dataset.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>

#include "neurim/base/error.h"
#include "neurim/core/random.h"

namespace neurim {
namespace {

constexpr double kValSplit = 0.1;
constexpr std::uint32_t kSplitStream =
    0x73706c74;  // keeps this choice apart from other uses of the same seed

/// "2" before "10": runs of digits compare as numbers.
bool natural_less(const std::string& a, const std::string& b) {
  const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!digit(a[i]) || !digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i, ++j;
      continue;
    }
    const auto run = [&](const std::string& word, std::size_t& at) {
      while (at + 1 < word.size() && word[at] == '0' && digit(word[at + 1])) ++at;
      const std::size_t begin = at;
      while (at < word.size() && digit(word[at])) ++at;
      return word.substr(begin, at - begin);
    };
    const std::string x = run(a, i), y = run(b, j);
    if (x != y) return x.size() != y.size() ? x.size() < y.size() : x < y;
  }
  return a.size() - i < b.size() - j;
}

/// Gives the labels the numbers of `names`, by name.
void map_classes(Listing& listing, const std::vector<std::string>& names, const std::string& path) {
  std::map<std::string, std::int64_t> index;
  for (const std::string& class_name : names)
    if (!index.emplace(class_name, static_cast<std::int64_t>(index.size())).second)
      fail(Fault::usage, "class_names: \"", class_name, "\" stands twice; each class has one name");
  std::vector<std::int64_t> mapped;
  std::vector<std::string> unknown;
  for (const std::string& class_name : listing.class_names) {
    const auto found = index.find(class_name);
    if (found == index.end()) unknown.push_back(class_name);
    mapped.push_back(found == index.end() ? -1 : found->second);
  }
  if (!unknown.empty())
    fail(Fault::data, path, ": the model does not know the classes [", join(unknown, ", "),
         "]; the data has [", join(listing.class_names, ", "), "] and the model [", join(names, ", "),
         "]; rename the classes, or train a model on this data");
  for (std::int64_t& label : listing.labels) label = mapped[static_cast<std::size_t>(label)];
  listing.class_names = names;
}

/// Moves the share `val_split` of each class, at least one sample where it has two, from train to val.
void split_off_val(Listing& listing, double val_split, std::uint64_t seed) {
  std::vector<std::vector<std::int64_t>> by_class(listing.class_names.size());
  for (const std::int64_t item : listing[Split::train])
    by_class[static_cast<std::size_t>(listing.labels[static_cast<std::size_t>(item)])].push_back(item);
  listing[Split::train].clear();
  for (std::size_t c = 0; c < by_class.size(); ++c) {
    std::vector<std::int64_t>& items = by_class[c];
    Random random(seed, c, kSplitStream);
    shuffle(items, random);
    const auto size = static_cast<std::int64_t>(items.size());
    const std::int64_t taken =
        size < 2 ? 0
                 : std::clamp<std::int64_t>(std::llround(static_cast<double>(size) * val_split), 1, size - 1);
    listing[Split::val].insert(listing[Split::val].end(), items.begin(), items.begin() + taken);
    listing[Split::train].insert(listing[Split::train].end(), items.begin() + taken, items.end());
  }
  for (const Split part : {Split::train, Split::val}) std::sort(listing[part].begin(), listing[part].end());
}

}  // namespace

std::string_view name(Split split) {
  constexpr std::string_view names[] = {"train", "val", "test"};
  return names[static_cast<std::size_t>(split)];
}

Dataset Dataset::open(const std::string& path, const DatasetOptions& options) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    fail(Fault::data, path,
         ": there is no such folder; check the path (it is looked up from the current folder)");
  if (std::filesystem::is_regular_file(status) && is_pack(path)) return Dataset(open_pack(path), options, path);
  if (!std::filesystem::is_directory(status))
    fail(Fault::data, path, ": not a folder; give the folder that holds train/ or one folder per class");
  return Dataset(is_idx(path) ? open_idx(path, options) : open_folder(path, options), options, path);
}

Dataset::Dataset(Listing listing, const DatasetOptions& options, const std::string& path) {
  const double val_split = options.val_split.value_or(kValSplit);
  require(val_split >= 0 && val_split < 1, "val_split is ", val_split, "; it is a share in [0, 1)");
  if (listing.class_names.size() < 2 && options.class_names.empty())
    fail(Fault::data, path, ": ", listing.class_names.empty() ? "no class" : "only the class \"",
         listing.class_names.empty() ? "" : listing.class_names[0] + "\"",
         " was found; a classifier needs at least two: one folder per class, with pictures in each");
  const std::vector<std::string>& names = listing.class_names;
  if (options.class_names.empty() && !std::is_sorted(names.begin(), names.end(), natural_less))
    listing.notes.push_back(text("classes are numbered in lexicographic order (as in ", names[0], ", ",
                                 names[1], ", …); tools that count 2 before 10 number them otherwise"));
  if (!options.class_names.empty()) map_classes(listing, options.class_names, path);
  if (listing[Split::train].empty() && options.class_names.empty())
    fail(Fault::data, path, ": the training split is empty; put pictures in train/CLASS/");
  if (listing[Split::val].empty() && val_split > 0) split_off_val(listing, val_split, options.seed);
  content_ = std::make_shared<const Listing>(std::move(listing));
}

std::int64_t Dataset::item(Split split, std::int64_t sample) const {
  require(sample >= 0 && sample < size(split), "dataset: sample ", sample, " is outside the ", split,
          " split of ", size(split));
  return items(split)[static_cast<std::size_t>(sample)];
}

std::vector<std::int64_t> Dataset::class_counts(Split split) const {
  std::vector<std::int64_t> counts(class_names().size(), 0);
  for (const std::int64_t i : items(split))
    ++counts[static_cast<std::size_t>(content_->labels[static_cast<std::size_t>(i)])];
  return counts;
}

std::int64_t Dataset::label(Split split, std::int64_t sample) const {
  return content_->labels[static_cast<std::size_t>(item(split, sample))];
}

std::string Dataset::name(Split split, std::int64_t sample) const {
  return content_->source->name(item(split, sample));
}

StoredImage Dataset::read(Split split, std::int64_t sample, std::vector<std::byte>& buffer) const {
  return content_->source->read(item(split, sample), buffer);
}

}  // namespace neurim
