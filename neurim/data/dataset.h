// A labelled set of images, split into training, validation and test.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "neurim/data/source.h"

namespace neurim {

/// How data are split and their classes named.
struct DatasetOptions {
  /// The share of each class that validation takes from training where the data has no val split of its own:
  /// in [0, 1). Unset means 0.1; with IDX files unset means that the test split is the val split too.
  std::optional<double> val_split;
  /// The share that the test split takes in the same way where the data has none: in [0, 1).
  double test_split = 0;
  std::uint64_t seed = 42;  ///< of these choices, which copy nothing
  /// k-fold cross-validation: where `folds` is k, at least 2, training is cut into k parts with like shares
  /// of each class; val is part `fold`, in [0, k), and train is the rest, with what of that part training would have no
  /// image of a class without. Data with a val split of its own are an error.
  int folds = 0,  ///< k; 0: no cross-validation
      fold = 0;   ///< the part that is val
  /// A manifest's column; items with equal values in it are never separated by val_split or folds. Empty:
  /// the column `group` where there is one.
  std::string group_by;
  /// Whether an image may have several classes or none: see open_manifest. Unset: as the data say. Data that
  /// cannot be so are an error.
  std::optional<bool> multi_label;
  /// Regression: what the numbers are called that each image has: columns of a table, or of the labels of arrays. Data
  /// without them are an error. Empty: images have classes.
  std::vector<std::string> targets;
  /// The classes of a checkpoint, in its order. Labels follow these names then, and labels that are numbers their
  /// order, from 0 on; data with a class that is not among them is an error. Empty: the classes of the training split,
  /// in lexicographic order.
  std::vector<std::string> class_names;
  /// Whether there has to be something to train on: samples in train, of at least two classes (of one in a
  /// multi-label set). If not, the classes of a set without train are those of all its splits.
  bool for_training = true;
};

/// An immutable view; copies are cheap and share the data. Samples of a split are numbered from 0.
class Dataset {
 public:
  /// Opens the folder, file or pattern `path`, whose content says what it is: see the open_… of source.h.
  /// Throws Error(data) with cause and fix where there is nothing to train on (see for_training) or where
  /// names of classes do not match.
  static Dataset open(const std::string& path, const DatasetOptions& options = {});

  /// Splits and maps what any source listed; `path` is what errors call it.
  Dataset(Listing listing, const DatasetOptions& options, const std::string& path);

  /// In the order of the labels.
  const std::vector<std::string>& class_names() const { return content_->class_names; }
  std::int64_t size() const;                                                                       ///< of all splits
  std::int64_t size(Split split) const { return static_cast<std::int64_t>(items(split).size()); }  ///< of one split
  bool multi_label() const { return !label_sets().empty(); }  ///< a sample has any number of classes
  /// Of a multi-label set the classes of each combination; see Listing::label_sets.
  const std::vector<std::vector<std::int64_t>>& label_sets() const { return content_->label_sets; }
  /// Each sample has numbers instead of classes; class_names() are what they are called then.
  bool regression() const { return !content_->numbers.empty(); }
  bool has_targets() const { return multi_label() || regression(); }  ///< a row of numbers, not one class, for a sample
  /// The numbers of a sample, one for each of class_names(); empty where it has classes.
  std::span<const float> numbers(Split split, std::int64_t sample) const;
  std::vector<std::int64_t> class_counts(Split split) const;  ///< samples of each class
  /// The class of a sample; in a multi-label set a number that equal label sets share.
  std::int64_t label(Split split, std::int64_t sample) const;
  /// The classes of a sample, in rising order: one, or in a multi-label set any number.
  std::span<const std::int64_t> classes(Split split, std::int64_t sample) const;
  /// Their names with bars between them, as a table has them: "cat", "cat|dog", ""; where it has numbers, these.
  std::string label_name(Split split, std::int64_t sample) const;
  double weight(Split split, std::int64_t sample) const;      ///< how much it counts; 1 where none is given
  std::string group(Split split, std::int64_t sample) const;  ///< "" where it has none
  bool weighted() const;                                      ///< some sample has another weight than 1
  bool grouped() const;                                       ///< some sample has a group
  std::string name(Split split,
                   std::int64_t sample) const;  ///< the path of the file, or file and position in it
  /// A sample as it is stored; see Source::read.
  StoredImage read(Split split, std::int64_t sample, std::vector<std::byte>& buffer) const;
  /// The size of all images, where they lie decoded in memory; see Source::in_memory.
  std::optional<ImageSize> in_memory() const { return content_->source->in_memory(); }
  /// How the val split was taken from train: "stratified 10 % of train, seed 42; …"; "" where it was not.
  const std::string& validation() const { return content_->validation; }
  /// What a user should know about the data, one line each.
  const std::vector<std::string>& notes() const { return content_->notes; }
  /// The names of each class that is written in several Unicode forms, what it is called first.
  const std::vector<std::vector<std::string>>& spellings() const { return content_->spellings; }
  /// Where a part of the data is lost, such as in an archive that is cut off, which a note tells too; "" for nowhere.
  const std::string& damage() const { return content_->damage; }

 private:
  const std::vector<std::int64_t>& items(Split split) const {
    return content_->splits[static_cast<std::size_t>(split)];
  }
  std::int64_t item(Split split, std::int64_t sample) const;

  std::shared_ptr<const Listing> content_;
};

}  // namespace neurim
