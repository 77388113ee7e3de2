// Folders of classes, by their names alone.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace neurim {

/// Whether `path` is a folder that open_folder reads: none of the other kinds.
bool is_class_folder(const std::string& path);

/// The classes in any split of such a folder, also where open_folder refuses it as splits have different
/// ones; adds to `empty` the folders of classes that hold no image, where that does not say that val or
/// test have none of a class.
std::vector<std::string> class_folders(const std::string& root, std::vector<std::string>& empty);

struct ImagesBelow {
  std::vector<std::string> files;
  std::int64_t left_out = 0;       ///< other files, links and folders
  std::vector<std::string> notes;  ///< which these are, one line each
};

/// The image files in a folder and the folders below it, in the order of their paths, as a class of open_folder has
/// them: no hidden ones, and symbolic links to folders are followed once.
ImagesBelow images_below(const std::string& folder);

}  // namespace neurim
