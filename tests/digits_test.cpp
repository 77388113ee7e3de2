#include "neurim/data/digits.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "neurim/base/error.h"

namespace neurim {
namespace {

fs::path scratch(const char* name) {
  const fs::path folder = fs::path(testing::TempDir()) / text("neurim_digits_", name);
  fs::remove_all(folder);
  return folder;
}

std::map<std::string, std::string> files_in(const fs::path& root) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(root))
    if (entry.is_regular_file()) files[fs::relative(entry.path(), root).string()] = read_file(entry.path());
  return files;
}

TEST(Digits, FilesOfEachClassThatDependOnTheSeedAlone) {
  const fs::path first = scratch("first"), second = scratch("second"), third = scratch("third");
  write_digits(first, 7, 3, 2);
  write_digits(second, 7, 3, 2);
  write_digits(third, 8, 3, 2);
  const auto files = files_in(first);
  EXPECT_EQ(files.size(), 50u);
  EXPECT_EQ(files, files_in(second));

  std::set<std::string> images;
  for (const auto& [name, bytes] : files) {
    EXPECT_TRUE(starts_with(bytes, "\x89PNG")) << name;
    EXPECT_EQ(bytes.substr(16, 10), std::string("\0\0\0\x1C\0\0\0\x1C\x08\0", 10)) << name;  // 28 x 28, 8 bits, gray
    images.insert(bytes);
  }
  for (const auto& [name, bytes] : files_in(third)) images.insert(bytes);
  EXPECT_EQ(images.size(), 100u);
  for (const char* name : {"train/0/00000.png", "train/9/00002.png", "val/0/00001.png", "val/9/00000.png"})
    EXPECT_EQ(files.count(name), 1u) << name;
}

TEST(Digits, MoreImagesKeepTheFirst) {
  const fs::path few = scratch("few"), more = scratch("more");
  write_digits(few, 1, 1, 0);
  write_digits(more, 1, 3, 1);
  EXPECT_TRUE(fs::is_directory(few / "val" / "4"));
  const auto many = files_in(more);
  for (const auto& [name, bytes] : files_in(few)) EXPECT_EQ(many.at(name), bytes) << name;
}

TEST(Digits, LeavesWhatIsThereAlone) {
  const fs::path root = scratch("there");
  fs::create_directories(root / "val");
  EXPECT_THROW(write_digits(root, 1, 1, 1), Error);
  EXPECT_FALSE(fs::exists(root / "train"));
  EXPECT_THROW(write_digits(scratch("negative"), 1, -1, 1), Error);
}

TEST(Digits, NamesWhatCannotBeWritten) {
  const fs::path file = scratch("blocked");
  write_file(file, "");
  try {
    write_digits(file, 1, 1, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::resource);
    EXPECT_NE(std::string(error.what()).find(file.string()), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace neurim
