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

enum class Split : std::uint8_t { train, val, test };
inline constexpr std::array kSplits{Split::train, Split::val, Split::test};
std::string_view name(Split split);
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
  /// The size of all pictures, where they lie decoded in memory already.
  virtual std::optional<ImageSize> in_memory() const { return {}; }
};

/// What a source found. The splits hold items; one item may stand in two of them.
struct Listing {
  std::shared_ptr<const Source> source;
  std::vector<std::string> class_names;
  std::vector<std::int64_t> labels;  ///< of each item, in [0, class_names.size())
  std::array<std::vector<std::int64_t>, kSplits.size()> splits;
  std::vector<std::string> notes;  ///< what a user should know, one line each
  std::vector<std::int64_t>& operator[](Split split) { return splits[static_cast<std::size_t>(split)]; }
};

struct DatasetOptions;

/// Whether the folder holds IDX files; and its items: train-images-idx3-ubyte, train-labels-idx1-ubyte and
/// the same with t10k, each plain or .gz, held in memory. Classes are called "0", "1", …, or by the lines of
/// labels.txt beside the files. The t10k files are the test split, and as published comparisons have no third
/// one, the val split too unless options.val_split is given.
bool is_idx(const std::string& folder);
Listing open_idx(const std::string& folder, const DatasetOptions& options);

/// Whether the file is a packed one (pack.h); and its items, which stay in the file.
bool is_pack(const std::string& path);
Listing open_pack(const std::string& path);

/// The image files of root/class/…, or of root/{train, val, test}/class/… (`valid` and `validation` are val).
/// The class is the first folder level, whatever lies below; classes and files are in the lexicographic order
/// of their bytes. Hidden entries and
/// __MACOSX are passed over, and so are files that have no extension of a picture and folders without
/// pictures.
Listing open_folder(const std::string& root, const DatasetOptions& options);

}  // namespace neurim
