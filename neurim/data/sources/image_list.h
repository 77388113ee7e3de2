// The images that words name.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "neurim/base/file.h"

namespace neurim {

/// Images to look at, in the order in which they were named.
class ImageList {
 public:
  /// Adds what a word names: an image; of a folder all images in it and below, sorted by name; all that a pattern such
  /// as 'photos/*.jpg' matches; of a text file (.txt) the images that its lines name, relative to its folder; "-":
  /// those that the lines of stdin name; "@https://…": what that address gives, which is kept while this object lives.
  /// Throws Error(data) for what is not there or holds no image, Error(resource) for an address that gives nothing.
  void add(const std::string& word);

  const std::vector<fs::path>& files() const { return files_; }
  const std::string& name(std::size_t place) const { return names_[place]; }  ///< as it was named: its path or address
  const std::vector<std::string>& notes() const { return notes_; }            ///< what was left out, a line each
  std::int64_t left_out() const { return left_out_; }                         ///< files in folders that are no images

 private:
  void add_file(const fs::path& file, std::string name);
  void add_lines(const std::string& lines, const fs::path& folder, const std::string& where);
  void add_address(const std::string& url);

  std::vector<fs::path> files_;
  std::vector<std::string> names_, notes_;
  std::int64_t left_out_ = 0;
  std::shared_ptr<const fs::path> fetched_;  // the folder of what came from addresses; removed with the last copy
};

}  // namespace neurim
