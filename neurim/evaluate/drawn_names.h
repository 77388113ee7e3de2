// Names of classes as images show them.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace neurim {

/// The names, with the class's number ("#3", from #0 on) in place of one that a Canvas cannot draw.
std::vector<std::string> drawn_names(const std::vector<std::string>& class_names);

/// A line on numbers in place of names, where there are any.
std::optional<std::string> drawn_names_note(const std::vector<std::string>& class_names);

}  // namespace neurim
