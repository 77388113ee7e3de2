#include "neurim/data/label_problems.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "neurim/base/canonical_form.h"
#include "neurim/base/sha256.h"
#include "neurim/data/sources/folder.h"
#include "neurim/data/sources/parts.h"
#include "neurim/data/spellings.h"

namespace neurim {
namespace {

struct Sample {
  Split split;
  std::int64_t index;
};
using Samples = std::vector<Sample>;

/// The group that all samples of a class are of.
class ClassGroups {
 public:
  explicit ClassGroups(const Dataset& dataset) : groups_(dataset.class_names().size()) {
    for (const Split split : kSplits)
      for (std::int64_t i = 0; i < dataset.size(split); ++i)
        for (const std::int64_t c : dataset.classes(split, i)) groups_[c].insert(dataset.group(split, i));
  }
  /// "" where they are of several, or have none.
  std::string only(std::size_t class_number) const {
    const std::set<std::string>& groups = groups_[class_number];
    return groups.size() == 1 ? *groups.begin() : "";
  }

 private:
  std::vector<std::set<std::string>> groups_;
};

void look_at_names(const Dataset& dataset, std::vector<LabelProblem>& problems) {
  std::map<std::string, std::vector<std::string>> alike;
  std::vector<std::string> blank;
  for (const std::string& class_name : dataset.class_names()) {
    alike[lower(class_name)].push_back(class_name);
    if (trimmed(class_name) != class_name) blank.push_back(class_name);
  }
  for (const auto& [word, names] : alike)
    if (names.size() > 1)
      problems.push_back({"case", text("the classes ", listed(names), " differ only in capital letters"), names});
  const auto add_forms = [&](const std::vector<std::vector<std::string>>& several, std::string_view how) {
    for (const std::vector<std::string>& names : several) {
      std::vector<std::string> shown;
      for (const std::string& one : names) shown.push_back(with_code_points(one));
      problems.push_back(
          {"unicode_form",
           text("the class ", names[0], " is written in several Unicode forms, which are ", how, ": ", listed(shown)),
           names});
    }
  };
  Spellings spellings;  // of lists of names, such as labels.txt, that say how many classes there are
  for (const std::string& class_name : dataset.class_names()) spellings.add(class_name);
  add_forms(dataset.spellings(), "taken as one");
  add_forms(spellings.several(), "classes of their own");
  if (std::find(dataset.class_names().begin(), dataset.class_names().end(), kRejected) != dataset.class_names().end())
    problems.push_back({"reserved",
                        text("a class is called ", kRejected,
                             ", as predict calls what reject= rejects: its field rejected tells them apart"),
                        {kRejected}});
  if (!blank.empty())
    problems.push_back(
        {"blank", text("names of classes begin or end with a blank, which is a part of them: ", listed(blank)), blank});
}

void look_at_training(const Dataset& dataset, std::vector<LabelProblem>& problems) {
  const std::vector<std::int64_t> train = dataset.class_counts(Split::train);
  if (dataset.size(Split::train) == 0 || std::count(train.begin(), train.end(), 0) == 0) return;
  std::vector<std::string> nowhere, untrained, why;
  const ClassGroups groups(dataset);
  for (std::size_t c = 0; c < train.size(); ++c) {
    if (train[c] > 0) continue;
    std::int64_t others = 0;
    std::string places;
    for (const Split split : {Split::val, Split::test})
      if (const std::int64_t count = dataset.class_counts(split)[c]; count > 0)
        others += count, places += text(places.empty() ? "" : " and ", split);
    const std::string& class_name = dataset.class_names()[c];
    (others == 0 ? nowhere : untrained).push_back(class_name);
    const std::string group = groups.only(c);
    if (others > 0)
      why.push_back(text(class_name, " (", plural(others, "image"), ", all in ", places,
                         group.empty() ? "" : text(", of the one group ", group), ')'));
  }
  if (!nowhere.empty())
    problems.push_back({"no_image", text("classes without any image cannot be learnt: ", listed(nowhere)), nowhere});
  if (!untrained.empty())
    problems.push_back(
        {"no_training", text("classes without a training image cannot be learnt: ", listed(why)), untrained});
}

class Examiner {
 public:
  Examiner(const Dataset& dataset, bool of_files) : dataset_(dataset), of_files_(of_files) {}

  std::vector<LabelProblem> problems() {
    problems_ = class_problems(dataset_);
    std::erase_if(problems_,
                  [](const LabelProblem& problem) { return problem.kind == "no_training"; });  // "unknown_class"
    look_at_groups();
    look_at_splits();
    look_at_samples();
    return std::move(problems_);
  }

 private:
  void look_at_groups() {
    if (!dataset_.grouped() || dataset_.size(Split::val) > 0) return;  // which is cut from training else
    const ClassGroups groups(dataset_);
    std::vector<std::string> alone;
    for (std::size_t c = 0; c < dataset_.class_names().size(); ++c)
      if (!groups.only(c).empty()) alone.push_back(dataset_.class_names()[c]);
    if (!alone.empty())
      problems_.push_back(
          {"one_group",
           text("all images of a class are of one group, so that training or validation has none of it: ",
                listed(alone)),
           alone});
  }

  void look_at_splits() {
    const std::vector<std::int64_t> train = dataset_.class_counts(Split::train);
    for (const Split split : {Split::val, Split::test}) {
      if (dataset_.size(split) == 0 || dataset_.size(Split::train) == 0) continue;
      const std::vector<std::int64_t> counts = dataset_.class_counts(split);
      std::vector<std::string> missing, unknown;
      for (std::size_t c = 0; c < counts.size(); ++c) {
        if (train[c] > 0 && counts[c] == 0) missing.push_back(dataset_.class_names()[c]);
        if (train[c] == 0 && counts[c] > 0) unknown.push_back(dataset_.class_names()[c]);
      }
      if (!missing.empty())
        problems_.push_back({"missing_class", text(split, " has no images of ", listed(missing)), missing});
      if (!unknown.empty())
        problems_.push_back(
            {"unknown_class", text(split, " has images of ", listed(unknown), ", train has none"), unknown});
    }
  }

  void look_at_samples() {
    std::map<std::string, Samples> by_file;
    std::map<std::uint64_t, Samples> by_size;
    for (const Split split : kSplits)
      for (std::int64_t i = 0; i < dataset_.size(split); ++i) {
        const Sample sample{split, i};
        if (of_files_) {
          by_file[dataset_.name(split, i)].push_back(sample);
        } else if (const auto size = stored_size(sample)) {
          by_size[*size].push_back(sample);
        }
      }
    std::vector<std::string> missing;
    for (const auto& [file, samples] : by_file) {
      tell_apart("the same file", samples);
      std::error_code error;
      const std::uintmax_t size = fs::file_size(file, error);
      if (!error) by_size[size].push_back(samples[0]);
      if (error == std::errc::no_such_file_or_directory) missing.push_back(file);
    }
    if (!missing.empty())
      problems_.push_back(
          {"missing_file", text(missing.size(), " named files are not there, such as ", missing[0]), missing});
    const std::size_t before = problems_.size();
    for (const auto& [size, samples] : by_size) {
      if (!differ(samples)) continue;
      std::map<std::string, Samples> by_content;
      for (const Sample& sample : samples)
        if (const std::string digest = digest_of(sample); !digest.empty()) by_content[digest].push_back(sample);
      for (const auto& [digest, equal] : by_content) tell_apart("the same bytes", equal);
    }
    std::sort(problems_.begin() + static_cast<std::ptrdiff_t>(before), problems_.end(),
              [](const LabelProblem& a, const LabelProblem& b) { return a.names < b.names; });
  }

  std::optional<std::uint64_t> stored_size(const Sample& sample) {
    try {
      return dataset_.read(sample.split, sample.index, buffer_).bytes.size();
    } catch (const Error&) {
      return {};
    }
  }

  std::string digest_of(const Sample& sample) {
    try {
      const StoredImage stored = dataset_.read(sample.split, sample.index, buffer_);
      const std::string pixels = text(stored.pixels.height, ' ', stored.pixels.width, ' ', stored.pixels.channels, ' ',
                                      stored.pixels.bits);
      Sha256 sha;
      sha.add(std::as_bytes(std::span(pixels)));
      sha.add(stored.bytes);
      return sha.hex();
    } catch (const Error&) {
      return "";
    }
  }

  bool of_two_classes(const Samples& samples) const {
    return std::any_of(samples.begin(), samples.end(), [&](const Sample& sample) {
      return dataset_.label(sample.split, sample.index) != dataset_.label(samples[0].split, samples[0].index);
    });
  }
  static bool of_two_splits(const Samples& samples) {
    return std::any_of(samples.begin(), samples.end(),
                       [&](const Sample& sample) { return sample.split != samples[0].split; });
  }
  bool differ(const Samples& samples) const { return of_two_classes(samples) || of_two_splits(samples); }

  void tell_apart(std::string_view what, const Samples& samples) {
    if (!differ(samples)) return;
    const bool classes = of_two_classes(samples);
    std::vector<std::string> names, places;
    for (const auto& [split, i] : samples) {
      names.push_back(dataset_.name(split, i));
      places.push_back(text(names.back(), " (", split, ", ", dataset_.label_name(split, i), ")"));
    }
    problems_.push_back(
        {classes ? "two_classes" : "two_splits",
         text(what, classes ? " in two classes" : "",
              of_two_splits(samples) ? (classes ? " and two splits" : " in two splits") : "", ": ", listed(places)),
         names});
  }

  const Dataset& dataset_;
  bool of_files_;
  std::vector<LabelProblem> problems_;
  std::vector<std::byte> buffer_;
};

}  // namespace

std::vector<LabelProblem> class_problems(const Dataset& dataset) {
  std::vector<LabelProblem> problems;
  look_at_names(dataset, problems);
  look_at_training(dataset, problems);
  return problems;
}

std::vector<LabelProblem> label_problems(const Dataset& dataset, bool of_files) {
  return Examiner(dataset, of_files).problems();
}

std::vector<LabelProblem> label_problems_of_folder(const std::string& root, std::vector<std::string>& notes) {
  std::vector<std::string> empty;
  const std::vector<std::string> classes = class_folders(root, empty);
  if (classes.empty()) return {};
  const Dataset dataset = Dataset::open(root, {.val_split = 0.0, .class_names = classes});
  notes.insert(notes.end(), dataset.notes().begin(), dataset.notes().end());
  std::vector<LabelProblem> problems = label_problems(dataset, true);
  if (!empty.empty()) problems.insert(problems.begin(), {"empty", text("no images are in ", listed(empty)), empty});
  return problems;
}

}  // namespace neurim
