#include "neurim/data/spellings.h"

#include <algorithm>
#include <iterator>

#include "neurim/base/canonical_form.h"

namespace neurim {

void Spellings::add(const std::string& name) { by_form_[canonical_form(name)].insert(name); }

const std::string& Spellings::of(const std::string& name) const { return *by_form_.at(canonical_form(name)).begin(); }

std::vector<std::vector<std::string>> Spellings::several() const {
  std::vector<std::vector<std::string>> found;
  for (const auto& [form, names] : by_form_)
    if (names.size() > 1) found.emplace_back(names.begin(), names.end());
  return found;
}

std::string FileFinder::find(const std::string& path) {
  std::error_code error;
  const bool ascii = std::none_of(path.begin(), path.end(),
                                  [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  if (ascii || fs::exists(path, error)) return path;
  const fs::path whole(path);
  const std::string found = below("", whole.begin(), whole.end());
  return found.empty() ? path : found;
}

std::string FileFinder::below(const fs::path& folder, fs::path::const_iterator part, fs::path::const_iterator end) {
  if (part == end) return folder.string();
  std::error_code error;
  if (fs::exists(folder / *part, error))
    if (std::string found = below(folder / *part, std::next(part), end); !found.empty()) return found;
  const auto [names, is_new] = folders_.try_emplace(folder.string());
  if (is_new)
    for (fs::directory_iterator entry(folder.empty() ? "." : folder, error), last; !error && entry != last;
         entry.increment(error))
      names->second.emplace(canonical_form(entry->path().filename().string()), entry->path().filename().string());
  const auto [first, last] = names->second.equal_range(canonical_form(part->string()));
  for (auto name = first; name != last; ++name)
    if (name->second != part->string())
      if (std::string found = below(folder / name->second, std::next(part), end); !found.empty()) return found;
  return "";
}

}  // namespace neurim
