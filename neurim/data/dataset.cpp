#include "neurim/data/dataset.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "neurim/base/canonical_form.h"
#include "neurim/base/error.h"
#include "neurim/base/file.h"
#include "neurim/base/utf8.h"
#include "neurim/data/cut.h"
#include "neurim/data/sources/folder.h"
#include "neurim/data/sources/parts.h"

namespace neurim {
namespace {

constexpr double kValSplit = 0.1;

/// Whether `holds(item)` is so for an item of any split.
template <typename Holds>
bool any_item(const Listing& content, const Holds& holds) {
  return std::any_of(content.splits.begin(), content.splits.end(),
                     [&](const auto& items) { return std::any_of(items.begin(), items.end(), holds); });
}

/// "2" before "10": runs of digits compare as numbers, all else as bytes.
bool natural_less(const std::string& a, const std::string& b) {
  const auto byte = [](char c) { return static_cast<unsigned char>(c); };
  const auto digit = [&](char c) { return std::isdigit(byte(c)) != 0; };
  std::size_t i = 0, j = 0;
  while (i < a.size() && j < b.size()) {
    if (!digit(a[i]) || !digit(b[j])) {
      if (a[i] != b[j]) return byte(a[i]) < byte(b[j]);
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

/// A class has a line of its own in labels.txt and stands in JSON, which is UTF-8.
void check_names(const std::vector<std::string>& names, const std::string& path) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7F'; };
  for (const std::string& class_name : names) {
    if (class_name.empty()) fail(Fault::data, path, ": a class has no name; correct its label");
    const bool utf8 = is_utf8(class_name);
    if (utf8 && std::none_of(class_name.begin(), class_name.end(), is_control)) continue;
    std::string shown;
    for (const char c : class_name) {
      constexpr std::string_view digits = "0123456789ABCDEF";
      const auto byte = static_cast<unsigned char>(c);
      if (c == '\n' || c == '\r') {
        shown += c == '\n' ? "\\n" : "\\r";
      } else if (is_control(c) || (!utf8 && byte >= 0x80)) {
        shown += text("\\x", digits[byte / 16], digits[byte % 16]);
      } else {
        shown += c;
      }
    }
    const bool line_break = class_name.find_first_of("\n\r") != std::string::npos;
    fail(Fault::data, path, ": the class \"", shown, "\" ",
         !utf8        ? "is no UTF-8; rename its folder or label (convmv does so for whole trees)"
         : line_break ? "has a line break in its name; rename its folder or label: labels.txt has one class "
                        "a line"
                      : "has a control character in its name; rename its folder or label");
  }
}

bool reads_as_number(const std::string& word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size();
}

/// Gives the labels the numbers of `names`: by name, or in their order where labels are numbers and names are none.
void map_classes(Listing& listing, const std::vector<std::string>& names, const std::string& path) {
  std::map<std::string, std::int64_t> index, by_form;
  for (const std::string& class_name : names) {
    by_form.emplace(canonical_form(class_name), std::ssize(index));
    if (!index.emplace(class_name, std::ssize(index)).second)
      fail(Fault::usage, "classes: \"", class_name, "\" stands twice; each class has one name");
  }
  const std::vector<std::string>& found = listing.class_names;
  const bool numbered = !found.empty() && std::all_of(found.begin(), found.end(), integer) &&
                        std::none_of(names.begin(), names.end(), reads_as_number);
  std::vector<std::int64_t> mapped;
  std::vector<std::string> unknown;
  for (const std::string& class_name : found) {
    const auto at = index.find(class_name), of_form = by_form.find(canonical_form(class_name));
    const std::int64_t number = numbered                   ? *integer(class_name)
                                : at != index.end()        ? at->second
                                : of_form != by_form.end() ? of_form->second
                                                           : -1;
    mapped.push_back(number);
    if (number < 0 || number >= std::ssize(names)) unknown.push_back(class_name);
  }
  if (!unknown.empty())
    fail(Fault::data, path, ": the classes [", listed(unknown), "] are not known; the data has [", listed(found),
         "], the model or the option classes has [", listed(names), "]", numbered ? ", which numbers count from 0" : "",
         "; rename the classes, or train a model on this data");
  if (numbered)
    listing.notes.push_back(
        text("labels are numbers of the classes: 0 is ", names[0], ", ", names.size() - 1, " is ", names.back()));
  const auto map = [&](std::vector<std::int64_t>& classes) {
    for (std::int64_t& one : classes) one = mapped[one];
  };
  if (listing.label_sets.empty()) map(listing.labels);
  for (std::vector<std::int64_t>& set : listing.label_sets) {
    map(set);
    std::sort(set.begin(), set.end());
  }
  listing.class_names = names;
}

/// A kind of source: whether `path` is of it, and how it is opened.
struct Kind {
  bool (*is)(const std::string& path);
  Listing (*open)(const std::string& path, const DatasetOptions& options);
};
constexpr Kind kKinds[] = {
    {is_idx, open_idx},
    {is_cifar, open_cifar},
    {is_lmdb, open_lmdb},
    {[](const std::string& path) {
       std::error_code error;
       return std::filesystem::is_regular_file(path, error) && is_pack(path);
     },
     [](const std::string& path, const DatasetOptions& options) {
       if (!options.group_by.empty())
         fail(Fault::usage, path,
              ": has the groups that it was packed with; give group_by to neurim data pack instead");
       return open_pack(path);
     }},
    {is_tar, open_tar},
    {is_tfrecord, open_tfrecord},
    {is_arrays, open_arrays},
    {is_manifest, open_manifest},
};

[[noreturn]] void nothing_to_train_on(Listing& listing, const std::string& path) {
  std::vector<std::string> splits, sizes;
  for (const Split split : {Split::val, Split::test})
    if (!listing[split].empty()) {
      splits.emplace_back(name(split));
      sizes.push_back(text(plural(std::ssize(listing[split]), "image"), " of ", split));
    }
  if (splits.empty()) fail(Fault::data, path, ": the training split is empty; put images in train/CLASS/");
  fail(Fault::data, path, ": the training split is empty: it holds ", join(sizes, " and "),
       " alone; give data with a train split too, or evaluate a model by these: neurim val model=RUN data=", path,
       " split=", splits[0]);
}

}  // namespace

std::string_view name(Split split) {
  constexpr std::string_view names[] = {"train", "val", "test"};
  return names[static_cast<std::size_t>(split)];
}

Split split_option(std::string_view word) {
  for (const Split split : kSplits)
    if (name(split) == word) return split;
  fail(Fault::usage, "split: there is no '", word, "'; known are train, val, test");
}

bool is_class_folder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error) &&
         std::none_of(std::begin(kKinds), std::end(kKinds), [&](const Kind& kind) { return kind.is(path); });
}

Dataset Dataset::open(const std::string& path, const DatasetOptions& options) {
  for (const Kind& kind : kKinds)
    if (kind.is(path)) return Dataset(kind.open(path, options), options, path);
  if (!is_there(path))
    fail(Fault::data, path,
         ": there is no such folder or file; check the path (it is looked up from the current folder)");
  if (!std::filesystem::is_directory(path))
    fail(Fault::data, path,
         ": not a folder, nor a file of a known kind (.csv, .tsv, .jsonl, .tar, .tfrecord, .npz); give the "
         "folder that holds train/ or one folder per class");
  return Dataset(open_folder(path, options), options, path);
}

Dataset::Dataset(Listing listing, const DatasetOptions& options, const std::string& path) {
  const double val_split = options.val_split.value_or(kValSplit);
  require(val_split >= 0 && val_split < 1, "val_split is ", val_split, "; it is a share in [0, 1)");
  const double test_split = options.test_split;
  require(test_split >= 0 && val_split + test_split < 1, "test_split is ", test_split,
          "; it is a share in [0, 1), and with val_split less than all");
  if (const bool multi_label = !listing.label_sets.empty(); options.multi_label.value_or(multi_label) != multi_label)
    fail(Fault::data, path,
         multi_label ? ": has any number of classes an image, where multi_label=false or the model wants one; train "
                       "a model on these data"
                     : ": has one class an image, where multi_label=true or the model wants any number; give a "
                       ".csv, .tsv or .jsonl file whose labels are such as cat|dog");
  const bool numbers = !listing.numbers.empty();
  if (!numbers && !options.targets.empty())
    fail(
        Fault::data, path, ": target is ", join(options.targets, ","),
        ", which names columns of a table (.csv, .tsv, .jsonl) or of the labels of arrays (.npz, .npy), and these data "
        "have classes; leave target out, or give such a file");
  const bool for_training = options.for_training && options.class_names.empty();
  if (for_training && listing[Split::train].empty()) nothing_to_train_on(listing, path);
  const std::size_t fewest = for_training && listing.label_sets.empty() && !numbers ? 2 : 1;
  if (listing.class_names.size() < fewest && options.class_names.empty())
    fail(Fault::data, path, ": ", listing.class_names.empty() ? "no class" : "only the class \"",
         listing.class_names.empty() ? "" : listing.class_names[0] + "\"",
         " was found; a classifier needs at least two: add images of another one");
  const std::vector<std::string>& names = listing.class_names;
  if (options.class_names.empty() && !numbers && std::is_sorted(names.begin(), names.end()) &&
      !std::is_sorted(names.begin(), names.end(), natural_less))
    listing.notes.push_back(
        text("classes are numbered in lexicographic order (as in ", names[0], ", ", names[1],
             ", …); tools that count 2 before 10 number them otherwise; the option classes gives another order"));
  if (!options.class_names.empty() && !numbers) map_classes(listing, options.class_names, path);
  check_names(listing.class_names, path);
  if (!options.group_by.empty() && listing.groups.empty())
    fail(Fault::data, path, ": has no groups; group_by names a column of a .csv, .tsv or .jsonl file");
  if (listing[Split::test].empty() && !listing[Split::train].empty() && test_split > 0)
    naming([&] { return path; }, [&] { split_off(listing, Split::test, test_split, options.seed); });
  if (options.folds != 0) {
    require(options.folds >= 2 && options.fold >= 0 && options.fold < options.folds, "fold ", options.fold, " of ",
            options.folds, " folds: give at least 2 folds, and a fold from 0 to folds - 1");
    if (!listing[Split::val].empty())
      fail(Fault::data, path,
           ": has a val split of its own, which folds would ignore; use it without folds, "
           "or move its images to train");
    naming([&] { return path; }, [&] { choose_fold(listing, options.folds, options.fold, options.seed); });
    listing.validation = text("fold ", options.fold, " of ", options.folds, " of train, seed ", options.seed);
  } else if (listing[Split::val].empty() && !listing[Split::train].empty() && val_split > 0) {
    const double of_rest = listing[Split::test].empty() ? val_split : val_split / (1 - test_split);
    naming([&] { return path; }, [&] { split_off(listing, Split::val, of_rest, options.seed); });
    listing.validation = text(
        numbers ? "" : "stratified ", significant(100 * val_split), " % of train, seed ", options.seed, "; ",
        is_class_folder(path) ? (std::filesystem::path(path) / "val").string() : "a val split of the data",
        " would be used instead");
  }
  content_ = std::make_shared<const Listing>(std::move(listing));
}

std::int64_t Dataset::item(Split split, std::int64_t sample) const {
  require(sample >= 0 && sample < size(split), "dataset: sample ", sample, " is outside the ", split, " split of ",
          size(split));
  return items(split)[sample];
}

std::vector<std::int64_t> Dataset::class_counts(Split split) const {
  std::vector<std::int64_t> counts(class_names().size(), 0);
  for (const std::int64_t i : items(split))
    for (const std::int64_t c : classes_of(*content_, i)) ++counts[c];
  return counts;
}

std::int64_t Dataset::label(Split split, std::int64_t sample) const { return content_->labels[item(split, sample)]; }

std::span<const std::int64_t> Dataset::classes(Split split, std::int64_t sample) const {
  return classes_of(*content_, item(split, sample));
}

std::string Dataset::label_name(Split split, std::int64_t sample) const {
  std::vector<std::string> names;
  for (const float number : numbers(split, sample)) names.push_back(text(number));
  if (names.empty())
    for (const std::int64_t c : classes(split, sample)) names.push_back(class_names()[c]);
  return join(names, "|");
}

std::span<const float> Dataset::numbers(Split split, std::int64_t sample) const {
  if (!regression()) return {};
  const std::size_t count = class_names().size();
  return std::span(content_->numbers).subspan(static_cast<std::size_t>(item(split, sample)) * count, count);
}

double Dataset::weight(Split split, std::int64_t sample) const {
  const auto at = static_cast<std::size_t>(item(split, sample));
  return content_->weights.empty() ? 1 : content_->weights[at];
}

std::string Dataset::group(Split split, std::int64_t sample) const {
  const auto at = static_cast<std::size_t>(item(split, sample));
  return content_->groups.empty() ? "" : content_->groups[at];
}

std::int64_t Dataset::size() const {
  std::int64_t sum = 0;
  for (const Split split : kSplits) sum += size(split);
  return sum;
}

bool Dataset::weighted() const {
  const std::vector<double>& weights = content_->weights;
  return !weights.empty() && any_item(*content_, [&](std::int64_t item) { return weights[item] != 1; });
}

bool Dataset::grouped() const {
  const std::vector<std::string>& groups = content_->groups;
  return !groups.empty() && any_item(*content_, [&](std::int64_t item) { return !groups[item].empty(); });
}

std::string Dataset::name(Split split, std::int64_t sample) const {
  return content_->source->name(item(split, sample));
}

StoredImage Dataset::read(Split split, std::int64_t sample, std::vector<std::byte>& buffer) const {
  return content_->source->read(item(split, sample), buffer);
}

}  // namespace neurim
