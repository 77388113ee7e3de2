// Text as a sequence of characters.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace neurim {

/// The characters that a text is written with, and their numbers.
class Vocabulary {
 public:
  Vocabulary() = default;
  /// Unicode scalar values in ascending order, each once: the number of a character is its position. Throws
  /// Error(data) on others.
  explicit Vocabulary(std::vector<char32_t> characters);
  /// All characters of a UTF-8 text. Throws Error(data) as encode does.
  static Vocabulary of(std::string_view utf8, const std::string& where);

  std::int64_t size() const { return static_cast<std::int64_t>(characters_.size()); }  ///< how many characters
  const std::vector<char32_t>& characters() const { return characters_; }              ///< by number
  /// The numbers of a UTF-8 text's characters. Throws Error(data) on bytes that are no UTF-8 and on
  /// characters that are not in the vocabulary, with their place; `where` is what errors call the text.
  std::vector<std::int32_t> encode(std::string_view utf8, const std::string& where) const;
  /// The inverse. Throws Error(usage) on a number out of range.
  std::string decode(const std::vector<std::int32_t>& numbers) const;

 private:
  std::vector<char32_t> characters_;
};

/// A text as numbers of characters.
struct Corpus {
  std::string path;                      ///< for messages
  Vocabulary vocabulary;                 ///< what the numbers mean
  std::vector<std::int32_t> characters;  ///< numbers in the vocabulary, in the order of the text
};

/// Reads a UTF-8 text file; its vocabulary is all characters in it. Line ends are kept as they are, a byte
/// order mark is left out. Throws Error(data) with the file and the byte on what is no UTF-8, and on an empty
/// file.
Corpus read_corpus(const std::string& path);
/// The same with a vocabulary that is known. Throws Error(data) with the file and the byte also on a character
/// that is not in it.
Corpus read_corpus(const std::string& path, const Vocabulary& vocabulary);

}  // namespace neurim
