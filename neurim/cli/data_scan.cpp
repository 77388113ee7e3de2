#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "neurim/cli/data_tasks.h"
#include "neurim/cli/open_data.h"
#include "neurim/data/label_problems.h"
#include "neurim/data/scan.h"
#include "neurim/data/sources/folder.h"
#include "neurim/neurim.h"

namespace neurim::cli {

namespace {

/// Counts words; prints them most frequent first: "JPEG 1,420 · PNG 11".
class Tally {
 public:
  void add(const std::string& word) { ++counts_[word]; }
  bool empty() const { return counts_.empty(); }
  std::string summary() const {
    std::vector<std::pair<std::int64_t, std::string>> sorted;
    for (const auto& [word, count] : counts_) sorted.emplace_back(-count, word);
    std::sort(sorted.begin(), sorted.end());
    std::vector<std::string> parts;
    for (const auto& [count, word] : sorted) parts.push_back(text(word, ' ', thousands(-count)));
    return join(parts, " · ");
  }
  JsonObject json() const {
    JsonObject object;
    for (const auto& [word, count] : counts_) object.add(word, count);
    return object;
  }

 private:
  std::map<std::string, std::int64_t> counts_;
};

/// Collects facts about a set of files, and prints them.
class ScanReport {
 public:
  void add(const ScannedFile& file) {
    ++statuses_[static_cast<std::size_t>(file.status)];
    if (!file.reason.empty()) remarks_.push_back(text(name(file.status), "  ", file.file, ": ", file.reason));
    if (file.status == ScannedFile::Status::error) return;
    const ImageHeader& header = file.header;
    formats_.add(header.format.empty() ? "levels" : std::string(header.format));
    if (header.channels != 3 || header.bits != 8)
      modes_.add(text(header.channels == 1   ? "gray"
                      : header.channels == 2 ? "gray and alpha"
                      : header.channels == 3 ? "colour"
                                             : text(header.channels, " channels"),
                      header.bits == 8 ? "" : text(" of ", header.bits, " bits")));
    turned_ += header.orientation != 1;
    shorter_.push_back(std::min(header.height, header.width));
  }

  std::int64_t count(ScannedFile::Status status) const { return statuses_[static_cast<std::size_t>(status)]; }

  void print(Console& console, const std::string& root, std::int64_t others, const std::vector<LabelProblem>& labels) {
    using Status = ScannedFile::Status;
    const std::int64_t all = count(Status::ok) + count(Status::partial) + count(Status::error);
    console.print(text(root, ": ", plural(all, "image"), ": ", thousands(count(Status::ok)), " ok, ",
                       thousands(count(Status::partial)), " partial, ", thousands(count(Status::error)),
                       " unreadable; ", plural(others, "other file")));
    if (!formats_.empty()) console.print(text("  formats  ", formats_.summary()));
    if (!modes_.empty()) console.print(text("  modes    ", modes_.summary(), " (the rest is colour of 8 bits)"));
    if (turned_ > 0) console.print(text("  EXIF     ", thousands(turned_), " turned upright"));
    print_sizes(console);
    if (!labels.empty()) {
      console.print(text("  labels   ", plural(static_cast<std::int64_t>(labels.size()), "problem")));
      for (std::size_t i = 0; i < std::min(kNamed, labels.size()); ++i)
        console.print(text("           ", labels[i].what));
      if (labels.size() > kNamed)
        console.print(text("           … and ", labels.size() - kNamed, " more; --json lists all"));
    }
    for (std::size_t i = 0; i < std::min(kNamed, remarks_.size()); ++i) console.print(text("  ", remarks_[i]));
    if (remarks_.size() > kNamed) console.print(text("  … and ", remarks_.size() - kNamed, " more; --json lists all"));
    JsonObject summary{{"event", "summary"},
                       {"root", root},
                       {"ok", count(Status::ok)},
                       {"partial", count(Status::partial)},
                       {"error", count(Status::error)},
                       {"other_files", others},
                       {"formats", formats_.json()},
                       {"modes", modes_.json()},
                       {"turned", turned_},
                       {"label_problems", labels.size()}};
    if (!shorter_.empty())
      summary.add("shorter_side", JsonObject{{"min", side(0)}, {"median", side(0.5)}, {"max", side(1)}});
    console.event(summary);
  }

 private:
  int side(double share) const { return shorter_[share * static_cast<double>(shorter_.size() - 1)]; }

  /// Prints a bar for each doubling of the shorter side.
  void print_sizes(Console& console) {
    if (shorter_.empty()) return;
    std::sort(shorter_.begin(), shorter_.end());
    console.print(text("  sizes    shorter side ", side(0), " to ", side(1), " pixels, median ", side(0.5)));
    std::map<int, std::int64_t> bins;  // by the power of two below
    for (const int length : shorter_) {
      int low = 1;
      while (low * 2 <= length) low *= 2;
      ++bins[low];
    }
    for (const auto& [low, count] : bins) {
      const double share = static_cast<double>(count) / static_cast<double>(shorter_.size());
      std::string range = text(low, " to ", 2 * low - 1);
      range.resize(std::max<std::size_t>(range.size(), 14), ' ');
      console.print(text("           ", range, bar(share, 30), ' ', thousands(count)));
    }
  }

  std::array<std::int64_t, 3> statuses_{};
  Tally formats_, modes_;
  std::int64_t turned_ = 0;
  std::vector<int> shorter_;  // of each image
  std::vector<std::string> remarks_;
};

JsonObject event_of(const ScannedFile& file) {
  const ImageHeader& header = file.header;
  return {{"event", "file"},
          {"file", file.file},
          {"status", name(file.status)},
          {"format", header.format},
          {"width", header.width},
          {"height", header.height},
          {"orientation", header.orientation},
          {"channels", header.channels},
          {"bits", header.bits},
          {"bytes", file.bytes},
          {"reason", file.reason}};
}

JsonObject event_of(const LabelProblem& problem) {
  return {{"event", "label_problem"}, {"kind", problem.kind}, {"what", problem.what}, {"names", problem.names}};
}

/// The problems of the labels in a folder of classes. Where train would not accept the folder, its images are scanned
/// all the same.
std::vector<LabelProblem> labels_of_folder(const std::string& root, std::vector<std::string>& notes) {
  try {
    return label_problems_of_folder(root, notes);
  } catch (const Error& error) {
    if (error.fault() != Fault::data) throw;
    return {{"unusable", error.what(), {}}};
  }
}

/// Whether the folder's files are arrays of many images. What cannot be listed is left to the scan.
bool holds_arrays(const std::string& root) {
  try {
    return is_arrays(root);
  } catch (const Error&) {
    return false;
  }
}

/// The data set, if it is another kind than folders of classes. If it cannot be read as such, the error goes to
/// `labels` and the image files are scanned.
std::optional<Dataset> other_set(const std::string& root, bool folder, Console& console,
                                 std::vector<LabelProblem>& labels) {
  try {
    if (folder && is_class_folder(root)) return {};
    return open_data(root, {.val_split = 0.0, .for_training = false}, console);
  } catch (const Error& error) {
    if (!folder || error.fault() != Fault::data || holds_arrays(root)) throw;
    labels.push_back({"unusable", error.what(), {}});
    return {};
  }
}

}  // namespace

int data_scan(const Words& words) {
  CommandLine line({"data scan",
                    "decodes every image and says what is wrong or odd about it and the labels; writes nothing",
                    "data",
                    {"neurim data scan photos", "neurim data scan shards --json > scan.jsonl",
                     "neurim data scan photos strict=true && neurim train data=photos"}});
  std::string root;
  std::optional<std::int64_t> threads_wanted;
  bool strict = false;
  line.options("data", root, "folder to look through, or what else train takes as data", {"data_dir", "source"});
  line.options("threads", threads_wanted, "threads that decode");
  line.options("strict", strict,
               "exit with 3 when an image or a shard is unreadable or partial, else with 0, as for label problems");
  if (!line.parse(words)) return 0;
  require(!root.empty(), "the data are missing; give the folder to look through, or what train takes: data=photos");
  if (threads_wanted) set_threads(*threads_wanted);
  Console console(line.console());
  ScanReport report;
  std::int64_t seen = 0, others = 0;
  const auto found = [&](const ScannedFile& file) {
    report.add(file);
    console.event(event_of(file));
    if (++seen % 100 == 0) console.progress(text("  ", thousands(seen), " images"));
  };
  std::error_code error;
  const bool folder = fs::is_directory(root, error);
  std::vector<LabelProblem> labels;
  bool lost = false;  // of a part of a shard or table
  if (const std::optional<Dataset> dataset = other_set(root, folder, console, labels)) {
    lost = !dataset->damage().empty();
    scan(*dataset, threads(), found);
    labels = label_problems(*dataset, is_manifest(root));
  } else {
    others = scan(root, threads(), found);
    if (seen == 0)
      fail(Fault::data,
           labels.empty() ? text(root, ": holds no image files (", plural(others, "other file"), ")") : labels[0].what);
    std::vector<std::string> notes;
    if (labels.empty()) labels = labels_of_folder(root, notes);
    print_notes(notes, console);
  }
  for (const LabelProblem& problem : labels) console.event(event_of(problem));
  report.print(console, root, others, labels);
  const std::int64_t bad = report.count(ScannedFile::Status::partial) + report.count(ScannedFile::Status::error);
  return strict && (bad > 0 || lost) ? static_cast<int>(Fault::data) : 0;
}

}  // namespace neurim::cli
