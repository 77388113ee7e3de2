// Sets in few large files: WebDataset's tar archives, TFRecord and LMDB.
#include <gtest/gtest.h>
#include <lmdb.h>

#include "neurim/base/tfrecord.h"
#include "neurim/data/sources/lmdb.h"
#include "neurim/data/sources/tar.h"
#include "neurim/data/sources/tfrecord.h"
#include "tests/damage.h"
#include "tests/images.h"

namespace neurim {
namespace {

std::string little_endian(std::uint64_t value, int size) {
  std::string out;
  for (int i = 0; i < size; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

enum class Tar { gnu, ustar };

std::string header_of(const std::string& name, std::uint64_t size, char kind = '0', Tar tar = Tar::ustar) {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  char octal[13];
  std::snprintf(octal, sizeof octal, "%011o", static_cast<unsigned>(size));
  header.replace(124, 11, octal, 11);
  header[156] = kind;
  header.replace(257, 8,
                 tar == Tar::gnu ? std::string("ustar  \0", 8)
                                 : std::string("ustar\0"
                                               "00",
                                               8));
  header.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  std::snprintf(octal, sizeof octal, "%06o", sum);
  header.replace(148, 7, octal, 7);
  return header;
}

/// A member: its header and its body, padded.
std::string member(const std::string& name, const std::string& body, char kind = '0', Tar tar = Tar::ustar) {
  return header_of(name, body.size(), kind, tar) + body + std::string((512 - body.size() % 512) % 512, '\0');
}

const std::string kEnd(1024, '\0');

std::string image(int level) { return png_of(plain(4, 4, {static_cast<std::uint8_t>(level), 0, 0})); }

/// Samples of these numbers, without the end of the archive: images of that level, of class 0 or 1.
std::string samples(int from, int to) {
  std::string archive;
  for (int i = from; i < to; ++i) archive += member(text(i, ".png"), image(i)) + member(text(i, ".cls"), text(i % 2));
  return archive;
}

/// The level of an image of image().
int level_of(const Dataset& data, Split split, std::int64_t sample) {
  std::vector<std::byte> buffer;
  Decoder decoder;
  Image image;
  decoder.open(data.read(split, sample, buffer));
  decoder.read(image);
  return image.row(0)[0];
}

TEST(TarIndex, LongNamesAndDamage) {
  const std::string path(150, 'd'), record = text(" path=", path, "/x.png\n");
  const std::string pax = text(record.size() + 3, record);
  const std::string archive = member("a.png", "12345") + member("././@LongLink", path + ".cls", 'L', Tar::gnu) +
                              member("short", "7", '0', Tar::gnu) + member("folder/", "", '5') +
                              member("pax", pax, 'x') + member("short", "xyz") + kEnd;
  const auto index = [](const std::string& bytes) { return index_tar(bytes_in_memory(bytes_of(bytes))); };
  const TarIndex found = index(archive);
  EXPECT_EQ(found.damage, "");
  ASSERT_EQ(found.members.size(), 3u);
  EXPECT_EQ(found.members[0].name, "a.png");
  EXPECT_EQ(found.members[1].name, path + ".cls");
  EXPECT_EQ(found.members[2].name, path + "/x.png");
  EXPECT_EQ(archive.substr(found.members[2].offset, found.members[2].size), "xyz");
  expect_words(index(archive.substr(0, 514)).damage, {"cut off"});
  expect_words(index(archive.substr(0, 1024)).damage, {"cut off"});
  EXPECT_EQ(index(archive.substr(0, 1024)).members.size(), 1u);
  damage_everywhere(archive, [&](const std::string& bytes) {
    for (const TarMember& each : index(bytes).members)
      ASSERT_TRUE(each.offset <= bytes.size() && each.size <= bytes.size() - each.offset);
  });
}

TEST(TarIndex, WhatFollowsTheEndIsSaid) {
  const auto index = [](const std::string& bytes) { return index_tar(bytes_in_memory(bytes_of(bytes))); };
  const std::string archive = member("a.png", "1") + kEnd;
  EXPECT_EQ(index(archive + std::string(100'000, '\0')).damage, "");
  const TarIndex joined = index(archive + std::string(9000, '\0') + archive);
  EXPECT_EQ(joined.members.size(), 1u);
  expect_words(joined.damage, {"other bytes follow the archive, which ends at byte 1024"});
  const TempFolder temp;
  write(temp.at("all.tar"), samples(0, 4) + kEnd + samples(4, 8) + kEnd);
  const Dataset data = Dataset::open(temp.at("all.tar"), {.val_split = 0.0});
  EXPECT_EQ(data.size(Split::train), 4);
  expect_words(join(data.notes(), "\n"), {"error: ", "all.tar", "tar -A, not with cat"});
  expect_words(data.damage(), {"all.tar", "other bytes"});
}

TEST(WebDataset, NoLabelIsAnotherImages) {
  const TempFolder temp;
  write(temp.at("x.tar"), samples(0, 4) + member("7.png", image(70)) + member("7.cls", "0") +
                              member("7.png", image(71)) + member("7.cls", "1") + member("8.depth.png", image(80)) +
                              member("8.emb.npy", "x") + member("8.mask.png", image(81)) + member("8.png", image(82)) +
                              member("8.cls", "1") + member("9.left.png", image(90)) +
                              member("9.right.png", image(91)) + member("9.npy", "x") + member("9.cls", "0") + kEnd);
  const Dataset data = Dataset::open(temp.at("x.tar"), {.val_split = 0.0});
  ASSERT_EQ(data.size(Split::train), 6);
  EXPECT_EQ(level_of(data, Split::train, 4), 82);
  EXPECT_EQ(level_of(data, Split::train, 5), 90);
  expect_words(join(data.notes(), "\n"), {"1 samples have two members of one kind", "x.tar[7]",
                                          "1 samples have several images, of which the first", "x.tar[9]"});
  write(temp.at("x.tar"), member("7.png", "x") + member("7.cls", "0") + member("7.png", "y") + kEnd);
  expect_words(error_of([&] { Dataset::open(temp.at("x.tar")); }),
               {"no image with a label", "two members of one kind"});
}

TEST(WebDataset, MembersAboveTheLimitTakeNoMemory) {
  const TempFolder temp;
  const std::uint64_t size = kMostPart + 512;
  const std::string archive = samples(0, 2) + member("2.cls", "0") + header_of("2.png", size);
  write(temp.at("x.tar"), archive);
  fs::resize_file(temp.at("x.tar"), archive.size() + size + kEnd.size());  // takes no room on the disk
  const Dataset data = Dataset::open(temp.at("x.tar"), {.val_split = 0.0});
  EXPECT_EQ(data.damage(), "");
  ASSERT_EQ(data.size(Split::train), 3);
  std::vector<std::byte> buffer;
  expect_words(error_of([&] { data.read(Split::train, 2, buffer); }), {"1000000512 bytes", "limit of 1000000000"});
  EXPECT_TRUE(buffer.empty());
}

TEST(WebDataset, LiesBesideLogsAndPackedArchives) {
  const TempFolder temp;
  write(temp.at("train-0.tar"), samples(0, 4) + kEnd);
  write(temp.at("logs/run.txt"), "hello, this is a text");
  for (const char* file : {"args.yaml", "weights/best.safetensors", "results.png"})
    write(temp.at(text("runs/classify/train/", file)), std::string_view(file) == "results.png" ? image(1) : "x");
  write(temp.at("train-1.tar.gz"), "\x1F\x8B");
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  EXPECT_EQ(data.size(Split::train), 4);
  expect_words(join(data.notes(), "\n"), {"1 packed archives beside the shards", "train-1.tar.gz"});
  for (const char* name : {"cat/1.png", "dog/inner/1.png"}) write(temp.at(name), image(1));
  EXPECT_EQ(Dataset::open(temp.path()).class_names(), (std::vector<std::string>{"cat", "dog"}));
}

TEST(WebDataset, SamplesShardsAndSplits) {
  const TempFolder temp;
  const auto shard = [](int from, int to) {
    std::string archive;
    for (int i = from; i < to; ++i) {
      archive += member(text("x/", i, ".png"), image(i));
      archive += i % 2 ? member(text("x/", i, ".cls"), text(i % 3, "\n"))
                       : member(text("x/", i, ".json"), text("{\"label\": ", i % 3, "}"));
    }
    return archive;
  };
  write(temp.at("train-000.tar"), shard(0, 6) + member("x/6.png", "p") + member("x/7.cls", "1") + kEnd);
  write(temp.at("train-001.tar"), shard(8, 14) + kEnd);
  write(temp.at("val/000.tar"), shard(0, 3) + kEnd);
  const Dataset data = Dataset::open(temp.path());
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_EQ(data.size(Split::train), 12);
  EXPECT_EQ(data.size(Split::val), 3);
  EXPECT_EQ(data.label(Split::train, 7), 9 % 3);
  expect_words(data.name(Split::train, 7), {"train-001.tar[x/9.png]"});
  expect_words(join(data.notes(), "\n"), {"1 samples have no label", "x/6", "1 samples have no image", "x/7"});
  std::vector<std::byte> buffer;
  Decoder decoder;
  Image image;
  decoder.open(data.read(Split::train, 7, buffer));
  decoder.read(image);
  EXPECT_EQ(image.row(0)[0], 9);
  EXPECT_EQ(Dataset::open(temp.at("train-{000..001}.tar"), {.val_split = 0.0}).size(Split::train), 12);
  expect_words(error_of([&] { Dataset::open(temp.at("train-{000..002}.tar")); }), {"train-002.tar", "cannot read"});
  write(temp.at("train-001.tar"), shard(8, 14).substr(0, 5000));
  const Dataset cut = Dataset::open(temp.path());
  EXPECT_LT(cut.size(Split::train), 12);
  expect_words(join(cut.notes(), "\n"), {"error: ", "train-001.tar", "cut off"});
  write(temp.at("{1..2}/train-0.tar"), shard(0, 6) + kEnd);  // braces of a folder are no pattern
  EXPECT_EQ(Dataset::open(temp.at("{1..2}/train-{0..0}.tar"), {.val_split = 0.0}).size(Split::train), 6);
  write(temp.at("blank.tar"), member("1.png", "x") + member("1.json", "{\"label\": \" a \"}") + member("2.png", "x") +
                                  member("2.cls", " a\n") + kEnd);
  EXPECT_EQ(Dataset::open(temp.at("blank.tar"), {.val_split = 0.0}).class_names(),
            (std::vector<std::string>{" a ", "a"}));
  write(temp.at("z/x.tar.gz"), "\x1F\x8B");
  expect_words(error_of([&] { Dataset::open(temp.at("z")); }), {"unpack them once"});
  write(temp.at("y.tar"), member("cat/1.png", "x") + kEnd);
  expect_words(error_of([&] { Dataset::open(temp.at("y.tar")); }), {"tar -xf"});
}

/// A field of wire type 2.
std::string field(int number, const std::string& value) {
  std::string size;
  for (std::size_t rest = value.size();; rest >>= 7) {
    size += static_cast<char>((rest & 0x7F) | (rest > 0x7F ? 0x80 : 0));
    if (rest <= 0x7F) break;
  }
  return static_cast<char>(number << 3 | 2) + size + value;
}

std::string example(const std::vector<std::pair<std::string, std::string>>& features) {
  std::string map;
  for (const auto& [key, feature] : features) map += field(1, field(1, key) + field(2, feature));
  return field(1, map);
}

std::string record(const std::string& data) {
  const auto checksum = [](const std::string& bytes) {
    const std::uint32_t crc = crc32c(bytes_of(bytes));
    return little_endian((crc >> 15 | crc << 17) + 0xA282EAD8u, 4);
  };
  const std::string length = little_endian(data.size(), 8);
  return length + checksum(length) + data + checksum(data);
}

std::string labelled(int level, int label) {
  return record(example({{"image/encoded", field(1, field(1, image(level)))},
                         {"image/class/label", field(3, field(1, std::string(1, static_cast<char>(label))))}}));
}

TEST(Shards, SplitsAreWordsOfTheirNames) {
  const TempFolder temp;
  const auto sizes = [&](const std::string& name) {
    const Dataset data = Dataset::open(temp.at(name), {.val_split = 0.0});
    return std::vector{data.size(Split::train), data.size(Split::val), data.size(Split::test)};
  };
  write(temp.at("web/imagenet1k-train-0000.tar"), samples(0, 6) + kEnd);
  write(temp.at("web/imagenet1k-validation-00.tar"), samples(6, 8) + kEnd);
  write(temp.at("web/val_shards/000.tar"), samples(8, 10) + kEnd);
  write(temp.at("web/Test/000.tar"), samples(10, 12) + kEnd);
  EXPECT_EQ(sizes("web"), (std::vector<std::int64_t>{6, 4, 2}));
  EXPECT_EQ(join(Dataset::open(temp.at("web")).notes(), "\n").find("no split"), std::string::npos);
  write(temp.at("web/more.tar"), samples(12, 14) + kEnd);
  EXPECT_EQ(sizes("web"), (std::vector<std::int64_t>{8, 4, 2}));
  expect_words(join(Dataset::open(temp.at("web")).notes(), "\n"), {"1 files name no split", "web/more.tar"});

  write(temp.at("records/flowers_train_00000-of-00001.tfrecord"), labelled(10, 1) + labelled(20, 2));
  write(temp.at("records/flowers_validation_00000-of-00001.tfrecord"), labelled(30, 1) + labelled(40, 2));
  write(temp.at("records/flowers-test.tfrecord-00000-of-00001"), labelled(50, 1));
  EXPECT_EQ(sizes("records"), (std::vector<std::int64_t>{2, 2, 1}));

  write(temp.at("two/train-val-0.tar"), samples(0, 4) + kEnd);
  expect_words(error_of([&] { Dataset::open(temp.at("two")); }),
               {"two/train-val-0.tar", "both train and val", "rename"});
  write(temp.at("apart/val/train-0.tar"), samples(0, 4) + kEnd);
  expect_words(error_of([&] { Dataset::open(temp.at("apart")); }),
               {"apart/val/train-0.tar", "its folder", "both train and val"});
  write(temp.at("test/train-0.tar"), samples(0, 4) + kEnd);  // this folder may be called anything
  write(temp.at("test/val-0.tar"), samples(4, 6) + kEnd);
  EXPECT_EQ(sizes("test"), (std::vector<std::int64_t>{4, 2, 0}));
}

TEST(Shards, MissingOnesAreNamed) {
  const TempFolder temp;
  for (const char* file : {"a/x.tfrecord-00000-of-00003", "a/x.tfrecord-00002-of-00003"})
    write(temp.at(file), labelled(10, 1) + labelled(20, 2));
  expect_words(error_of([&] { Dataset::open(temp.at("a")); }),
               {"of the 3 files", "1 is missing", "a/x.tfrecord-00001-of-00003;"});
  EXPECT_EQ(Dataset::open(temp.at("a/x.tfrecord-00002-of-00003"), {.val_split = 0.0}).size(Split::train), 2);
  write(temp.at("a/x.tfrecord-00001-of-00003"), labelled(30, 1));
  EXPECT_EQ(Dataset::open(temp.at("a"), {.val_split = 0.0}).size(Split::train), 5);
  for (const char* file : {"b/train-01-of-04.tar", "b/train-04-of-04.tar", "b/val-0-of-1.tar"})  // counted from 1
    write(temp.at(file), samples(0, 4) + kEnd);
  expect_words(error_of([&] { Dataset::open(temp.at("b")); }), {"2 are missing, such as", "b/train-02-of-04.tar;"});
  for (const char* file : {"b/train-02-of-04.tar", "b/train-03-of-04.tar"}) write(temp.at(file), samples(4, 8) + kEnd);
  // In folders of their own, and with names that go on.
  for (const char* file : {"c/one/x-0-of-2.tar", "c/two/x-1-of-2.tar", "d/x-0-of-2-1a2b.tar", "d/x-1-of-2-9f3c.tar"})
    write(temp.at(file), samples(4, 8) + kEnd);
  for (const char* folder : {"c", "d"})
    EXPECT_EQ(Dataset::open(temp.at(folder), {.val_split = 0.0}).size(Split::train), 8);
  EXPECT_EQ(Dataset::open(temp.at("b")).size(Split::train), 16);
}

TEST(TfRecord, RowsOfSeveralLabelsAreNoClasses) {
  const TempFolder temp;
  const auto with = [](const std::string& label) {
    return record(example({{"image/encoded", field(1, field(1, image(1)))}, {"image/class/label", label}}));
  };
  const std::string rows = with(field(3, field(1, std::string("\0\1\0", 3)))) + with(field(3, "\x08\x01\x08\x02")) +
                           with(field(1, field(1, "cat") + field(1, "dog")));
  write(temp.at("x.tfrecord"), labelled(10, 1) + labelled(20, 2) + rows);
  const Dataset data = Dataset::open(temp.at("x.tfrecord"), {.val_split = 0.0});
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(data.size(Split::train), 2);
  expect_words(join(data.notes(), "\n"), {"3 records are damaged or lack", "image/class/label has 3 values"});
  write(temp.at("x.tfrecord"), rows);
  expect_words(error_of([&] { Dataset::open(temp.at("x.tfrecord")); }), {"x.tfrecord", "3 values", "one-hot"});
}

TEST(TfRecord, RecordsAboveTheLimitTakeNoMemory) {
  const TempFolder temp;
  std::string data = example(
      {{"image/encoded", field(1, field(1, image(1)))}, {"image/class/text", field(1, field(1, "3"))}});
  data += '\x7A';  // field 15, which is passed over
  put_varint(data, kMostPart);
  const std::string length = little_endian(data.size() + kMostPart, 8);
  const std::string file = labelled(10, 1) + labelled(20, 2) + length +
                           little_endian(masked_crc32c(bytes_of(length)), 4) + data;
  write(temp.at("x.tfrecord"), file);
  fs::resize_file(temp.at("x.tfrecord"), file.size() + kMostPart + 4);  // takes no room on the disk
  const Dataset found = Dataset::open(temp.at("x.tfrecord"), {.val_split = 0.0});
  EXPECT_EQ(found.size(Split::train), 2);
  expect_words(join(found.notes(), "\n"), {"1 records are damaged or lack", "above the limit of 1000000000"});
}

TEST(TfRecord, FilesAreToldByTheEndsOfTheirNames) {
  const TempFolder temp;
  for (const char* name : {"a.tfrecord", "b.tfrecords", "c.tfrecord-00000-of-00001", "d-00000-of-00001"})
    write(temp.at(name), labelled(10, 1) + labelled(20, 2));
  for (const char* name : {"e.tfrecords.gz", "f.tfrecord-00000-of-00001.gz"})
    write_gz(temp.at(name), labelled(10, 1) + labelled(20, 2));
  for (const char* name : {"a.tfrecord.idx", "a.tfrecord.sha256", "a.tfrecord.index.gz", "c.tfrecord-00000"})
    write(temp.at(name), "0 1234567890 is no record");
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  EXPECT_EQ(data.size(Split::train), 12);
  EXPECT_EQ(data.damage(), "");
}

TEST(TfRecord, ChecksumsAreRfc3720s) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u);
  EXPECT_EQ(crc32c(bytes_of(std::string(32, '\0'))), 0x8A9136AAu);
}

TEST(TfRecord, LabelsSplitsAndDamage) {
  const TempFolder temp;
  write(temp.at("train-00000-of-00002"), labelled(10, 1) + labelled(20, 2) + record(example({})));
  write(temp.at("train-00001-of-00002"), labelled(30, 2) + labelled(40, 1));
  write(temp.at("validation-00000-of-00001"), labelled(50, 2));
  const Dataset data = Dataset::open(temp.path());
  EXPECT_EQ(data.class_names(), (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(data.class_counts(Split::train), (std::vector<std::int64_t>{2, 2}));
  EXPECT_EQ(data.size(Split::val), 1);
  expect_words(join(data.notes(), "\n"), {"1 records are damaged or lack"});
  std::vector<std::byte> buffer;
  Decoder decoder;
  Image image;
  decoder.open(data.read(Split::train, 2, buffer));
  decoder.read(image);
  EXPECT_EQ(image.row(0)[0], 30);

  std::string file = labelled(10, 1) + labelled(20, 2) + labelled(30, 2);
  const std::size_t size = labelled(10, 1).size();
  file[3 * size - 50] ^= 1;
  write(temp.at("one.tfrecord"), file);
  const Dataset flipped = Dataset::open(temp.at("one.tfrecord"), {.val_split = 0.0});
  EXPECT_EQ(flipped.size(Split::train), 3);
  expect_words(error_of([&] { flipped.read(Split::train, 2, buffer); }), {"checksum"});
  write(temp.at("one.tfrecord"), file.substr(0, 3 * size - 1));
  const Dataset cut = Dataset::open(temp.at("one.tfrecord"));
  EXPECT_EQ(cut.size(Split::train) + cut.size(Split::val), 2);
  expect_words(join(cut.notes(), "\n"), {"error: ", "cut off"});
  write_gz(temp.at("packed/train.tfrecord.gz"), labelled(60, 1) + labelled(70, 2));
  write(temp.at("packed/val.tfrecord"), labelled(80, 2) + labelled(90, 1));
  const Dataset packed = Dataset::open(temp.at("packed"));
  EXPECT_EQ(packed.size(Split::train), 2);
  decoder.open(packed.read(Split::train, 1, buffer));
  decoder.read(image);
  EXPECT_EQ(image.row(0)[0], 70);
  decoder.open(packed.read(Split::val, 1, buffer));
  decoder.read(image);
  EXPECT_EQ(image.row(0)[0], 90);
  const std::string gz = read_file(temp.at("packed/train.tfrecord.gz"));
  write(temp.at("packed/train.tfrecord.gz"), gz.substr(0, gz.size() - 20));
  expect_words(error_of([&] { Dataset::open(temp.at("packed")); }), {"train.tfrecord.gz", "cannot be unpacked"});
  damage_everywhere(labelled(1, 1) + record(example({{"image/encoded", field(1, field(1, "abc"))},
                                                     {"image/class/text", field(1, field(1, "cat"))}})),
                    [](const std::string& bytes) { index_tfrecord(bytes_in_memory(bytes_of(bytes))); });
}

/// A folder written by the real library.
void write_lmdb(const std::string& folder, const std::map<std::string, std::string>& records) {
  fs::create_directories(folder);
  MDB_env* environment = nullptr;
  MDB_txn* transaction = nullptr;
  MDB_dbi database = 0;
  ASSERT_EQ(mdb_env_create(&environment), 0);
  mdb_env_set_mapsize(environment, 1 << 24);
  ASSERT_EQ(mdb_env_open(environment, folder.c_str(), MDB_NOLOCK, 0644), 0);
  ASSERT_EQ(mdb_txn_begin(environment, nullptr, 0, &transaction), 0);
  ASSERT_EQ(mdb_dbi_open(transaction, nullptr, 0, &database), 0);
  for (const auto& [key, value] : records) {
    MDB_val k{key.size(), const_cast<char*>(key.data())}, v{value.size(), const_cast<char*>(value.data())};
    ASSERT_EQ(mdb_put(transaction, database, &k, &v, 0), 0);
  }
  ASSERT_EQ(mdb_txn_commit(transaction), 0);
  mdb_env_close(environment);
}

std::string datum(int height, int width, const std::string& data, int label, bool encoded) {
  std::string out;
  if (!encoded) out = text("\x08\x03\x10", static_cast<char>(height), '\x18', static_cast<char>(width));
  out += field(4, data) + text('\x28', static_cast<char>(label));
  return encoded ? out + "\x38\x01" : out;
}

TEST(Lmdb, DatumsAndFilesWithLabels) {
  const TempFolder temp;
  std::map<std::string, std::string> records;
  for (int i = 0; i < 500; ++i) {
    std::string levels;
    for (int c = 0; c < 3; ++c) levels += std::string(6, static_cast<char>(i % 50 + c));
    records[text("key", 1000 + i)] = i % 2 ? datum(2, 3, levels, i % 3, false)
                                           : datum(0, 0, image(i % 256), i % 3, true);
  }
  records["key2000"] = datum(0, 0, std::string(20000, 'x'), 1, true);  // in pages of its own
  write_lmdb(temp.path(), records);
  const Dataset data = Dataset::open(temp.path(), {.val_split = 0.0});
  EXPECT_EQ(data.size(Split::train), 501);
  EXPECT_EQ(data.class_names().size(), 3u);
  std::vector<std::byte> buffer;
  const StoredImage raw = data.read(Split::train, 7, buffer);
  EXPECT_EQ(raw.pixels, (ImageSize{2, 3, 3}));
  EXPECT_EQ(as_text(raw.bytes).substr(0, 4), (std::string{9, 8, 7, 9}));
  EXPECT_EQ(as_text(data.read(Split::train, 8, buffer).bytes), image(8));
  EXPECT_EQ(as_text(data.read(Split::train, 500, buffer).bytes), std::string(20000, 'x'));
  EXPECT_EQ(data.label(Split::train, 8), 2);
  expect_words(join(data.notes(), "\n"), {"blue, green, red"});
  for (const fs::directory_entry& entry : fs::directory_iterator(temp.path()))
    EXPECT_EQ(entry.path().filename(), "data.mdb");

  const TempFolder plain_files;
  write_lmdb(plain_files.path(), {{"a", image(1)}, {"b", image(2)}, {"c", image(3)}});
  expect_words(error_of([&] { Dataset::open(plain_files.path()); }), {"labels.csv"});
  write(plain_files.at("labels.csv"), "key,label\na,cat\nb,dog\n");
  const Dataset named = Dataset::open(plain_files.path(), {.val_split = 0.0});
  EXPECT_EQ(named.class_names(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(as_text(named.read(Split::train, 1, buffer).bytes), image(2));
  expect_words(join(named.notes(), "\n"), {"1 records have no label"});

  const TempFolder splits;
  for (const char* split : {"Train", "val"})
    write_lmdb(splits.path() + "/" + split,
               {{"a", datum(0, 0, image(*split), 0, true)}, {"b", datum(0, 0, image(2), 1, true)}});
  const Dataset parts = Dataset::open(splits.path());
  EXPECT_EQ(parts.size(Split::train), 2);
  EXPECT_EQ(parts.size(Split::val), 2);
  EXPECT_EQ(as_text(parts.read(Split::train, 0, buffer).bytes), image('T'));
  EXPECT_EQ(as_text(parts.read(Split::val, 0, buffer).bytes), image('v'));
  expect_words(parts.name(Split::val, 0), {"val/data.mdb[a]"});
  fs::rename(splits.at("val/data.mdb"), splits.at("single.lmdb"));  // as MDB_NOSUBDIR has it
  EXPECT_EQ(Dataset::open(splits.at("single.lmdb"), {.val_split = 0.0}).size(Split::train), 2);
  EXPECT_EQ(Dataset::open(splits.at("Train/data.mdb"), {.val_split = 0.0}).size(Split::train), 2);

  const std::string file = read_file(temp.at("data.mdb"));
  write(temp.at("data.mdb"), file.substr(0, file.size() / 2));
  expect_words(error_of([&] { Dataset::open(temp.path()); }), {"data.mdb", "cut off"});
  const auto parse = [](const std::string& bytes) {
    try {
      for (const LmdbRecord& each : index_lmdb(bytes_in_memory(bytes_of(bytes))))
        ASSERT_TRUE(each.offset <= bytes.size() && each.size <= bytes.size() - each.offset);
    } catch (const Error&) {
    }
  };
  std::string changed = file;
  for (std::size_t at = 0; at < file.size(); at += at < 8192 ? 3 : 61) {
    changed[at] ^= static_cast<char>(0x81);
    parse(changed);
    changed[at] = file[at];
  }
  for (std::size_t size = 0; size < file.size(); size += 509) parse(file.substr(0, size));
}

TEST(WebDataset, NamesOfSamplesMayHaveDots) {
  const TempFolder temp;
  std::string archive;
  for (int i = 0; i < 4; ++i)  // versions, and times with the label first
    archive += member(text("img.v1.", i, ".png"), image(i)) + member(text("img.v1.", i, ".cls"), text(i % 2));
  for (int i = 4; i < 8; ++i)
    archive += member(text("d/2024.05.0", i, "T10.30.png.json"), text("{\"label\": \"", i % 2, "\"}")) +
               member(text("d/2024.05.0", i, "T10.30.png.PNG"), image(i));
  // Without dots, beside the same with some, and with further members.
  archive += member("x.png", image(8)) + member("x.depth.png", image(99)) + member("x.meta.json", "{\"label\": 7}") +
             member("x.cls", "0") + member("x.2.png", image(9)) + member("x.2.cls", "1");
  archive += member("y.1.cls", "0") + member("y.1.png", image(10)) +
             member("y.2.png", image(98)) +                                  // the last has no label
             member("z.1.json", "{\"class\": 1}") + member("z.1.tga", "x");  // nor this an image
  write(temp.at("x.tar"), archive + kEnd);
  const Dataset data = Dataset::open(temp.at("x.tar"), {.val_split = 0.0});
  ASSERT_EQ(data.size(Split::train), 11);
  for (int i = 0; i < 11; ++i) EXPECT_EQ(level_of(data, Split::train, i), i);
  for (int i = 0; i < 11; ++i) EXPECT_EQ(data.label(Split::train, i), i % 2);
  ASSERT_EQ(data.notes().size(), 3u);
  expect_words(data.notes()[1], {"1 samples have no label", "x.tar[y.2]"});
  expect_words(data.notes()[2], {"1 samples have no image", "x.tar[z.1]"});
}

}  // namespace
}  // namespace neurim
