#include "neurim/data/sources/table.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "neurim/base/error.h"
#include "neurim/base/file.h"
#include "neurim/base/utf8.h"

namespace neurim {
namespace {

constexpr std::size_t kMostColumns = 10'000;

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
    while (!rest_.empty() && rest_[0] != separator_ && (rest_[0] == ' ' || rest_[0] == '\t'))
      rest_.remove_prefix(1);
  }

  const std::string& path_;
  std::string_view rest_;
  char separator_;
  std::int64_t line_ = 1, empty_line_ = 0;
};

void parse_separated(std::string_view content, char separator, Table& table) {
  Records records(table.path, content, separator);
  Table::Row row;
  if (!records.next(row)) fail(Fault::data, table.path, ": is empty; its first line names the columns");
  for (const std::string& column : row.cells) table.columns.push_back(lower(trimmed(column)));
  while (records.next(row)) {
    if (row.cells.size() != table.columns.size())
      fail(Fault::data, table.at(row), ": has ", row.cells.size(), " cells where the header names ",
           table.columns.size(), " columns; quote cells that hold a separator");
    if (table.empty_line == 0) table.empty_line = records.empty_line();
    table.rows.push_back(std::move(row));
  }
}

void parse_json_lines(std::string_view content, bool check_labels, Table& table) {
  std::map<std::string, std::size_t> index;
  std::map<std::string, std::string> one_hot;  // of each column: what is wrong if it holds the labels
  std::int64_t number = 0, empty_line = 0;  // the first one behind a row
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
    const auto object = nlohmann::json::parse(line, nullptr, false);
    if (!object.is_object())
      fail(Fault::data, table.at(row), ": is no JSON object; a .jsonl file has one object a line");
    for (const auto& [key, value] : object.items()) {
      std::optional<std::string> cell = cell_of(value);
      if (!cell) continue;
      const std::string column = lower(trimmed(key));
      if (check_labels && value.is_array() && !one_hot.contains(column))
        if (const std::string twice = twice_in(value); !twice.empty())
          one_hot[column] = text(table.at(row), ": ", column, " has ", twice,
                                 " twice, as a one-hot row has; write the names or numbers of the picture's "
                                 "classes, such as [\"cat\", \"dog\"]");
      const std::size_t at = index.emplace(column, index.size()).first->second;
      if (row.cells.size() <= at) row.cells.resize(at + 1);
      if (row.cells.size() > cells_left)
        fail(Fault::data, table.at(row), ": the lines have too few keys in common to be a table");
      row.cells[at] = std::move(*cell);
    }
    cells_left -= row.cells.size();
    table.rows.push_back(std::move(row));
  }
  for (const std::string& name : label_columns()) {
    if (!index.contains(name)) continue;
    if (one_hot.contains(name)) fail(Fault::data, one_hot[name]);
    break;
  }
  table.columns.resize(index.size());
  for (const auto& [column, at] : index) table.columns[at] = column;
}

Table parsed(const std::string& path, std::string_view content, bool check_labels) {
  Table table;
  table.path = path;
  content = without_mark(content);
  const std::string name = lower(path);
  if (ends_with(name, ".jsonl")) {
    parse_json_lines(content, check_labels, table);
  } else {
    parse_separated(content, ends_with(name, ".tsv") ? '\t' : ',', table);
  }
  return table;
}

/// Throws where the bytes are text that would be read as another one.
void check_encoding(const std::string& path, std::string_view content) {
  const std::string_view begin = content.substr(0, 2);
  if (begin == "\xFF\xFE" || begin == "\xFE\xFF" || begin.find('\0') != std::string_view::npos)
    fail(Fault::data, path, ": is UTF-16; save it as UTF-8: iconv -f UTF-16 -t UTF-8 OLD > NEW, or \"CSV UTF-8\" in Excel");
  if (content.find('\r') != std::string_view::npos && content.find('\n') == std::string_view::npos)
    fail(Fault::data, path, ": its lines end in CR alone, as on old Macs; write them with LF: tr '\\r' '\\n' < OLD > NEW");
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
    return static_cast<std::size_t>(found - columns.begin());
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
  return parsed(path, content, true);
}

std::vector<std::string> columns_of_table(const std::string& path) {
  const std::string content = read_file(path);
  const std::string_view first_line = std::string_view(content).substr(0, content.find('\n'));
  try {
    return parsed(path, first_line, false).columns;
  } catch (const Error&) {
    return {};
  }
}

Table read_table(const std::string& path) { return parse_table(path, read_file(path)); }

}  // namespace neurim
