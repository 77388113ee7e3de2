// Images by what a classifier says of them.
#pragma once
#include <set>
#include <string>

#include "neurim/base/file.h"

namespace neurim {

/// Copies images into folders of their classes, and writes images with the answer below them.
class AnsweredImages {
 public:
  /// `sort_into` and `annotated`: the folders, which are made; "": nothing of the kind. Throws Error(usage) where one
  /// is there and not empty, Error(resource).
  AnsweredImages(const fs::path& sort_into, const fs::path& annotated);
  /// Throws Error(usage) for a folder that is there and not empty.
  static void check(const fs::path& folder, std::string_view option);

  /// Adds an image file. Files of equal names get a number. Throws Error(resource).
  void add(const fs::path& image, const std::string& class_name, const std::string& caption);

 private:
  fs::path sort_into_, annotated_;
  std::set<fs::path> taken_;
};

}  // namespace neurim
