// Where a data set's items come from. A new kind of source is a Source and an open_… function that returns a
// Listing.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/data/decode.h"

namespace neurim {

/// A part of a data set.
enum class Split : std::uint8_t { train, val, test };
/// All of them.
inline constexpr std::array kSplits{Split::train, Split::val, Split::test};
std::string_view name(Split split);  ///< "train", "val" or "test"
/// The split that an option of that name says. Throws Error(usage) for another word.
Split split_option(std::string_view word);
/// Appends its name.
inline void append(std::string& out, Split split) { out += name(split); }

/// Items numbered from 0. Reading is safe from several threads at once and never writes to the user's data.
class Source {
 public:
  virtual ~Source() = default;
  /// What a person calls the item: the path of its file, or file and position in it.
  virtual std::string name(std::int64_t item) const = 0;
  /// The item as it is stored, in `buffer` or wherever the source holds it, until the next call with this
  /// buffer. Throws Error(data), without the name, where it cannot be read.
  virtual StoredImage read(std::int64_t item, std::vector<std::byte>& buffer) const = 0;
  /// The size of all images, where they lie decoded in memory already.
  virtual std::optional<ImageSize> in_memory() const { return {}; }
};

/// What a source found. The splits hold items; one item may stand in two of them.
struct Listing {
  std::shared_ptr<const Source> source;  ///< where the samples are
  std::vector<std::string> class_names;  ///< in the order of their indices
  /// Of each item: its class, in [0, class_names.size()), or in a multi-label set its label set, in [0,
  /// label_sets.size()).
  std::vector<std::int64_t> labels;
  /// Of a multi-label set: the classes of each combination that occurs, in rising order, none twice. Else
  /// empty.
  std::vector<std::vector<std::int64_t>> label_sets;
  /// Of a set of numbers, for regression: those of each item, one for each of class_names, which name them; all labels
  /// are 0. Else empty.
  std::vector<float> numbers;
  std::vector<double> weights;        ///< of each item; empty: 1 each
  std::vector<std::string> groups;    ///< of each item, "" where it is alone; empty: no item has one
  std::vector<std::int64_t> same_as;  ///< of each item the first that shows the same; empty: none is repeated
  std::array<std::vector<std::int64_t>, kSplits.size()> splits;  ///< items of each split
  std::string validation;          ///< how the val split was taken from train, for people; "": it was not
  std::vector<std::string> notes;  ///< what a user should know, one line each
  /// Of each class that is written in several Unicode forms: these, its name first.
  std::vector<std::vector<std::string>> spellings;
  std::string damage;  ///< the first place where a part of it is lost, which a note tells too; "" for none
  /// The items of a split.
  std::vector<std::int64_t>& operator[](Split split) { return splits[static_cast<std::size_t>(split)]; }
};

struct DatasetOptions;

/// Whether the folder holds IDX files; and its items: train-images-idx3-ubyte, train-labels-idx1-ubyte and
/// the same with t10k, each plain or .gz, held in memory. Classes are called by the lines of labels.txt
/// beside the files, those of Fashion-MNIST, which is told by its labels, by their published names, or else "0", "1",
/// …, and each of these has to have a training image. The t10k files are the test split, and as published comparisons
/// have no third one, the val split too unless options.val_split is given.
bool is_idx(const std::string& folder);
Listing open_idx(const std::string& folder, const DatasetOptions& options);  ///< an IDX folder, such as MNIST's

/// Whether the file is a packed one (pack.h); and its items, which stay in the file.
bool is_pack(const std::string& path);
Listing open_pack(const std::string& path);  ///< a file of pack()

/// The image files of root/class/…, of root/{train, val, test}/class/… or of root/class/{train, val, test}/…
/// (see split_named); see sources/folder.h. The class is the value that has no split's name, whatever lies
/// below; classes and files are in the lexicographic order of their bytes. What is_hidden names is passed over.
/// Runs (see holds_run), folders without images, images beside the classes, links that lead nowhere and files
/// with neither extension nor first bytes of an image are too, which notes say. A folder that is called as a
/// image is and holds none counts as one that cannot be read.
Listing open_folder(const std::string& root, const DatasetOptions& options);

/// A table of image files: .csv or .tsv (RFC 4180, with a header) or .jsonl (an object a line). Columns are
/// found by name: path, file, file_name, filename, image or image_path, relative to the table; label, class,
/// category, target or label_name; where there are any split (one that split_named knows), weight
/// (at least 0) and options.group_by, else group. Rows without a split are training; rows of one file are one
/// group. Labels that are all integers are in numeric order, others in lexicographic order; integers count the lines of
/// labels.txt beside the table, where there is one.
///
/// Where options.targets names columns, each row has a number in each of them, and no label.
///
/// Where a label holds a bar ("cat|dog", in .jsonl also a list) the set is multi-label: each label names its
/// classes between bars, and an empty one names none. options.multi_label decides where it is given.
///
/// A folder of tables is one set: train.* with val.*, valid.*, validation.* and test.*; or metadata.csv or
/// .jsonl in the folder or in its train/, validation/ and test/, as Hugging Face's imagefolder has it
/// (huggingface.co/docs/datasets/image_dataset), where the label may also be the name of the image's
/// folder.
bool is_manifest(const std::string& path);
Listing open_manifest(const std::string& path, const DatasetOptions& options);  ///< a table of files and labels

/// The binary version of CIFAR-10 or CIFAR-100 (cs.toronto.edu/~kriz/cifar.html), held in memory: records of
/// a label (CIFAR-100: coarse, then fine, which counts) and 3 x 32 x 32 values. Classes are called as
/// batches.meta.txt or fine_label_names.txt say. The test split is val too unless options.val_split is given.
bool is_cifar(const std::string& path);
Listing open_cifar(const std::string& path, const DatasetOptions& options);  ///< CIFAR's binary files

/// NumPy arrays: x.npy with y.npy and the like, or the members of an .npz file, held in memory. Names are
/// {x, images, data} and {y, labels, targets}, each also with train_, val_, valid_ or test_ before or after.
/// Images are u8 or u16 of (n, h, w) or (n, h, w, c), or (n, c, h, w) where c is less than w; labels are
/// integers of (n) or (n, 1), which name classes as those of IDX files do. Where options.targets names targets, y holds
/// integers or floating numbers of (n) or (n, targets), the numbers of each image.
/// numpy.org/doc/stable/reference/generated/numpy.lib.format.html; PKWARE's APPNOTE 6.3.10 for .npz.
bool is_arrays(const std::string& path);
Listing open_arrays(const std::string& path, const DatasetOptions& options);  ///< arrays of images and labels

/// WebDataset shards: a .tar (ustar, GNU or pax), a folder of them, or a pattern such as
/// train-{000000..000003}.tar. Neighbouring members that are called the same up to the first dot, or, where labels are
/// called so, up to a later one, are a sample: an image and its label, which is label, class or cls in .json or else
/// the text of .cls without blanks around it; one with two members of a kind is left out. A shard is of the split that
/// a word of its name, or of its folder's, names (see split_named); others are training. Of a damaged shard the samples
/// before the damage are used, and a note says so.
bool is_tar(const std::string& path);
Listing open_tar(const std::string& path, const DatasetOptions& options);  ///< tar shards, as WebDataset's

/// TFRecord files of tf.train.Example: image/encoded with image/class/label or label (integer) or
/// image/class/text; one with several labels is left out. Splits are told as WebDataset's shards tell them. Those of
/// gzip are unpacked in memory, up to 1 GiB in all. tensorflow.org/tutorials/load_data/tfrecord
bool is_tfrecord(const std::string& path);
Listing open_tfrecord(const std::string& path, const DatasetOptions& options);  ///< TFRecord files

/// An LMDB file, a folder with data.mdb or one of such folders that are called as splits are, read without the
/// library: nothing is written or locked. Values are Caffe's Datum (caffe.proto) or image files whose labels
/// stand in labels.csv, .tsv or .jsonl beside the file, with the columns key and label.
bool is_lmdb(const std::string& path);
Listing open_lmdb(const std::string& path, const DatasetOptions& options);  ///< an LMDB

}  // namespace neurim
