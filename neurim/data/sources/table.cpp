#include "neurim/data/sources/table.h"

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "neurim/base/error.h"
#include "neurim/base/file.h"
#include "neurim/base/utf8.h"

namespace neurim {
namespace {

constexpr std::size_t kMostColumns = 10'000;
constexpr std::string_view kSeparators = ",;\t|";
constexpr std::array<const char*, kSeparators.size()> kSeparatorNames{"comma", "semicolon", "tab", "bar"};

const char* name_of(char separator) { return kSeparatorNames[kSeparators.find(separator)]; }

/// A value as a cell; nothing where it is null or has a structure that a cell has not.
std::optional<std::string> cell_of(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null() || value.is_object()) return {};
  if (!value.is_array()) return value.dump();
  std::vector<std::string> parts;
  for (const nlohmann::json& part : value) {
    if (part.is_structured() || part.is_null()) return {};
    parts.push_back(*cell_of(part));
  }
  return join(parts, "|");
}

/// A value that stands twice in a list of plain ones; "" where none does.
std::string twice_in(const nlohmann::json& list) {
  std::set<std::string> seen;
  for (const nlohmann::json& part : list)
    if (const std::string word = *cell_of(part); !seen.insert(word).second) return word;
  return "";
}

/// Reads records of cells one after the other.
class Records {
 public:
  Records(const std::string& path, std::string_view content, char separator)
      : path_(path), rest_(content), separator_(separator) {}

  /// The next record that is not an empty line, or false at the end.
  bool next(Table::Row& row) {
    empty_line_ = line_;
    while (!rest_.empty() && end_of_line()) {
    }
    if (empty_line_ == line_) empty_line_ = 0;
    if (rest_.empty()) return false;
    row = {line_, {}};
    do {
      row.cells.push_back(cell());
      if (row.cells.size() > kMostColumns)
        fail(Fault::data, path_, ":", row.line, ": has more than ", kMostColumns, " cells; is it a table?");
    } while (take(separator_));
    if (!rest_.empty() && !end_of_line())
      fail(Fault::data, path_, ":", line_, ": text follows a closing quote; double the quotes within a cell");
    return true;
  }
  /// The first of the empty lines before that record, or 0.
  std::int64_t empty_line() const { return empty_line_; }

 private:
  bool take(char c) {
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool end_of_line() {
    const std::size_t size = rest_.starts_with("\r\n") ? 2 : rest_.starts_with('\n') ? 1 : 0;
    rest_.remove_prefix(size);
    line_ += size > 0;
    return size > 0;
  }
  /// Blanks around a cell are no part of it, those between quotes are.
  std::string cell() {
    pass_blanks();
    if (!take('"')) {
      std::size_t size = std::min(rest_.find_first_of(text(separator_, '\n')), rest_.size());
      const std::string_view found = rest_.substr(0, size);
      if (size < rest_.size() && rest_[size] == '\n' && found.ends_with('\r')) --size;
      rest_.remove_prefix(size);
      return trimmed(found.substr(0, size));
    }
    std::string found;
    const std::int64_t begin = line_;
    while (true) {
      const std::size_t size = rest_.find('"');
      if (size == std::string_view::npos)
        fail(Fault::data, path_, ":", begin, ": a quote is opened and never closed; add it, or double it");
      found += rest_.substr(0, size);
      line_ += std::count(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(size), '\n');
      rest_.remove_prefix(size + 1);
      if (!take('"')) break;
      found += '"';
    }
    pass_blanks();
    return found;
  }
  void pass_blanks() {
    while (!rest_.empty() && rest_[0] != separator_ && (rest_[0] == ' ' || rest_[0] == '\t')) rest_.remove_prefix(1);
  }

  const std::string& path_;
  std::string_view rest_;
  char separator_;
  std::int64_t line_ = 1, empty_line_ = 0;
};

/// How often each of kSeparators stands outside quotes in the first record, which is taken off; empty lines before it
/// too.
std::array<std::size_t, kSeparators.size()> take_separators(std::string_view& rest) {
  std::array<std::size_t, kSeparators.size()> counts{};
  rest.remove_prefix(std::min(rest.find_first_not_of("\r\n"), rest.size()));
  bool quoted = false, begins = true;  // a cell: a quote within one is a part of it
  while (!rest.empty()) {
    const char c = rest.front();
    rest.remove_prefix(1);
    const std::size_t separator = kSeparators.find(c);
    if (c == '"' && (quoted || begins)) {
      quoted = !quoted, begins = true;  // a second quote goes on
      continue;
    }
    if (!quoted && c == '\n') break;
    const bool separates = !quoted && separator != std::string_view::npos;
    if (separates) ++counts[separator];
    begins = separates || (begins && c == ' ');
  }
  return counts;
}

/// What separates the cells: a character that stands in the header, and as often in the first row. Where several do, it
/// is the most frequent of them; where none does, `usual`. Throws Error(data) where two are as frequent.
char separator_of(const std::string& path, std::string_view content, char usual) {
  const auto header = take_separators(content);
  const bool has_row = content.find_first_not_of("\r\n") != std::string_view::npos;
  const auto row = has_row ? take_separators(content) : header;
  const std::size_t own = kSeparators.find(usual);
  std::vector<std::size_t> fit, near;  // near: also in both, though not as often
  for (std::size_t i = 0; i < kSeparators.size(); ++i) {
    if (header[i] == 0 || row[i] == 0) continue;
    if (header[i] == row[i]) fit.push_back(i);
    if (header[own] == 0) near.push_back(i);
  }
  if (fit.empty()) fit = near;
  if (fit.empty()) return usual;
  std::stable_sort(fit.begin(), fit.end(), [&](std::size_t a, std::size_t b) { return header[a] > header[b]; });
  if (fit.size() > 1 && header[fit[0]] == header[fit[1]])
    fail(Fault::data, path, ": its header and its first row have as many ", kSeparatorNames[fit[0]], "s as ",
         kSeparatorNames[fit[1]], "s, so either may separate the cells; quote those that hold one of them");
  return kSeparators[fit[0]];
}

void parse_separated(std::string_view content, char usual, bool header_alone, Table& table) {
  // What Excel writes, or is told by, before the header.
  const bool told = content.starts_with("sep=") && content.size() > 5 &&
                    kSeparators.find(content[4]) != std::string_view::npos &&
                    (content[5] == '\n' || content[5] == '\r');
  const char separator = told ? content[4] : separator_of(table.path, content, usual);
  Records records(table.path, content, separator);
  Table::Row row;
  if (told) records.next(row);
  if (!records.next(row)) fail(Fault::data, table.path, ": is empty; its first line names the columns");
  for (const std::string& column : row.cells) table.columns.push_back(lower(trimmed(column)));
  while (!header_alone && records.next(row)) {
    if (row.cells.size() != table.columns.size())
      fail(Fault::data, table.at(row), ": has ", row.cells.size(), " cells where the header names ",
           table.columns.size(), " columns; quote cells that hold a separator, which is the ", name_of(separator),
           " here");
    if (table.empty_line == 0) table.empty_line = records.empty_line();
    table.rows.push_back(std::move(row));
  }
}

void parse_json_lines(std::string_view content, bool header_alone, Table& table) {
  std::map<std::string, std::size_t> index;
  std::set<std::string> doubled;               // the columns that one line names twice
  std::map<std::string, std::string> one_hot;  // of each column: what is wrong if it holds the labels
  std::int64_t number = 0, empty_line = 0;     // the first one after a row
  // Lines that name other columns each would take memory by the square of their count.
  std::size_t cells_left = content.size();
  while (!content.empty()) {
    const std::size_t size = std::min(content.find('\n'), content.size());
    const std::string_view line = content.substr(0, size);
    content.remove_prefix(std::min(size + 1, content.size()));
    Table::Row row{++number, {}};
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
      if (empty_line == 0 && !table.rows.empty()) empty_line = number;
      continue;
    }
    if (table.empty_line == 0) table.empty_line = empty_line;
    std::set<std::string> keys;  // of this line
    const auto note_key = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& key) {
      if (depth != 1 || event != nlohmann::json::parse_event_t::key) return true;
      const std::string column = lower(trimmed(key.get<std::string>()));
      if (!keys.insert(column).second) doubled.insert(column);
      return true;
    };
    const auto object = nlohmann::json::parse(line, note_key, false);
    if (!object.is_object())
      fail(Fault::data, table.at(row), ": is no JSON object; a .jsonl file has one object a line");
    for (const auto& [key, value] : object.items()) {
      std::optional<std::string> cell = cell_of(value);
      if (!cell) continue;
      const std::string column = lower(trimmed(key));
      if (!header_alone && value.is_array() && !one_hot.contains(column))
        if (const std::string twice = twice_in(value); !twice.empty())
          one_hot[column] = text(table.at(row), ": ", column, " has ", twice,
                                 " twice, as a one-hot row has; write the names or numbers of the image's "
                                 "classes, such as [\"cat\", \"dog\"]");
      const std::size_t at = index.emplace(column, index.size()).first->second;
      if (row.cells.size() <= at) row.cells.resize(at + 1);
      if (row.cells.size() > cells_left)
        fail(Fault::data, table.at(row), ": the lines have too few keys in common to be a table");
      row.cells[at] = std::move(*cell);
    }
    cells_left -= row.cells.size();
    table.rows.push_back(std::move(row));
    if (header_alone) break;
  }
  for (const std::string& name : label_columns()) {
    if (!index.contains(name)) continue;
    if (one_hot.contains(name)) fail(Fault::data, one_hot[name]);
    break;
  }
  table.columns.resize(index.size());
  for (const auto& [column, at] : index) table.columns[at] = column;
  table.columns.insert(table.columns.end(), doubled.begin(), doubled.end());  // find() then knows two of the name
}

Table parsed(const std::string& path, std::string_view content, bool header_alone) {
  Table table;
  table.path = path;
  content = without_mark(content);
  const std::string name = lower(path);
  if (ends_with(name, ".jsonl")) {
    parse_json_lines(content, header_alone, table);
  } else {
    parse_separated(content, ends_with(name, ".tsv") ? '\t' : ',', header_alone, table);
  }
  return table;
}

/// Throws where the bytes are text that would be read as another one.
void check_encoding(const std::string& path, std::string_view content) {
  const std::string_view begin = content.substr(0, 2);
  if (begin == "\xFF\xFE" || begin == "\xFE\xFF" || begin.find('\0') != std::string_view::npos)
    fail(Fault::data, path,
         ": is UTF-16; save it as UTF-8: iconv -f UTF-16 -t UTF-8 OLD > NEW, or \"CSV UTF-8\" in Excel");
  if (content.find('\r') != std::string_view::npos && content.find('\n') == std::string_view::npos)
    fail(Fault::data, path,
         ": its lines end in CR alone, as on old Macs; write them with LF: tr '\\r' '\\n' < OLD > NEW");
}

}  // namespace

const std::vector<std::string>& label_columns() {
  static const std::vector<std::string> names{"label", "class", "category", "target", "label_name"};
  return names;
}

std::optional<std::size_t> Table::find(const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    const auto found = std::find(columns.begin(), columns.end(), name);
    if (found == columns.end()) continue;
    if (std::find(found + 1, columns.end(), name) != columns.end())
      fail(Fault::data, path, ": two columns are called ", name, "; rename one of them");
    return found - columns.begin();
  }
  return {};
}

const std::string& Table::cell(const Row& row, std::size_t column) {
  static const std::string none;
  return column < row.cells.size() ? row.cells[column] : none;
}

std::string Table::at(const Row& row) const { return text(path, ":", row.line); }

bool is_table(std::string_view file) {
  const std::string name = lower(file);
  return ends_with(name, ".csv") || ends_with(name, ".tsv") || ends_with(name, ".jsonl");
}

Table parse_table(const std::string& path, std::string_view content) {
  check_encoding(path, content);
  return parsed(path, content, false);
}

std::vector<std::string> columns_of_table(const std::string& path) {
  try {
    return parsed(path, read_file(path), true).columns;
  } catch (const Error&) {
    return {};
  }
}

Table read_table(const std::string& path) { return parse_table(path, read_text(path)); }

}  // namespace neurim
