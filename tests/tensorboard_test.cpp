// Event files, parsed back by a small reader of our own; tests/parity/tensorboard_test.py reads one with
// TensorBoard.
#include "neurim/train/tensorboard.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "neurim/base/environment.h"
#include "neurim/base/error.h"
#include "neurim/train/results_csv.h"

namespace neurim {
namespace {

fs::path scratch(const char* name) {
  const fs::path folder = fs::path(testing::TempDir()) / text("neurim_train_", name);
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// Bit by bit, unlike the writer's table.
std::uint32_t masked_crc(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc & 1 ? crc >> 1 ^ 0x82F63B78u : crc >> 1;
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

std::vector<std::string> records_of(const fs::path& path) {
  const std::string file = read_file(path);
  std::vector<std::string> records;
  for (std::string_view left = file; !left.empty();) {
    const std::size_t size = little_endian(left.substr(0, 8));
    EXPECT_EQ(little_endian(left.substr(8, 4)), masked_crc(left.substr(0, 8)));
    EXPECT_EQ(little_endian(left.substr(12 + size, 4)), masked_crc(left.substr(12, size)));
    records.emplace_back(left.substr(12, size));
    left.remove_prefix(16 + size);
  }
  return records;
}

// The fields of a message by number; a varint or fixed value is given as its eight bytes or fewer.
std::multimap<unsigned, std::string> fields_of(std::string_view message) {
  auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.front());
      message.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
  };
  std::multimap<unsigned, std::string> fields;
  while (!message.empty()) {
    const auto tag = static_cast<unsigned>(varint());
    std::string value;
    if ((tag & 7) == 0) {
      const std::uint64_t number = varint();
      value.assign(reinterpret_cast<const char*>(&number), 8);
    } else {
      const std::size_t size = (tag & 7) == 1 ? 8 : (tag & 7) == 5 ? 4 : varint();
      value = message.substr(0, size);
      message.remove_prefix(size);
    }
    fields.emplace(tag >> 3, value);
  }
  return fields;
}

std::string only(const std::multimap<unsigned, std::string>& fields, unsigned number) {
  EXPECT_EQ(fields.count(number), 1u) << "field " << number;
  return fields.find(number)->second;
}

TEST(TensorBoard, RecordsReadBack) {
  const fs::path folder = scratch("records") / "made";
  TensorBoardWriter writer(folder);
  const std::string long_tag(200, 't');  // its length takes two bytes
  const Scalar scalars[] = {{"loss/train", 0.625}, {long_tag, -3e30}};
  writer.write(300, scalars);
  const Scalar broken[] = {{"loss/train", std::nan("")}};
  writer.write(std::int64_t{1} << 40, broken);

  const auto records = records_of(writer.path());  // while the writer is open: nothing waits in a buffer
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(only(fields_of(records[0]), 3), "brain.Event:2");

  const auto event = fields_of(records[1]);
  EXPECT_EQ(little_endian(only(event, 2)), 300u);
  EXPECT_NEAR(std::bit_cast<double>(little_endian(only(event, 1))), static_cast<double>(std::time(nullptr)), 5);
  const auto values = fields_of(only(event, 5));
  ASSERT_EQ(values.count(1), 2u);
  const auto first = fields_of(values.begin()->second), second = fields_of(std::next(values.begin())->second);
  EXPECT_EQ(only(first, 1), "loss/train");
  EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(little_endian(only(first, 2)))), 0.625f);
  EXPECT_EQ(only(second, 1), long_tag);
  EXPECT_EQ(std::bit_cast<float>(static_cast<std::uint32_t>(little_endian(only(second, 2)))), -3e30f);
  EXPECT_EQ(little_endian(only(fields_of(records[2]), 2)), std::uint64_t{1} << 40);
}

TEST(TensorBoard, ChecksumsOfRfc3720) {
  std::string zeros(32, '\0');  // crc32c 0x8A9136AA, appendix B.4
  const std::uint32_t crc = 0x8A9136AAu;
  EXPECT_EQ(masked_crc(zeros), (crc >> 15 | crc << 17) + 0xA282EAD8u);
}

TEST(TensorBoard, FilesDoNotMeetAndAreNamedForTensorBoard) {
  const fs::path folder = scratch("names");
  TensorBoardWriter first(folder), second(folder, 10);
  EXPECT_NE(first.path(), second.path());
  EXPECT_TRUE(starts_with(first.path().filename().string(), "events.out.tfevents."));
  const auto records = records_of(second.path());
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(little_endian(only(fields_of(records[1]), 2)), 10u);
  EXPECT_EQ(little_endian(only(fields_of(only(fields_of(records[1]), 7)), 1)), 1u);  // SessionLog.START
}

TEST(TensorBoard, NamesTheFolderItCannotMake) {
  const fs::path file = scratch("blocked") / "file";
  write_file(file, "");
  try {
    TensorBoardWriter writer(file / "below");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::resource);
    EXPECT_NE(std::string(error.what()).find(file.string()), std::string::npos);
  }
}

// Called by tests/parity/tensorboard_test.py, which knows these numbers.
TEST(TensorBoard, WritesForTheRealReader) {
  const char* folder = environment("NEURIM_TENSORBOARD");
  if (!folder) GTEST_SKIP() << "NEURIM_TENSORBOARD names no folder to write to";
  TensorBoardWriter writer(folder);
  for (int step = 1; step <= 20; ++step) {
    const Scalar scalars[] = {{"loss/train", 1.0 / step}, {"läuft/gut", 100.0 * step}};
    writer.write(step, scalars);
  }
  TensorBoardWriter resumed(folder, 11);
  for (int step = 11; step <= 15; ++step) {
    const Scalar scalars[] = {{"loss/train", -1.0 * step}};
    resumed.write(step, scalars);
  }
}

EpochResult result(std::int64_t epoch) {
  EpochResult one;
  one.epoch = epoch, one.step = 10 * epoch, one.seconds = 1.5, one.learning_rate = 0.1;
  one.train_loss = 1.0 / static_cast<double>(epoch), one.val["top1"] = 0.25;
  return one;
}

constexpr const char* kHeader =
    "epoch,step,seconds,images_per_second,data_pct,learning_rate,train_loss,train_top1,val_loss,val_top1,"
    "val_top5,val_f1_macro\n";

TEST(ResultsCsv, RowsAndEmptyFields) {
  const fs::path path = scratch("rows") / "results.csv";
  ResultsCsv results(path, 0);
  EXPECT_EQ(read_file(path), kHeader);
  results.append(result(1));
  results.append(result(2));
  EXPECT_EQ(read_file(path), text(kHeader, "1,10,1.5,,,0.1,1,,,0.25,,\n", "2,20,1.5,,,0.1,0.5,,,0.25,,\n"));
}

TEST(ResultsCsv, MultiLabelHasItsOwnColumns) {
  const fs::path path = scratch("multi_label") / "results.csv";
  EpochResult one = result(1);
  one.val = Metrics(multi_label_task(), 8, {{"loss", 0.25}, {"f1_macro", 0.5}, {"map", 0.75}});
  one.train_metric = 0.125;
  {
    ResultsCsv results(path, 0, multi_label_task());
    results.append(one);
  }
  EXPECT_EQ(read_file(path),
            "epoch,step,seconds,images_per_second,data_pct,learning_rate,train_loss,train_exact_match,val_"
            "loss,val_map,"
            "val_f1_macro,val_f1_micro,val_exact_match\n1,10,1.5,,,0.1,1,0.125,0.25,0.75,0.5,,\n");
  const ResultsCsv again(path, 1, multi_label_task());
  ASSERT_EQ(again.rows().size(), 1u);
  EXPECT_EQ(again.rows()[0].val["map"], 0.75);
  EXPECT_TRUE(starts_with(results_image({}, again.rows(), 3), "\x89PNG"));
  EXPECT_NE(results_image({}, again.rows(), 3), results_image({}, {result(1)}, 3));
  EXPECT_THROW(ResultsCsv(path, 1), Error);  // the columns of the other task
}

TEST(ResultsCsv, SeriesAndTextsHaveTheirOwnColumns) {
  const fs::path path = scratch("sequences") / "results.csv";
  EpochResult one = result(1);
  one.train_metric = 2.5;
  one.val = Metrics(forecast_task(), 8, {{"loss", 0.25}, {"mae", 2}, {"rmse", 3}, {"naive_mae", 4}});
  ResultsCsv(path, 0, forecast_task()).append(one);
  EXPECT_EQ(read_file(path),
            "epoch,step,seconds,sequences_per_second,data_pct,learning_rate,train_loss,train_mae,val_loss,val_mae,"
            "val_rmse,val_naive_mae,val_seasonal_naive_mae\n1,10,1.5,,,0.1,1,2.5,0.25,2,3,4,\n");
  const std::string forecast = results_image({}, {one}, 0);
  one.train_metric = 0.5;
  one.val = Metrics(language_task(), 8,
                    {{"loss", 0.25}, {"top1", 0.75}, {"bits_per_character", 2}, {"bigram_bits_per_character", 3}});
  ResultsCsv(path, 0, language_task()).append(one);
  EXPECT_EQ(read_file(path),
            "epoch,step,seconds,sequences_per_second,data_pct,learning_rate,train_loss,train_top1,val_loss,"
            "val_bits_per_character,val_bigram_bits_per_character,val_top1\n1,10,1.5,,,0.1,1,0.5,0.25,2,3,0.75\n");
  const std::string language = results_image({}, {one}, 0);
  EXPECT_TRUE(starts_with(forecast, "\x89PNG") && starts_with(language, "\x89PNG"));
  EXPECT_NE(forecast, language);
}

TEST(ResultsCsv, ResumeDropsTheRowsAfterTheCheckpoint) {
  const fs::path path = scratch("resume") / "results.csv";
  {
    ResultsCsv results(path, 0);
    for (int epoch = 1; epoch <= 5; ++epoch) results.append(result(epoch));
  }
  ResultsCsv resumed(path, 3);
  ASSERT_EQ(resumed.rows().size(), 3u);
  EXPECT_EQ(resumed.rows()[2].step, 30);
  EXPECT_EQ(resumed.rows()[2].train_loss, 1.0 / 3);  // numbers read back equal
  EXPECT_TRUE(std::isnan(resumed.rows()[2].val["loss"]));
  resumed.append(result(4));
  const std::string once = read_file(path);
  EXPECT_EQ(split(once, '\n').size(), 6u);

  ResultsCsv unchanged(path, 4);
  EXPECT_EQ(read_file(path), once);
  ResultsCsv afresh(path, 0);
  EXPECT_EQ(read_file(path), kHeader);
  ResultsCsv missing(scratch("missing") / "results.csv", 7);
  EXPECT_TRUE(missing.rows().empty());
}

TEST(ResultsCsv, RefusesAForeignFileAndLeavesIt) {
  const fs::path path = scratch("foreign") / "results.csv";
  for (const std::string& foreign : {std::string("a,b\n1,2\n"), text(kHeader, "1,10,x,,,,,,,,,\n"),
                                     text(kHeader, "1,10\n"), text(kHeader, "2,20,,,,,,,,,,\n1,10,,,,,,,,,,\n")}) {
    write_file(path, foreign);
    EXPECT_THROW(ResultsCsv(path, 5), Error) << foreign;
    EXPECT_EQ(read_file(path), foreign);
  }
}

TEST(ResultsCsv, Image) {
  EXPECT_TRUE(starts_with(results_image({}, {}, 10), "\x89PNG"));
  const std::vector<EpochResult> rows{result(3), result(4), result(7)};
  const std::string image = results_image({"resnet18 on photos", "run runs/classify/train"}, rows, 10);
  EXPECT_TRUE(starts_with(image, "\x89PNG"));
  EXPECT_NE(image, results_image({"resnet34 on photos", "run runs/classify/train"}, rows, 10));
  EXPECT_NE(image, results_image({"resnet18 on photos", "run runs/classify/train2"}, rows, 10));
}

TEST(ResultsCsv, PanelsOfTheImage) {
  const auto names_of = [](const Panel& panel) {
    std::vector<std::string> names;
    for (const Curve& curve : panel.curves) names.push_back(curve.name);
    return names;
  };
  const std::vector<std::string> plain{"training", "validation"}, ranked{"training", "validation", "top-5"};
  for (const auto& [classes, curves] : {std::pair(2, plain), {5, plain}, {6, ranked}, {100, ranked}})
    EXPECT_EQ(names_of(results_panels({result(1)}, classes)[1]), curves) << classes;
  for (const TaskInfo* task : tasks()) {
    EpochResult first = result(1), third = result(3);
    first.val = third.val = Metrics(*task);
    third.learning_rate = 0.05;
    const std::vector<Panel> panels = results_panels({first, third}, 10);
    ASSERT_EQ(panels.size(), 3u);
    EXPECT_TRUE(panels[0].clipped);  // the loss has no bounds
    EXPECT_EQ(panels[1].clipped, !panels[1].percent) << panels[1].title;
    EXPECT_EQ(panels[2].title, "Learning rate");
    EXPECT_FALSE(panels[2].clipped);
    ASSERT_EQ(panels[2].curves.size(), 1u);
    const std::vector<double>& rates = panels[2].curves[0].values;
    ASSERT_EQ(rates.size(), 3u);
    EXPECT_EQ(rates[0], 0.1);
    EXPECT_TRUE(std::isnan(rates[1]));
    EXPECT_EQ(rates[2], 0.05);
  }
}

}  // namespace
}  // namespace neurim
