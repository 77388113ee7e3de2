// Tables of text: CSV, TSV and JSON Lines.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace neurim {

struct Table {
  struct Row {
    std::int64_t line = 0;           ///< where it begins in the file, from 1
    std::vector<std::string> cells;  ///< of the first columns; the others are empty
  };
  std::string path;  ///< for messages
  std::vector<std::string> columns;
  std::vector<Row> rows;
  std::int64_t empty_line = 0;  ///< the first one after the header that a row follows; 0 where there is none

  /// The first of `names` that is a column, in lower case and without blanks around it. Throws Error(data) where two
  /// columns are called so.
  std::optional<std::size_t> find(const std::vector<std::string>& names) const;
  static const std::string& cell(const Row& row, std::size_t column);
  /// What errors call a row: file and line.
  std::string at(const Row& row) const;
};

/// What the column of labels may be called: it is the first of these that there is.
const std::vector<std::string>& label_columns();

/// Whether the name ends in .csv, .tsv or .jsonl.
bool is_table(std::string_view file);

/// Parses the content of a file of that name. CSV and TSV: RFC 4180 (quotes, line breaks within them, LF or
/// CRLF, a byte order mark), the first line names the columns, empty lines are passed over, blanks around a
/// cell are no part of it unless they stand between quotes. Under both names the cells may also be separated as
/// spreadsheets do it elsewhere, by commas, semicolons, tabs or bars: the header and the first row tell, or a line
/// "sep=;" before them. JSON Lines: an object a line; its texts, numbers and booleans are cells, a list of them is a
/// cell with bars between them, among labels each once, null and what is missing are empty. Throws Error(data) with
/// file and line.
Table parse_table(const std::string& path, std::string_view content);

/// Its columns alone, with whatever is wrong with it left to parse_table: of a .jsonl file those of the first line.
std::vector<std::string> columns_of_table(const std::string& path);

/// parse_table of the file.
Table read_table(const std::string& path);

}  // namespace neurim
