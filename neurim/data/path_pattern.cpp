#include "neurim/data/path_pattern.h"

#include <glob.h>

#include <string_view>

namespace neurim {
namespace {

std::vector<fs::path> globbed(const std::string& pattern) {
  glob_t found{};
  std::vector<fs::path> paths;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return paths;
}

/// The text with a backslash before these characters, which then stand for themselves.
std::string escaped(std::string_view text, std::string_view characters) {
  std::string out;
  for (const char c : text) {
    if (characters.find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::size_t written_part(const std::string& path) {
  std::size_t end = 0;
  std::error_code error;
  for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    if (!fs::is_directory(path.substr(0, slash + 1), error)) break;
    end = slash + 1;
  }
  return end;
}

std::vector<fs::path> paths_of_pattern(const std::string& pattern) {
  const std::size_t end = written_part(pattern);
  const std::string folder = escaped(pattern.substr(0, end), "\\*?["), rest = pattern.substr(end);
  const std::vector<fs::path> named = globbed(folder + escaped(rest, "["));
  return named.empty() ? globbed(folder + rest) : named;
}

}  // namespace neurim
