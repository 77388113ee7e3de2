#include "neurim/data/sequences/corpus.h"

#include <algorithm>
#include <cstdio>

#include "neurim/base/error.h"
#include "neurim/base/file.h"
#include "neurim/base/text.h"
#include "neurim/base/utf8.h"

namespace neurim {
namespace {

/// A character as errors quote it.
std::string quoted(char32_t c) {
  if (c < ' ' || (c >= 0x7F && c < 0xA0)) {  // steers what it is printed on
    char code[16];
    std::snprintf(code, sizeof code, "U+%04X", static_cast<unsigned>(c));
    return code;
  }
  std::string character = "'";
  append_character(character, c);
  return character + '\'';
}

/// Calls `use` with each character and its first byte's place.
template <class Use>
void each_character(std::string_view utf8, const std::string& where, const Use& use) {
  std::string_view rest = utf8;
  while (!rest.empty()) {
    const std::size_t at = utf8.size() - rest.size();
    const char32_t c = take_character(rest);
    if (c == kNoCharacter)
      fail(Fault::data, where, ": byte ", at, " is no UTF-8; convert the text, for instance with iconv -t UTF-8");
    use(c, at);
  }
}

std::string text_of(const std::string& path) {
  std::string utf8 = read_text(path);
  if (utf8.empty()) fail(Fault::data, path, ": is empty; there is nothing to learn from");
  return utf8;
}

}  // namespace

Vocabulary::Vocabulary(std::vector<char32_t> characters) : characters_(std::move(characters)) {
  for (std::size_t i = 0; i < characters_.size(); ++i)
    if (characters_[i] > kLastCharacter || is_surrogate(characters_[i]) ||
        (i > 0 && characters_[i] <= characters_[i - 1]))
      fail(Fault::data, "vocabulary: entry ", i, " is no character, or not above the one before");
}

Vocabulary Vocabulary::of(std::string_view utf8, const std::string& where) {
  std::vector<char32_t> characters;
  std::vector<bool> seen(kLastCharacter + 1);
  each_character(utf8, where, [&](char32_t c, std::size_t) {
    if (!seen[c]) characters.push_back(c), seen[c] = true;
  });
  std::sort(characters.begin(), characters.end());
  return Vocabulary(std::move(characters));
}

std::vector<std::int32_t> Vocabulary::encode(std::string_view utf8, const std::string& where) const {
  std::vector<std::int32_t> numbers;
  numbers.reserve(utf8.size());
  each_character(utf8, where, [&](char32_t c, std::size_t at) {
    const auto found = std::lower_bound(characters_.begin(), characters_.end(), c);
    if (found == characters_.end() || *found != c)
      fail(Fault::data, where, ": the character ", quoted(c), " at byte ", at, " is not among the ", size(),
           " of the vocabulary");
    numbers.push_back(static_cast<std::int32_t>(found - characters_.begin()));
  });
  return numbers;
}

std::string Vocabulary::decode(const std::vector<std::int32_t>& numbers) const {
  std::string out;
  for (const std::int32_t number : numbers) {
    require(number >= 0 && number < size(), "vocabulary: ", number, " is no character; there are ", size());
    append_character(out, characters_[number]);
  }
  return out;
}

Corpus read_corpus(const std::string& path) {
  const std::string utf8 = text_of(path);
  Vocabulary vocabulary = Vocabulary::of(utf8, path);
  std::vector<std::int32_t> numbers = vocabulary.encode(utf8, path);
  return {path, std::move(vocabulary), std::move(numbers)};
}

Corpus read_corpus(const std::string& path, const Vocabulary& vocabulary) {
  return {path, vocabulary, vocabulary.encode(text_of(path), path)};
}

}  // namespace neurim
