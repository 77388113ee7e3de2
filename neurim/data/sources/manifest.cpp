// Tables of image files.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include "neurim/base/error.h"
#include "neurim/data/sources/parts.h"
#include "neurim/data/sources/table.h"
#include "neurim/data/spellings.h"

namespace neurim {
namespace {

const std::vector<std::string> kPaths{"path", "file", "file_name", "filename", "image", "image_path"};
constexpr std::size_t kLooked = 16;  // files that are looked for at opening

/// A table and what it says of all its rows.
struct Part {
  fs::path file;
  std::optional<Split> split;  // of rows that name none
  bool split_in_path = false;  // train/… in the path of a row is its split
};

std::vector<fs::path> tables_of(const fs::path& folder, Split split) {
  std::vector<fs::path> found;
  for (const fs::path& file : files_in(folder))
    if (is_table(file.filename().string()) && split_named(file.stem().string()) == split) found.push_back(file);
  return found;
}

std::vector<fs::path> metadata_of(const fs::path& folder) {
  std::vector<fs::path> found;
  for (const fs::path& file : files_in(folder))
    if (const std::string name = file.filename().string(); name == "metadata.csv" || name == "metadata.jsonl")
      found.push_back(file);
  return found;
}

/// The tables of a folder that is a set by tables; none where it is another kind of set.
std::vector<Part> parts_of(const fs::path& folder) {
  std::vector<Part> parts;
  const auto add = [&](const std::vector<fs::path>& files, std::optional<Split> split, bool split_in_path) {
    if (files.size() > 1)
      fail(Fault::data, files[0].string(), ": ", files[1].filename().string(),
           " beside it says the same of other images; leave one of them");
    if (!files.empty()) parts.push_back({files[0], split, split_in_path});
  };
  for (const Split split : kSplits) add(tables_of(folder, split), split, false);
  if (!parts.empty()) return parts;
  add(metadata_of(folder), {}, true);
  std::error_code error;
  for (const fs::directory_entry& entry : entries(folder))
    if (entry.is_directory(error))
      if (const auto split = split_named(entry.path().filename().string()))
        for (const fs::path& file : metadata_of(entry.path())) parts.push_back({file, split, false});
  return parts;
}

bool has_parquet(const fs::path& path) {
  std::error_code error;
  if (path.extension() == ".parquet") return true;
  if (!fs::is_directory(path, error)) return false;
  for (const char* inner : {"", "data"})
    if (fs::is_directory(path / inner, error))
      for (const fs::path& file : files_in(path / inner))
        if (file.extension() == ".parquet") return true;
  return false;
}

/// Whether the folder holds others, but for one that is called `apart`.
bool has_folders(const fs::path& folder, std::string_view apart = "") {
  std::error_code error;
  for (const fs::directory_entry& entry : entries(folder))
    if (entry.is_directory(error) && entry.path().filename() != apart) return true;
  return false;
}

double weight_of(const Table& table, const Table::Row& row, const std::string& cell) {
  double weight = 1;
  if (cell.empty()) return weight;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), weight);
  if (error != std::errc() || end != cell.data() + cell.size() || !std::isfinite(weight) || weight < 0)
    fail(Fault::data, table.at(row), ": weight \"", cell,
         "\" is no number of at least 0; write it as 0.5, with a point for decimals");
  return weight;
}

/// What all tables of a set give.
struct Rows {
  Gathered items;
  std::vector<std::string> files;
  std::vector<Split> splits;
  FileFinder finder;
  std::unordered_map<std::string, std::size_t> first;      // the first row that names a file
  std::map<std::string, std::string> labels;               // where each first stands
  std::vector<std::pair<std::size_t, std::size_t>> again;  // the others, each with that first one
  std::int64_t missing = 0, looked = 0, splitless = 0;
  std::string an_again, a_missing, a_splitless;
  std::vector<float> numbers;  // of each row those of options.targets
  bool bars = false;           // a label has one
  std::string no_label;        // what is wrong with an empty label, where the set is not multi-label
};

/// Adds the numbers of a row in these columns.
void add_numbers(const Table& table, const Table::Row& row, const std::vector<std::size_t>& columns,
                 std::vector<float>& numbers) {
  for (const std::size_t column : columns) {
    const std::string& cell = Table::cell(row, column);
    float number = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
    if (error != std::errc() || end != cell.data() + cell.size() || !std::isfinite(number))
      fail(Fault::data, table.at(row), ": ", table.columns[column], " \"", cell,
           "\" is no number; write it as 0.5, with a point for decimals, or remove the line");
    numbers.push_back(number);
  }
}

void add_table(const Part& part, const DatasetOptions& options, Rows& rows) {
  const Table table = read_table(part.file.string());
  if (table.rows.empty()) return;  // .jsonl, which has no header, then has no columns either
  const bool metadata = part.file.stem() == "metadata";
  const bool of_numbers = !options.targets.empty();
  const auto path = table.find(kPaths), label = of_numbers ? std::nullopt : table.find(label_columns()),
             split = table.find({"split"}), weight = table.find({"weight"}),
             group = table.find({options.group_by.empty() ? "group" : lower(options.group_by)});
  const auto need = [&](bool found, const std::vector<std::string>& names) {
    if (!found)
      fail(Fault::data, table.path, ":1: no column is called ", join(names, ", "), "; it has [", listed(table.columns),
           "]; name the column so");
  };
  need(path.has_value(), kPaths);
  need(label.has_value() || metadata || of_numbers, label_columns());
  std::vector<std::size_t> targets;
  for (const std::string& target : options.targets) {
    const auto column = table.find({lower(target)});
    need(column.has_value(), {target});
    targets.push_back(*column);
  }
  if (!options.group_by.empty()) need(group.has_value(), {options.group_by});
  const fs::path folder = part.file.parent_path();
  for (const Table::Row& row : table.rows) {
    const std::string& file = Table::cell(row, *path);
    if (file.empty()) fail(Fault::data, table.at(row), ": names no file; fill in ", table.columns[*path]);
    const fs::path relative(file);
    std::optional<Split> of = part.split;
    if (part.split_in_path && relative.begin() != relative.end())
      if (const auto named = split_named(relative.begin()->string())) of = named;
    if (const std::string& cell = split ? Table::cell(row, *split) : file; split && !cell.empty()) {
      of = split_named(cell);
      if (!of)
        fail(Fault::data, table.at(row), ": split \"", cell,
             "\" is none of train, training, val, valid, validation, test and testing; correct it");
    } else if (split && !of && rows.splitless++ == 0) {
      rows.a_splitless = table.at(row);
    }
    add_numbers(table, row, targets, rows.numbers);
    std::string class_name = label        ? Table::cell(row, *label)
                             : of_numbers ? ""
                                          : relative.parent_path().filename().string();
    if (class_name.empty() && !of_numbers && rows.no_label.empty())
      rows.no_label = text(table.at(row), ": ", file, " has no label; ",
                           label ? "fill it in or remove the line (or give multi_label=true, if it is of no class)"
                                 : "add a column label");
    if (label && options.multi_label.value_or(true)) {
      rows.bars = rows.bars || class_name.find('|') != std::string::npos;
      for (const std::string& name : names_between_bars(class_name))
        if (name.empty())
          fail(Fault::data, table.at(row), ": label \"", class_name,
               "\" has no name at a bar; write a|b (or give multi_label=false, if bars are part of names)");
    }
    if (!rows.labels.contains(class_name)) rows.labels[class_name] = table.at(row);
    std::string full = rows.finder.find((folder / relative).lexically_normal().string());
    const Split where = of.value_or(Split::train);
    if (rows.looked < static_cast<std::int64_t>(kLooked)) {
      std::error_code error;
      ++rows.looked;
      if (!fs::exists(full, error)) ++rows.missing, rows.a_missing = text(table.at(row), ": ", full);
    }
    if (const auto [at, is_new] = rows.first.emplace(full, rows.files.size()); !is_new) {
      if (rows.again.empty()) rows.an_again = text(table.at(row), " (", file, ")");
      rows.again.emplace_back(rows.files.size(), at->second);
    }
    rows.items.add(where, class_name, weight ? weight_of(table, row, Table::cell(row, *weight)) : 1,
                   group ? Table::cell(row, *group) : "");
    rows.files.push_back(std::move(full));
    rows.splits.push_back(where);
  }
}

/// The whole number that the text is, also as pandas writes it in a column where some are missing: 1.0.
std::optional<std::int64_t> whole_number(const std::string& label) {
  return integer(label.ends_with(".0") ? label.substr(0, label.size() - 2) : label);
}

/// The items of all rows. Where labels are whole numbers and labels.txt beside the tables names classes, and
/// options.class_names does not, they count its lines. Throws Error(data) with file and line on one that is not among
/// them.
Listing finish(const Rows& rows, const std::string& path, const fs::path& beside, const DatasetOptions& options,
               bool multi_label) {
  const auto names_in = [&](const std::string& label) {
    return multi_label ? names_between_bars(label) : std::vector{label};
  };
  DatasetOptions named = options;
  const bool numbers = std::all_of(rows.labels.begin(), rows.labels.end(), [&](const auto& label) {
    const std::vector<std::string> names = names_in(label.first);
    return std::all_of(names.begin(), names.end(), whole_number);
  });
  if (numbers && options.class_names.empty()) named.class_names = names_beside(beside);
  if (named.class_names.size() == options.class_names.size()) return rows.items.finish(path, options, multi_label);
  const std::vector<std::string>& classes = named.class_names;
  for (const auto& [label, at] : rows.labels)
    for (const std::string& number : names_in(label))
      if (*whole_number(number) < 0 || *whole_number(number) >= std::ssize(classes))
        fail(Fault::data, at, ": label ", number, ", but ", (beside / "labels.txt").string(), " names ", classes.size(),
             " classes, 0 to ", classes.size() - 1, "; correct the label, or name its class there");
  Listing listing = rows.items.finish(path, named, multi_label);
  const auto count = [&](std::vector<std::int64_t>& found) {
    for (std::int64_t& one : found) one = *whole_number(listing.class_names[one]);
  };
  if (!multi_label) count(listing.labels);
  for (std::vector<std::int64_t>& set : listing.label_sets) {
    count(set);
    std::sort(set.begin(), set.end());
  }
  listing.class_names = classes;
  listing.notes.push_back(text("labels are numbers of the classes in labels.txt: 0 is ", classes[0], ", ",
                               classes.size() - 1, " is ", classes.back()));
  return listing;
}

/// The items of all rows with their numbers, which `targets` names.
Listing with_numbers(Rows& rows, const std::string& path, const std::vector<std::string>& targets, bool multi_label) {
  Listing listing = rows.items.finish(path, {.for_training = false}, multi_label);  // no row has a label
  listing.class_names = targets, listing.numbers = std::move(rows.numbers);
  return listing;
}

/// Says which files and groups the tables put into two splits, and which files into two classes.
void note_contradictions(const Rows& rows, Listing& listing) {
  std::set<std::string> two_splits, two_labels, torn;
  for (const auto& [row, first] : rows.again) {
    if (rows.splits[row] != rows.splits[first]) two_splits.insert(rows.files[row]);
    const std::size_t count = listing.numbers.size() / rows.files.size();
    const auto numbers_of = [&](std::size_t one) { return std::span(listing.numbers).subspan(one * count, count); };
    const bool differ = listing.labels[row] != listing.labels[first] ||
                        !std::ranges::equal(numbers_of(row), numbers_of(first));
    if (listing.label_sets.empty() && differ) two_labels.insert(rows.files[row]);
  }
  std::map<std::string, Split> split_of;
  for (std::size_t row = 0; row < listing.groups.size(); ++row) {
    const std::string& group = listing.groups[row];
    if (!group.empty() && split_of.emplace(group, rows.splits[row]).first->second != rows.splits[row])
      torn.insert(group);
  }
  const auto note = [&](const std::set<std::string>& found, std::string_view what) {
    if (!found.empty()) note_count(listing.notes, std::ssize(found), what, *found.begin());
  };
  note(two_splits, "files are in two splits, which makes metrics too good ('neurim data scan' names all)");
  note(two_labels, "files have two labels, of which one is wrong ('neurim data scan' names all)");
  note(torn, "groups are in two splits, as the column split says, which makes metrics too good");
}

/// Keeps the rows of a file together where splits are cut: where there are groups, makes one of those that they are of.
void join_rows(const Rows& rows, Listing& listing) {
  if (rows.again.empty()) return;
  listing.same_as.resize(rows.files.size());
  std::iota(listing.same_as.begin(), listing.same_as.end(), std::int64_t{0});
  for (const auto& [row, first] : rows.again) listing.same_as[row] = static_cast<std::int64_t>(first);
  if (listing.groups.empty()) return;
  std::map<std::string, std::string> part_of;  // a larger group
  const auto whole = [&](const std::string& group) {
    std::string top = group;
    for (auto at = part_of.find(top); at != part_of.end(); at = part_of.find(top)) top = at->second;
    for (std::string each = group; each != top;) each = std::exchange(part_of[each], top);  // shorter for the next one
    return top;
  };
  for (const auto& [row, first] : rows.again) {
    std::string &one = listing.groups[first], &other = listing.groups[row];
    if (one.empty()) one = other.empty() ? text("row ", first, " of ", rows.files.size()) : other;
    if (other.empty()) other = one;
    if (const std::string from = whole(other), to = whole(one); from != to) part_of[from] = to;
  }
  for (std::string& group : listing.groups) group = whole(group);
}

/// Says which images beside the tables no row names.
void note_rowless(const std::vector<Part>& parts, const Rows& rows, std::vector<std::string>& notes) {
  std::set<fs::path> folders, rowless;
  for (const Part& part : parts) folders.insert(part.file.parent_path());
  for (const fs::path& folder : folders)
    for (const fs::path& file : files_in(folder))
      if (is_image_file(file) && !rows.first.contains(file.lexically_normal().string()) &&
          !rows.first.contains(fs::absolute(file).lexically_normal().string()))
        rowless.insert(file);
  if (!rowless.empty())
    notes.push_back(text("left out as without a row: ", plural(std::ssize(rowless), "image"), ", such as ",
                         rowless.begin()->string()));
}

}  // namespace

bool is_manifest(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    const std::vector<Part> parts = parts_of(path);
    if (parts.empty()) return has_parquet(path) && !has_folders(path, "data");
    // A log called train.csv may lie beside folders of images.
    if (!has_folders(path)) return true;
    const std::vector<std::string> columns = columns_of_table(parts[0].file.string());
    const auto any = [&](const std::vector<std::string>& names) {
      return std::find_first_of(columns.begin(), columns.end(), names.begin(), names.end()) != columns.end();
    };
    return any(kPaths) && (any(label_columns()) || parts[0].file.stem() == "metadata");
  }
  return fs::is_regular_file(path, error) && (is_table(path) || has_parquet(path));
}

Listing open_manifest(const std::string& path, const DatasetOptions& options) {
  std::error_code error;
  const bool folder = fs::is_directory(path, error);
  const std::vector<Part> parts = folder ? parts_of(path) : std::vector<Part>{{path, {}, false}};
  if (has_parquet(path) && (parts.empty() || !folder))
    fail(Fault::data, path,
         ": Parquet files are not read; write the images as files and a train.csv of path,label beside "
         "them: "
         "with Python's datasets, for i, r in enumerate(load_dataset(\"parquet\", "
         "data_files=FILES)[\"train\"]): "
         "r[\"image\"].save(f\"{i}.png\")");
  Rows rows;
  for (const Part& part : parts) add_table(part, options, rows);
  if (rows.files.empty())
    fail(Fault::data, path, ": the table has no rows; give each image one, with its path and its label");
  if (rows.looked > 0 && rows.missing == rows.looked)
    fail(Fault::data, rows.a_missing, ": there is no such file, and neither of the first ", rows.looked,
         " is there; paths are relative to the folder of the table");
  const bool multi_label = options.multi_label.value_or(rows.bars);
  if (!multi_label && !rows.no_label.empty()) fail(Fault::data, rows.no_label);
  Listing listing = options.targets.empty() ? finish(rows, path, folder ? fs::path(path) : fs::path(path).parent_path(),
                                                     options, multi_label)
                                            : with_numbers(rows, path, options.targets, multi_label);
  if (folder && has_folders(path))
    listing.notes.push_back(
        text(parts[0].file.filename().string(), " says which images are used; what else lies in folders is not"));
  if (folder) note_rowless(parts, rows, listing.notes);
  if (rows.splitless < std::ssize(rows.files))
    note_count(listing.notes, rows.splitless, "rows name no split, as others do, and are training data",
               rows.a_splitless);
  note_count(listing.notes, std::ssize(rows.again), "rows name a file again", rows.an_again);
  note_contradictions(rows, listing);
  join_rows(rows, listing);
  listing.source = file_source(std::move(rows.files));
  return listing;
}

}  // namespace neurim
