// What a walk through folders leaves out.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "neurim/base/file.h"

namespace neurim {

bool leads_nowhere(const fs::directory_entry& entry);  ///< a symbolic link, that is

/// Symbolic links that would give images a wrong class or lead nowhere, files that are no images, images of no class,
/// and runs.
class LeftOut {
 public:
  /// Says which folders are classes.
  void add_class(const fs::path& folder);
  /// Whether the link, in a class of that name, leads to a folder above it or to images of another class.
  bool leads_astray(const fs::path& link, const std::string& class_name);
  void add_file(const fs::path& file) { files_.insert(file.string()); }
  void add_run(const fs::path& folder) { runs_.insert(folder.string()); }
  void add_dead_link(const fs::path& link) { dead_links_.insert(link.string()); }
  /// Notes what lies beside the folders of splits or classes in `folder` and is lost there.
  void look_beside(const fs::path& folder);
  /// Whether a run was left out below the folder.
  bool has_run_in(const fs::path& folder) const;
  std::int64_t count() const;
  void note(std::vector<std::string>& notes) const;

 private:
  std::map<fs::path, std::string> classes_;  // their canonical forms, by the folder that holds the images
  std::set<std::string> astray_, files_, classless_, dead_links_, runs_;
};

}  // namespace neurim
