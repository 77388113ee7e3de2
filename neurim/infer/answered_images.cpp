#include "neurim/infer/answered_images.h"

#include <algorithm>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/train/thumbnail.h"

namespace neurim {

namespace {

/// A class as the name of a folder.
std::string folder_name(std::string name) {
  std::replace_if(name.begin(), name.end(), [](char letter) { return letter == '/' || letter == '\0'; }, '_');
  return name == "." || name == ".." || name.empty() ? name + "_" : name;
}

/// A path that none of these has: with a number before its extension where it needs one.
fs::path unused(const fs::path& path, std::set<fs::path>& taken) {
  fs::path free = path;
  for (int number = 2; !taken.insert(free).second; ++number)
    free = path.parent_path() / text(path.stem().string(), '-', number, path.extension().string());
  return free;
}

}  // namespace

void AnsweredImages::check(const fs::path& folder, std::string_view option) {
  std::error_code error;
  require(!is_there(folder) || (fs::is_directory(folder, error) && fs::is_empty(folder, error)), option, '=',
          folder.string(), ": is there and not empty; name a new folder");
}

AnsweredImages::AnsweredImages(const fs::path& sort_into, const fs::path& annotated)
    : sort_into_(sort_into), annotated_(annotated) {
  if (!sort_into.empty()) check(sort_into, "sort_into"), make_folder(sort_into);
  if (!annotated.empty()) check(annotated, "annotated"), make_folder(annotated);
}

void AnsweredImages::add(const fs::path& image, const std::string& class_name, const std::string& caption) {
  if (!sort_into_.empty()) {
    const fs::path folder = sort_into_ / folder_name(class_name);
    make_folder(folder);
    const fs::path target = unused(folder / image.filename(), taken_);
    std::error_code error;
    fs::copy_file(image, target, error);
    if (error) fail(Fault::resource, target.string(), ": cannot be written: ", error.message());
  }
  if (!annotated_.empty()) {
    constexpr int kSide = 640;
    Decoder decoder;
    decoder.open_file(image.string(), {.scaled = true});
    const Thumbnail one = thumbnail(decoder, kSide, {caption});
    write_file(unused(annotated_ / (image.stem().string() + ".jpg"), taken_), contact_sheet({&one, 1}, 1, kSide));
  }
}

}  // namespace neurim
