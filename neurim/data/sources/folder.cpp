// Folders of image files.
#include "neurim/data/sources/folder.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <set>

#include "neurim/base/canonical_form.h"
#include "neurim/base/error.h"
#include "neurim/data/dataset.h"
#include "neurim/data/image_files.h"
#include "neurim/data/sources/left_out.h"
#include "neurim/data/sources/parts.h"
#include "neurim/data/spellings.h"

namespace neurim {
namespace {

/// The folders that may be splits or classes: those of runs are neither.
std::vector<fs::path> folders_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const fs::directory_entry& entry : entries(folder))
    if (entry.is_directory(error) && !holds_run(entry.path())) found.push_back(entry.path());
  return found;
}

/// Adds all images below `folder`, which is of that class; `seen` stops at symbolic links that lead in
/// circles. Returns whether the folder was not seen before.
bool collect(const fs::path& folder, const std::string& class_name, LeftOut& left_out, std::set<fs::path>& seen,
             std::vector<std::string>& files) {
  std::error_code error;
  if (!seen.insert(fs::canonical(folder, error)).second) return false;
  for (const fs::directory_entry& entry : entries(folder)) {
    const fs::path& path = entry.path();
    if (entry.is_directory(error)) {
      if (entry.is_symlink(error) && left_out.leads_astray(path, class_name)) continue;
      if (holds_run(path)) {
        left_out.add_run(path);
        continue;
      }
      const std::size_t before = files.size();
      // One that is called as an image is and holds none is an image that was lost: who reads it says so.
      if (collect(path, class_name, left_out, seen, files) && files.size() == before && is_image(path))
        files.push_back(path.string());
    } else if (is_image_file(path)) {
      files.push_back(path.string());
    } else if (leads_nowhere(entry)) {
      left_out.add_dead_link(path);
    } else {
      left_out.add_file(path);
    }
  }
  return true;
}

std::vector<std::string> images_in(const fs::path& folder, const std::string& class_name, LeftOut& left_out) {
  std::set<fs::path> seen;
  std::vector<std::string> files;
  std::error_code error;
  if (!fs::is_symlink(folder, error) || !left_out.leads_astray(folder, class_name))
    collect(folder, class_name, left_out, seen, files);
  return files;
}

/// The images of each class of one split; folders without any are no classes.
using Classes = std::map<std::string, std::vector<std::string>>;

void add_classes(const fs::path& folder, LeftOut& left_out, Classes& classes) {
  for (const fs::path& path : folders_in(folder)) {
    const std::string class_name = path.filename().string();
    std::vector<std::string> files = images_in(path, class_name, left_out);
    if (!files.empty()) classes[class_name] = std::move(files);
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
      fail(Fault::data, root.string(), ": ", found[*split].filename().string(), "/ and ", folder, "/ are both the ",
           *split, " split; leave one of them");
    }
  }
  if (!others.empty() && !found.contains(Split::train)) return {};
  if (!found.empty() && !others.empty())
    notes.push_back(text("beside the splits, these folders are not used: ", join(others, ", ")));
  return found;
}

/// Whether a folder is called as if it were a split: "train_set", "test2017", "seg_train", "dev".
bool is_like_split(const std::string& folder) {
  const std::string word = lower(folder);
  for (const char* end : {"train", "val", "test"})
    if (word.starts_with(end) || word.ends_with(end)) return true;
  for (const char* whole : {"trn", "tst", "dev", "eval", "evaluation", "holdout"})
    if (word == whole) return true;
  return false;
}

/// Splits by other names would be taken for classes, and their classes be forgotten.
void check_names_of_splits(const fs::path& root) {
  std::vector<std::string> flat;  // splits that hold images where classes should be
  bool sorted = false;            // another one holds classes
  for (const fs::path& path : folders_in(root)) {
    const std::string folder = path.filename().string();
    if (!split_named(folder)) continue;
    const bool classes = !folders_in(path).empty();
    sorted = sorted || classes;
    if (!classes) flat.push_back(folder);
  }
  if (flat.size() >= 2 || (flat.size() == 1 && sorted))
    fail(Fault::data, root.string(), ": ", join(flat, "/ and "), flat.size() == 1 ? "/ holds" : "/ hold",
         " no folders of classes and would be taken for a class; sort the images into ", flat[0],
         "/CLASS/…, or give a table with a label for each image: data=labels.csv");
  std::vector<std::pair<std::string, std::vector<std::string>>> likely;
  bool train = false;
  for (const fs::path& path : folders_in(root)) {
    const std::string folder = path.filename().string();
    if (!is_like_split(folder)) continue;
    train = train || lower(folder).starts_with("tr") || lower(folder).ends_with("train");
    likely.emplace_back(folder, std::vector<std::string>());
    for (const fs::path& inner : folders_in(path)) likely.back().second.push_back(inner.filename().string());
  }
  for (std::size_t a = 0; train && a < likely.size(); ++a)
    for (std::size_t b = a + 1; b < likely.size(); ++b) {
      std::vector<std::string> common;
      std::set_intersection(likely[a].second.begin(), likely[a].second.end(), likely[b].second.begin(),
                            likely[b].second.end(), std::back_inserter(common));
      if (common.size() >= 2)
        fail(Fault::data, root.string(), ": ", likely[a].first, "/ and ", likely[b].first, "/ hold the same folders [",
             listed(common),
             "] and would be two classes; call the folders of splits train, val and test, or classes "
             "otherwise");
    }
}

std::vector<std::string> names_of(const Classes& classes) {
  std::vector<std::string> names;
  for (const auto& [class_name, files] : classes) names.push_back(class_name);
  return names;
}

/// All splits have the classes of train. An empty folder says that a split has no images of a class, and
/// knows.
void check_same(const Classes& classes, const Classes& train, const fs::path& folder) {
  std::set<std::string> there, forms;
  for (const std::string& class_name : names_of(classes)) there.insert(class_name);
  for (const fs::path& path : folders_in(folder)) forms.insert(canonical_form(path.filename().string()));
  for (const std::string& class_name : names_of(train))
    if (forms.contains(canonical_form(class_name))) there.insert(class_name);
  const std::vector<std::string> has(there.begin(), there.end()), wanted = names_of(train);
  if (has == wanted) return;
  std::vector<std::string> unknown, lacking;
  std::set_difference(has.begin(), has.end(), wanted.begin(), wanted.end(), std::back_inserter(unknown));
  std::set_difference(wanted.begin(), wanted.end(), has.begin(), has.end(), std::back_inserter(lacking));
  fail(
      Fault::data, folder.string(), ": has the classes [", listed(has), "], but train has [", listed(wanted), "]; ",
      unknown.empty() ? "" : text("rename or remove [", listed(unknown), "]"),
      unknown.empty() || lacking.empty() ? "" : ", and ",
      lacking.empty() ? "" : text("make a folder for [", listed(lacking), "], an empty one where there are no images"));
}

/// Whether the folder of a class holds train/, val/ and test/ with images, and nothing else.
bool holds_splits(const fs::path& folder) {
  std::error_code error;
  bool found = false;
  for (const fs::directory_entry& entry : entries(folder)) {
    if (entry.is_directory(error)) {
      if (!split_named(entry.path().filename().string()) || !folders_in(entry.path()).empty()) return false;
      found = true;
    } else if (is_image_file(entry.path())) {
      return false;
    }
  }
  return found;
}

/// root/class/{train, val, test}/…, or nothing where `root` is not of that layout. Some classes with splits
/// beside some without are an error: what is meant for testing would be trained on.
std::map<Split, Classes> transposed(const fs::path& root, LeftOut& left_out) {
  std::vector<fs::path> with;
  std::string without;
  for (const fs::path& folder : folders_in(root)) {
    if (holds_splits(folder)) {
      with.push_back(folder);
      continue;
    }
    const std::string class_name = folder.filename().string();
    if (without.empty() && !images_in(folder, class_name, left_out).empty()) without = class_name;
  }
  if (with.size() < 2) return {};
  if (!without.empty())
    fail(Fault::data, root.string(), ": ", with[0].filename().string(), "/ holds folders of splits and ", without,
         "/ does not; give every class its train/, val/ and test/, or none");
  std::map<Split, Classes> found;
  for (const fs::path& folder : with) {
    left_out.look_beside(folder);
    const std::string class_name = folder.filename().string();
    for (const fs::path& part : folders_in(folder)) {
      const Split split = *split_named(part.filename().string());
      std::vector<std::string> files = images_in(part, class_name, left_out);
      if (files.empty()) continue;
      std::vector<std::string>& to = found[split][class_name];
      if (!to.empty())
        fail(Fault::data, folder.string(), ": two of its folders are the ", split, " split; leave one of them");
      to = std::move(files);
    }
  }
  return found;
}

/// The same of root/class/{train, val, test}, where a class has the splits that it has images for.
void check_known(const Classes& classes, const Classes& train, const std::string& root, Split split) {
  for (const auto& [class_name, files] : classes)
    if (!train.contains(class_name))
      fail(Fault::data, root, ": ", split, " has the classes [", listed(names_of(classes)), "], but train has [",
           listed(names_of(train)), "]; add ", class_name, "/train");
}

/// A class without a folder of a split may be meant so or forgotten.
void note_lacking(const Classes& classes, const Classes& train, Split split, std::vector<std::string>& notes) {
  std::vector<std::string> lacking;
  for (const std::string& class_name : names_of(train))
    if (!classes.contains(class_name)) lacking.push_back(class_name);
  if (!lacking.empty())
    notes.push_back(
        text(split, " has no images of ", lacking.size(), " of the ", train.size(), " classes, such as ", lacking[0]));
}

bool has_own_images(const fs::path& folder) {
  const std::vector<fs::path> files = files_in(folder);
  return std::any_of(files.begin(), files.end(), is_image_file);
}

/// The folder below `root` that has several folders with images, where each on the way to it has one; "" where there
/// is none.
fs::path set_below(const fs::path& root) {
  LeftOut left_out;
  fs::path folder = root;
  while (folder == root || !has_own_images(folder)) {
    std::vector<fs::path> with = folders_in(folder);
    std::erase_if(with, [&](const fs::path& path) { return images_in(path, "", left_out).empty(); });
    if (with.size() != 1) return with.empty() || folder == root ? fs::path() : folder;
    folder = with[0];
  }
  return {};
}

/// Throws where `root`, which is no set of splits, has no classes or but one that cannot be meant or trained on.
void check_classes(const fs::path& root, const std::vector<std::string>& names, bool for_training) {
  constexpr std::string_view layout = "CLASS/*.jpg or *.png, or train/CLASS/… and val/CLASS/…";
  // One "class" that holds folders itself is a data set that was unpacked deeper.
  if (const fs::path below = set_below(root); !below.empty())
    fail(Fault::data, root.string(), ": no class folders with images; did you mean ", below.string(), "?");
  if (names.empty()) fail(Fault::data, root.string(), ": no class folders with images; expected ", layout);
  if (for_training && names.size() == 1)
    fail(Fault::data, root.string(), ": only the class \"", names[0],
         "\" was found; a classifier needs at least two: expected ", layout);
}

/// What a root holds.
struct Tree {
  std::map<Split, fs::path> folders;  // of the splits; none where `root` or its classes hold them otherwise
  std::map<Split, Classes> found;
  Spellings spellings;  // of the folders of classes
  LeftOut left_out;
};

/// The classes of all splits, in lexicographic order.
std::vector<std::string> names_of(const Tree& tree) {
  std::set<std::string> names;
  for (const auto& [split, classes] : tree.found)
    for (const auto& [class_name, files] : classes) names.insert(class_name);
  return {names.begin(), names.end()};
}

/// Makes classes one whose folders differ in Unicode form alone.
void join_spellings(Tree& tree) {
  for (const auto& [split, classes] : tree.found)
    for (const std::string& class_name : names_of(classes)) tree.spellings.add(class_name);
  for (auto& [split, classes] : tree.found) {
    Classes joined;
    for (const auto& [class_name, files] : classes) {
      std::vector<std::string>& to = joined[tree.spellings.of(class_name)];
      to.insert(to.end(), files.begin(), files.end());
    }
    classes = std::move(joined);
  }
}

Tree look_through(const fs::path& root, std::vector<std::string>& notes) {
  Tree tree;
  LeftOut& left_out = tree.left_out;
  tree.folders = split_folders(root, notes);
  if (tree.folders.empty()) check_names_of_splits(root);
  std::vector<fs::path> above{root};
  if (!tree.folders.empty()) above.clear();
  for (const auto& [split, folder] : tree.folders) above.push_back(folder);
  std::error_code error;
  for (const bool link : {false, true})  // a link is another class only where no folder itself is
    for (const fs::path& folder : above)
      for (const fs::path& path : folders_in(folder))
        if (fs::is_symlink(path, error) == link) left_out.add_class(path);
  left_out.look_beside(root);
  for (const auto& [split, folder] : tree.folders) left_out.look_beside(folder);
  for (const auto& [split, folder] : tree.folders) add_classes(folder, left_out, tree.found[split]);
  if (tree.folders.empty()) tree.found = transposed(root, left_out);
  if (tree.found.empty()) {
    Classes& classes = tree.found[Split::train];
    add_classes(root, left_out, classes);
    for (const std::string& class_name : names_of(classes))
      if (split_named(class_name))
        notes.push_back(text(class_name,
                             "/ lies beside classes and is taken for one; where there are splits, all classes lie in "
                             "train/CLASS/, val/CLASS/, …"));
  }
  join_spellings(tree);
  left_out.note(notes);
  return tree;
}

/// The folders that would be classes if they held an image. One in val or test says that the split has none of a
/// class of train, and is not among them, nor is one that holds runs.
std::vector<std::string> empty_folders(const fs::path& root, const Tree& tree) {
  std::vector<std::string> empty;
  const auto add_empty = [&](const fs::path& folder, const std::vector<std::string>& known) {
    std::error_code error;
    std::set<std::string> forms;
    for (const std::string& class_name : known) forms.insert(canonical_form(class_name));
    for (const fs::path& path : folders_in(folder))
      if (!forms.contains(canonical_form(path.filename().string())) && !fs::is_symlink(path, error) &&
          !tree.left_out.has_run_in(path))
        empty.push_back(path.string());
  };
  const std::vector<std::string> all = names_of(tree);
  if (tree.folders.empty()) add_empty(root, all);
  for (const auto& [split, folder] : tree.folders)
    add_empty(folder, split == Split::train ? names_of(tree.found.at(split)) : all);
  return empty;
}

}  // namespace

std::vector<std::string> class_folders(const std::string& root, std::vector<std::string>& empty) {
  std::vector<std::string> notes;
  const Tree tree = look_through(root, notes);
  empty = empty_folders(root, tree);
  return names_of(tree);
}

ImagesBelow images_below(const std::string& folder) {
  LeftOut left_out;
  ImagesBelow found{images_in(folder, "", left_out), left_out.count(), {}};
  std::sort(found.files.begin(), found.files.end());
  left_out.note(found.notes);
  return found;
}

Listing open_folder(const std::string& root, const DatasetOptions& options) {
  Listing listing;
  Tree tree = look_through(root, listing.notes);
  if (const std::vector<std::string> empty = empty_folders(root, tree); !empty.empty())
    listing.notes.push_back(
        text("no classes, as they hold no image: ", plural(std::ssize(empty), "folder"), ", such as ", empty[0]));
  const std::map<Split, fs::path>& folders = tree.folders;
  const Classes& train = tree.found[Split::train];
  listing.class_names = names_of(tree);
  listing.spellings = tree.spellings.several();
  if (folders.empty() && train.size() < 2 && options.class_names.empty())
    check_classes(root, listing.class_names, options.for_training);
  if (!folders.empty() && !folders.contains(Split::train) && options.class_names.empty() && options.for_training) {
    std::vector<std::string> there;
    for (const auto& [split, folder] : folders) there.push_back(folder.filename().string() + "/");
    fail(Fault::data, root, ": there is no train folder, only ", join(there, " and "),
         ", and the classes are those of train; add train/CLASS/…, or evaluate a model by these: neurim val ",
         "model=RUN data=", root, " split=", folders.begin()->first);
  }
  for (const auto& [split, folder] : folders)
    if (split != Split::train && tree.found.at(split).empty())
      listing.notes.push_back(text(
          folder.string(), " holds no image, as if it were not there",
          split == Split::val && !train.empty() && options.val_split != 0.0 ? "; validation is taken from train" : ""));
  if (!train.empty() && options.class_names.empty())
    for (const auto& [split, classes] : tree.found) {
      if (split == Split::train) continue;
      if (folders.empty()) {
        check_known(classes, train, root, split);
        note_lacking(classes, train, split, listing.notes);
      } else {
        check_same(classes, train, folders.at(split));
      }
    }
  std::vector<std::string> files;
  for (auto& [split, classes] : tree.found)
    for (auto& [class_name, paths] : classes)
      for (std::string& path : paths) {
        listing[split].push_back(static_cast<std::int64_t>(files.size()));
        listing.labels.push_back(std::lower_bound(listing.class_names.begin(), listing.class_names.end(), class_name) -
                                 listing.class_names.begin());
        files.push_back(std::move(path));
      }
  listing.source = file_source(std::move(files));
  return listing;
}

}  // namespace neurim
