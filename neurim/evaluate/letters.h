// Names that fit: widths and shortening of UTF-8 text, for terminals and images.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace neurim {

/// The text as code points. Bytes that are no UTF-8 and control characters become U+FFFD, so that a class
/// named after any folder can be shown.
std::vector<char32_t> letters_of(std::string_view text);

std::string utf8(const std::vector<char32_t>& letters);

/// How many columns of a terminal the text takes (East Asian wide characters take two, combining marks none).
std::size_t columns_of(std::string_view text);

/// Whether the letter is of a script whose letters join, change places or run from right to left.
bool needs_shaping(char32_t letter);

/// The text, or its beginning and end around an ellipsis, such that `measure` of it is at most `limit`.
template <class Number, class Measure>
std::string elided(std::string_view text, Number limit, Measure&& measure) {
  const std::vector<char32_t> letters = letters_of(text);
  std::string shown = utf8(letters);
  for (std::size_t kept = letters.size(); kept > 1 && measure(shown) > limit;) {
    const auto tail = static_cast<std::ptrdiff_t>(--kept / 3), head = static_cast<std::ptrdiff_t>(kept) - tail;
    std::vector<char32_t> part(letters.begin(), letters.begin() + head);
    part.push_back(U'\u2026');
    part.insert(part.end(), letters.end() - tail, letters.end());
    shown = utf8(part);
  }
  return shown;
}

}  // namespace neurim
