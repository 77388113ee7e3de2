// How splits are cut so that training has every class, and what is said of classes and their names.
#include <gtest/gtest.h>

#include "neurim/data/label_problems.h"
#include "tests/images.h"

namespace neurim {
namespace {

TEST(Manifest, UnicodeFormsOfLabelsGroupsAndPathsAreOne) {
  const TempFolder temp;
  for (const char* file : {"cafe\u0301/\u00E9.png", "caf\u00E9/other.png", "tea/1.png", "tea/2.png"})
    write(temp.at(file), png_of(plain(4, 4, {1})));
  write(temp.at("m.csv"),
        "path,label,group\ncaf\u00E9/e\u0301.png,\u00E9,g\u00E9\ncafe\u0301/\u00E9.png,e\u0301,ge\u0301\ntea/"
        "1.png,t,x\ntea/2.png,t,y\n");
  const Dataset data = Dataset::open(temp.at("m.csv"), {.val_split = 0.0});
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"t", "\u00E9"}));
  EXPECT_EQ(data.class_counts(Split::train), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(data.group(Split::train, 0), data.group(Split::train, 1));
  std::vector<std::byte> buffer;
  for (std::int64_t i = 0; i < 2; ++i) EXPECT_FALSE(data.read(Split::train, i, buffer).bytes.empty());
  expect_words(join(data.notes(), "\n"), {"1 rows name a file again"});
  EXPECT_EQ(label_problems(data, true).front().kind, "unicode_form");
}

/// A table of images that are not there; each line is label,group.
std::string table_of(const TempFolder& temp, const std::vector<std::string>& lines) {
  std::string table = "path,label,group\n";
  for (std::size_t i = 0; i < lines.size(); ++i) table += text(i, ".png,", lines[i], '\n');
  write(temp.at("0.png"), "x");
  write(temp.at("m.csv"), table);
  return temp.at("m.csv");
}

std::vector<std::string> kinds_of(const std::vector<LabelProblem>& problems) {
  std::vector<std::string> kinds;
  for (const LabelProblem& problem : problems) kinds.push_back(problem.kind);
  return kinds;
}

TEST(Splits, KeepEveryClassInTrainingWhereACutCan) {
  const TempFolder temp;
  std::vector<std::string> lines{"rare,r", "rare,r", "rare,r", "odd,o1", "odd,o2"};
  for (int i = 0; i < 12; ++i) lines.push_back(text(i % 2 ? "a,a" : "b,b", i % 4));
  const std::string grouped = table_of(temp, lines);
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (const int fold : {-1, 0, 1, 2}) {
      DatasetOptions options{.val_split = 0.5, .seed = seed};
      if (fold >= 0) options.folds = 3, options.fold = fold;
      const Dataset data = Dataset::open(grouped, options);
      for (const std::int64_t count : data.class_counts(Split::train)) EXPECT_GT(count, 0);
      EXPECT_GT(data.size(Split::val), 0);
      EXPECT_EQ(data.size(), 17);
      EXPECT_TRUE(class_problems(data).empty());
    }
  // A class of one image, without groups.
  const std::string single = table_of(temp, {"a,", "a,", "a,", "b,", "b,", "b,", "c,"});
  for (int fold = 0; fold < 3; ++fold) {
    const Dataset data = Dataset::open(single, {.folds = 3, .fold = fold});
    EXPECT_EQ(data.class_counts(Split::train)[2], 1);
    EXPECT_GT(data.size(Split::val), 0);
  }
  // A label of one image among several.
  const std::string several = table_of(temp, {"a|c,", "a,", "b,", "b,", "a,", "b|a,"});
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    for (const std::int64_t count : Dataset::open(several, {.val_split = 0.5, .seed = seed}).class_counts(Split::train))
      EXPECT_GT(count, 0);
}

TEST(Splits, ClassesWithoutTrainingAreNamed) {
  const TempFolder temp;
  const std::string apart = table_of(temp, {"a,1", "a,1", "b,2", "b,2", "c,3", "c,3"});
  const Dataset data = Dataset::open(apart, {.val_split = 0.3});
  EXPECT_EQ(data.size(Split::val), 2);
  const std::vector<LabelProblem> problems = class_problems(data);
  ASSERT_EQ(kinds_of(problems), (std::vector<std::string>{"no_training"}));
  expect_words(problems[0].what, {"without a training image", "(2 images, all in val, of the one group "});
  const Dataset whole = Dataset::open(apart, {.val_split = 0.0});
  EXPECT_TRUE(class_problems(whole).empty());
  EXPECT_EQ(kinds_of(label_problems(whole, false)), (std::vector<std::string>{"one_group"}));
  const Dataset more = Dataset::open(apart, {.val_split = 0.0, .class_names = {"a", "b", "c", "d"}});
  expect_words(class_problems(more).front().what, {"classes without any image cannot be learnt: d"});
}

TEST(Splits, OddNamesOfClassesAreSaid) {
  const TempFolder temp;
  const Dataset data = Dataset::open(table_of(temp, {"\"a \",", "unknown,", "A,", "a,"}), {.val_split = 0.0});
  EXPECT_EQ(kinds_of(class_problems(data)), (std::vector<std::string>{"case", "reserved", "blank"}));
}

}  // namespace
}  // namespace neurim
