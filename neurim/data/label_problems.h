// What is wrong or odd about the labels of a data set.
#pragma once
#include <string>
#include <vector>

#include "neurim/data/dataset.h"

namespace neurim {

/// What predict calls images that it rejects.
inline constexpr const char* kRejected = "unknown";

struct LabelProblem {
  /// "case": classes differ only in capital letters; "unicode_form": a class is written in several Unicode forms;
  /// "blank": a class has one at the beginning or end of its name; "reserved": a class is called kRejected; "no_image":
  /// classes that no split shows; "no_training": classes that only others than train show; "one_group": classes whose
  /// images are all of one group; "empty": folders of classes hold no image; "missing_class": a split has no images of
  /// a class; "unknown_class": a split has a class that train has not; "two_classes", "two_splits": the same file or
  /// the same bytes stand there; "missing_file": a table names files that are not there; "unusable": the set cannot be
  /// opened.
  std::string kind;
  std::string what;                ///< one line for people
  std::vector<std::string> names;  ///< of the classes, folders or samples that it is about
};

/// What of a set training should say too: the kinds "case", "unicode_form", "blank", "reserved", "no_image" and
/// "no_training".
std::vector<LabelProblem> class_problems(const Dataset& dataset);

/// Looks at all splits. Samples of equal size that differ in class or split are compared by the SHA-256 of
/// what is stored; those that cannot be read take no part. of_files: samples are files, as those of folders
/// and tables are, and called by their paths.
std::vector<LabelProblem> label_problems(const Dataset& dataset, bool of_files);

/// The same of a folder that open_folder reads, also where it refuses it as splits have different classes.
/// Adds to `notes` what else is to be known of the set. None where no folder in it holds images: then it is no labelled
/// set.
std::vector<LabelProblem> label_problems_of_folder(const std::string& root, std::vector<std::string>& notes);

}  // namespace neurim
