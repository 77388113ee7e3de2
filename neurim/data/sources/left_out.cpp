#include "neurim/data/sources/left_out.h"

#include <algorithm>
#include <string_view>

#include "neurim/base/canonical_form.h"
#include "neurim/data/sources/parts.h"

namespace neurim {
namespace {

/// Whether a path is `outer` or lies in it; both without links.
bool within(const fs::path& path, const fs::path& outer) {
  return std::mismatch(outer.begin(), outer.end(), path.begin(), path.end()).first == outer.end();
}

}  // namespace

bool leads_nowhere(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.is_symlink(error) && !entry.exists(error);
}

void LeftOut::add_class(const fs::path& folder) {
  std::error_code error;
  const fs::path place = fs::canonical(folder, error), above = fs::canonical(folder.parent_path(), error);
  if (!within(above, place)) classes_.emplace(place, canonical_form(folder.filename().string()));
}

bool LeftOut::leads_astray(const fs::path& link, const std::string& of_class) {
  std::error_code error;
  const std::string class_name = canonical_form(of_class);
  const fs::path target = fs::canonical(link, error), from = fs::canonical(link.parent_path(), error);
  auto around = classes_.find(target);  // the class that it leads into
  for (fs::path at = target; around == classes_.end() && at != at.parent_path();)
    around = classes_.find(at = at.parent_path());
  bool astray = within(from, target) || (around != classes_.end() && around->second != class_name);
  for (auto at = classes_.lower_bound(target); !astray && at != classes_.end() && within(at->first, target); ++at)
    astray = at->second != class_name;
  if (astray) astray_.insert(link.string());
  return astray;
}

void LeftOut::look_beside(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : entries(folder)) {
    if (leads_nowhere(entry)) {
      add_dead_link(entry.path());
    } else if (entry.is_directory(error)) {
      if (holds_run(entry.path())) add_run(entry.path());
    } else if (is_image_file(entry.path())) {
      classless_.insert(entry.path().string());
    }
  }
}

bool LeftOut::has_run_in(const fs::path& folder) const {
  const std::string begin = (folder / "").string();
  const auto first = runs_.lower_bound(begin);
  return first != runs_.end() && first->starts_with(begin);
}

std::int64_t LeftOut::count() const {
  return std::ssize(astray_) + std::ssize(files_) + std::ssize(classless_) + std::ssize(dead_links_) +
         std::ssize(runs_);
}

void LeftOut::note(std::vector<std::string>& notes) const {
  if (!astray_.empty())
    note_count(notes, std::ssize(astray_),
               "symbolic links lead to a folder above them or into another class and are not followed",
               *astray_.begin());
  const auto note_some = [&](std::string_view why, std::string_view thing, const std::set<std::string>& some) {
    if (!some.empty())
      notes.push_back(text("left out as ", why, ": ", plural(std::ssize(some), thing), ", such as ", *some.begin()));
  };
  note_some("no images", "file", files_);
  note_some("of no class", "image", classless_);
  note_some("leading nowhere", "symbolic link", dead_links_);
  note_some("written by train or val", "folder", runs_);
}

}  // namespace neurim
