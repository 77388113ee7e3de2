// Building strings: text("a", 3, 'c') == "a3c".
#pragma once
#include <concepts>
#include <string>
#include <string_view>
#include <vector>

namespace neurim {

/// Appends a value as text.
inline void append(std::string& out, std::string_view part) { out += part; }
/// Appends a value as text.
inline void append(std::string& out, const std::string& part) { out += part; }
/// Appends a value as text.
inline void append(std::string& out, const char* part) { out += part; }
/// Appends a value as text.
inline void append(std::string& out, char part) { out += part; }
/// Appends a value as text.
inline void append(std::string& out, bool part) { out += part ? "true" : "false"; }
void append(std::string& out, double part);  ///< shortest form that reads back equal
/// Appends a value as text.
inline void append(std::string& out, float part) { append(out, static_cast<double>(part)); }
/// Appends a value as text.
template <std::integral T>
void append(std::string& out, T part) {
  out += std::to_string(part);
}

/// Joins the parts; any type with an `append(std::string&, T)` next to it takes part.
template <class... Parts>
std::string text(const Parts&... parts) {
  std::string out;
  (append(out, parts), ...);
  return out;
}

/// The parts between separators; one, "", of an empty text.
std::vector<std::string> split(std::string_view whole, char separator);
/// The parts with separators between them.
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string lower(std::string_view word);    ///< ASCII letters in lower case
std::string trimmed(std::string_view word);  ///< without blanks and tabs around it
/// The line as it may be printed, whatever names of files in it hold: control characters but tabs become blanks, so
/// that it stays one line and steers no terminal.
std::string printable(std::string_view line);
bool starts_with(std::string_view whole, std::string_view prefix);  ///< whether it does
bool ends_with(std::string_view whole, std::string_view suffix);    ///< whether it does

/// A word as it is: letters, digits and . _ - / : + , alone, no comma last; another text in double quotes, with
/// \ before " and \, and \n for the end of a line.
std::string quoted_word(std::string_view word);
std::string unquoted(
    std::string_view word);  ///< the word or text that `quoted_word` gave; throws Error(usage) for another
/// Where the first of the words between blanks ends, which may have quotes.
std::size_t word_end(std::string_view words);

/// `printf`-style number with a fixed count of decimals.
std::string fixed(double value, int decimals);
/// The same with four significant digits: "1.752", "0.01", "1.3e+07".
std::string significant(double value);
/// Right-aligned in a column, with at least one blank before it.
std::string cell(const std::string& value, std::size_t width);
/// The same of a number, with fewer digits where it is too long; "-" of NaN.
std::string cell(double value, int decimals, std::size_t width);
std::string thousands(std::int64_t number);                      ///< "60,000"
std::string plural(std::int64_t count, std::string_view thing);  ///< "1 image", "1,431 images"

/// The candidate nearest to `word`, or "" when none is near enough to be meant: at most a third of its characters are
/// to be changed.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace neurim
