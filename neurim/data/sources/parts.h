// What several kinds of sources are made of.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/base/bytes.h"
#include "neurim/base/file.h"
#include "neurim/data/dataset.h"
#include "neurim/data/image_files.h"

namespace neurim {

/// The integer that the text is, as a program writes it: numbers and texts correspond one to one.
std::optional<std::int64_t> integer(const std::string& word);

/// The entries of a folder that are not hidden, in lexicographic order. Throws Error(data).
std::vector<fs::directory_entry> entries(const fs::path& folder);

/// The regular files among them.
std::vector<fs::path> files_in(const fs::path& folder);

/// The files of a folder, or of folders in it, that `is` accepts; none where a folder in it holds none of
/// them but images: an archive that lies beside folders of images is what they were unpacked from.
std::vector<std::string> shards_in(const fs::path& folder, bool (*is)(const fs::path&));

/// The split of that name, in small or capital letters: train or training, val, valid or validation, test or
/// testing.
std::optional<Split> split_named(std::string_view name);

/// The split that each file of a set is of by a word of its name ("flowers_train-000.tar") or else of its
/// folder's ("val_shards"). Files that name none are training, which a note says where others name one. Throws
/// Error(data) where a file and a folder below `path`, which is the set, name two.
std::vector<Split> splits_of(const std::vector<std::string>& files, const std::string& path,
                             std::vector<std::string>& notes);

/// Where names count the files, "x-00002-of-00010.tar", all of them have to be among those of the folder `path`; a path
/// of one file asks for that alone. Throws Error(data) naming what is missing.
void check_all_there(const std::vector<std::string>& files, const std::string& path);

/// For files that come with a test split and no val split: val is test too, which a note says, where the
/// options cut none from training.
void validate_on_test(Listing& listing, const DatasetOptions& options);

/// Image files, one an item.
std::shared_ptr<const Source> file_source(std::vector<std::string> files);

/// Of a file that stays open as long as they are used. Throws Error(data) naming it.
Bytes bytes_of_file(const std::string& path);

/// The most bytes that an item may have in a file of several, as an image file may have.
inline constexpr std::uint64_t kMostPart = Decoder::kMostBytes;

/// `size` bytes of a file from `offset` on, in `buffer`. The file is opened each time, as a set may have more
/// shards than a process may hold open. Throws Error(data) without the path, and before anything is allocated
/// where they are more than kMostPart.
std::span<const std::byte> read_part(const std::string& path, std::uint64_t offset, std::uint64_t size,
                                     std::vector<std::byte>& buffer);

/// Items whose class is given by a text, gathered one by one into a Listing.
class Gathered {
 public:
  /// The item after the last one.
  void add(Split split, const std::string& label);
  void add(Split split, const std::string& label, double weight, const std::string& group);
  std::int64_t size() const { return static_cast<std::int64_t>(labels_.size()); }
  /// The classes are those of train: in numeric order where all are integers, which is noted, else in
  /// lexicographic order. Throws Error(data) where another split has more; with options.class_names, which
  /// decide then, they are those of all splits. The source is left to the caller. multi_label: a text is the
  /// names of any number of classes, with bars between them. For training throws Error(data) where the texts are
  /// numbers with fractions, more than 20 different ones or most of them once, which are measurements and no classes.
  Listing finish(const std::string& path, const DatasetOptions& options, bool multi_label = false) const;

 private:
  std::string measurements(std::vector<std::string>& notes) const;
  void note_missing_classes(const std::vector<std::string>& classes,
                            const std::vector<std::set<std::int64_t>>& classes_of, Listing& listing) const;

  std::map<std::string, std::int64_t, std::less<>> index_;  // of each text
  std::vector<std::int64_t> labels_;
  std::vector<Split> splits_;
  std::vector<double> weights_;
  std::vector<std::string> groups_;
};

/// The names between the bars of a text, without blanks around them; none of an empty text.
std::vector<std::string> names_between_bars(std::string_view text);

/// Items that stand in files of several, as the index of such a file knows them.
struct FilePart {
  std::size_t file = 0;
  std::uint64_t offset = 0, size = 0;
};

/// "5 samples have no label, such as X"; nothing where there are none.
void note_count(std::vector<std::string>& notes, std::int64_t count, std::string_view what, const std::string& example);

/// The lines of labels.txt in the folder, which name the classes of labels that are numbers; none where there
/// is no such file. Throws Error(data) where a name stands twice.
std::vector<std::string> names_beside(const fs::path& folder);

/// The classes of a listing whose labels count from 0, as many as they reach, called by their numbers. A
/// damaged label would make classes of its own: throws Error(data) where one below the largest has no
/// training image, unless options.class_names says which there are. `where` names the training labels,
/// whose items are the first.
std::vector<std::string> numbered_classes(Listing& listing, const std::string& where, const DatasetOptions& options);

/// A list for a message: all of few names, or the first ones and how many there are; those that a blank begins or ends
/// in quotes.
std::string listed(const std::vector<std::string>& names);

}  // namespace neurim
