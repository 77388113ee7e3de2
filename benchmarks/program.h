// What the programs of this folder share: their main, and how they read numbers.
#pragma once
#include <charconv>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "neurim/neurim.h"

namespace neurim {

/// Runs a program on the words after its name, and tells in a line what it throws.
inline int run_program(int argc, char** argv, void (*run)(const std::vector<std::string>& words)) {
  try {
    run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    std::cerr << std::filesystem::path(argv[0]).filename().string() << ": " << error.what() << '\n';
    return 1;
  }
}

/// The words NAME=N from place `first` on, N of 1 or more, of those that are known.
inline void read_counts(const std::vector<std::string>& words, std::map<std::string, std::int64_t, std::less<>>& known,
                        std::size_t first = 1) {
  for (std::size_t i = first; i < words.size(); ++i) {
    const std::size_t equals = std::min(words[i].find('='), words[i].size() - 1);
    const auto at = known.find(words[i].substr(0, equals));
    const char *begin = words[i].data() + equals + 1, *end = words[i].data() + words[i].size();
    std::vector<std::string> names;
    for (const auto& [name, value] : known) names.push_back(name + "=N");
    require(at != known.end() && std::from_chars(begin, end, at->second).ptr == end && begin < end && at->second > 0,
            "'", words[i], "' is none of ", join(names, ", "), " with N of 1 or more");
  }
}

}  // namespace neurim
