#include "neurim/base/canonical_form.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <vector>

#include "neurim/base/canonical_form_data.h"
#include "neurim/base/utf8.h"

namespace neurim {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

int combining_class(char32_t character) {
  const auto* found = std::lower_bound(std::begin(kCombiningClasses), std::end(kCombiningClasses), character,
                                       [](const CombiningClass& marks, char32_t c) { return marks.last < c; });
  return found == std::end(kCombiningClasses) || found->first > character ? 0 : found->number;
}

/// Hangul by arithmetic (The Unicode Standard, section 3.12), all else by the table.
void decompose(char32_t character, std::vector<char32_t>& out) {
  constexpr char32_t kSyllables = 0xAC00, kLeading = 0x1100, kVowels = 0x1161, kTrailing = 0x11A7;
  constexpr char32_t kVowelCount = 21, kTrailingCount = 28, kSyllableCount = 19 * kVowelCount * kTrailingCount;
  if (character >= kSyllables && character < kSyllables + kSyllableCount) {
    const char32_t index = character - kSyllables;
    out.push_back(kLeading + index / (kVowelCount * kTrailingCount));
    out.push_back(kVowels + index / kTrailingCount % kVowelCount);
    if (index % kTrailingCount != 0) out.push_back(kTrailing + index % kTrailingCount);
    return;
  }
  const auto* found = std::lower_bound(std::begin(kCanonicalPairs), std::end(kCanonicalPairs), character,
                                       [](const CanonicalPair& pair, char32_t c) { return pair.character < c; });
  if (found == std::end(kCanonicalPairs) || found->character != character) return out.push_back(character);
  decompose(found->first, out);
  if (found->second != 0) decompose(found->second, out);
}

}  // namespace

std::string canonical_form(std::string_view text) {
  if (is_ascii(text) || !is_utf8(text)) return std::string(text);
  std::vector<char32_t> characters;
  while (!text.empty()) decompose(take_character(text), characters);
  const auto is_mark = [](char32_t c) { return combining_class(c) != 0; };
  for (auto at = characters.begin(); at != characters.end();) {
    const auto begin = std::find_if(at, characters.end(), is_mark);
    at = std::find_if_not(begin, characters.end(), is_mark);
    std::stable_sort(begin, at, [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
  }
  std::string out;
  for (const char32_t c : characters) append_character(out, c);
  return out;
}

std::string with_code_points(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const char32_t c = take_character(text);
    if (c == kNoCharacter) return out.append(text);
    char shown[16];
    std::snprintf(shown, sizeof shown, c < 0x80 ? "%c" : "<U+%04X>", static_cast<unsigned>(c));
    out += shown;
  }
  return out;
}

}  // namespace neurim
