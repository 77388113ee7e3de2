// Names and paths that differ in Unicode form alone; see canonical_form.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "neurim/base/file.h"

namespace neurim {

/// Which names are one: those that differ in Unicode form alone are called by the shortest of them, which is the
/// composed one.
class Spellings {
 public:
  void add(const std::string& name);
  /// What a name that was added is called.
  const std::string& of(const std::string& name) const;
  /// The names that were added in several forms, each with what it is called first.
  std::vector<std::vector<std::string>> several() const;

 private:
  struct Shorter {
    bool operator()(const std::string& a, const std::string& b) const {
      return a.size() != b.size() ? a.size() < b.size() : a < b;
    }
  };
  std::map<std::string, std::set<std::string, Shorter>> by_form_;
};

/// Finds files whose names are written in another Unicode form than the file system has them in.
class FileFinder {
 public:
  /// The path as it is on disk; the same where nothing is there, or something as it is written.
  std::string find(const std::string& path);

 private:
  /// What these parts of a path lead to from the folder; "" for nothing.
  std::string below(const fs::path& folder, fs::path::const_iterator part, fs::path::const_iterator end);

  std::map<std::string, std::multimap<std::string, std::string>> folders_;  // of each its names by their form
};

}  // namespace neurim
