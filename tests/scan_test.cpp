// Looking through data sets: images and labels.
#include "neurim/data/scan.h"

#include <gtest/gtest.h>
#include <sys/fsuid.h>

#include <map>

#include "neurim/data/label_problems.h"
#include "tests/images.h"

namespace neurim {
namespace {

using Statuses = std::map<std::string, std::string>;

Statuses scanned(const std::string& root) {
  Statuses found;
  scan(root, 2, [&](const ScannedFile& file) { found[file.file] = name(file.status); });
  return found;
}

std::vector<std::string> kinds(const std::vector<LabelProblem>& problems) {
  std::vector<std::string> found;
  for (const LabelProblem& problem : problems) found.push_back(problem.kind);
  return found;
}

TEST(Scan, FollowsLinksAndLooksAtEachFolderOnce) {
  const TempFolder temp, elsewhere;
  write_classes(elsewhere, "", {"c"}, 2);
  write_classes(temp, "", {"a"}, 1);
  fs::create_directory_symlink(elsewhere.path() + "/c", temp.at("c"));
  fs::create_directory_symlink("..", temp.at("a/loop"));
  fs::create_directory_symlink("a", temp.at("Again"));
  fs::create_directory_symlink("nowhere", temp.at("dangling"));
  EXPECT_EQ(scanned(temp.path()), (Statuses{{"a/0.JPG", "ok"}, {"c/0.JPG", "ok"}, {"c/1.png", "ok"}}));
}

TEST(Scan, GoesOnAfterAFolderThatCannotBeListed) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b", "c"}, 1);
  for (const char* locked : {"b", "c"}) fs::permissions(temp.path() + "/" + locked, fs::perms::none);
  fs::permissions(temp.path(), fs::perms::all);
  const auto user = ::setfsuid(65534);  // of this thread, as root may list everything
  const Statuses found = scanned(temp.path());
  ::setfsuid(static_cast<uid_t>(user));
  for (const char* locked : {"b", "c"}) fs::permissions(temp.path() + "/" + locked, fs::perms::all);
  EXPECT_EQ(found, (Statuses{{"a/0.JPG", "ok"}, {"b/", "error"}, {"c/", "error"}}));
}

TEST(Scan, SamplesOfASet) {
  const TempFolder temp;
  write_idx(temp, cycle(6, 3));
  std::size_t count = 0;
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  scan(data, 2, [&](const ScannedFile& file) {
    EXPECT_EQ(file.status, ScannedFile::Status::ok) << file.reason;
    EXPECT_EQ(file.header.width, 5);
    expect_words(file.file, {count < 30 ? text("train-images-idx3-ubyte[", count, "]") : "t10k"});
    ++count;
  });
  EXPECT_EQ(count, 36u);
}

TEST(LabelProblems, OfFolders) {
  const TempFolder temp;
  write_classes(temp, "train/", {"ant", "bee", "Bee"}, 3);
  write_classes(temp, "val/", {"ant", "wasp"}, 3);
  std::uint8_t level = 0;  // the images that were written are the same in each split
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(temp.path()))
    if (entry.is_regular_file()) write(entry.path(), png_of(plain(9, 9, {level++, 0, 0})));
  fs::create_directories(temp.path() + "/train/none");
  fs::create_directories(temp.path() + "/val/bee");
  std::vector<std::string> notes;
  EXPECT_EQ(kinds(label_problems_of_folder(temp.path(), notes)),
            (std::vector<std::string>{"empty", "case", "missing_class", "unknown_class"}));
  ASSERT_EQ(notes.size(), 1u);
  expect_words(notes[0], {"no classes", "train/none"});
  const std::string image = png_of(plain(31, 7, {1, 2, 3}));
  for (const char* file : {"train/ant/x.png", "train/bee/y.png", "val/ant/z.png"}) write(temp.at(file), image);
  const std::string other = png_of(plain(32, 7, {1, 2, 3}));
  for (const char* file : {"train/ant/v.png", "val/ant/w.png"}) write(temp.at(file), other);
  const std::vector<LabelProblem> problems = label_problems_of_folder(temp.path(), notes);
  ASSERT_EQ(problems.size(), 6u);
  expect_words(problems[0].what, {"train/none"});
  expect_words(problems[1].what, {"Bee, bee differ only in capital letters"});
  expect_words(problems[2].what, {"val has no images of Bee, bee"});
  expect_words(problems[3].what, {"val has images of wasp, train has none"});
  for (std::size_t i = 4; i < 6; ++i) {
    const bool three = problems[i].names.size() == 3;
    EXPECT_EQ(problems[i].kind, three ? "two_classes" : "two_splits");
    expect_words(problems[i].what, three
                                       ? std::vector<std::string>{"the same bytes in two classes and two splits",
                                                                  "bee/y.png (train, bee)", "z.png (val, ant)"}
                                       : std::vector<std::string>{"the same bytes in two splits", "w.png (val, ant)"});
  }
  EXPECT_TRUE(label_problems_of_folder(temp.path() + "/train/ant", notes).empty());
}

TEST(LabelProblems, OfTables) {
  const TempFolder temp;
  for (int i = 0; i < 6; ++i) write(temp.at(text(i, ".png")), png_of(plain(9 + i, 9, {1, 2, 3})));
  write(temp.at("set.csv"),
        "path,label,split\n0.png,a,\n0.png,b,\n1.png,a,\n1.png,a,val\n2.png,a,\n3.png,b,\n3.png,b,\n9.png,b,"
        "\n5.png,b,val\n");
  const std::vector<LabelProblem> problems = label_problems(Dataset::open(temp.at("set.csv")), true);
  EXPECT_EQ(kinds(problems), (std::vector<std::string>{"two_classes", "two_splits", "missing_file"}));
  expect_words(problems[0].what, {"the same file in two classes", "0.png (train, b)"});
  expect_words(problems[1].what, {"the same file in two splits", "1.png (val, a)"});
  expect_words(problems[2].what, {"1 named files are not there", "9.png"});
}

}  // namespace
}  // namespace neurim
