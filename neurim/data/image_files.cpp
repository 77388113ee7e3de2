#include "neurim/data/image_files.h"

#include <algorithm>
#include <fstream>

#include "neurim/base/text.h"
#include "neurim/data/decode.h"

namespace neurim {
namespace {

struct Extension {
  std::string_view extension, format;
};

constexpr Extension kExtensions[] = {
    {".jpg", "JPEG"},          {".jpeg", "JPEG"},         {".jpe", "JPEG"},  {".jfif", "JPEG"},
    {".png", "PNG"},           {".webp", "WebP"},         {".bmp", "BMP"},   {".dib", "BMP"},
    {".gif", "GIF"},           {".tif", "TIFF"},          {".tiff", "TIFF"}, {".ppm", "PNM"},
    {".pgm", "PNM"},           {".pbm", "PNM"},           {".pnm", "PNM"},   {".avif", "AVIF or HEIC"},
    {".heic", "AVIF or HEIC"}, {".heif", "AVIF or HEIC"}, {".npy", "NPY"},
};

}  // namespace

std::string_view format_of_extension(const fs::path& file) {
  const std::string extension = lower(file.extension().string());
  const auto* found = std::find_if(std::begin(kExtensions), std::end(kExtensions),
                                   [&](const Extension& known) { return known.extension == extension; });
  return found == std::end(kExtensions) ? "" : found->format;
}

std::string_view extension_of(std::string_view format) {
  const auto* found = std::find_if(std::begin(kExtensions), std::end(kExtensions),
                                   [&](const Extension& known) { return known.format == format; });
  return found == std::end(kExtensions) ? "" : found->extension;
}

bool has_image_content(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return false;  // a pipe would make us wait
  char head[32] = {};
  std::ifstream(file, std::ios::binary).read(head, sizeof head);
  return !format_of_content(std::as_bytes(std::span(head))).empty();
}

bool is_hidden(const fs::path& entry) {
  constexpr std::string_view kLeft[] = {"$recycle.bin", "#recycle",    "@recycle",   "@eadir",
                                        "__macosx",     "__pycache__", "lost+found", "system volume information",
                                        "desktop.ini",  "thumbs.db"};
  const std::string file = entry.filename().string();
  return file.starts_with('.') || std::find(std::begin(kLeft), std::end(kLeft), lower(file)) != std::end(kLeft);
}

bool holds_run(const fs::path& folder) {
  std::error_code error;
  const auto has = [&](const char* file) { return fs::is_regular_file(folder / file, error); };
  return (has("args.yaml") && fs::is_directory(folder / "weights", error)) ||
         (has("confusion_matrix.csv") && has("confusion_matrix.png") && has("per_class.csv"));
}

}  // namespace neurim
