#include "neurim/data/sources/parts.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>

#include "neurim/base/error.h"
#include "neurim/data/sources/table.h"
#include "neurim/data/spellings.h"

namespace neurim {
namespace {

constexpr std::size_t kMostListed = 20, kMostGrades = 20;
constexpr int kMostLooked = 200;  // entries below a folder among which an image is looked for

class FileSource : public Source {
 public:
  explicit FileSource(std::vector<std::string> files) : files_(std::move(files)) {}
  std::string name(std::int64_t item) const override { return files_[item]; }
  StoredImage read(std::int64_t item, std::vector<std::byte>& buffer) const override {
    return {read_into(files_[item], buffer), {}};
  }

 private:
  std::vector<std::string> files_;
};

/// A regular file, open for reading by position.
class OpenFile {
 public:
  /// Without waiting for the other end of a pipe.
  explicit OpenFile(const std::string& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat status {};
    if (descriptor_ < 0 || ::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
      const int reason = errno;
      if (descriptor_ >= 0) ::close(descriptor_);
      fail(Fault::data, "cannot read: ", descriptor_ < 0 ? std::strerror(reason) : "not a regular file",
           "; check that the file is there and readable");
    }
    size_ = static_cast<std::uint64_t>(status.st_size);
  }
  ~OpenFile() { ::close(descriptor_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  std::uint64_t size() const { return size_; }
  void read(std::uint64_t offset, std::span<std::byte> to) const {
    while (!to.empty()) {
      const ssize_t count = ::pread(descriptor_, to.data(), to.size(), static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail(Fault::data, "cannot read: ", std::strerror(errno), "; check the disk");
      if (count == 0) fail(Fault::data, "the file is shorter than when it was opened; leave it alone while it is used");
      to = to.subspan(count);
      offset += static_cast<std::uint64_t>(count);
    }
  }

 private:
  int descriptor_;
  std::uint64_t size_ = 0;
};

/// Whether an image is among the first entries below the folder; the charts of runs are none.
bool holds_images(const fs::path& folder) {
  if (holds_run(folder)) return false;
  constexpr auto options = fs::directory_options::follow_directory_symlink |
                           fs::directory_options::skip_permission_denied;
  std::error_code error, ignored;
  fs::recursive_directory_iterator at(folder, options, error);
  for (int looked = 0; !error && at != fs::recursive_directory_iterator() && looked < kMostLooked; ++looked) {
    if (is_hidden(at->path()) || (at->is_directory(ignored) && holds_run(at->path()))) {
      at.disable_recursion_pending();
    } else if (at->is_regular_file(ignored) && is_image_file(at->path())) {
      return true;
    }
    at.increment(error);
  }
  return false;
}

/// The splits that words of the name name: train of "flowers_train-00000-of-00005.tfrecord".
std::set<Split> splits_named_in(const std::string& name) {
  std::set<Split> found;
  std::string word;
  for (const char c : name + '.') {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      word += c;
      continue;
    }
    if (const auto split = split_named(word)) found.insert(*split);
    word.clear();
  }
  return found;
}

/// What lies between the numbers, which rise: "3", "10 to 199".
std::vector<std::string> gaps(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> found;
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    const std::int64_t first = numbers[i - 1] + 1, last = numbers[i] - 1;
    if (first <= last) found.push_back(first == last ? text(first) : text(first, " to ", last));
  }
  return found;
}

}  // namespace

std::optional<std::int64_t> integer(const std::string& word) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || text(value) != word) return {};
  return value;
}

std::vector<fs::directory_entry> entries(const fs::path& folder) {
  std::vector<fs::directory_entry> found;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (!is_hidden(at->path())) found.push_back(*at);
  if (error)
    fail(Fault::data, folder.string(), ": cannot list: ", error.message(), "; check that the folder is readable");
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const fs::directory_entry& entry : entries(folder))
    if (entry.is_regular_file(error)) found.push_back(entry.path());
  return found;
}

std::vector<std::string> shards_in(const fs::path& folder, bool (*is)(const fs::path&)) {
  std::vector<std::string> found;
  const auto add = [&](const fs::path& at) {
    const std::size_t before = found.size();
    for (const fs::path& file : files_in(at))
      if (is(file)) found.push_back(file.string());
    return found.size() > before;
  };
  add(folder);
  std::error_code error;
  for (const fs::directory_entry& entry : entries(folder))
    if (entry.is_directory(error) && !add(entry.path()) && holds_images(entry.path())) return {};
  return found;
}

std::optional<Split> split_named(std::string_view name) {
  const std::string word = lower(name);
  if (word == "train" || word == "training") return Split::train;
  if (word == "val" || word == "valid" || word == "validation") return Split::val;
  if (word == "test" || word == "testing") return Split::test;
  return {};
}

std::vector<Split> splits_of(const std::vector<std::string>& files, const std::string& path,
                             std::vector<std::string>& notes) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  std::vector<Split> splits;
  std::int64_t nameless = 0;
  std::string a_nameless;
  for (const std::string& file : files) {
    const fs::path folder = fs::path(file).parent_path();
    std::set<Split> named = splits_named_in(fs::path(file).filename().string());
    const std::set<Split> of_folder = splits_named_in(folder.filename().string());
    // The folder that the set is may be called "test" for other reasons, so the names of its files go first.
    const bool below = is_folder && fs::path(file).lexically_relative(path).has_parent_path();
    if (below || (named.empty() && of_folder.size() == 1)) named.insert(of_folder.begin(), of_folder.end());
    if (named.size() > 1)
      fail(Fault::data, file, ": by its name", below ? " and that of its folder" : "", " it is of both ",
           *named.begin(), " and ", *std::next(named.begin()), "; rename it, so that it is of one split");
    if (named.empty() && nameless++ == 0) a_nameless = file;
    splits.push_back(named.empty() ? Split::train : *named.begin());
  }
  if (nameless < std::ssize(files))
    note_count(notes, nameless, "files name no split, as others do, and are training data", a_nameless);
  return splits;
}

void check_all_there(const std::vector<std::string>& files, const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return;
  struct Counted {
    std::uint64_t of = 0;
    std::size_t width = 0;  // of a number
    std::set<std::uint64_t> numbers;
    fs::path folder;  // of one of them
  };
  std::map<std::pair<std::string, std::string>, Counted> sets;  // by what stands around the number
  for (const std::string& full : files) {
    const std::string file = fs::path(full).filename().string();
    const std::size_t middle = file.rfind("-of-");
    if (middle == std::string::npos || middle == 0) continue;
    const std::size_t begin = file.find_last_not_of("0123456789", middle - 1) + 1;
    const std::string number = file.substr(begin, middle - begin);
    std::uint64_t at = 0, of = 0;
    if (std::from_chars(number.data(), number.data() + number.size(), at).ec != std::errc()) continue;
    const auto [end, error_of] = std::from_chars(file.data() + middle + 4, file.data() + file.size(), of);
    if (error_of != std::errc() || (end != file.data() + file.size() && *end != '.'))
      continue;  // what else follows may differ from file to file
    Counted& set = sets[{file.substr(0, begin), file.substr(middle)}];
    set.of = of, set.width = number.size(), set.folder = fs::path(full).parent_path();
    set.numbers.insert(at);
  }
  for (const auto& [around, set] : sets) {
    const std::uint64_t first = !set.numbers.contains(0) && set.numbers.contains(set.of) ? 1 : 0;
    std::uint64_t missing = first;
    while (set.numbers.contains(missing)) ++missing;
    if (missing >= first + set.of) continue;
    const std::string number = text(missing);
    const std::string padded = std::string(set.width - std::min(set.width, number.size()), '0') + number;
    const std::uint64_t lacking = set.of - std::min<std::uint64_t>(set.numbers.size(), set.of - 1);
    fail(Fault::data, path, ": of the ", set.of, " files that their names count ", lacking,
         lacking == 1 ? " is" : " are", " missing, such as ",
         (set.folder / (around.first + padded + around.second)).string(),
         "; put it there, or rename the others, so that they do not count it");
  }
}

void validate_on_test(Listing& listing, const DatasetOptions& options) {
  if (options.val_split || options.folds || listing[Split::test].empty()) return;
  listing[Split::val] = listing[Split::test];
  listing.notes.push_back(
      "validation is on the test split, as these files have none for validation; val_split=0.1 cuts one from "
      "training");
}

std::shared_ptr<const Source> file_source(std::vector<std::string> files) {
  return std::make_shared<FileSource>(std::move(files));
}

Bytes bytes_of_file(const std::string& path) {
  const auto file = naming([&] { return path; }, [&] { return std::make_shared<const OpenFile>(path); });
  return {file->size(), [file](std::uint64_t offset, std::span<std::byte> to) { file->read(offset, to); }};
}

std::span<const std::byte> read_part(const std::string& path, std::uint64_t offset, std::uint64_t size,
                                     std::vector<std::byte>& buffer) {
  if (size > kMostPart)
    fail(Fault::data, "an item of ", size, " bytes is above the limit of ", kMostPart, "; scale the image down");
  const OpenFile file(path);
  if (offset > file.size() || size > file.size() - offset)
    fail(Fault::data, "the file is shorter than when it was opened; leave it alone while it is used");
  if (buffer.size() < size) buffer.resize(size);
  const std::span<std::byte> to = std::span(buffer).first(size);
  file.read(offset, to);
  return to;
}

/// What is wrong with labels that are numbers with fractions: "" where there are none, or where they may be grades,
/// which a note says.
std::string Gathered::measurements(std::vector<std::string>& notes) const {
  std::vector<std::string> fractions;
  for (const auto& [label, number] : index_) {
    std::string point = label;
    std::replace(point.begin(), point.end(), ',', '.');
    double value = 0;
    const auto [end, error] = std::from_chars(point.data(), point.data() + point.size(), value);
    if (error != std::errc() || end != point.data() + point.size() || !std::isfinite(value)) return "";
    if (value != std::floor(value)) fractions.push_back(label);
  }
  if (fractions.empty()) return "";
  const std::size_t distinct = index_.size();
  const std::string what = text("labels are numbers with fractions, such as ", fractions.front(),
                                fractions.size() > 1 ? text(" and ", fractions.back()) : "", " (", distinct,
                                " different ones of ", plural(size(), "image"), ")");
  if (distinct > kMostGrades || labels_.size() < 2 * distinct)
    return text(what,
                ", which look like measurements: give target=COLUMN to learn them as numbers, or a label column of "
                "class names, "
                "such as low and high, or name the classes: classes=NAME,NAME");
  notes.push_back(text(what, ": each is a class of its own"));
  return "";
}

void Gathered::add(Split split, const std::string& label) {
  labels_.push_back(index_.emplace(label, static_cast<std::int64_t>(index_.size())).first->second);
  splits_.push_back(split);
}

void Gathered::add(Split split, const std::string& label, double weight, const std::string& group) {
  add(split, label);
  weights_.push_back(weight);
  groups_.push_back(group);
}

/// Puts classes that are all integers into numeric order, and says so.
static void sort_numbers(std::vector<std::string>& classes, bool says_so, std::vector<std::string>& notes) {
  if (classes.empty() || !std::all_of(classes.begin(), classes.end(), integer)) return;
  std::sort(classes.begin(), classes.end(), [](const auto& a, const auto& b) { return *integer(a) < *integer(b); });
  std::vector<std::int64_t> numbers;
  for (const std::string& name : classes) numbers.push_back(*integer(name));
  const std::vector<std::string> lacking = gaps(numbers);
  if (says_so)
    notes.push_back(text("all labels are integers: classes are in numeric order, from ", classes.front(), " to ",
                         classes.back(), lacking.empty() ? "" : text(", without ", listed(lacking))));
}

/// Notes the splits without images of some classes; `classes_of` has the classes of each label.
void Gathered::note_missing_classes(const std::vector<std::string>& classes,
                                    const std::vector<std::set<std::int64_t>>& classes_of, Listing& listing) const {
  for (const Split split : {Split::val, Split::test}) {
    std::set<std::int64_t> there;
    for (const std::int64_t item : listing[split]) {
      const std::set<std::int64_t>& set = classes_of[labels_[item]];
      there.insert(set.begin(), set.end());
    }
    if (there.empty() || there.size() >= classes.size()) continue;
    std::size_t lacking = 0;
    while (there.contains(static_cast<std::int64_t>(lacking))) ++lacking;
    listing.notes.push_back(text(split, " has no images of ", classes.size() - there.size(), " of the ", classes.size(),
                                 " classes, such as ", classes[lacking]));
  }
}

Listing Gathered::finish(const std::string& path, const DatasetOptions& options, bool multi_label) const {
  Listing listing;
  if (!multi_label && options.class_names.empty())
    if (const std::string wrong = measurements(listing.notes); !wrong.empty()) {
      if (options.for_training) fail(Fault::data, path, ": ", wrong);
      listing.notes.push_back(wrong);
    }
  Spellings spellings;
  const auto written_in = [&](const std::string& label) {
    return multi_label ? names_between_bars(label) : std::vector{label};
  };
  for (const auto& [label, number] : index_)
    for (const std::string& name : written_in(label)) spellings.add(name);
  const auto names_in = [&](const std::string& label) {
    std::vector<std::string> names = written_in(label);
    for (std::string& name : names) name = spellings.of(name);
    return names;
  };
  std::vector<char> in_train(index_.size(), 0);
  for (std::size_t i = 0; i < labels_.size(); ++i) {
    listing[splits_[i]].push_back(static_cast<std::int64_t>(i));
    if (splits_[i] == Split::train) in_train[labels_[i]] = 1;
  }
  // Else the classes are those of train; then `known` stays empty where there is no train, which Dataset reports.
  const bool of_all_splits = !options.class_names.empty() || (!options.for_training && listing[Split::train].empty());
  std::map<std::string, bool> classes;  // whether they are in train
  for (const auto& [label, number] : index_)
    for (const std::string& name : names_in(label)) classes[name] = classes[name] || in_train[number];
  std::vector<std::string> known, unknown;
  for (const auto& [name, is_in_train] : classes) (is_in_train || of_all_splits ? known : unknown).push_back(name);
  if (!unknown.empty() && !known.empty()) {
    std::vector<std::string> texts(index_.size());
    for (const auto& [label, number] : index_) texts[number] = label;
    std::map<Split, std::set<std::string>> has;
    for (std::size_t i = 0; i < labels_.size(); ++i)
      for (const std::string& name : names_in(texts[labels_[i]])) has[splits_[i]].insert(name);
    for (const auto& [split, names] : has)
      if (names.contains(unknown[0]))
        fail(Fault::data, path, ": ", split, " has the classes [", listed({names.begin(), names.end()}),
             "], but train has [", listed(known), "]; correct the labels or the splits of [", listed(unknown), "]");
  }
  sort_numbers(known, !of_all_splits, listing.notes);
  std::map<std::string, std::int64_t> number_of;
  for (std::size_t c = 0; c < known.size(); ++c) number_of[known[c]] = static_cast<std::int64_t>(c);
  std::vector<std::set<std::int64_t>> classes_of(index_.size());  // of each text
  for (const auto& [label, number] : index_)
    for (const std::string& name : names_in(label)) classes_of[number].insert(number_of[name]);
  std::map<std::set<std::int64_t>, std::int64_t> set_numbers;  // "a|b" and "b|a" are one
  for (const std::int64_t label : labels_) {
    const std::set<std::int64_t>& set = classes_of[label];
    listing.labels.push_back(multi_label
                                 ? set_numbers.emplace(set, static_cast<std::int64_t>(set_numbers.size())).first->second
                                 : *set.begin());
  }
  listing.label_sets.resize(set_numbers.size());
  for (const auto& [set, number] : set_numbers) listing.label_sets[number].assign(set.begin(), set.end());
  if (!of_all_splits) note_missing_classes(known, classes_of, listing);
  listing.class_names = std::move(known);
  listing.spellings = spellings.several();
  if (std::any_of(weights_.begin(), weights_.end(), [](double weight) { return weight != 1; }))
    listing.weights = weights_;
  if (std::any_of(groups_.begin(), groups_.end(), [](const std::string& group) { return !group.empty(); })) {
    Spellings of_groups;
    for (const std::string& group : groups_) of_groups.add(group);
    for (const std::string& group : groups_) listing.groups.push_back(of_groups.of(group));
  }
  return listing;
}

std::vector<std::string> names_between_bars(std::string_view text) {
  std::vector<std::string> names;
  for (const std::string& part : split(text, '|')) names.push_back(trimmed(part));
  return names == std::vector<std::string>{""} ? std::vector<std::string>() : names;
}

void note_count(std::vector<std::string>& notes, std::int64_t count, std::string_view what,
                const std::string& example) {
  if (count > 0) notes.push_back(text(count, " ", what, ", such as ", example));
}

std::vector<std::string> names_beside(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  if (!fs::is_regular_file(folder / "labels.txt", error)) return names;
  for (const std::string& line : split(read_text(folder / "labels.txt"), '\n')) {
    if (line.empty()) continue;
    if (std::find(names.begin(), names.end(), line) != names.end())
      fail(Fault::data, (folder / "labels.txt").string(), ": \"", line,
           "\" stands twice; each class has a name of its own, one a line");
    names.push_back(line);
  }
  return names;
}

std::vector<std::string> numbered_classes(Listing& listing, const std::string& where, const DatasetOptions& options) {
  const auto labels = std::span(listing.labels).first(listing[Split::train].size());
  if (!labels.empty() && options.class_names.empty()) {
    const auto largest = std::max_element(labels.begin(), labels.end());
    std::set<std::int64_t> there(labels.begin(), labels.end());
    there.insert(-1);
    const std::vector<std::string> lacking = gaps({there.begin(), there.end()});
    const bool one = static_cast<std::int64_t>(there.size()) == *largest + 1;
    if (!lacking.empty())
      fail(Fault::data, where, ": label ", *largest, " at index ", largest - labels.begin(), ", but ",
           one ? "class " : "classes ", listed(lacking), one ? " has" : " have",
           " no training image; correct the label, or name the classes in labels.txt, one a line");
  }
  std::vector<std::string> names;
  for (const std::int64_t label : listing.labels)
    while (std::ssize(names) <= label) names.push_back(text(names.size()));
  return names;
}

std::string listed(const std::vector<std::string>& names) {
  std::vector<std::string> shown(names.begin(),
                                 names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMostListed)));
  for (std::string& name : shown)
    if (trimmed(name) != name) name = text('"', name, '"');
  return text(join(shown, ", "), names.size() > kMostListed ? text(", … ", names.size(), " in all") : "");
}

}  // namespace neurim
