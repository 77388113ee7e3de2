// Folders of picture files.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "neurim/base/error.h"
#include "neurim/data/dataset.h"
#include "neurim/data/picture_files.h"
#include "neurim/data/sources/parts.h"

namespace neurim {
namespace {

std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const fs::directory_entry& entry : entries(folder))
    if (entry.is_directory(error)) found.push_back(entry.path());
  return found;
}

/// Adds all pictures below `folder`; `seen` stops at symbolic links that lead in circles.
void collect(const fs::path& folder, std::set<fs::path>& seen, std::vector<std::string>& files) {
  std::error_code error;
  if (!seen.insert(fs::canonical(folder, error)).second) return;
  for (const fs::directory_entry& entry : entries(folder)) {
    if (entry.is_directory(error)) {
      collect(entry.path(), seen, files);
    } else if (is_picture(entry.path().string())) {
      files.push_back(entry.path().string());
    }
  }
}

/// The pictures of each class of one split; folders without any are no classes.
using Classes = std::map<std::string, std::vector<std::string>>;

void add_classes(const fs::path& folder, Classes& classes) {
  for (const fs::path& path : folders_in(folder)) {
    std::set<fs::path> seen;
    std::vector<std::string> files;
    collect(path, seen, files);
    if (!files.empty()) classes[path.filename().string()] = std::move(files);
  }
}

/// Where the folder of each split lies; none where `root` holds classes.
std::map<Split, fs::path> split_folders(const fs::path& root, std::vector<std::string>& notes) {
  std::map<Split, fs::path> found;
  std::vector<std::string> others;
  for (const fs::path& path : folders_in(root)) {
    const std::string folder = path.filename().string();
    const auto split = split_named(folder);
    // A class may be called "train"; a split holds folders.
    if (!split || folders_in(path).empty()) {
      others.push_back(folder);
    } else if (!found.emplace(*split, path).second) {
      fail(Fault::data, root.string(), ": ", found[*split].filename().string(), "/ and ", folder,
           "/ are both the ", *split, " split; leave one of them");
    }
  }
  if (!others.empty() && !found.contains(Split::train)) return {};
  if (!found.empty() && !others.empty())
    notes.push_back(text("beside the splits, these folders are not used: ", join(others, ", ")));
  return found;
}

std::vector<std::string> names_of(const Classes& classes) {
  std::vector<std::string> names;
  for (const auto& [class_name, files] : classes) names.push_back(class_name);
  return names;
}

/// All splits have the classes of train. An empty folder says that a split has no pictures of a class, and
/// knows.
void check_same(const Classes& classes, const Classes& train, const fs::path& folder) {
  std::set<std::string> there;
  for (const std::string& class_name : names_of(classes)) there.insert(class_name);
  for (const fs::path& path : folders_in(folder))
    if (train.contains(path.filename().string())) there.insert(path.filename().string());
  const std::vector<std::string> has(there.begin(), there.end()), wanted = names_of(train);
  if (has == wanted) return;
  std::vector<std::string> unknown, lacking;
  std::set_difference(has.begin(), has.end(), wanted.begin(), wanted.end(), std::back_inserter(unknown));
  std::set_difference(wanted.begin(), wanted.end(), has.begin(), has.end(), std::back_inserter(lacking));
  fail(Fault::data, folder.string(), ": has the classes [", join(has, ", "), "], but train has [",
       join(wanted, ", "), "]; ", unknown.empty() ? "" : text("rename or remove [", join(unknown, ", "), "]"),
       unknown.empty() || lacking.empty() ? "" : ", and ",
       lacking.empty()
           ? ""
           : text("make a folder for [", join(lacking, ", "), "], an empty one where there are no pictures"));
}

/// Whether the folder of a class holds train/, val/ and test/ with pictures, and nothing else.
bool holds_splits(const fs::path& folder) {
  std::error_code error;
  bool found = false;
  for (const fs::directory_entry& entry : entries(folder)) {
    if (entry.is_directory(error)) {
      if (!split_named(entry.path().filename().string()) || !folders_in(entry.path()).empty()) return false;
      found = true;
    } else if (is_picture(entry.path().string())) {
      return false;
    }
  }
  return found;
}

/// root/class/{train, val, test}/…, or nothing where `root` is not of that layout. Some classes with splits
/// beside some without are an error: what is meant for testing would be trained on.
std::map<Split, Classes> transposed(const fs::path& root) {
  std::vector<fs::path> with;
  std::string without;
  for (const fs::path& folder : folders_in(root)) {
    if (holds_splits(folder)) {
      with.push_back(folder);
      continue;
    }
    std::set<fs::path> seen;
    std::vector<std::string> files;
    if (without.empty()) collect(folder, seen, files);
    if (!files.empty()) without = folder.filename().string();
  }
  if (with.size() < 2) return {};
  if (!without.empty())
    fail(Fault::data, root.string(), ": ", with[0].filename().string(), "/ holds folders of splits and ",
         without, "/ does not; give every class its train/, val/ and test/, or none");
  std::map<Split, Classes> found;
  for (const fs::path& folder : with) {
    Classes parts;
    add_classes(folder, parts);
    const std::string class_name = folder.filename().string();
    for (auto& [part, files] : parts) {
      std::vector<std::string>& to = found[*split_named(part)][class_name];
      if (!to.empty())
        fail(Fault::data, folder.string(), ": two of its folders are the val split; leave one of them");
      to = std::move(files);
    }
  }
  return found;
}

/// The same of root/class/{train, val, test}, where a class has the splits that it has pictures for.
void check_known(const Classes& classes, const Classes& train, const std::string& root, Split split) {
  for (const auto& [class_name, files] : classes)
    if (!train.contains(class_name))
      fail(Fault::data, root, ": ", split, " has the classes [", join(names_of(classes), ", "),
           "], but train has [", join(names_of(train), ", "), "]; add ", class_name, "/train");
}

/// What to say where no class was found in `root`.
[[noreturn]] void nothing_found(const fs::path& root) {
  for (const fs::path& inner : folders_in(root)) {
    const std::vector<fs::path> deeper = folders_in(inner);
    if (deeper.empty()) continue;
    fail(Fault::data, root.string(), ": no class folders with pictures; did you mean ", inner.string(), "?");
  }
  fail(Fault::data, root.string(),
       ": no class folders with pictures; expected CLASS/*.jpg or *.png, or train/CLASS/… and val/CLASS/…");
}

}  // namespace

Listing open_folder(const std::string& root, const DatasetOptions& options) {
  Listing listing;
  std::map<Split, Classes> found;
  const std::map<Split, fs::path> folders = split_folders(root, listing.notes);
  for (const auto& [split, folder] : folders) add_classes(folder, found[split]);
  if (folders.empty()) found = transposed(root);
  if (found.empty()) add_classes(root, found[Split::train]);
  if (folders.empty() && found[Split::train].size() < 2 && options.class_names.empty()) {
    // One "class" that holds folders itself is a data set that was unpacked one level deeper.
    const std::vector<fs::path> inner = folders_in(root);
    if (found[Split::train].empty() || (inner.size() == 1 && !folders_in(inner[0]).empty()))
      nothing_found(root);
  }
  if (!folders.empty() && !folders.contains(Split::train) && options.class_names.empty())
    fail(Fault::data, root,
         ": there is no train folder, and the classes are those of train; add train/CLASS/…");

  Classes all;
  for (const auto& [split, classes] : found) {
    if (options.class_names.empty() && split != Split::train) {
      if (folders.empty()) {
        check_known(classes, found[Split::train], root, split);
      } else {
        check_same(classes, found[Split::train], folders.at(split));
      }
    }
    for (const auto& [class_name, files] : classes) all[class_name];
  }
  listing.class_names = names_of(all);
  std::vector<std::string> files;
  for (auto& [split, classes] : found)
    for (auto& [class_name, paths] : classes)
      for (std::string& path : paths) {
        listing[split].push_back(static_cast<std::int64_t>(files.size()));
        listing.labels.push_back(
            std::lower_bound(listing.class_names.begin(), listing.class_names.end(), class_name) -
            listing.class_names.begin());
        files.push_back(std::move(path));
      }
  listing.source = file_source(std::move(files));
  return listing;
}

}  // namespace neurim
