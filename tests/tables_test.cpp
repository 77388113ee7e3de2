// Sets that are told by tables or arrays: manifests, CIFAR's binaries, NumPy files; and how sets are cut.
#include <gtest/gtest.h>

#include <set>

#include "neurim/data/sources/npy_array.h"
#include "neurim/data/sources/parts.h"
#include "neurim/data/sources/table.h"
#include "neurim/evaluate/csv.h"
#include "tests/damage.h"
#include "tests/images.h"

namespace neurim {
namespace {

std::set<std::string> names(const Dataset& data, Split split) {
  std::set<std::string> all;
  for (std::int64_t i = 0; i < data.size(split); ++i) all.insert(data.name(split, i));
  return all;
}

TEST(Table, QuotesLineBreaksAndMarks) {
  const Table table = parse_table("t.csv", "\xEF\xBB\xBF Path ,label\r\n\"a, \"\"b\"\".png\",\"x\ny\"\r\n\r\nc.png,\n");
  EXPECT_EQ(table.columns, (std::vector<std::string>{"path", "label"}));
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0].cells, (std::vector<std::string>{"a, \"b\".png", "x\ny"}));
  EXPECT_EQ(table.rows[1].cells, (std::vector<std::string>{"c.png", ""}));
  EXPECT_EQ(table.rows[1].line, 5);
  const Table blanks = parse_table("t.csv", "path, label\r\n a.png ,\t\"a b \" \r\nb.png,  \n");
  EXPECT_EQ(blanks.rows[0].cells, (std::vector<std::string>{"a.png", "a b "}));
  EXPECT_EQ(blanks.rows[1].cells, (std::vector<std::string>{"b.png", ""}));
  EXPECT_EQ(parse_table("t.tsv", "a\tb\n\tx\n").rows[0].cells, (std::vector<std::string>{"", "x"}));
  const std::string odd = " a,\"b\" ";
  EXPECT_EQ(parse_table("t.csv", text("a\n", csv_field(odd), "\n", csv_field(" b"), "\n")).rows[0].cells[0], odd);
  EXPECT_EQ(parse_table("t.csv", text("a\n", csv_field(" b"), "\n")).rows[0].cells[0], " b");
  const auto message = [](const std::string& path, const std::string& content) {
    return error_of([&] { parse_table(path, content); });
  };
  expect_words(message("t.csv", "a,b\n1,2\n1,2,3\n"), {"t.csv:3", "3 cells", "2 columns"});
  expect_words(message("t.csv", "a,b\n1,\"2\n"), {"t.csv:2", "never closed"});
  expect_words(message("t.tsv", "a\tb\n1\t\"2\"x\n"), {"t.tsv:2", "closing quote"});
  expect_words(message("t.csv", ""), {"is empty"});
  using namespace std::string_literals;
  for (const std::string& wide : {"\xFF\xFEp\0a\0\n\0"s, "\xFE\xFF\0p\0a\0\n"s, "p\0a\0\n\0"s})
    expect_words(message("t.csv", wide), {"t.csv: is UTF-16", "iconv -f UTF-16 -t UTF-8"});
  expect_words(message("t.csv", "path,label\ra.png,x\r"), {"t.csv: ", "CR alone", "tr '\\r' '\\n'"});
  const Table lines = parse_table("t.jsonl", "{\"a\": 1, \"b\": null}\n\n{\"c\": \"x\", \"a\": true}");
  EXPECT_EQ(lines.columns, (std::vector<std::string>{"a", "c"}));
  EXPECT_EQ(Table::cell(lines.rows[0], 1), "");
  EXPECT_EQ(Table::cell(lines.rows[1], 0), "true");
  expect_words(message("t.jsonl", "{\"a\": 1}\n{\"a\": \n"), {"t.jsonl:2", "JSON object"});
  for (const char* name : {"t.csv", "t.jsonl"})
    damage_everywhere(name[2] == 'c' ? "a,b\n\"1\",2\r\n" : "{\"a\": [1], \"b\": \"\\u1234\"}\n",
                      [&](const std::string& bytes) { parse_table(name, bytes); });
}

TEST(Table, TheHeaderTellsTheSeparator) {
  using Cells = std::vector<std::string>;
  const auto table = [](const std::string& path, const std::string& content) {
    const Table read = parse_table(path, content);
    return std::pair{read.columns, read.rows.at(0).cells};
  };
  for (const char* name : {"t.csv", "t.tsv"})
    for (const std::string separator : {",", ";", "\t", "|"}) {
      const std::string rows = text("Path", separator, "label\r\n\"a", separator, "b.png\"", separator, " x \r\n");
      EXPECT_EQ(table(name, rows), std::pair(Cells{"path", "label"}, Cells{text("a", separator, "b.png"), "x"}))
          << rows;
    }
  EXPECT_EQ(table("t.csv", "sep=|\na|b\n1|2\n"), std::pair(Cells{"a", "b"}, Cells{"1", "2"}));
  // Others of them in quotes, in one line alone, or fewer of them, are parts of cells.
  EXPECT_EQ(table("t.csv", "\"a;x;y\",b\n\"1;2;3\",2\n"), std::pair(Cells{"a;x;y", "b"}, Cells{"1;2;3", "2"}));
  EXPECT_EQ(table("t.csv", "\"a \"\";\"\";\",b\n\"1;;\",2\n"), std::pair(Cells{"a \";\";", "b"}, Cells{"1;;", "2"}));
  EXPECT_EQ(table("t.csv", "path,label\na.png,cat|dog\n"),
            std::pair(Cells{"path", "label"}, Cells{"a.png", "cat|dog"}));
  EXPECT_EQ(table("t.csv", "a,b;c;d\n1,2\n"), std::pair(Cells{"a", "b;c;d"}, Cells{"1", "2"}));
  EXPECT_EQ(table("t.csv", "a,b,c (x;y)\n1,2,3;4\n"), std::pair(Cells{"a", "b", "c (x;y)"}, Cells{"1", "2", "3;4"}));
  EXPECT_EQ(table("t.csv", "a;b, c;d\n1;2, 3;4\n"), std::pair(Cells{"a", "b, c", "d"}, Cells{"1", "2, 3", "4"}));
  EXPECT_EQ(table("t.csv", "a|b\n1\n"), std::pair(Cells{"a|b"}, Cells{"1"}));
  EXPECT_EQ(parse_table("t.csv", "a;b;c\n").columns, (Cells{"a", "b", "c"}));
  expect_words(error_of([] { parse_table("t.csv", "a;b,c\n1;2,3\n"); }),
               {"t.csv", "as many commas as semicolons", "quote"});
  expect_words(error_of([] { parse_table("t.csv", "a;b\n1;2\n1;2;3\n"); }),
               {"t.csv:3", "3 cells", "the semicolon here"});
  expect_words(error_of([] { parse_table("t.csv", "a;b\n1;2;3\n"); }), {"t.csv:2", "3 cells", "2 columns"});
  expect_words(error_of([] { parse_table("t.csv", "a,b\n1,2,5\n"); }), {"t.csv:2", "3 cells", "the comma here"});
}

TEST(Manifest, SeparatorsOfSpreadsheets) {
  const TempFolder temp;
  for (const char* name : {"a.png", "b.png"}) write(temp.at(name), "x");
  write(temp.at("m.csv"), "path;label;weight\na.png;x;0.5\nb.png;y;2\n");
  EXPECT_EQ(Dataset::open(temp.at("m.csv"), {.val_split = 0.0}).class_names(), (std::vector<std::string>{"x", "y"}));
  write(temp.at("m.csv"), "path;label;weight\na.png;x;0,5\nb.png;y;2\n");
  expect_words(error_of([&] { Dataset::open(temp.at("m.csv")); }),
               {"m.csv:2", "weight \"0,5\"", "a point for decimals"});
  write(temp.at("m.jsonl"),
        "{\"path\":\"a.png\",\"label\":\"x\"}\n{\"path\":\"b.png\",\"label\":\"y\",\"Label\":\"z\"}\n");
  expect_words(error_of([&] { Dataset::open(temp.at("m.jsonl")); }), {"m.jsonl", "two columns are called label"});
}

/// A table of as many images, which are not there to be read, with these labels by turns.
void write_labels(const TempFolder& temp, const std::vector<std::string>& labels, int count,
                  const std::string& split = "train") {
  std::string table = "path;label;split\n";
  for (int i = 0; i < count; ++i) {
    table += text(i, ".png;", labels[static_cast<std::size_t>(i) % labels.size()], ";", split, "\n");
    write(temp.at(text(i, ".png")), "x");
  }
  write(temp.at("m.csv"), table);
}

TEST(Manifest, MeasurementsAreNoClasses) {
  const TempFolder temp;
  const auto open = [&](const DatasetOptions& options = {}) { return Dataset::open(temp.at("m.csv"), options); };
  for (const std::vector<std::string>& measured :
       {std::vector<std::string>{"0.37", "1.25", "3", "4.5"}, {"0,37", "1,25", "2,5", "-3"}, {"1e-3", "0.2", "5"}}) {
    write_labels(temp, measured, static_cast<int>(measured.size()) + 1);
    expect_words(error_of([&] { open(); }), {"m.csv: labels are numbers with fractions, such as ", "measurements",
                                             "give target=COLUMN", "classes="});
  }
  std::vector<std::string> many;
  for (int i = 0; i < 21; ++i) many.push_back(text(i, ".5"));
  write_labels(temp, many, 210);
  expect_words(error_of([&] { open(); }), {"(21 different ones of 210 images)"});
  expect_words(join(open({.for_training = false}).notes(), "\n"), {"look like measurements"});
  EXPECT_EQ(open({.class_names = many}).class_names(), many);
  // Grades, and whole numbers however many.
  write_labels(temp, {"0.5", "1.0", "1.5"}, 6);
  EXPECT_EQ(open({.val_split = 0.0}).class_names().size(), 3u);
  expect_words(join(open({.val_split = 0.0}).notes(), "\n"), {"3 different ones of 6 images", "a class of its own"});
  for (const std::vector<std::string>& whole :
       {std::vector<std::string>{"3", "1", "7"}, {"1.0", "2.0", "3.0"}, {"v1.5", "v2.5", "1.5"}}) {
    write_labels(temp, whole, 3);
    EXPECT_EQ(open({.val_split = 0.0}).class_names().size(), 3u);
  }
}

TEST(Manifest, LabelsTxtNamesNumbers) {
  const TempFolder temp;
  const auto open = [&](const DatasetOptions& options = {.val_split = 0.0}) {
    return Dataset::open(temp.at("m.csv"), options);
  };
  write(temp.at("labels.txt"), "shirt\r\nbag\ncoat\n");
  for (const std::vector<std::string>& labels : {std::vector<std::string>{"2", "0"}, {"2.0", "0.0"}}) {
    write_labels(temp, labels, 4);
    const Dataset data = open();
    EXPECT_EQ(data.class_names(), (std::vector<std::string>{"shirt", "bag", "coat"}));
    EXPECT_EQ(data.class_counts(Split::train), (std::vector<std::int64_t>{2, 0, 2}));
    EXPECT_EQ(data.label_name(Split::train, 0), "coat");
    expect_words(join(data.notes(), "\n"), {"labels.txt: 0 is shirt, 2 is coat"});
  }
  write_labels(temp, {"2|0", "1", ""}, 3);
  EXPECT_EQ(open().label_name(Split::train, 0), "shirt|coat");
  write_labels(temp, {"0", "3"}, 4);
  expect_words(error_of([&] { open(); }), {"m.csv:3: label 3", "labels.txt names 3 classes, 0 to 2"});
  EXPECT_EQ(open({.val_split = 0.0, .class_names = {"a", "b", "c", "d"}}).label_name(Split::train, 1), "d");
  write_labels(temp, {"-1", "0"}, 4);
  expect_words(error_of([&] { open(); }), {"m.csv:2: label -1"});
  write_labels(temp, {"cat", "dog"}, 4);  // names need no others
  EXPECT_EQ(open().class_names(), (std::vector<std::string>{"cat", "dog"}));
  write(temp.at("labels.txt"), "shirt\nbag\nshirt\n");
  write_labels(temp, {"0", "1"}, 4);
  expect_words(error_of([&] { open(); }), {"labels.txt: \"shirt\" stands twice"});
}

TEST(Manifest, ColumnsSplitsWeightsAndGroups) {
  const TempFolder temp;
  write_classes(temp, "pictures/", {"a", "b"}, 6);
  std::string table = "image,Label,split,weight,group\n";
  for (const std::string class_name : {"b", "a"})
    for (int i = 0; i < 6; ++i)
      table += text("pictures/", class_name, "/", i, i % 2 ? ".png" : ".JPG", ",", class_name, ",",
                    i < 4    ? "train"
                    : i == 4 ? "Val"
                             : "test",
                    ",", i == 1 ? "2.5" : "", ",g", i, "\n");
  write(temp.at("all.csv"), table);
  const Dataset data = Dataset::open(temp.at("all.csv"));
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(data.class_counts(Split::train), (std::vector<std::int64_t>{4, 4}));
  EXPECT_EQ(data.size(Split::val), 2);
  EXPECT_EQ(data.size(Split::test), 2);
  EXPECT_EQ(data.label(Split::train, 0), 1);
  EXPECT_EQ(data.weight(Split::train, 1), 2.5);
  EXPECT_EQ(data.weight(Split::train, 0), 1);
  EXPECT_EQ(data.group(Split::val, 0), "g4");
  std::vector<std::byte> buffer;
  EXPECT_FALSE(data.read(Split::train, 0, buffer).bytes.empty());

  write(temp.at("train.tsv"), "file\tclass\npictures/a/0.JPG\t10\npictures/b/0.JPG\t9\npictures/b/0.JPG\t9\n");
  write(temp.at("valid.jsonl"), "{\"path\": \"images/a/1.png\", \"target\": 10}\n");
  const Dataset folder = Dataset::open(temp.path());
  EXPECT_EQ(folder.class_names(), (std::vector<std::string>{"9", "10"}));
  EXPECT_EQ(folder.size(Split::val), 1);
  const std::string notes = join(folder.notes(), "\n");
  expect_words(notes, {"numeric order, from 9 to 10\n", "1 rows name a file", "train.tsv:4",
                       "what else lies in folders is not"});
}

TEST(Manifest, NumbersThatAreNoClassesAreSaid) {
  const TempFolder temp;
  write(temp.at("m.csv"), "path,label\na.png,0\nb.png,1\nc.png,3\nd.png,200\n");
  for (const char* name : {"a.png", "b.png", "c.png", "d.png"}) write(temp.at(name), "x");
  const Dataset data = Dataset::open(temp.at("m.csv"), {.val_split = 0.0});
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"0", "1", "3", "200"}));
  expect_words(join(data.notes(), "\n"), {"numeric order, from 0 to 200, without 2, 4 to 199"});
}

TEST(Manifest, NumbersAreNoPlacesAmongNamesThatAreNumbers) {
  const TempFolder temp;
  for (const char* name : {"a.png", "b.png"}) write(temp.at(name), "x");
  write(temp.at("m.csv"), "path,label\na.png,1\nb.png,2\n");
  for (const std::vector<std::string>& names : {std::vector<std::string>{"1.0", "1.5", "2.0"}, {"01", "02", "03"}})
    expect_words(error_of([&] { Dataset::open(temp.at("m.csv"), {.val_split = 0.0, .class_names = names}); }),
                 {"the classes [1, 2] are not known"});
}

TEST(Manifest, RowsOfAFileStayTogether) {
  const TempFolder temp;
  std::string table = "path,label,group\n";
  for (int i = 0; i < 40; ++i)
    for (int again = 0; again < 2; ++again)
      table += text(i, ".png,", i % 2 ? "a" : "b", ",", i < 10 && again ? text("g", i / 2) : "", "\n");
  write(temp.at("0.png"), "");
  write(temp.at("m.csv"), table);
  const auto apart = [&](const Dataset& data) {
    const std::set<std::string> train = names(data, Split::train), val = names(data, Split::val);
    EXPECT_EQ(train.size() + val.size(), 40u);
    EXPECT_FALSE(val.empty());
    std::set<std::string> groups;
    for (std::int64_t i = 0; i < data.size(Split::train); ++i) groups.insert(data.group(Split::train, i));
    for (std::int64_t i = 0; i < data.size(Split::val); ++i) EXPECT_FALSE(groups.contains(data.group(Split::val, i)));
  };
  apart(Dataset::open(temp.at("m.csv"), {.val_split = 0.2}));
  for (int fold = 0; fold < 3; ++fold) apart(Dataset::open(temp.at("m.csv"), {.folds = 3, .fold = fold}));
  // Without groups each class is still cut by itself, and a repeated row takes nothing from the others.
  table = "path,label\n";
  for (int i = 0; i < 80; ++i) table += text(i, ".png,c", i / 4, "\n");
  write(temp.at("m.csv"), table + "0.png,c0\n5.png,c1\n");
  const Dataset classwise = Dataset::open(temp.at("m.csv"), {.val_split = 0.1});
  EXPECT_EQ(names(classwise, Split::train).size() + names(classwise, Split::val).size(), 80u);
  EXPECT_GE(classwise.size(Split::val), 20);
  EXPECT_EQ(classwise.size(Split::train) + classwise.size(Split::val), 82);
  const Dataset folded = Dataset::open(temp.at("m.csv"), {.folds = 4, .fold = 1});
  EXPECT_EQ(names(folded, Split::train).size() + names(folded, Split::val).size(), 80u);
  // A file in two groups makes one of them.
  write(temp.at("m.csv"), "path,label,group\n0.png,a,x\n1.png,b,x\n1.png,b,y\n2.png,a,y\n3.png,b,z\n");
  const Dataset joined = Dataset::open(temp.at("m.csv"), {.val_split = 0.0});
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(joined.group(Split::train, i), "x");
  EXPECT_EQ(joined.group(Split::train, 4), "z");
}

TEST(Manifest, ContradictionsAreSaidOnceWithACount) {
  const TempFolder temp;
  for (const char* name : {"0.png", "1.png", "2.png", "3.png", "beside.png"}) write(temp.at(name), "x");
  const std::string rows =
      "path,label,split,group\n0.png,a,train,g\n0.png,a,val,h\n1.png,b,train,g\n1.png,a,train,\n1.png,a,val,i\n"
      "2.png,b,,g\n3.png,b,val,g\n";
  write(temp.at("metadata.csv"), rows);
  const std::vector<std::string> notes = Dataset::open(temp.path()).notes();
  const std::string all = join(notes, "\n");
  expect_words(
      all, {"3 rows name a file again, such as", "2 files are in two splits",
            "scan' names all), such as " + temp.at("0.png"), "1 files have two labels", "1 groups are in two splits",
            "such as g", "1 rows name no split, as others do, and are training data, such as", "metadata.csv:7",
            "left out as without a row: 1 image, such as " + temp.at("beside.png")});
  write(temp.at("alone.csv"), rows);
  EXPECT_EQ(join(Dataset::open(temp.at("alone.csv")).notes(), "\n").find("without a row"), std::string::npos);
}

TEST(Manifest, WithoutRows) {
  const TempFolder temp;
  for (const auto& [file, content] :
       {std::pair{"m.csv", "path,label\n"}, std::pair{"m.tsv", "path\tlabel\n"}, std::pair{"m.jsonl", "\n"}}) {
    write(temp.at(file), content);
    expect_words(error_of([&] { Dataset::open(temp.at(file)); }), {file, "has no rows"});
  }
}

TEST(Manifest, ErrorsNameFileAndLine) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 2);
  const auto message = [&](const std::string& content) {
    write(temp.at("m.csv"), content);
    return error_of([&] { Dataset::open(temp.at("m.csv")); });
  };
  expect_words(message("id,label\n1,a\n"), {"m.csv:1", "path", "[id, label]"});
  expect_words(message("path,name\n1,a\n"), {"m.csv:1", "label"});
  expect_words(message("path,label\nx.png,a\ny.png,b\n"), {"m.csv:3", "no such file", "relative"});
  expect_words(message("path,label\na/0.JPG,a\n,b\n"), {"m.csv:3", "names no file"});
  expect_words(message("path,label\na/0.JPG,\n"), {"m.csv:2", "no label"});
  expect_words(message("path,label,split\na/0.JPG,a,dev\n"), {"m.csv:2", "\"dev\""});
  expect_words(message("path,label,weight\na/0.JPG,a,-1\n"), {"m.csv:2", "weight"});
  expect_words(message("path,label,split\na/0.JPG,a,\na/0.JPG,b,\nb/0.JPG,z,val\n"), {"[z]", "[a, b]"});
  write(temp.at("m.csv"), "path,label\na/0.JPG,a\nb/0.JPG,b\n");
  expect_words(error_of([&] { Dataset::open(temp.at("m.csv"), {.group_by = "patient"}); }), {"m.csv:1", "patient"});
  write(temp.at("p/train-0.parquet"), "PAR1");
  expect_words(error_of([&] { Dataset::open(temp.at("p")); }), {"Parquet", "train.csv"});
  write(temp.at("hub/data/train-0.parquet"), "PAR1");
  write(temp.at("hub/README.md"), "");
  expect_words(error_of([&] { Dataset::open(temp.at("hub")); }), {"Parquet", "train.csv"});
}

TEST(MultiLabel, BarsListsAndEmptyCells) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 4);
  write(temp.at("m.csv"),
        "path,label,split\na/0.JPG,cat|dog,\na/1.png, dog | "
        "cat,\na/2.JPG,,\na/3.png,ant,\nb/0.JPG,dog|dog,val\n");
  const Dataset data = Dataset::open(temp.at("m.csv"));
  EXPECT_TRUE(data.multi_label());
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"ant", "cat", "dog"}));
  EXPECT_EQ(data.class_counts(Split::train), (std::vector<std::int64_t>{1, 2, 2}));
  const auto classes = [](const Dataset& set, Split split, std::int64_t sample) {
    const auto span = set.classes(split, sample);
    return std::vector<std::int64_t>(span.begin(), span.end());
  };
  EXPECT_EQ(classes(data, Split::train, 0), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(data.label(Split::train, 0), data.label(Split::train, 1));  // the same classes in another order
  EXPECT_NE(data.label(Split::train, 0), data.label(Split::train, 2));
  EXPECT_TRUE(classes(data, Split::train, 2).empty());
  EXPECT_EQ(data.label_name(Split::train, 1), "cat|dog");
  EXPECT_EQ(data.label_name(Split::train, 2), "");
  EXPECT_EQ(classes(data, Split::val, 0), std::vector<std::int64_t>{2});
  expect_words(join(data.notes(), "\n"), {"val has no images of 2 of the 3 classes", "ant"});

  // A checkpoint's classes in its order; and a test set of one class an image is evaluated as multi-label.
  const Dataset mapped = Dataset::open(temp.at("m.csv"), {.class_names = {"dog", "cat", "cow", "ant"}});
  EXPECT_EQ(classes(mapped, Split::train, 0), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(classes(mapped, Split::train, 3), std::vector<std::int64_t>{3});

  write(temp.at("m.jsonl"),
        "{\"path\": \"a/0.JPG\", \"label\": [\"x\", 2], \"box\": [[1, 2]]}\n{\"path\": \"a/1.png\", "
        "\"label\": []}\n"
        "{\"path\": \"b/0.JPG\", \"label\": [\"x\"]}\n{\"path\": \"b/1.png\", \"label\": \"y\"}\n");
  const Dataset lists = Dataset::open(temp.at("m.jsonl"), {.val_split = 0.0});
  EXPECT_EQ(lists.class_names(), (std::vector<std::string>{"2", "x", "y"}));
  EXPECT_EQ(lists.class_counts(Split::train), (std::vector<std::int64_t>{1, 2, 1}));

  const auto message = [&](const std::string& content, std::optional<bool> multi_label = {}) {
    write(temp.at("m.csv"), content);
    return error_of([&] { Dataset::open(temp.at("m.csv"), {.multi_label = multi_label}); });
  };
  expect_words(message("path,label\na/0.JPG,x|y\nb/0.JPG,x|\n"), {"m.csv:3", "\"x|\"", "multi_label=false"});
  expect_words(message("path,label\na/0.JPG,x\nb/0.JPG,\n"), {"m.csv:3", "no label", "multi_label=true"});
  expect_words(message("path,label\na/0.JPG,x|y\nb/0.JPG,\n", false), {"m.csv:3", "no label"});
  expect_words(message("path,label,split\na/0.JPG,x|y,\nb/0.JPG,z,val\n"), {"[z]", "[x, y]"});
  expect_words(error_of([&] { Dataset::open(temp.path(), {.multi_label = true}); }),
               {"has one class an image", "multi_label=true"});
}

TEST(MultiLabel, OneHotRowsAreRefused) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 2);
  const auto rows = [](const std::string& first) {
    return text("{\"path\": \"a/0.JPG\", ", first, "}\n{\"path\": \"b/0.JPG\", \"label\": \"y\"}\n");
  };
  write(temp.at("m.jsonl"), rows("\"label\": [0, 1, 0, 1]"));
  expect_words(error_of([&] { Dataset::open(temp.at("m.jsonl")); }),
               {"m.jsonl:1", "label has 0 twice", "one-hot", "[\"cat\", \"dog\"]"});
  fs::rename(temp.at("m.jsonl"), temp.at("train.jsonl"));  // of a folder, whose first line says what it is
  expect_words(error_of([&] { Dataset::open(temp.path()); }), {"train.jsonl:1", "one-hot"});
  write(temp.at("m.jsonl"), rows("\"label\": \"x\", \"class\": [1, 1], \"box\": [2, 2]"));
  EXPECT_EQ(Dataset::open(temp.at("m.jsonl"), {.val_split = 0.0}).class_names(), (std::vector<std::string>{"x", "y"}));
}

TEST(MultiLabel, IsWhatTheOptionSays) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b|c"}, 2);
  write(temp.at("m.csv"), "path,label\na/0.JPG,x|y\nb|c/0.JPG,z\n");
  const Dataset bars = Dataset::open(temp.at("m.csv"), {.val_split = 0.0, .multi_label = false});
  EXPECT_FALSE(bars.multi_label());
  EXPECT_EQ(bars.class_names(), (std::vector<std::string>{"x|y", "z"}));
  write(temp.at("m.csv"), "path,label\na/0.JPG,x\na/1.png,\n");
  const Dataset one = Dataset::open(temp.at("m.csv"), {.val_split = 0.0, .multi_label = true});
  EXPECT_EQ(one.class_names(), std::vector<std::string>{"x"});  // yes or no
  EXPECT_EQ(one.class_counts(Split::train), std::vector<std::int64_t>{1});
  fs::remove(temp.at("m.csv"));
  EXPECT_EQ(Dataset::open(temp.path()).class_names(), (std::vector<std::string>{"a", "b|c"}));  // folders are not split
}

TEST(MultiLabel, SplitsHaveTheSharesOfEachClass) {
  const TempFolder temp;
  std::string table = "path,label\n";
  for (int i = 0; i < 200; ++i) {
    std::vector<std::string> classes;
    if (i % 2) classes.push_back("half");
    if (i % 5 == 0) classes.push_back("fifth");
    if (i % 20 == 3) classes.push_back("rare");
    table += text(i, ".png,", join(classes, "|"), "\n");
  }
  write(temp.at("0.png"), "");
  write(temp.at("m.csv"), table);
  const auto check = [](const Dataset& data, double share) {
    EXPECT_NEAR(static_cast<double>(data.size(Split::val)), 200 * share, 2);
    const std::vector<std::int64_t> counts = data.class_counts(Split::val);  // fifth, half, rare
    EXPECT_NEAR(static_cast<double>(counts[0]), 40 * share, 1.5);
    EXPECT_NEAR(static_cast<double>(counts[1]), 100 * share, 1.5);
    EXPECT_NEAR(static_cast<double>(counts[2]), 10 * share, 1.5);
  };
  check(Dataset::open(temp.at("m.csv"), {.val_split = 0.2}), 0.2);
  EXPECT_EQ(names(Dataset::open(temp.at("m.csv")), Split::val), names(Dataset::open(temp.at("m.csv")), Split::val));
  std::set<std::string> all;
  for (int fold = 0; fold < 4; ++fold) {
    const Dataset data = Dataset::open(temp.at("m.csv"), {.folds = 4, .fold = fold});
    check(data, 0.25);
    all.merge(names(data, Split::val));
  }
  EXPECT_EQ(all.size(), 200u);
}

TEST(Manifest, MetadataOfImageFolders) {
  const TempFolder temp;
  write_classes(temp, "train/", {"a", "b"}, 2);
  write_classes(temp, "validation/", {"a"}, 1);
  write(temp.at("train/metadata.jsonl"),
        "{\"file_name\": \"a/0.JPG\", \"label\": \"x\"}\n{\"file_name\": \"b/1.png\", \"label\": \"y\"}\n");
  write(temp.at("validation/metadata.jsonl"), "{\"file_name\": \"a/0.JPG\", \"label\": \"x\"}\n");
  const Dataset data = Dataset::open(temp.path());
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(data.size(Split::train), 2);
  EXPECT_EQ(data.size(Split::val), 1);
  write(temp.at("metadata.csv"), "file_name,caption\ntrain/a/0.JPG,hm\ntrain/b/1.png,hm\nvalidation/a/0.JPG,hm\n");
  fs::remove(temp.at("train/metadata.jsonl"));
  fs::remove(temp.at("validation/metadata.jsonl"));
  const Dataset captions = Dataset::open(temp.path());
  EXPECT_EQ(captions.class_names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(captions.size(Split::val), 1);
}

TEST(Folds, DisjointStratifiedAndComplete) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 10);
  std::set<std::string> all;
  for (int fold = 0; fold < 3; ++fold) {
    const Dataset data = Dataset::open(temp.path(), {.folds = 3, .fold = fold});
    EXPECT_EQ(data.size(Split::train) + data.size(Split::val), 20);
    for (const std::int64_t count : data.class_counts(Split::val)) EXPECT_TRUE(count == 3 || count == 4);
    for (const std::string& name : names(data, Split::val)) {
      EXPECT_TRUE(all.insert(name).second);
      EXPECT_FALSE(names(data, Split::train).contains(name));
    }
  }
  EXPECT_EQ(all.size(), 20u);
  error_of([&] { Dataset::open(temp.path(), {.folds = 3, .fold = 3}); }, Fault::usage);
  expect_words(error_of([&] { Dataset::open(temp.path(), {.folds = 21}); }), {"too few for 21 folds"});
  write_classes(temp, "s/train/", {"a", "b"}, 2);
  write_classes(temp, "s/val/", {"a", "b"}, 2);
  expect_words(error_of([&] { Dataset::open(temp.at("s"), {.folds = 2}); }), {"val split of its own"});
}

TEST(Folds, GroupsAreNeverSeparated) {
  const TempFolder temp;
  std::string table = "path,label,patient\n";
  for (int i = 0; i < 120; ++i)
    table += text(i, ".png,", i % 3 ? "a" : "b", ",", i < 110 ? text("p", i / 7) : "", "\n");
  write(temp.at("0.png"), "");
  write(temp.at("m.csv"), table);
  std::int64_t seen = 0;
  for (int fold = -1; fold < 4; ++fold) {
    DatasetOptions options{.val_split = 0.2, .group_by = "patient"};
    if (fold >= 0) options.folds = 4, options.fold = fold;
    const Dataset data = Dataset::open(temp.at("m.csv"), options);
    std::set<std::string> groups;
    for (std::int64_t i = 0; i < data.size(Split::train); ++i) groups.insert(data.group(Split::train, i));
    for (std::int64_t i = 0; i < data.size(Split::val); ++i)
      EXPECT_TRUE(data.group(Split::val, i).empty() || !groups.contains(data.group(Split::val, i)));
    const double share = fold < 0 ? 0.2 : 0.25;
    EXPECT_NEAR(static_cast<double>(data.class_counts(Split::val)[0]), 80 * share, 5) << fold;
    EXPECT_NEAR(static_cast<double>(data.class_counts(Split::val)[1]), 40 * share, 4) << fold;
    if (fold >= 0) seen += data.size(Split::val);
  }
  EXPECT_EQ(seen, 120);
  write(temp.at("m.csv"), "path,label,group\n0.png,a,x\n1.png,b,x\n");
  expect_words(error_of([&] { Dataset::open(temp.at("m.csv")); }), {"1 group", "too few"});
  write(temp.at("m.csv"), "path,label,group\n0.png,a,x\n1.png,b,y\n");
  EXPECT_EQ(Dataset::open(temp.at("m.csv")).size(Split::val), 1);
}

std::string cifar(int labels, int count, int classes) {
  std::string file;
  for (int i = 0; i < count; ++i) {
    if (labels == 2) file += '\x03';
    file += static_cast<char>(i % classes);
    for (int p = 0; p < 3 * 1024; ++p) file += static_cast<char>(p / 1024 * 50 + p % 7 + i);
  }
  return file;
}

TEST(Cifar, PlanesBecomePixels) {
  const TempFolder temp;
  write(temp.at("data_batch_1.bin"), cifar(1, 20, 10));
  write(temp.at("data_batch_3.bin"), cifar(1, 10, 10));
  write(temp.at("test_batch.bin"), cifar(1, 5, 10));
  const Dataset data = Dataset::open(temp.path());
  EXPECT_EQ(data.size(Split::train), 30);
  EXPECT_EQ(data.size(Split::val), 5);
  EXPECT_EQ(data.in_memory(), (ImageSize{32, 32, 3}));
  expect_words(data.name(Split::train, 21), {"data_batch_3.bin[1]"});
  std::vector<std::byte> buffer;
  const StoredImage image = data.read(Split::train, 21, buffer);
  for (int c = 0; c < 3; ++c)
    EXPECT_EQ(std::to_integer<int>(image.bytes[3 * 40 + c]), 50 * c + (c * 1024 + 40) % 7 + 1);
  expect_words(join(data.notes(), "\n"),
               {"train holds 30 images where CIFAR-10 has 50000", "validation is on the test split", "val_split=0.1"});
  write(temp.at("test_batch.bin"), cifar(1, 5, 10).substr(1));
  expect_words(error_of([&] { Dataset::open(temp.path()); }), {"test_batch.bin", "no whole number of records"});
  write(temp.at("test_batch.bin"), cifar(1, 12, 12));
  expect_words(error_of([&] { Dataset::open(temp.path()); }), {"test_batch.bin", "label 10 at record 10"});
  const TempFolder hundred;
  write(hundred.at("train.bin"), cifar(2, 100, 100));
  std::string fine;
  for (int c = 0; c < 100; ++c) fine += text("c", c, "\n");
  write(hundred.at("fine_label_names.txt"), fine);
  EXPECT_EQ(Dataset::open(hundred.path()).class_names()[99], "c99");
  const TempFolder pickles;
  write(pickles.at("data_batch_1"), "\x80\x02");
  expect_words(error_of([&] { Dataset::open(pickles.path()); }), {"pickles", "binary version"});
}

std::string npy(const std::string& type, const std::string& shape, const std::string& data) {
  std::string header = text("{'descr': '", type, "', 'fortran_order': False, 'shape': ", shape, ", }\n");
  return text("\x93NUMPY\x01", '\0', static_cast<char>(header.size()), '\0', header, data);
}

std::string values_of(int count) {
  std::string levels;
  for (int i = 0; i < count; ++i) levels += static_cast<char>(i * 5);
  return levels;
}

TEST(Arrays, ShapesAndTypes) {
  const auto open = [](const std::string& shape, int size) {
    const TempFolder temp;
    write(temp.at("images.npy"), npy("|u1", shape, values_of(size)));
    write(temp.at("labels.npy"), npy("<i2", "(6, 1)", std::string("\0\0\1\0\2\0\0\0\1\0\2\0", 12)));
    return Dataset::open(temp.path(), {.val_split = 0.0});
  };
  const Dataset gray = open("(6, 5, 7)", 210);
  EXPECT_EQ(gray.in_memory(), (ImageSize{5, 7, 1}));
  EXPECT_EQ(gray.class_names(), (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(open("(6, 5, 7, 3)", 630).in_memory(), (ImageSize{5, 7, 3}));
  const auto wide = [&](const std::string& shape) {
    const TempFolder temp;
    write(temp.at("images.npy"), npy("<u2", shape, values_of(1260)));
    write(temp.at("labels.npy"), npy("|u1", "(6,)", std::string("\0\1\0\1\0\1", 6)));
    return Dataset::open(temp.path(), {.val_split = 0.0});
  };
  EXPECT_EQ(wide("(6, 5, 7, 3)").in_memory(), (ImageSize{5, 7, 3, 16}));
  std::vector<std::byte> buffer;
  EXPECT_EQ(std::to_integer<int>(wide("(6, 3, 5, 7)").read(Split::train, 0, buffer).bytes[2]),
            std::to_integer<int>(wide("(6, 5, 7, 3)").read(Split::train, 0, buffer).bytes[70]));
  const Dataset planar = open("(6, 3, 5, 7)", 630);
  EXPECT_EQ(planar.in_memory(), (ImageSize{5, 7, 3}));
  EXPECT_EQ(std::to_integer<int>(planar.read(Split::train, 0, buffer).bytes[1]), 35 * 5);
  expect_words(join(planar.notes(), "\n"), {"(n, channels, height, width)"});
  EXPECT_EQ(open("(6, 5, 7, 4)", 840).in_memory(), (ImageSize{5, 7, 4}));
  EXPECT_EQ(open("(6, 9, 10, 6)", 3240).in_memory(), (ImageSize{9, 10, 6}));
  EXPECT_EQ(open("(6, 6, 9, 10)", 3240).in_memory(), (ImageSize{9, 10, 6}));
  expect_words(error_of([&] { open("(6, 3, 7, 3)", 378); }), {"(6, 3, 7, 3)", "ambiguous"});
  expect_words(error_of([&] { open("(6, 9, 5, 9)", 2430); }), {"(6, 9, 5, 9)", "ambiguous"});
  expect_words(error_of([&] { open("(3, 5, 7)", 105); }), {"(3, 5, 7)", "(6, 1)"});
  expect_words(error_of([&] { open("(6, 5, 8)", 210); }), {"images.npy", "(6, 5, 8)"});
  expect_words(error_of([&] { parse_npy(bytes_in_memory(bytes_of(npy("<f4", "(1,)", "abcd")))).check_integers(); }),
               {"<f4", "uint8"});
  expect_words(error_of([&] { parse_npy(bytes_in_memory(bytes_of(npy("<f2", "(1,)", "ab")))); }), {"<f2", "uint8"});
}

TEST(Arrays, LabelsBeyondTheLimitAndNoneAtAll) {
  const TempFolder temp;
  write(temp.at("x.npy"), npy("|u1", "(2, 5, 7)", values_of(70)));
  write(temp.at("y.npy"), npy("<i8", "(2,)", little(0, 8) + little(1'000'000'000'000, 8)));
  expect_words(error_of([&] { Dataset::open(temp.path()); }), {"y.npy[1] is 1000000000000", "labels are 0 to 1048575"});
  write(temp.at("x.npy"), npy("|u1", "(0, 5, 7)", ""));
  write(temp.at("y.npy"), npy("<i8", "(0,)", ""));
  expect_words(error_of([&] { Dataset::open(temp.path()); }), {temp.path(), "hold no image"});
}

TEST(Arrays, LabelsThatMakeClassesWithoutImagesAreRefused) {
  const TempFolder temp;
  for (const char* split : {"train", "val"})
    write(temp.at(text("x_", split, ".npy")), npy("|u1", "(6, 5, 7)", values_of(210)));
  write(temp.at("y_train.npy"), npy("|u1", "(6,)", std::string("\0\1\0\1\7\1", 6)));
  write(temp.at("y_val.npy"), npy("|u1", "(6,)", std::string("\0\1\0\1\5\1", 6)));
  expect_words(error_of([&] { Dataset::open(temp.path()); }),
               {"y_train.npy: label 7 at index 4, but classes 2 to 6 have no training image", "labels.txt"});
  write(temp.at("labels.txt"), "a\nb\nc\nd\ne\nf\ng\nh\n");
  EXPECT_EQ(Dataset::open(temp.path()).class_counts(Split::train), (std::vector<std::int64_t>{2, 3, 0, 0, 0, 0, 0, 1}));
}

/// A member of a zip archive, packed, and what the archive says of it.
struct Packed {
  std::string name, packed;
  std::uint64_t size, sum;
};

Packed packed_of(const std::string& name, std::string data) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, data.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(data.data());
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return {name, packed, data.size(), crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size())};
}

/// An archive as numpy.savez_compressed writes it: sizes of 64 bits in the headers and of 32 in the directory.
std::string zip_of(const std::vector<Packed>& members) {
  std::string file, directory;
  for (const auto& [name, packed, size, sum] : members) {
    const std::string head = little(0, 2) + little(8, 2) + little(0, 4) + little(sum, 4);
    directory += "PK\x01\x02" + little(45, 2) + little(45, 2) + head + little(packed.size(), 4) + little(size, 4) +
                 little(name.size(), 2) + std::string(12, '\0') + little(file.size(), 4) + name;
    file += "PK\x03\x04" + little(45, 2) + head + std::string(8, '\xFF') + little(name.size(), 2) + little(20, 2) +
            name + little(1, 2) + little(16, 2) + little(size, 8) + little(packed.size(), 8) + packed;
  }
  return file + directory + "PK\x05\x06" + little(0, 4) + little(members.size(), 2) + little(members.size(), 2) +
         little(directory.size(), 4) + little(file.size(), 4) + little(0, 2);
}

TEST(Arrays, PackedArchives) {
  const TempFolder temp;
  std::string labels;
  for (std::uint64_t i = 0; i < 6; ++i) labels += little(i % 2, 8);
  write(temp.at("set.npz"), zip_of({packed_of("x_train.npy", npy("|u1", "(6, 5, 7)", values_of(210))),
                                    packed_of("y_train.npy", npy("<i8", "(6,)", labels))}));
  const Dataset data = Dataset::open(temp.at("set.npz"), {.val_split = 0.0});
  EXPECT_EQ(data.in_memory(), (ImageSize{5, 7, 1}));
  EXPECT_EQ(data.class_counts(Split::train), (std::vector<std::int64_t>{3, 3}));
  std::vector<std::byte> buffer;
  EXPECT_EQ(std::to_integer<int>(data.read(Split::train, 1, buffer).bytes[3]), (35 + 3) * 5);

  const Packed whole = packed_of("y.npy", npy("|u1", "(4,)", "abcd"));
  const auto message = [&](const std::function<void(Packed&)>& change) {
    Packed changed = whole;
    change(changed);
    const std::string file = zip_of({changed});
    return error_of([&] { parse_npz(bytes_in_memory(bytes_of(file)), [](const std::string&) { return true; }); });
  };
  expect_words(message([](Packed& p) { --p.size; }), {"y: ", "unpacks to more than the ", text(whole.size - 1)});
  expect_words(message([](Packed& p) { ++p.size; }),
               {"y: ", text("unpacks to ", whole.size, " of ", whole.size + 1, " bytes")});
  expect_words(message([](Packed& p) { p.packed.pop_back(); }), {"y: ", "does not unpack"});
  expect_words(message([](Packed& p) { p.packed[0] = '\x07'; }), {"y: ", "does not unpack"});  // of no known kind
  expect_words(message([](Packed& p) { p.sum ^= 1; }), {"y: ", "checksum"});
}

TEST(Arrays, HeadsAreComparedBeforeAnythingIsUnpacked) {
  const TempFolder temp;
  const auto message = [&](const std::string& shape, int elements, std::uint64_t more) {
    Packed images = packed_of("x_train.npy", npy("|u1", shape, values_of(elements)));
    images.sum ^= 1;  // found where it is unpacked
    images.size += more;
    write(temp.at("set.npz"), zip_of({images, packed_of("y_train.npy", npy("|u1", "(2,)", std::string("\0\1", 2)))}));
    return error_of([&] { Dataset::open(temp.at("set.npz")); });
  };
  expect_words(message("(9, 5, 7)", 315, 0), {"set.npz[x_train]", "(9, 5, 7)", "y_train has (2)"});
  expect_words(message("(2, 5, 7)", 70, 1'000), {"x_train: holds 1070 bytes", "(2, 5, 7) needs 70"});
  expect_words(message("(2, 5, 7)", 70, 0), {"x_train: its checksum"});
}

TEST(Arrays, DamageIsFound) {
  damage_everywhere(npy("|u1", "(2, 3)", "abcdef"), [](const std::string& file) {
    const NpyArray array = parse_npy(bytes_in_memory(bytes_of(file)));
    EXPECT_LE(array.bytes.size(), file.size());
  });
  // An archive of one stored member: local header, data, directory, end.
  const std::string member = npy("|u1", "(4,)", "abcd");
  const auto number = [](std::uint64_t value, int size) {
    std::string out;
    for (int i = 0; i < size; ++i) out += static_cast<char>(value >> (8 * i));
    return out;
  };
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(member.data()), member.size());
  const std::string sizes = number(crc, 4) + number(member.size(), 4) + number(member.size(), 4) + number(5, 2) +
                            number(0, 2);
  const std::string local = "PK\x03\x04" + number(20, 2) + number(0, 8) + sizes + "y.npy" + member;
  const std::string directory = "PK\x01\x02" + number(20, 4) + number(0, 8) + sizes + std::string(14, '\0') + "y.npy";
  const std::string zip = local + directory + "PK\x05\x06" + number(0, 4) + number(1, 2) + number(1, 2) +
                          number(directory.size(), 4) + number(local.size(), 4) + number(0, 2);
  const auto parse = [](const std::string& file) {
    return parse_npz(bytes_in_memory(bytes_of(file)), [](const std::string&) { return true; });
  };
  EXPECT_EQ(parse(zip).at("y").at(3), 'd');
  damage_everywhere(zip, [&](const std::string& file) { parse(file); });
}

}  // namespace
}  // namespace neurim
