#include "neurim/data/sources/image_list.h"

#include <iostream>
#include <iterator>
#include <sstream>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/data/decode.h"
#include "neurim/data/fetch.h"
#include "neurim/data/image_files.h"
#include "neurim/data/path_pattern.h"
#include "neurim/data/sources/folder.h"

namespace neurim {

void ImageList::add(const std::string& word) {
  std::error_code error;
  const fs::path source(word);
  if (word == "-") {
    const std::string given(std::istreambuf_iterator<char>(std::cin), {});
    if (!format_of_content(std::as_bytes(std::span(given))).empty())
      fail(Fault::data, "source=-: stdin has the bytes of an image; write the paths of images to it, a line each");
    return add_lines(given, "", "source=-");
  }
  if (word.starts_with("@") && !is_there(source)) return add_address(word.substr(1));
  if (!is_there(source)) {
    const std::vector<fs::path> named = paths_of_pattern(word);
    if (named.empty()) fail(Fault::data, word, ": there is no such file or folder; check the path");
    for (const fs::path& path : named) add(path.string());
    return;
  }
  if (fs::is_directory(source, error)) {
    const ImagesBelow found = images_below(word);
    notes_.insert(notes_.end(), found.notes.begin(), found.notes.end());
    if (found.files.empty()) fail(Fault::data, word, ": holds no image file");
    for (const fs::path file : found.files) add_file(file, file.string());
    left_out_ += found.left_out;
    return;
  }
  if (source.extension() == ".txt" && !has_image_content(source))
    return add_lines(read_file(source), source.parent_path(), word);
  add_file(source, word);
}

void ImageList::add_file(const fs::path& file, std::string name) {
  files_.push_back(file);
  names_.push_back(std::move(name));
}

void ImageList::add_lines(const std::string& lines, const fs::path& folder, const std::string& where) {
  std::istringstream stream(lines);
  std::int64_t number = 0, images = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (trimmed(line).empty()) continue;
    const fs::path file = folder / fs::path(line);
    if (!is_there(file))
      fail(Fault::data, where, ":", number, ": there is no file ", file.string(), "; a line names an image");
    add_file(file, file.string());
    ++images;
  }
  if (images == 0) fail(Fault::data, where, ": names no image; it has a path a line");
}

void ImageList::add_address(const std::string& url) {
  constexpr std::int64_t kMostBytes = 256 << 20;
  if (!url.starts_with("http://") && !url.starts_with("https://"))
    fail(Fault::usage, "source=@", url, ": is no address; write @https://…");
  if (!fetched_) fetched_ = temporary_folder();
  const fs::path file = *fetched_ / text(files_.size());
  fetch(url, file, kMostBytes);
  add_file(file, url);
}

}  // namespace neurim
