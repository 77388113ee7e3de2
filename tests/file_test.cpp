// Writing over links, into pipes and devices, and what a killed process leaves.
#include "neurim/base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "errors.h"
#include "images.h"

namespace neurim {
namespace {

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return names;
}

TEST(File, WritesBehindLinks) {
  const TempFolder temp;
  fs::create_directory(temp.at("far"));
  write_file(temp.at("far/file"), "old");
  fs::create_symlink("far/file", temp.at("link"));
  fs::create_symlink("link", temp.at("second"));
  fs::create_symlink(temp.at("far/new"), temp.at("dangling"));
  write_file(temp.at("second"), "one");
  write_file(temp.at("dangling"), "two");
  for (const char* link : {"link", "second", "dangling"}) EXPECT_TRUE(fs::is_symlink(temp.at(link))) << link;
  EXPECT_EQ(read_file(temp.at("far/file")), "one");
  EXPECT_EQ(read_file(temp.at("far/new")), "two");
  EXPECT_EQ(names_in(temp.at("far")), (std::set<std::string>{"file", "new"}));

  fs::create_symlink("loop", temp.at("loop"));
  expect_words(error_of([&] { write_file(temp.at("loop"), "x"); }, Fault::resource), {"loop", "symbolic link"});
  expect_words(error_of([&] { is_there(temp.at("loop")); }), {"loop", "symbolic links", "check the path"});
  EXPECT_TRUE(is_there(temp.at("link")));
  EXPECT_FALSE(is_there(temp.at("none")));
}

TEST(File, ReplacementsTakePlaceTogetherOrNotAtAll) {
  const TempFolder temp;
  write_file(temp.at("a"), "old");
  fs::create_symlink("a", temp.at("link"));
  {
    const FileReplacement unused(temp.at("a"), "new");
    EXPECT_EQ(names_in(temp.path()).size(), 3u);
  }
  EXPECT_EQ(names_in(temp.path()), (std::set<std::string>{"a", "link"}));
  FileReplacement first(temp.at("link"), "one"), second(temp.at("b"), "two");
  EXPECT_EQ(first.target(), temp.at("a"));
  EXPECT_EQ(read_file(temp.at("a")), "old");
  first.replace();
  second.replace();
  EXPECT_EQ(read_file(temp.at("a")), "one");
  EXPECT_EQ(read_file(temp.at("b")), "two");
  EXPECT_EQ(names_in(temp.path()), (std::set<std::string>{"a", "b", "link"}));
}

TEST(File, WritesIntoPipesAndDevices) {
  const TempFolder temp;
  const std::string pipe = temp.at("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_TRUE(writes_in_place(pipe));
  EXPECT_FALSE(writes_in_place(temp.at("none")));
  // Opened for both, so that neither side waits for the other.
  const int reader = ::open(pipe.c_str(), O_RDWR | O_CLOEXEC);
  write_file(pipe, "through");
  char got[8] = {};
  EXPECT_EQ(::read(reader, got, sizeof got), 7);
  EXPECT_STREQ(got, "through");
  ::close(reader);
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(names_in(temp.path()), std::set<std::string>{"pipe"});
  expect_words(error_of([&] { write_file("/dev/full", "x"); }, Fault::resource),
               {"/dev/full", "No space left", "free some"});
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST(File, DoesNotWaitForThePipesWriter) {
  const TempFolder temp;
  ASSERT_EQ(::mkfifo(temp.at("pipe").c_str(), 0600), 0);
  expect_words(error_of([&] { read_file(temp.at("pipe")); }), {"pipe", "not a regular file"});
  expect_words(error_of([&] { MappedFile(temp.at("pipe")); }), {"pipe", "not a regular file"});
}

TEST(File, IsMovedInPlaceOfAnother) {
  const TempFolder temp;
  write_file(temp.at("a"), "new");
  write_file(temp.at("b"), "old");
  move_file(temp.at("a"), temp.at("b"));
  EXPECT_EQ(read_file(temp.at("b")), "new");
  EXPECT_EQ(names_in(temp.path()), std::set<std::string>{"b"});
  expect_words(error_of([&] { move_file(temp.at("a"), temp.at("b")); }, Fault::resource), {"b: ", "No such file"});
  EXPECT_TRUE(make_folder(temp.at("x/y")));
  EXPECT_FALSE(make_folder(temp.at("x/y")));
  expect_words(error_of([&] { make_folder(fs::path(temp.at("b")) / "z"); }, Fault::resource),
               {"b/z: ", "cannot make the folder"});
}

TEST(File, TextsAreReadAsEditorsOnWindowsSaveThem) {
  const TempFolder temp;
  const std::pair<std::string_view, std::string_view> texts[] = {{"\xEF\xBB\xBF"
                                                                  "a: 1\r\nb: 2\r\n",
                                                                  "a: 1\nb: 2\n"},
                                                                 {"a\rb\r\r\n", "a\rb\r\n"},
                                                                 {"\xEF\xBB\xBF", ""},
                                                                 {"", ""},
                                                                 {"\n", "\n"},
                                                                 {"a\r", "a\r"}};
  for (const auto& [saved, read] : texts) {
    write_file(temp.at("text"), saved);
    EXPECT_EQ(read_text(temp.at("text")), read) << saved;
  }
  using namespace std::string_view_literals;
  for (const std::string_view wide : {"\xFF\xFE"
                                      "a\0"sv,
                                      "\xFE\xFF\0a"sv, "a\0b\0"sv, "\0a\0b"sv}) {
    write_file(temp.at("wide"), wide);
    expect_words(error_of([&] { read_text(temp.at("wide")); }), {"wide: is UTF-16", "save it as UTF-8"});
  }
}

TEST(File, ALockIsForOneAtATime) {
  const TempFolder temp;
  const std::string path = temp.at("set.part"), whole = temp.at("set");
  FileLock(path, whole, false);
  EXPECT_FALSE(fs::exists(path));
  {
    const FileLock lock(path, whole);
    for (const bool make : {true, false})
      expect_words(error_of([&] { FileLock(path, whole, make); }, Fault::resource),
                   {whole + " is being written by another process"});
    fs::rename(path, whole);
    const FileLock next(path, whole);  // of the file that has the name now
    error_of([&] { FileLock(path, whole); }, Fault::resource);
  }
  FileLock(path, whole, false);
}

TEST(File, LeftoversOfKilledProcessesAreRemoved) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const TempFolder temp;
  const std::string left = text(".best.safetensors.", child, ".3.tmp"), own = text(".a.", ::getpid(), ".0.tmp");
  const std::set<std::string> kept{text(".b.", ::getppid(), ".0.tmp"), ".mine.tmp",
                                   text("best.safetensors.", child, ".3.tmp"), text(".notes.", child, ".x.tmp"),
                                   text(".c.", child, ".3.bak")};
  for (const std::string& name : kept) write_file(temp.at(name), "x");
  for (const std::string& name : {left, own}) write_file(temp.at(name), "x");
  remove_leftovers(temp.path());
  EXPECT_EQ(names_in(temp.path()), kept);
}

}  // namespace
}  // namespace neurim
