// Words for a shell.
#pragma once
#include <string>

namespace neurim {

/// The word as a shell takes it for one: in quotes, where it holds more than letters, digits and a few signs.
std::string shell_word(const std::string& word);

}  // namespace neurim
