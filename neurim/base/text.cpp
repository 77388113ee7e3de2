#include "neurim/base/text.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <utility>

#include "neurim/base/error.h"

namespace neurim {

void append(std::string& out, double part) {
  char buffer[40];
  auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, part);
  out.append(buffer, error == std::errc() ? end : buffer);
}

std::vector<std::string> split(std::string_view whole, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const auto at = whole.find(separator);
    parts.emplace_back(whole.substr(0, at));
    if (at == std::string_view::npos) return parts;
    whole.remove_prefix(at + 1);
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i) out += separator;
    out += parts[i];
  }
  return out;
}

std::string lower(std::string_view word) {
  std::string out(word);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c += 'a' - 'A';
  return out;
}

std::string trimmed(std::string_view word) {
  const std::size_t first = word.find_first_not_of(" \t"), last = word.find_last_not_of(" \t");
  return first == std::string_view::npos ? "" : std::string(word.substr(first, last - first + 1));
}

std::string printable(std::string_view line) {
  std::string out(line);
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(out[i]); };
  for (std::size_t i = 0; i < out.size(); ++i) {
    // U+0080 to U+009F, of which terminals take some for the beginning of a command, are two bytes of UTF-8.
    const bool two = byte(i) == 0xC2 && i + 1 < out.size() && (byte(i + 1) & 0xE0) == 0x80;
    if (two) out[i + 1] = ' ';
    if (two || (byte(i) < ' ' && out[i] != '\t') || byte(i) == 127) out[i] = ' ';
  }
  return out;
}

std::string quoted_word(std::string_view word) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("._-/:+,").find(c) != std::string_view::npos;
  };
  if (!word.empty() && word.back() != ',' && std::all_of(word.begin(), word.end(), plain)) return std::string(word);
  std::string out = "\"";
  for (const char c : word)
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  return out + '"';
}

std::string unquoted(std::string_view word) {
  if (word.empty() || word.front() != '"') {
    require(!word.empty() && word.find('"') == std::string_view::npos, "'", word, "' is no word and no text in quotes");
    return std::string(word);
  }
  std::string out;
  std::size_t i = 1;
  for (; i < word.size() && word[i] != '"'; ++i) {
    const bool escaped = word[i] == '\\' && i + 1 < word.size();
    if (escaped) ++i;
    out += escaped && word[i] == 'n' ? '\n' : word[i];
  }
  require(i + 1 == word.size(), "'", word, "' is no text in quotes");
  return out;
}

std::size_t word_end(std::string_view words) {
  bool inside = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (inside && words[i] == '\\')
      ++i;
    else if (words[i] == '"')
      inside = !inside;
    else if (words[i] == ' ' && !inside)
      return i;
  }
  return words.size();
}

bool starts_with(std::string_view whole, std::string_view prefix) { return whole.substr(0, prefix.size()) == prefix; }

bool ends_with(std::string_view whole, std::string_view suffix) {
  return whole.size() >= suffix.size() && whole.substr(whole.size() - suffix.size()) == suffix;
}

std::string fixed(double value, int decimals) {
  if (std::abs(value) >= 1e15) return significant(value);  // more digits than a double has
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", decimals, value);
  return buffer;
}

std::string significant(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.4g", value);
  return buffer;
}

/// Characters to put in, take out or replace, and neighbours to exchange.
static std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1), before, earlier;
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    earlier = std::exchange(before, row);
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      row[j + 1] = std::min({before[j + 1] + 1, row[j] + 1, before[j] + (a[i] != b[j])});
      if (i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j]) row[j + 1] = std::min(row[j + 1], earlier[j - 1] + 1);
    }
  }
  return row.back();
}

std::string cell(const std::string& value, std::size_t width) {
  return std::string(std::max(width, value.size() + 1) - value.size(), ' ') + value;
}

std::string cell(double value, int decimals, std::size_t width) {
  const std::string whole = std::isnan(value) ? "-" : fixed(value, decimals);
  return cell(whole.size() < width ? whole : significant(value), width);
}

std::string thousands(std::int64_t number) {
  std::string out = std::to_string(number);
  for (std::size_t at = out.size(); at > (number < 0 ? 4u : 3u); at -= 3) out.insert(at - 3, 1, ',');
  return out;
}

std::string plural(std::int64_t count, std::string_view thing) {
  return text(thousands(count), ' ', thing, count == 1 ? "" : "s");
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = word.size() / 3 + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) best_distance = distance, best = candidate;
  }
  return best;
}

}  // namespace neurim
