// What may lie among the classes of a folder, and sets that nothing can be trained on.
#include "neurim/data/sources/folder.h"

#include <gtest/gtest.h>

#include <map>

#include "neurim/base/canonical_form.h"
#include "neurim/data/label_problems.h"
#include "neurim/data/loader.h"
#include "neurim/data/scan.h"
#include "tests/epochs.h"
#include "tests/images.h"

namespace neurim {
namespace {

const DatasetOptions kAsItIs{.val_split = 0.0, .for_training = false};
const std::vector<std::string> kAB{"a", "b"};

std::string a_png() { return png_of(plain(8, 8, {1, 2, 3})); }

TEST(Folder, RunsAreNoClasses) {
  const TempFolder temp;
  write_classes(temp, "", kAB, 3);
  for (const char* run : {"runs/classify/train", "a/old", "train"}) {
    write(temp.at(text(run, "/args.yaml")), "epochs: 1\n");
    write(temp.at(text(run, "/weights/last.safetensors")), "x");
    write(temp.at(text(run, "/results.png")), a_png());
  }
  for (const char* file : {"confusion_matrix.csv", "confusion_matrix.png", "per_class.csv"})
    write(temp.at(text("runs/classify/val/", file)), a_png());
  write(temp.at("b/args.yaml"), "x");  // alone it makes no run of the class
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  EXPECT_EQ(data.class_names(), kAB);
  EXPECT_EQ(data.class_counts(Split::train), (std::vector<std::int64_t>{3, 3}));
  ASSERT_EQ(data.notes().size(), 2u);
  expect_words(data.notes()[0], {"no images: 1 file", "b/args.yaml"});
  expect_words(data.notes()[1], {"written by train or val: 4 folders", "a/old"});
  EXPECT_EQ(images_below(temp.path()).files.size(), 6u);
  std::int64_t seen = 0;
  scan(temp.path(), 1, [&](const ScannedFile&) { ++seen; });
  EXPECT_EQ(seen, 6);
}

TEST(Folder, WhatLiesBesideTheClassesIsSaid) {
  const TempFolder temp;
  write_classes(temp, "", kAB, 2);
  write(temp.at("loose.jpg"), a_png());
  write(temp.at("LICENSE"), "text");
  for (const char* link : {"c", "a/more"}) fs::create_directory_symlink("nowhere", temp.at(link));
  const std::vector<std::string> notes = Dataset::open(temp.path()).notes();
  ASSERT_EQ(notes.size(), 2u);
  expect_words(notes[0], {"of no class: 1 image,", "loose.jpg"});
  expect_words(notes[1], {"leading nowhere: 2 symbolic links", "a/more"});

  const TempFolder splits;
  write_classes(splits, "train/", kAB, 2);
  for (const char* file : {"train/x.png", "y.png"}) write(splits.at(file), a_png());
  for (const char* link : {"train/c", "val"}) fs::create_directory_symlink("nowhere", splits.at(link));
  const std::vector<std::string> of_splits = Dataset::open(splits.path()).notes();
  ASSERT_EQ(of_splits.size(), 2u);
  expect_words(of_splits[0], {"of no class: 2 images", "train/x.png"});
  expect_words(of_splits[1], {"leading nowhere: 2 symbolic links", "train/c"});
}

TEST(Folder, SplitsWithoutClassesOrImagesAreSaid) {
  const TempFolder beside;
  write_classes(beside, "", {"a", "b", "train"}, 2);
  const Dataset trains = Dataset::open(beside.path());
  EXPECT_EQ(trains.class_names(), (std::vector<std::string>{"a", "b", "train"}));
  expect_words(join(trains.notes(), "\n"), {"train/ lies beside classes and is taken for one"});

  const TempFolder flat;
  write_classes(flat, "", {"train"}, 2);
  write_classes(flat, "val/", kAB, 2);
  expect_words(error_of([&] { Dataset::open(flat.path()); }),
               {"train/ holds no folders of classes and would be taken for a class", "train/CLASS/"});

  const TempFolder temp;
  write_classes(temp, "train/", kAB, 5);
  for (const char* folder : {"val/a", "val/b", "test/a", "test/b"}) fs::create_directories(temp.path() + "/" + folder);
  const Dataset cut = Dataset::open(temp.path());
  EXPECT_EQ(cut.size(Split::val), 2);
  ASSERT_EQ(cut.notes().size(), 2u);
  expect_words(cut.notes()[0], {"val holds no image", "validation is taken from train"});
  expect_words(cut.notes()[1], {"test holds no image, as if it were not there"});
}

TEST(Folder, OneCalledAsAPictureIsAPictureThatCannotBeRead) {
  const TempFolder temp;
  write_classes(temp, "", kAB, 1);
  fs::create_directories(temp.path() + "/a/x.jpg");
  write(temp.at("a/y.jpg/whole.png"), a_png());
  write(temp.at("b/z.png/deep.jpg/notes.txt"), "x");
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  EXPECT_EQ(data.class_counts(Split::train), (std::vector<std::int64_t>{3, 2}));
  Loader loader(data, Split::train, {.height = 8, .width = 8}, {}, {.batch = 5, .workers = 0, .max_bad = 2});
  for (const std::uint32_t epoch : {0, 1}) epoch_of(loader, epoch);
  const std::vector<BadSample> bad = loader.bad();
  ASSERT_EQ(bad.size(), 2u);
  expect_words(bad[0].reason, {"a/x.jpg: not a regular file but a folder"});
  expect_words(bad[1].reason, {"b/z.png/deep.jpg: "});
  std::map<std::string, std::string> found;
  scan(temp.path(), 1, [&](const ScannedFile& file) { found[file.file] = name(file.status); });
  EXPECT_EQ(found, (std::map<std::string, std::string>{{"a/0.JPG", "ok"},
                                                       {"a/x.jpg/", "error"},
                                                       {"a/y.jpg/whole.png", "ok"},
                                                       {"b/0.JPG", "ok"},
                                                       {"b/z.png/deep.jpg/", "error"}}));
}

TEST(Folder, WhatSystemsLeaveIsNoData) {
  const TempFolder temp;
  write_classes(temp, "",
                {"a", "b", "@eaDir", "a/@eaDir", "$RECYCLE.BIN", "#recycle", "System Volume Information", "lost+found",
                 ".Trash-1000", "__pycache__"},
                2);
  write(temp.at("a/Thumbs.db"), "thumbnails");
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  EXPECT_EQ(data.class_names(), kAB);
  EXPECT_EQ(data.class_counts(Split::train), (std::vector<std::int64_t>{2, 2}));
  EXPECT_TRUE(data.notes().empty());
}

TEST(Folder, SplitsThatAClassLacksAreSaid) {
  const TempFolder temp;
  write_classes(temp, "a/", {"train", "val", "test"}, 2);
  write_classes(temp, "b/", {"train", "val"}, 2);
  write_classes(temp, "c/", {"train"}, 2);
  const std::vector<std::string> notes = Dataset::open(temp.path()).notes();
  ASSERT_EQ(notes.size(), 2u);
  expect_words(notes[0], {"val has no images of 1 of the 3 classes, such as c"});
  expect_words(notes[1], {"test has no images of 2 of the 3 classes, such as b"});
}

TEST(Folder, SetsWithoutTrainAreReadButNotTrainedOn) {
  const TempFolder temp;
  write_classes(temp, "test/", kAB, 2);
  EXPECT_EQ(Dataset::open(temp.path(), kAsItIs).class_counts(Split::test), (std::vector<std::int64_t>{2, 2}));
  expect_words(error_of([&] { Dataset::open(temp.path()); }), {"no train folder, only test/", "split=test"});
  fs::create_directories(temp.path() + "/train/a");
  expect_words(error_of([&] { Dataset::open(temp.path()); }), {"holds 4 images of test alone", "split=test"});

  write(temp.at("m.csv"), "path,label,split\ntest/a/0.JPG,x,val\ntest/b/0.JPG,y,test\n");
  const Dataset table = Dataset::open(temp.at("m.csv"), kAsItIs);
  EXPECT_EQ(table.class_names(), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(table.label_name(Split::test, 0), "y");
  expect_words(error_of([&] { Dataset::open(temp.at("m.csv")); }),
               {"holds 1 image of val and 1 image of test alone", "split=val"});

  const TempFolder within;
  for (const std::string& class_name : kAB) write_classes(within, class_name + "/", {"val"}, 2);
  EXPECT_EQ(Dataset::open(within.path(), kAsItIs).size(Split::val), 4);
  expect_words(error_of([&] { Dataset::open(within.path()); }), {"holds 4 images of val alone"});
}

TEST(Folder, OneClassIsReadButNotTrainedOn) {
  const TempFolder temp;
  write_classes(temp, "one/", {"a"}, 2);
  EXPECT_EQ(Dataset::open(temp.at("one"), kAsItIs).size(Split::train), 2);
  expect_words(error_of([&] { Dataset::open(temp.at("one")); }), {"only the class \"a\"", "at least two"});
  write_classes(temp, "outer/inner/", kAB, 2);
  expect_words(error_of([&] { Dataset::open(temp.at("outer"), kAsItIs); }), {"did you mean", "outer/inner"});
  write_classes(temp, "deep/1/2/a/", {"x", "y"}, 1);
  write_classes(temp, "deep/1/2/b/", {"x"}, 1);
  fs::create_directories(temp.path() + "/deep/1/empty");
  expect_words(error_of([&] { Dataset::open(temp.at("deep")); }), {"did you mean", "deep/1/2?"});
  write_classes(temp, "chain/1/2/", {"a"}, 1);
  const std::string group = error_of([&] { Dataset::open(temp.at("chain")); });
  expect_words(group, {"only the class \"1\"", "at least two", "train/CLASS/"});
  EXPECT_EQ(group.find("did you mean"), std::string::npos);
}

TEST(Preprocess, TheLeastCrop) {
  Preprocess preprocess{.crop_pct = kLeastCrop};
  preprocess.check();
  EXPECT_GT(preprocess.covering(300, 400).height, 224);
  preprocess.crop_pct = 1e-9;
  expect_words(error_of([&] { preprocess.check(); }, Fault::usage), {"crop_pct is 1e-09", "[0.01, 1]"});
}

TEST(CanonicalForm, IsTheSameForAllForms) {
  for (const auto& [text, form] :
       std::vector<std::pair<std::string, std::string>>{{"plain", "plain"},
                                                        {"caf\u00E9", "cafe\u0301"},
                                                        {"\u01D6", "u\u0308\u0304"},         // a letter of a letter
                                                        {"\u212B\u2126", "A\u030A\u03A9"},   // one for one
                                                        {"q\u0307\u0323", "q\u0323\u0307"},  // the order of marks
                                                        {"\uAC01\uAC00", "\u1100\u1161\u11A8\u1100\u1161"},  // Hangul
                                                        {"\U0001D15E", "\U0001D157\U0001D165"},
                                                        {"\uFB01", "\uFB01"}}) {  // looks alike, and is another text
    EXPECT_EQ(canonical_form(text), form);
    EXPECT_EQ(canonical_form(form), form);
  }
  EXPECT_EQ(canonical_form("\u00E9\xFF"), "\u00E9\xFF");
  EXPECT_EQ(with_code_points("cafe\u0301"), "cafe<U+0301>");
}

TEST(Folder, NamesInSeveralUnicodeFormsAreOneClass) {
  const std::vector<std::string> classes{"caf\u00E9", "tea"};
  const TempFolder one;
  write_classes(one, "", {"caf\u00E9", "cafe\u0301", "tea"}, 2);
  const Dataset joined = Dataset::open(one.path(), {.val_split = 0.0});
  EXPECT_EQ(joined.class_names(), classes);
  EXPECT_EQ(joined.class_counts(Split::train), (std::vector<std::int64_t>{4, 2}));
  EXPECT_TRUE(joined.notes().empty());
  std::vector<std::string> notes;
  const std::vector<LabelProblem> problems = label_problems_of_folder(one.path(), notes);
  ASSERT_EQ(problems.front().kind, "unicode_form");
  expect_words(problems.front().what, {"caf<U+00E9>, cafe<U+0301>"});

  const TempFolder two;
  write_classes(two, "train/", {"cafe\u0301", "tea"}, 2);
  write_classes(two, "val/", classes, 1);
  fs::create_directories(two.path() + "/test/cafe\u0301");
  write_classes(two, "test/", {"tea"}, 1);
  const Dataset split = Dataset::open(two.path());
  EXPECT_EQ(split.class_names(), classes);
  EXPECT_EQ(split.class_counts(Split::val), (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(split.class_counts(Split::test), (std::vector<std::int64_t>{0, 1}));

  const TempFolder blank;
  write_classes(blank, "train/", {"a", "b "}, 2);
  write_classes(blank, "val/", {"a", "b"}, 2);
  expect_words(error_of([&] { Dataset::open(blank.path()); }), {"has the classes [a, b], but train has [a, \"b \"]"});

  const TempFolder other;  // than the data that a model knows
  write_classes(other, "", classes, 2);
  const Dataset mapped = Dataset::open(other.path(), {.val_split = 0.0, .class_names = {"tea", "cafe\u0301"}});
  EXPECT_EQ(mapped.class_names(), (std::vector<std::string>{"tea", "cafe\u0301"}));
  EXPECT_EQ(mapped.label(Split::train, 0), 1);
}

}  // namespace
}  // namespace neurim
