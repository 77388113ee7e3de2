#include "neurim/evaluate/letters.h"

#include <algorithm>
#include <cstdint>

#include "neurim/base/utf8.h"

namespace neurim {

namespace {

constexpr char32_t kReplacement = U'\uFFFD';

// The code point at `at`, which moves past it; a bad sequence gives the replacement and moves one byte.
char32_t next_letter(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(at++);
  if (lead < 0x80) return lead < 0x20 || lead == 0x7F ? kReplacement : lead;
  const std::size_t more = lead >= 0xF0 && lead < 0xF5   ? 3
                           : lead >= 0xE0 && lead < 0xF0 ? 2
                           : lead >= 0xC2 && lead < 0xE0 ? 1
                                                         : 0;
  if (more == 0 || at + more > text.size()) return kReplacement;
  char32_t letter = lead & (0x3Fu >> more);
  for (std::size_t i = 0; i < more; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return kReplacement;
    letter = letter << 6 | (byte(at + i) & 0x3F);
  }
  constexpr char32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
  if (letter < kLeast[more] || letter > 0x10FFFF || (letter >= 0xD800 && letter < 0xE000)) return kReplacement;
  at += more;
  return letter;
}

bool within(char32_t letter, char32_t first, char32_t last) { return letter >= first && letter <= last; }

std::size_t columns_of(char32_t letter) {
  if (within(letter, 0x300, 0x36F) || within(letter, 0x200B, 0x200F) || within(letter, 0xFE00, 0xFE0F)) return 0;
  const bool wide = within(letter, 0x1100, 0x115F) || within(letter, 0x2E80, 0xA4CF) ||
                    within(letter, 0xAC00, 0xD7A3) || within(letter, 0xF900, 0xFAFF) ||
                    within(letter, 0xFE30, 0xFE6F) || within(letter, 0xFF00, 0xFF60) ||
                    within(letter, 0xFFE0, 0xFFE6) || within(letter, 0x1F300, 0x1FAFF) ||
                    within(letter, 0x20000, 0x3FFFD);
  return wide ? 2 : 1;
}

}  // namespace

bool needs_shaping(char32_t letter) {
  return within(letter, 0x590, 0xDFF) ||                                        // Hebrew and Arabic to Sinhala
         within(letter, 0xF00, 0x109F) || within(letter, 0x1780, 0x18AF) ||     // Tibetan, Burmese, Khmer, Mongolian
         within(letter, 0xFB1D, 0xFDFF) || within(letter, 0xFE70, 0xFEFE) ||    // forms of Hebrew and Arabic letters
         within(letter, 0x10800, 0x10FFF) || within(letter, 0x1E800, 0x1EFFF);  // further ones from right to left
}

std::vector<char32_t> letters_of(std::string_view text) {
  std::vector<char32_t> letters;
  for (std::size_t at = 0; at < text.size();) letters.push_back(next_letter(text, at));
  return letters;
}

std::string utf8(const std::vector<char32_t>& letters) {
  std::string out;
  for (const char32_t letter : letters) append_character(out, letter);
  return out;
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  for (const char32_t letter : letters_of(text)) columns += columns_of(letter);
  return columns;
}

}  // namespace neurim
