// A set with broken and odd files of every kind trains on, and each broken one is named once.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <set>

#include "neurim/data/loader.h"
#include "neurim/data/scan.h"
#include "neurim/neurim.h"
#include "tests/epochs.h"
#include "tests/odd_files.h"

namespace neurim {
namespace {

TEST(BrokenFiles, OfEveryKindAreNamedOnceAndPassedOver) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 200);
  std::set<std::string> bad;
  for (const Odd& odd : odd_files()) {
    write(temp.at("a/" + odd.name), odd.bytes);
    if (odd.bad) bad.insert(odd.name);
  }
  write(temp.at("a/folder.jpg/inside.png"), png_of(plain(3, 3, {1, 2, 3})));
  write(temp.at("a/unreadable.jpg"), jpeg_of(plain(8, 8, {1, 2, 3})));
  fs::permissions(temp.at("a/unreadable.jpg"), fs::perms::none);
  if (::access(temp.at("a/unreadable.jpg").c_str(), R_OK) != 0) bad.insert("unreadable.jpg");  // root reads it
  fs::create_symlink("nowhere.jpg", temp.at("a/dangling.jpg"));
  ASSERT_EQ(::mkfifo(temp.at("a/pipe.jpg").c_str(), 0600), 0);
  bad.insert({"dangling.jpg", "pipe.jpg"});
  write(temp.at(".ipynb_checkpoints/1.jpg"), jpeg_of(plain(8, 8, {1, 2, 3})));
  write(temp.at("a/.hidden.jpg"), "x");

  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"a", "b"}));
  const Preprocess preprocess{.height = 16, .width = 16};
  for (const int workers : {0, 3}) {
    Loader loader(data, Split::train, preprocess, {}, {.workers = workers, .shuffle = true, .max_bad = 30});
    for (const std::uint32_t epoch : {0, 1})
      EXPECT_EQ(static_cast<std::int64_t>(epoch_of(loader, epoch).labels.size()), data.size(Split::train));
    std::set<std::string> named;
    for (const BadSample& sample : loader.bad()) {
      const std::string file = sample.reason.substr(0, sample.reason.find(": "));
      named.insert(fs::path(file).filename().string());
      EXPECT_EQ(sample.reason.find('\n'), std::string::npos);
    }
    EXPECT_EQ(named, bad);
    EXPECT_EQ(loader.bad().size(), bad.size());
  }
  Loader strict(data, Split::train, preprocess, {}, {.max_bad = 0.01});
  expect_words(error_of([&] { epoch_of(strict, 0); }), {"cannot be decoded", "max_bad", "raise max_bad"});

  // The scan says the same of them, and what it finds decodable is.
  std::map<std::string, ScannedFile> scanned;
  const std::int64_t others = scan(temp.path(), 2, [&](const ScannedFile& file) { scanned[file.file] = file; });
  EXPECT_EQ(others, 0);
  EXPECT_EQ(static_cast<std::int64_t>(scanned.size()), data.size(Split::train));
  for (const auto& [file, result] : scanned) {
    const bool is_bad = bad.contains(fs::path(file).filename().string());
    EXPECT_EQ(result.status != ScannedFile::Status::ok, is_bad) << file << ": " << result.reason;
    EXPECT_EQ(result.status == ScannedFile::Status::ok && file != "a/wrong-extension.jpg", result.reason.empty())
        << file;
  }
  EXPECT_EQ(scanned["a/zero-bytes.jpg"].status, ScannedFile::Status::error);
  EXPECT_EQ(scanned["a/cut-in-scan.jpg"].status, ScannedFile::Status::partial);
  EXPECT_EQ(scanned["a/cut-in-scan.jpg"].header.height, 48);
  EXPECT_EQ(scanned["a/bad-crc.png"].status, ScannedFile::Status::partial);
  expect_words(scanned["a/wrong-extension.jpg"].reason, {"JPEG", "PNG"});
  expect_words(scanned["a/12-bit.jpg"].reason, {"12 bits", "convert"});
  EXPECT_EQ(scanned["a/cmyk.jpg"].header.channels, 4);
  EXPECT_EQ(scanned["a/exif-loop.jpg"].header.orientation, 3);
}

TEST(BrokenFiles, OnePercentOfASetDoesNotStopARun) {
  const TempFolder temp;
  write_classes(temp, "set/", {"a", "b"}, 1200);
  std::set<std::string> bad{"dangling.jpg", "pipe.jpg"};
  fs::create_symlink("nowhere.jpg", temp.at("set/a/dangling.jpg"));
  ASSERT_EQ(::mkfifo(temp.at("set/b/pipe.jpg").c_str(), 0600), 0);
  for (const Odd& odd : odd_files()) {
    write(temp.at("set/b/" + odd.name), odd.bytes);
    if (odd.bad) bad.insert(odd.name);
  }
  TrainOptions options{.data = temp.at("set"), .model = "lenet5", .epochs = 2, .batch = 64, .in_chans = 3};
  options.imgsz = 28;
  options.plots = false;
  options.project = temp.at("runs");
  const TrainResult result = train(options);
  EXPECT_EQ(result.epochs, 2);
  const std::string log = read_file(result.run / "log.txt");
  const auto times = [&](const std::string& word) {
    std::size_t count = 0;
    for (std::size_t at = log.find(word); at != std::string::npos; at = log.find(word, at + 1)) ++count;
    return count;
  };
  for (const std::string& name : bad) EXPECT_EQ(times(text("/", name, ": ")), 1u) << log;
  EXPECT_EQ(times("skipped: "), bad.size()) << log;

  for (int i = 0; i < 20; ++i) write(temp.at(text("set/a/empty", i, ".jpg")), "");
  expect_words(error_of([&] { train(options); }), {"cannot be", "max_bad"});
}

double resident_mib() {
  std::ifstream statm("/proc/self/statm");
  double pages = 0;
  statm >> pages >> pages;
  return pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

TEST(BrokenFiles, MemoryStaysFlatOverEpochs) {
  const TempFolder temp;
  write_classes(temp, "", {"a", "b"}, 40);
  for (const Odd& odd : odd_files()) write(temp.at("a/" + odd.name), odd.bytes);
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  Loader loader(data, Split::train, {.height = 64, .width = 64}, {.random_resized_crop = true, .hflip = 0.5},
                {.batch = 16, .workers = 3, .shuffle = true, .max_bad = 30});
  double before = 0;
  for (std::uint32_t epoch = 0; epoch < 60; ++epoch) {
    Batch batch;
    loader.start(epoch);
    while (loader.next(batch)) {
    }
    if (epoch == 9) before = resident_mib();
  }
  EXPECT_LT(resident_mib() - before, 2);  // in 50 epochs; one leaked image each would be 10
}

}  // namespace
}  // namespace neurim
