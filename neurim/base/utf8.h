// The characters of UTF-8 texts.
#pragma once
#include <string>
#include <string_view>

namespace neurim {

inline constexpr char32_t kNoCharacter = ~char32_t{0}, kLastCharacter = 0x10FFFF;

/// Whether it is one half of a character of UTF-16, and so none itself.
inline bool is_surrogate(char32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

/// Takes the first character off a text that is not empty; kNoCharacter where it is not well-formed (Unicode
/// 15, table 3-7).
char32_t take_character(std::string_view& rest);

/// Puts a character after a text.
void append_character(std::string& out, char32_t character);

/// Whether the text is well-formed.
bool is_utf8(std::string_view text);

/// The text without the byte order mark that some editors put in front of it.
inline std::string_view without_mark(std::string_view text) {
  return text.starts_with("\xEF\xBB\xBF") ? text.substr(3) : text;
}

}  // namespace neurim
