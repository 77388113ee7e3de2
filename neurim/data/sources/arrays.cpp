// Images and labels as NumPy arrays.
#include <algorithm>
#include <cmath>

#include "neurim/base/error.h"
#include "neurim/data/sources/memory.h"
#include "neurim/data/sources/npy_array.h"
#include "neurim/data/sources/parts.h"

namespace neurim {
namespace {

constexpr std::int64_t kMostClasses = 1 << 20;

/// What an array is by its name: "x_train", "train_images", "labels".
struct Role {
  bool labels = false;
  Split split = Split::train;
};

std::optional<Role> role_of(const std::string& name) {
  Role role;
  bool known = false;
  for (const std::string& word : neurim::split(lower(name), '_')) {
    const bool images = word == "x" || word == "images" || word == "data";
    const bool labels = word == "y" || word == "labels" || word == "targets";
    if (const auto split = split_named(word)) {
      role.split = *split;
    } else if ((images || labels) && !known) {
      known = true, role.labels = labels;
    } else {
      return {};
    }
  }
  return known ? std::optional(role) : std::nullopt;
}

/// The .npz that `path` is, or the only one of a folder without anything else that is a set.
std::string npz_of(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error))
    return fs::is_regular_file(path, error) && path.extension() == ".npz" ? path.string() : "";
  const std::vector<std::string> found = shards_in(path,
                                                   [](const fs::path& file) { return file.extension() == ".npz"; });
  return found.size() == 1 ? found[0] : "";
}

std::vector<fs::path> npy_files(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {};
  const std::vector<std::string> found = shards_in(
      path, [](const fs::path& file) { return file.extension() == ".npy" && role_of(file.stem().string()); });
  return {found.begin(), found.end()};
}

std::string shape_text(const NpyArray& array) {
  std::string found = "(";
  for (const std::int64_t size : array.shape) found += text(found.size() > 1 ? ", " : "", size);
  return found + ")";
}

/// The bytes of the images of an array as (n, h, w, c).
std::vector<std::uint8_t> read_images(const NpyArray& array, const std::string& where, ImageSize& size,
                                      std::vector<std::string>& notes) {
  if (array.item_size > 2 || array.is_signed)
    fail(Fault::data, where, ": images are uint8 or uint16, but these elements are ", array.is_signed ? "int" : "uint",
         8 * array.item_size, "; save x.astype(\"uint8\") of levels from 0 to 255");
  const std::vector<std::int64_t>& s = array.shape;
  // The shorter of the two axes that may be channels is; colour is never taken for a side.
  const auto is_count = [](std::int64_t channels) { return channels >= 1 && channels <= 4; };
  const bool axes = s.size() == 4;
  const bool ambiguous = axes && (s[1] == s[3] || (is_count(s[1]) && is_count(s[3])));
  const bool planar = axes && s[1] < s[3];
  const std::int64_t channels = !axes ? 1 : s[planar ? 1 : 3];
  constexpr std::int64_t most = 1 << 14;
  if ((s.size() != 3 && !axes) || ambiguous || channels < 1 || channels > kMostChannels)
    fail(Fault::data, where, ": the shape ", shape_text(array), " is ", ambiguous ? "ambiguous" : "none of images",
         "; save (n, height, width) or (n, height, width, channels) with 1 to ", kMostChannels, " channels");
  const std::int64_t height = s[planar ? 2 : 1], width = s[planar ? 3 : 2];
  if (height < 1 || width < 1 || height > most || width > most)
    fail(Fault::data, where, ": images of ", height, " x ", width, " are none or too large");
  const auto plane = static_cast<std::size_t>(height * width), of = static_cast<std::size_t>(channels);
  const std::size_t item = array.item_size;
  size = {static_cast<int>(height), static_cast<int>(width), static_cast<int>(channels), static_cast<int>(8 * item)};
  const auto* values = reinterpret_cast<const std::uint8_t*>(array.bytes.data());
  std::vector<std::uint8_t> pixels(values, values + array.bytes.size());
  if (planar)
    for (std::size_t at = 0; at < pixels.size(); at += plane * of * item)
      for (std::size_t p = 0; p < plane; ++p)
        for (std::size_t c = 0; c < of; ++c)
          std::copy_n(values + at + (c * plane + p) * item, item,
                      pixels.begin() + static_cast<std::ptrdiff_t>(at + (p * of + c) * item));
  if (planar) notes.push_back(text(where, ": ", shape_text(array), " is read as (n, channels, height, width)"));
  if (channels == 2 || channels == 4)
    notes.push_back(text(where, ": channel ", channels, " is taken as alpha: channels=", channels == 2 ? "la" : "rgba",
                         " keeps it, else alpha_bg shows through"));
  return pixels;
}

/// The arrays of an archive, or of the .npy files of a folder, by their names. Their heads alone are read at first: an
/// archive may unpack to anything, so what they say is compared before.
class Arrays {
 public:
  /// `float_labels`: labels may be floating numbers.
  Arrays(const std::string& path, bool float_labels) : path_(path), npz_(npz_of(path)) {
    read_heads();
    for (const auto& head : heads_)
      if (!float_labels || !role(head.first).labels)
        naming([&] { return where(head.first); }, [&] { head.second.check_integers(); });
  }

  const std::map<std::string, NpyArray>& heads() const { return heads_; }
  Role role(const std::string& name) const { return *role_of(npz_.empty() ? fs::path(name).stem().string() : name); }
  /// Where an array is, for messages.
  std::string where(const std::string& name) const { return npz_.empty() ? file_of(name) : text(npz_, "[", name, "]"); }

  /// All of an array.
  NpyArray whole(const std::string& name) const {
    const std::string file = file_of(name);
    NpyArray array = naming(
        [&] { return file; },
        [&] {
          const Bytes bytes = bytes_of_file(file);
          if (npz_.empty()) return parse_npy(bytes);
          return std::move(parse_npz(bytes, [&](const std::string& one) { return one == name; })[name]);
        });
    if (array.shape != heads_.at(name).shape)
      fail(Fault::data, file, ": has changed while it was read; leave it alone while it is used");
    return array;
  }

 private:
  void read_heads() {
    if (npz_.empty()) {
      for (const fs::path& file : npy_files(path_))
        heads_[file.filename().string()] = naming([&] { return file.string(); },
                                                  [&] { return parse_npy_head(bytes_of_file(file.string())); });
      return;
    }
    const auto has_role = [](const std::string& name) { return role_of(name).has_value(); };
    heads_ = naming([&] { return npz_; }, [&] { return parse_npz_heads(bytes_of_file(npz_), has_role); });
  }
  std::string file_of(const std::string& name) const { return npz_.empty() ? (fs::path(path_) / name).string() : npz_; }

  std::string path_, npz_;
  std::map<std::string, NpyArray> heads_;
};

/// The names of the arrays of each split.
struct NamedSplits {
  std::map<Split, std::string> images, labels;
};

/// Finds images and labels by the names of the arrays; `targets`: the numbers of each label. Throws Error(data) where
/// they do not go together.
NamedSplits splits_of(const Arrays& arrays, const std::string& path, const std::vector<std::string>& targets) {
  NamedSplits named;
  for (const auto& [name, array] : arrays.heads()) {
    const Role role = arrays.role(name);
    const auto [other, is_new] = (role.labels ? named.labels : named.images).emplace(role.split, name);
    if (!is_new)
      fail(Fault::data, path, ": ", other->second, " and ", name, " are both the ", role.labels ? "labels" : "images",
           " of ", role.split, "; leave one of them");
  }
  if (named.images.empty())
    fail(Fault::data, path, ": no array is called x_train, train_images or images; name them so in numpy.savez");
  for (const auto& [split, name] : named.images) {
    if (!named.labels.contains(split))
      fail(Fault::data, arrays.where(name), ": there are no labels for these images; add y_", split, " or ", split,
           "_labels");
    const std::string& labels = named.labels.at(split);
    const NpyArray &x = arrays.heads().at(name), &y = arrays.heads().at(labels);
    const std::size_t each = std::max<std::size_t>(1, targets.size());
    if (x.shape.empty() || y.shape.empty() || y.shape[0] != x.shape[0] ||
        y.count() != static_cast<std::size_t>(y.shape[0]) * each)
      fail(Fault::data, arrays.where(name), ": has the shape ", shape_text(x), ", but ", labels, " has ", shape_text(y),
           targets.empty()
               ? "; labels are one integer an image: of one-hot rows save y.argmax(1)"
               : text("; target names ", each, " an image (", join(targets, ","), "): save (n, ", each, ")"));
  }
  return named;
}

/// Adds the class of an image, which errors call `where()`; `classes`: of training, where `known`, else they follow
/// from it.
template <class Where>
void add_class(Listing& listing, std::int64_t label, bool known, std::int64_t& classes, const Where& where) {
  if (label < 0 || label >= kMostClasses)
    fail(Fault::data, where(), " is ", label, "; labels are 0 to ", kMostClasses - 1);
  listing.labels.push_back(label);
  if (!known) classes = std::max(classes, label + 1);
  if (label >= classes)
    fail(Fault::data, where(), " is ", label, ", but the training labels are 0 to ", classes - 1,
         "; correct the labels");
}

/// Adds the numbers of an image, so many; errors call it `where()`.
template <class Where>
void add_numbers(Listing& listing, const NpyArray& of, std::size_t image, std::size_t each, const Where& where) {
  for (std::size_t i = image * each; i < (image + 1) * each; ++i) {
    listing.numbers.push_back(static_cast<float>(of.number(i)));
    if (!std::isfinite(listing.numbers.back()))
      fail(Fault::data, where(), " is ", of.number(i), "; correct it, or leave the image out");
  }
  listing.labels.push_back(0);
}

}  // namespace

bool is_arrays(const std::string& path) { return !npz_of(path).empty() || npy_files(path).size() >= 2; }

Listing open_arrays(const std::string& path, const DatasetOptions& options) {
  const std::size_t each = options.targets.size();
  const Arrays arrays(path, each > 0);
  const auto [images, labels] = splits_of(arrays, path, options.targets);
  Listing listing;
  std::vector<MemorySource::Part> parts;
  ImageSize size;
  std::int64_t classes = 0;
  for (const auto& [split, name] : images) {
    const NpyArray of = arrays.whole(labels.at(split));
    const std::string where = arrays.where(name);
    ImageSize found;
    std::vector<std::uint8_t> pixels = read_images(arrays.whole(name), where, found, listing.notes);
    if (!parts.empty() && found != size)
      fail(Fault::data, where, ": images of ", found.height, " x ", found.width, " x ", found.channels, " beside ",
           size.height, " x ", size.width, " x ", size.channels, " in ", parts[0].path, "; they are of different sets");
    size = found;
    parts.push_back({where, static_cast<std::int64_t>(listing.labels.size()), std::move(pixels)});
    const std::string& called = labels.at(split);
    for (std::size_t i = 0; i < static_cast<std::size_t>(of.shape[0]); ++i) {
      listing[split].push_back(static_cast<std::int64_t>(listing.labels.size()));
      const auto at = [&] { return text(path, ": ", called, "[", i, "]"); };
      if (each > 0)
        add_numbers(listing, of, i, each, at);
      else
        add_class(listing, of.at(i), split != Split::train && images.contains(Split::train), classes, at);
    }
  }
  if (listing.labels.empty())
    fail(Fault::data, path, ": its arrays hold no image: the first axis, which counts them, has the length 0");
  listing.source = std::make_shared<MemorySource>(size, std::move(parts));
  if (each > 0) {
    listing.class_names = options.targets;
    return listing;
  }
  std::error_code error;
  listing.class_names = names_beside(fs::is_directory(path, error) ? fs::path(path) : fs::path(path).parent_path());
  if (listing.class_names.empty())
    listing.class_names = numbered_classes(listing, arrays.where(labels.at(images.begin()->first)), options);
  if (static_cast<std::int64_t>(listing.class_names.size()) < classes)
    fail(Fault::data, path, ": labels.txt names ", listing.class_names.size(), " classes, but the labels are 0 to ",
         classes - 1, "; one name a line");
  return listing;
}

}  // namespace neurim
