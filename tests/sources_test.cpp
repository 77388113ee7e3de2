// Where samples come from: folders and IDX files, made here and, where NEURIM_DATA is set, real ones.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "neurim/data/loader.h"
#include "tests/images.h"

namespace neurim {
namespace {

TEST(Folder, VirtualSplitIsStratifiedSeededAndWithoutCopies) {
  const TempFolder temp;
  write_classes(temp, "", {"cat", "ant", "bee"}, 10);
  write(temp.at("LICENSE"), "text");
  write(temp.at("ant/README.md"), "text");
  write(temp.at("ant/.hidden.png"), "text");
  write(temp.at(".ipynb_checkpoints/x.png"), "text");
  write(temp.at("__MACOSX/x.png"), "text");
  fs::create_directories(temp.path() + "/empty");
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.2});
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"ant", "bee", "cat"}));
  EXPECT_EQ(data.class_counts(Split::train), (std::vector<std::int64_t>{8, 8, 8}));
  EXPECT_EQ(data.class_counts(Split::val), (std::vector<std::int64_t>{2, 2, 2}));
  EXPECT_EQ(data.size(Split::test), 0);
  const auto names = [](const Dataset& set) {
    std::set<std::string> all;
    for (std::int64_t i = 0; i < set.size(Split::val); ++i) all.insert(set.name(Split::val, i));
    return all;
  };
  EXPECT_EQ(names(data), names(Dataset::open(temp.path(), {.val_split = 0.2})));
  EXPECT_NE(names(data), names(Dataset::open(temp.path(), {.val_split = 0.2, .seed = 7})));
  for (std::int64_t i = 0; i < data.size(Split::train); ++i) {
    const std::string file = data.name(Split::train, i);
    EXPECT_FALSE(names(data).contains(file));
    const std::string class_name = fs::path(file).parent_path().filename().string();
    EXPECT_EQ(data.class_names()[data.label(Split::train, i)], class_name);
  }
  EXPECT_EQ(Dataset::open(temp.path()).size(Split::val), 3);
  EXPECT_EQ(Dataset::open(temp.path(), {.val_split = 0.0}).size(Split::train), 30);
}

TEST(Folder, SplitsAreMappedByName) {
  for (const std::string val : {"val", "valid", "validation"}) {
    const TempFolder temp;
    write_classes(temp, "train/", {"a", "b", "c"}, 3);
    write_classes(temp, val + "/", {"b", "c"}, 2);
    write_classes(temp, "test/", {"c"}, 1);
    expect_words(error_of([&] { Dataset::open(temp.path()); }), {"[b, c]", "[a, b, c]", "make a folder for [a]"});
    for (const std::string& empty : {val + "/a", std::string("test/a"), std::string("test/b")})
      fs::create_directories(temp.path() + "/" + empty);
    const Dataset data = Dataset::open(temp.path());
    EXPECT_EQ(data.class_counts(Split::train), (std::vector<std::int64_t>{3, 3, 3}));
    EXPECT_EQ(data.class_counts(Split::val), (std::vector<std::int64_t>{0, 2, 2}));
    EXPECT_EQ(data.class_counts(Split::test), (std::vector<std::int64_t>{0, 0, 1}));
  }
}

TEST(Folder, SplitsInCapitalLettersAndOtherForms) {
  for (const auto& [train, val, test] :
       {std::array{"Train", "Val", "Test"}, std::array{"training", "VALIDATION", "testing"}}) {
    const TempFolder temp;
    for (const std::string split : {train, val, test}) write_classes(temp, split + "/", {"a", "b"}, 2);
    const Dataset data = Dataset::open(temp.path());
    EXPECT_EQ(data.class_names(), (std::vector<std::string>{"a", "b"}));
    for (const Split split : kSplits) EXPECT_EQ(data.size(split), 4);
    write_classes(temp, "val/", {"a", "b"}, 1);
    expect_words(error_of([&] { Dataset::open(temp.path()); }), {"both the val split", val});
  }
  const TempFolder other;
  write_classes(other, "train_set/", {"a", "b"}, 2);
  write_classes(other, "test_set/", {"a", "b", "c"}, 2);
  expect_words(error_of([&] { Dataset::open(other.path()); }),
               {"test_set/ and train_set/ hold the same folders [a, b]", "train, val and test"});
  const TempFolder classes;  // what is in them is theirs
  write_classes(classes, "train station/", {"day", "night"}, 1);
  write_classes(classes, "airport/", {"day", "night"}, 1);
  EXPECT_EQ(Dataset::open(classes.path()).class_names(), (std::vector<std::string>{"airport", "train station"}));
}

TEST(Folder, ImagesWithoutExtension) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 3);
  write(temp.at("a/7"), jpeg_of(plain(8, 8, {1, 2, 3})));
  write(temp.at("a/photo.2019"), png_of(plain(8, 8, {1, 2, 3})));
  write(temp.at("a/.hidden"), png_of(plain(8, 8, {1, 2, 3})));
  write(temp.at("a/film.mov"), std::string("\0\0\0\x14"
                                           "ftypqt  \0\0\0\0",
                                           16));
  for (const char* file : {"LICENSE", "a/README", "a/notes.txt", "a/empty"})
    write(temp.at(file), std::string_view(file).ends_with("empty") ? "" : "hello, this is a text");
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  EXPECT_EQ(data.class_counts(Split::train), (std::vector<std::int64_t>{5, 3}));
}

TEST(Folder, LinksGiveNoWrongClass) {
  const TempFolder temp, elsewhere;
  write_classes(temp, "set/", {"a", "b"}, 3);
  write_classes(elsewhere, "", {"c", "more"}, 2);
  const auto link = [&](const std::string& to, const std::string& at) {
    fs::create_directory_symlink(to, temp.at("set/" + at));
  };
  link(elsewhere.path() + "/c", "c");
  link(elsewhere.path() + "/more", "a/more");
  const auto counts = [&] { return Dataset::open(temp.at("set"), {.val_split = 0.0}).class_counts(Split::train); };
  EXPECT_EQ(counts(), (std::vector<std::int64_t>{5, 3, 2}));
  EXPECT_TRUE(Dataset::open(temp.at("set")).notes().empty());
  link("..", "a/loop");
  link("../b", "a/b");
  link(elsewhere.path(), "b/all");  // holds the images of c
  link(".", "z");
  EXPECT_EQ(counts(), (std::vector<std::int64_t>{5, 3, 2}));
  const std::vector<std::string> notes = Dataset::open(temp.at("set")).notes();
  ASSERT_EQ(notes.size(), 1u);
  expect_words(notes[0], {"4 symbolic links", "not followed", "set/a/b"});
  fs::remove(temp.at("set/b/all"));
  link("../a", "train/a");  // another split of the same images is a matter of the user
  link("../b", "train/b");
  write_classes(temp, "set/val/", {"a"}, 1);
  link("../b", "val/b");
  link("..", "train/loop");
  EXPECT_EQ(counts(), (std::vector<std::int64_t>{5, 3}));
  EXPECT_EQ(Dataset::open(temp.at("set")).class_counts(Split::val), (std::vector<std::int64_t>{1, 3}));
}

TEST(Folder, ClassNamesAreLinesOfText) {
  const std::map<std::string, std::string> odd_names{{"a\nb", "\"a\\nb\" has a line break"},
                                                     {"a\r", "\"a\\r\" has a line break"},
                                                     {"a\tb", "\"a\\x09b\" has a control character"},
                                                     {"caf\xE9", "\"caf\\xE9\" is no UTF-8"}};
  for (const auto& [odd, shown] : odd_names) {
    const TempFolder temp;
    write_classes(temp, "", {odd, "c"}, 2);
    const std::string message = error_of([&] { Dataset::open(temp.path()); });
    expect_words(message, {temp.path(), shown, "rename"});
    EXPECT_EQ(message.find_first_of("\n\r\xE9"), std::string::npos);
  }
  const TempFolder temp;
  write_classes(temp, "", {"café", "été", "日本"}, 2);
  EXPECT_TRUE(Dataset::open(temp.path()).notes().empty());  // in order without any number
}

TEST(Folder, ArchivesBesideItAreNotTheSet) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 3);
  for (const char* file : {"all.tar", "all.tar.gz", "x.npz", "old.tfrecord", "x.npy", "y.npy"})
    write(temp.at(file), "");
  EXPECT_EQ(Dataset::open(temp.path(), {.val_split = 0.0}).size(Split::train), 6);
}

TEST(Folder, SplitsWithinClasses) {
  const TempFolder temp;
  for (const std::string split : {"train", "valid", "test"})
    for (const std::string class_name : {"a", "b"}) write_classes(temp, class_name + "/", {split}, 3);
  const Dataset data = Dataset::open(temp.path());
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"a", "b"}));
  for (const Split split : kSplits) EXPECT_EQ(data.class_counts(split), (std::vector<std::int64_t>{3, 3}));
  write_classes(temp, "", {"c"}, 1);
  expect_words(error_of([&] { Dataset::open(temp.path()); }), {"a/ holds folders of splits and c/ does not"});
}

TEST(Folder, ClassNamesFromOutsideRule) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 2);
  const Dataset data = Dataset::open(temp.path(), {.class_names = {"b", "x", "a"}});
  EXPECT_EQ(data.class_counts(Split::train), (std::vector<std::int64_t>{1, 0, 1}));
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"b", "x", "a"}));
  expect_words(error_of([&] { Dataset::open(temp.path(), {.class_names = {"b", "x", "y"}}); }),
               {"the classes [a] are not known", "[a, b]", "[b, x, y]"});
  const TempFolder only_test;
  write_classes(only_test, "test/", {"b"}, 2);
  EXPECT_EQ(Dataset::open(only_test.path(), {.class_names = {"a", "b"}}).class_counts(Split::test),
            (std::vector<std::int64_t>{0, 2}));
}

TEST(Folder, ErrorsSayCauseAndFix) {
  const TempFolder temp;
  const auto message = [&](const std::string& path) { return error_of([&] { Dataset::open(temp.at(path)); }); };
  expect_words(message("missing"), {"missing", "no such folder"});
  write(temp.at("file"), "x");
  expect_words(message("file"), {"not a folder"});
  fs::create_directories(temp.path() + "/empty");
  expect_words(message("empty"), {"no class folders", "expected CLASS/*.jpg"});
  write_classes(temp, "one/", {"a"}, 2);
  expect_words(message("one"), {"only the class \"a\"", "at least two"});
  write_classes(temp, "outer/inner/", {"a", "b"}, 2);
  expect_words(message("outer"), {"did you mean", "outer/inner"});
  write_classes(temp, "odd/train/", {"a", "b"}, 2);
  write_classes(temp, "odd/val/", {"a", "z"}, 2);
  expect_words(message("odd"), {"odd/val", "[a, z]", "[a, b]", "remove [z]", "folder for [b]"});
  write_classes(temp, "two/train/", {"a", "b"}, 2);
  write_classes(temp, "two/val/", {"a", "b"}, 2);
  write_classes(temp, "two/valid/", {"a", "b"}, 2);
  expect_words(message("two"), {"val/ and valid/"});
  write_classes(temp, "no-train/test/", {"a", "b"}, 2);
  expect_words(message("no-train"), {"no train folder"});
}

TEST(Folder, NamesThatDoNotFitOnALineAreRefused) {
  for (const char* odd : {"a\nb", "a\r"}) {
    const TempFolder temp;
    write_classes(temp, "", {odd, "c"}, 2);
    expect_words(error_of([&] { Dataset::open(temp.path()); }),
                 {odd[1] == '\n' ? "\"a\\nb\"" : "\"a\\r\"", "line break", "labels.txt"});
    EXPECT_EQ(error_of([&] { Dataset::open(temp.path()); }).find_first_of("\n\r"), std::string::npos);
  }
}

TEST(Folder, NumberedClassesAreAnnounced) {
  const TempFolder temp;
  write_classes(temp, "", {"1", "2", "10"}, 1);
  const Dataset data = Dataset::open(temp.path());
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"1", "10", "2"}));
  ASSERT_EQ(data.notes().size(), 1u);
  expect_words(data.notes()[0], {"lexicographic", "10"});
}

/// Writes a small set; `labels` are those of t10k.

TEST(Idx, PlainAndPacked) {
  const TempFolder temp;
  write_idx(temp, cycle(6, 3));
  const Dataset data = Dataset::open(temp.path());
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(data.size(Split::train), 30);
  EXPECT_EQ(data.size(Split::val), 6);  // the test split serves, as nothing else was asked
  EXPECT_EQ(data.size(Split::test), 6);
  expect_words(join(data.notes(), "\n"), {"validation is on the test split", "val_split=0.1"});
  expect_words(data.name(Split::test, 5), {"t10k-images-idx3-ubyte.gz[5]"});
  std::vector<std::byte> buffer;
  const StoredImage second = data.read(Split::test, 1, buffer);
  EXPECT_EQ(second.pixels, (ImageSize{4, 5, 1}));
  EXPECT_EQ(std::to_integer<int>(second.bytes[2]), 22 * 7);
  const Dataset cut = Dataset::open(temp.path(), {.val_split = 0.2});
  EXPECT_EQ(cut.class_counts(Split::val), (std::vector<std::int64_t>{2, 2, 2}));
  EXPECT_EQ(cut.size(Split::train), 24);
  EXPECT_TRUE(cut.notes().empty());
  write(temp.at("labels.txt"), "shirt\r\nbag\ncoat\n");
  EXPECT_EQ(Dataset::open(temp.path()).class_names(), (std::vector<std::string>{"shirt", "bag", "coat"}));
  EXPECT_TRUE(Dataset::open(temp.path(), {.val_split = 0.2}).notes().empty());
  const Dataset mapped = Dataset::open(temp.path(), {.class_names = {"coat", "bag", "shirt"}});
  EXPECT_EQ(mapped.label(Split::train, 0), 2);
}

TEST(Idx, NumbersAreNamedInTheirOrder) {
  const TempFolder temp;
  write_idx(temp, cycle(6, 3));
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0, .class_names = {"shirt", "bag", "coat", "hat"}});
  EXPECT_EQ(data.class_counts(Split::train), (std::vector<std::int64_t>{10, 10, 10, 0}));
  EXPECT_EQ(data.label_name(Split::train, 1), "bag");
  expect_words(join(data.notes(), "\n"), {"0 is shirt", "3 is hat"});
  expect_words(error_of([&] { Dataset::open(temp.path(), {.class_names = {"shirt", "bag"}}); }),
               {"the classes [2] are not known", "[shirt, bag]", "count from 0"});
  // Names that are numbers are names.
  expect_words(error_of([&] { Dataset::open(temp.path(), {.class_names = {"2", "1", "5"}}); }),
               {"the classes [0] are not known"});
}

TEST(Idx, DamageIsFound) {
  const auto message = [](const std::function<void(const TempFolder&)>& damage) {
    const TempFolder temp;
    write_idx(temp, cycle(6, 3));
    damage(temp);
    return error_of([&] { Dataset::open(temp.path()); });
  };
  const std::string images = idx_images(30, 4, 5);
  const std::string file = "train-images-idx3-ubyte";
  expect_words(message([&](auto& t) { write(t.at(file), images.substr(0, 300)); }), {file, "284 of 600 bytes"});
  expect_words(message([&](auto& t) { write(t.at(file), images + "x"); }), {file, "more bytes"});
  expect_words(message([&](auto& t) { write(t.at(file), idx_labels({1})); }), {file, "magic"});
  expect_words(message([&](auto& t) { write(t.at(file), ""); }), {file});
  expect_words(
      message([&](auto& t) { write(t.at(file), images.substr(0, 4) + "\xFF\xFF\xFF\xFF" + images.substr(8)); }),
      {file, "cannot hold"});
  expect_words(message([&](auto& t) { write(t.at(file), idx_images(29, 4, 5)); }), {"29 images", "30 labels"});
  expect_words(message([&](auto& t) { write(t.at("t10k-labels-idx1-ubyte"), idx_labels({0, 1, 9, 1, 9, 0})); }),
               {"t10k-labels", "label 9 at index 2", "3 classes"});
  expect_words(message([&](auto& t) { fs::remove(t.at("train-labels-idx1-ubyte.gz")); }), {"train-labels", "missing"});
  expect_words(message([&](auto& t) {
                 const std::string path = t.at("t10k-images-idx3-ubyte.gz");
                 write(path, read_file(path).substr(0, 60));
               }),
               {"t10k-images-idx3-ubyte.gz", "ends or breaks"});
}

TEST(Idx, MemoryIsTakenForWhatIsThere) {
  const TempFolder temp;
  write_idx(temp, cycle(6, 3));
  std::string images = big_endian(0x803);
  for (const std::uint32_t size : {30, 4500, 4500}) images += big_endian(size);
  std::mt19937 random(1);
  for (int i = 0; i < 700'000; ++i) images += static_cast<char>(random());  // which gzip cannot pack
  const auto peak = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  const long before = peak();
  const std::string file = temp.at("train-images-idx3-ubyte");
  write(file, images);
  expect_words(error_of([&] { Dataset::open(temp.path()); }), {file, "700000 of 607500000 bytes"});
  fs::remove(file);
  write_gz(file + ".gz", images);
  expect_words(error_of([&] { Dataset::open(temp.path()); }), {file + ".gz", "700000 of 607500000 bytes"});
  EXPECT_LT(peak() - before, 300 << 10);
}

TEST(Idx, LabelsThatMakeClassesWithoutImagesAreRefused) {
  const TempFolder temp;
  write_idx(temp, cycle(6, 3));
  std::vector<int> labels = cycle(30, 3);
  labels[7] = 200;
  write_gz(temp.at("train-labels-idx1-ubyte.gz"), idx_labels(labels));
  expect_words(
      error_of([&] { Dataset::open(temp.path()); }),
      {"train-labels-idx1-ubyte.gz: label 200 at index 7, but classes 3 to 199 have no training image", "labels.txt"});
  labels[7] = 4;
  write_gz(temp.at("train-labels-idx1-ubyte.gz"), idx_labels(labels));
  expect_words(error_of([&] { Dataset::open(temp.path()); }), {"label 4 at index 7, but class 3 has no training"});
  EXPECT_EQ(Dataset::open(temp.path(), {.class_names = {"4", "3", "2", "1", "0"}}).label(Split::train, 7), 0);
  write(temp.at("labels.txt"), "a\nb\nc\nd\ne\n");
  EXPECT_EQ(Dataset::open(temp.path(), {.val_split = 0.0}).class_counts(Split::train),
            (std::vector<std::int64_t>{10, 9, 10, 0, 1}));
  const TempFolder one;  // from 1 on
  write_idx(one, std::vector<int>(6, 1));
  for (int& label : labels = cycle(30, 3)) ++label;
  write_gz(one.at("train-labels-idx1-ubyte.gz"), idx_labels(labels));
  expect_words(error_of([&] { Dataset::open(one.path()); }), {"label 3 at index 2, but class 0 has no"});
}

TEST(Idx, RealSets) {
  NEED_DATA(fashion, "fashion-mnist");
  for (const std::string& path : {real_data("mnist"), fashion}) {
    const Dataset data = Dataset::open(path);
    EXPECT_EQ(data.size(Split::train), 60000);
    EXPECT_EQ(data.size(Split::val), 10000);
    EXPECT_EQ(data.class_names().size(), 10u);
    EXPECT_EQ(data.class_names()[9], path == fashion ? "Ankle boot" : "9");
    if (path != fashion) continue;
    // A model that was trained on numbers knows them by these.
    const std::vector<std::string> numbers{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    EXPECT_EQ(Dataset::open(path, {.class_names = numbers}).class_names(), numbers);
    EXPECT_EQ(data.class_counts(Split::train), std::vector<std::int64_t>(10, 6000));
    // The published mean and std of the training images.
    Loader loader(data, Split::train, {.channels = 1, .height = 28, .width = 28}, {}, {.batch = 128, .workers = 0});
    loader.start(0);
    Batch batch;
    double sum = 0, squares = 0, count = 0;
    while (loader.next(batch))
      for (const float value : batch.images) sum += value, squares += value * value, ++count;
    EXPECT_EQ(count, 60000 * 784);
    EXPECT_NEAR(sum / count, 0.2860, 1e-4);
    EXPECT_NEAR(std::sqrt(squares / count - sum * sum / count / count), 0.3530, 1e-4);
  }
}

}  // namespace
}  // namespace neurim
