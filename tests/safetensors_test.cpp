// Reading and writing safetensors, and the state of modules in them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "neurim/base/error.h"
#include "neurim/model/state.h"
#include "neurim/nn/linear.h"
#include "neurim/nn/sequential.h"
#include "tests/memory_file.h"

namespace neurim {
namespace {

class SafeTensorsFile : public testing::Test {
 protected:
  SafeTensorsFile() : folder_(fs::temp_directory_path() / text("neurim-safetensors-", ::getpid())) {
    fs::create_directories(folder_);
  }
  ~SafeTensorsFile() override { fs::remove_all(folder_); }

  fs::path path(std::string_view name = "a.safetensors") const { return folder_ / name; }

  /// A file of this header and data.
  fs::path file(std::string_view header, std::size_t data_bytes) const {
    const std::uint64_t length = header.size();
    std::string bytes(reinterpret_cast<const char*>(&length), 8);
    write_file(path(), bytes.append(header).append(data_bytes, '\1'));
    return path();
  }

  /// The message that opening the file throws, as a data error.
  static std::string refused(const fs::path& path) {
    try {
      SafeTensors opened(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::data);
      return error.what();
    }
    return "the file was accepted";
  }
  void expect_refused(std::string_view header, std::size_t data_bytes, std::string_view reason) const {
    EXPECT_NE(refused(file(header, data_bytes)).find(reason), std::string::npos) << header << "\n" << refused(path());
  }

 private:
  fs::path folder_;
};

TEST_F(SafeTensorsFile, RoundTripOfEveryDTypeAndShape) {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const DType dtype : kDTypes)
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 0, 2}, Shape{2, 1, 3}}) {
      std::vector<unsigned char> data(bytes({dtype, shape}));
      for (std::size_t i = 0; i < data.size(); ++i)
        data[i] = static_cast<unsigned char>(dtype == DType::boolean ? i % 2 : i);
      tensors.emplace_back(text(dtype, shape), Tensor::from({dtype, shape}, data.data()));
    }
  const Metadata metadata{{"classes", "cat,dog"}, {"größe", "\"ä\"\n"}};
  write_safetensors(path(), tensors, metadata);
  const SafeTensors read(path());
  EXPECT_EQ(read.metadata(), metadata);
  EXPECT_EQ(read.names().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    ASSERT_EQ(read.type(name), tensor.type()) << name;
    std::vector<char> ours(bytes(tensor.type())), theirs(ours.size());
    tensor.read(ours.data());
    read.load(name).read(theirs.data());
    EXPECT_EQ(ours, theirs) << name;
    const std::size_t width = static_cast<std::size_t>(bits(tensor.dtype()) / 8);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read.bytes(name).data()) % width, 0u) << name << " is not aligned";
  }
}

TEST_F(SafeTensorsFile, EmptyFileRoundTrip) {
  write_safetensors(path(), {});
  EXPECT_TRUE(SafeTensors(path()).names().empty());
}

TEST_F(SafeTensorsFile, TheBytesAreTheFormat) {
  write_safetensors(path(), {{"b", Tensor::from({1}, std::vector<float>{1})}});
  const std::string expected = "{\"b\":{\"data_offsets\":[0,4],\"dtype\":\"F32\",\"shape\":[1]}}";
  const std::string bytes = read_file(path());
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  EXPECT_EQ(bytes.substr(8, expected.size()), expected);
  EXPECT_EQ(bytes.substr(8 + length), std::string("\0\0\x80\x3f", 4));
}

TEST_F(SafeTensorsFile, WrongWritesAreUsageErrors) {
  const Tensor one = Tensor::scalar(1);
  EXPECT_THROW(write_safetensors(path(), {{"a", one}, {"a", one}}), Error);
  EXPECT_THROW(write_safetensors(path(), {{"__metadata__", one}}), Error);
  EXPECT_THROW(write_safetensors(path(), {{"\xff", one}}), Error);
  EXPECT_FALSE(fs::exists(path()));
}

TEST_F(SafeTensorsFile, MalformedFilesAreRefused) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(refused(file(good, 8)), "the file was accepted");
  EXPECT_EQ(refused(file(good + "   ", 8)), "the file was accepted");

  expect_refused(good, 7, "outside the 7 bytes");
  expect_refused(good, 9, "1 bytes after the last tensor");
  expect_refused("", 0, "the header is not valid JSON: it is empty");
  expect_refused("[1]", 0, "not a JSON object");
  expect_refused(" " + good, 8, "not a JSON object");
  expect_refused(good + "x", 8, "not valid JSON at byte 55");
  expect_refused(good.substr(0, good.size() - 1), 8, "not valid JSON: it ends too early");
  expect_refused("{\"\xff\":1}", 0, "not valid JSON");
  expect_refused(std::string(100000, '['), 0, "nests deeper");
  expect_refused(R"({"a":1})", 0, "'a'");
  expect_refused(R"({"a":{"dtype":"F32","shape":[0]}})", 0, "exactly a dtype");
  expect_refused(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0],"x":1}})", 0, "exactly a dtype");
  expect_refused(R"({"a":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}})", 2, "F8_E4M3");
  expect_refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8, "two numbers");
  expect_refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8, "outside");
  expect_refused(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8, "takes 12 bytes");
  expect_refused(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8, "integers from 0");
  expect_refused(R"({"a":{"dtype":"F32","shape":[2.0],"data_offsets":[0,8]}})", 8, "integers from 0");
  expect_refused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]}})", 8, "integers from 0");
  expect_refused(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0, "larger than any");
  expect_refused(R"({"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]}})", 4, "9 axes");
  expect_refused(R"({"__metadata__":{"a":1}})", 0, "not a string");
  expect_refused(R"({"__metadata__":[]})", 0, "not an object");
  const std::string b = R"("b":{"dtype":"U8","shape":[2],"data_offsets":)";
  expect_refused("{" + b + "[0,2]}," + b + "[0,2]}}", 2, "the key 'b' twice");
  expect_refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)" + b + "[1,3]}}", 3, "overlaps");
  expect_refused(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)" + b + "[3,5]}}", 5, "gap");
  expect_refused("{" + b + "[1,3]}}", 3, "gap");
}

TEST_F(SafeTensorsFile, ManyTensorsTakeTimeInProportion) {
  std::string header = "{";
  for (int i = 0; i < 100'000; ++i)
    header += text(i > 0 ? "," : "", "\"t", i, "\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(SafeTensors(file(header + "}", 0)).names().size(), 100'000u);
  // Where each tensor searches those before it, this takes ten minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST_F(SafeTensorsFile, CutOffAndForeignFilesAreRefused) {
  write_file(path(), "1234");
  EXPECT_NE(refused(path()).find("only 4 bytes"), std::string::npos);
  write_file(path(), "");
  EXPECT_NE(refused(path()).find("only 0 bytes"), std::string::npos);
  const std::uint64_t too_long = 100'000'001, cut = 1000;
  write_file(path(), std::string(reinterpret_cast<const char*>(&too_long), 8));
  EXPECT_NE(refused(path()).find("limit"), std::string::npos);
  write_file(path(), std::string(reinterpret_cast<const char*>(&cut), 8) + "{}");
  EXPECT_NE(refused(path()).find("cut off"), std::string::npos);
  write_file(path(), "version https://git-lfs.github.com/spec/v1\noid sha256:12ab\nsize 46827520\n");
  EXPECT_NE(refused(path()).find("is a Git LFS pointer"), std::string::npos);
  EXPECT_NE(refused(path()).find("git lfs pull"), std::string::npos);
  EXPECT_NE(refused(path("none")).find("cannot open"), std::string::npos);
}

nn::Sequential net(std::int64_t classes = 2) { return {nn::Linear(3, 4), nn::Linear(4, classes)}; }

TEST_F(SafeTensorsFile, ModulesSaveAndLoad) {
  const nn::Sequential saved = net(), loaded = net();
  save_model(saved, path(), {{"epoch", "3"}});
  EXPECT_EQ(load_model(loaded, path()).metadata, (Metadata{{"epoch", "3"}}));
  const Parameters a = named_parameters(saved), b = named_parameters(loaded);
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].tensor.values<float>(), b[i].tensor.values<float>()) << a[i].name;
    EXPECT_NE(a[i].tensor.value(), b[i].tensor.value());
  }
}

TEST_F(SafeTensorsFile, EachFlippedBitIsFound) {
  const nn::Sequential module = net();
  save_model(module, path(), {{"epoch", "3"}, {"neurim", "1"}});
  const std::string good = read_file(path());
  EXPECT_EQ(load_model(module, path()).notes, std::vector<std::string>());
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ 1 << bit % 8);
    const MemoryFile file(bad);
    try {
      load_model(module, file.path());
      FAIL() << "bit " << bit << " of " << 8 * good.size();
    } catch (const Error& error) {
      ASSERT_EQ(error.fault(), Fault::data) << error.what();
      ASSERT_NE(std::string(error.what()).find(file.path().string()), std::string::npos) << error.what();
    }
  }
  // Of a header that is read by itself, as a run's progress is.
  std::string bad = good;
  bad[bad.find("\"epoch\":\"3") + 9] ^= 1;
  const MemoryFile file(bad);
  EXPECT_NE(refused(file.path()).find("is damaged: its header is not what its checksum is of"), std::string::npos);
}

TEST_F(SafeTensorsFile, FilesWithoutChecksumsAreRead) {
  const nn::Sequential module = net();
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const Parameter& p : named_parameters(module)) tensors.emplace_back(p.name, p.tensor);
  write_safetensors(path(), tensors, {{"neurim", "1"}});
  const LoadReport own = load_model(module, path());
  ASSERT_EQ(own.notes.size(), 1u);
  EXPECT_NE(own.notes[0].find("has no checksum"), std::string::npos);
  write_safetensors(path(), tensors, {{"format", "pt"}});
  EXPECT_EQ(load_model(module, path()).notes, std::vector<std::string>());
}

TEST_F(SafeTensorsFile, OtherKindsOfFilesAreNamed) {
  using namespace std::string_literals;
  const std::pair<std::string, const char*> kinds[] = {
      {"\x1f\x8b\x08\0\0\0\0\0\2\3"s, "is a gzip archive; unpack it"},
      {"\xfd"
       "7zXZ\0\0\4\xe6"s,
       "is an xz archive"},
      {"7z\xbc\xaf\x27\x1c\0\4\0"s, "is a 7z archive"},
      {"\x28\xb5\x2f\xfd\x24\0\1\0\0"s, "is a zstd archive"},
      {std::string(257, 'a') + "ustar\0"s + std::string(20, '\0'), "is a tar archive"},
      {"\n<!DOCTYPE html>\n<html lang=\"en\">", "is a web page (HTML)"},
      {"\xEF\xBB\xBF<HTML><body>", "is a web page (HTML)"},
      {"<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code></Error>", "is an XML file"},
      {"<?xml version=\"1.0\"?>\n<net name=\"m\" version=\"11\"><layers>", "is an OpenVINO model"},
      {"{\"error\": \"Repository not found\"}", "is a JSON text"},
      {"{\"weight_map\": {}}", "is an index of weights; give it by a name that ends in .index.json"},
      {"\x89HDF\r\n\x1a\n\0\0"s, "is an HDF5 file"},
      {"\x1c\0\0\0TFL3\0\0"s, "is a TensorFlow Lite model"},
      {"\x08\x01\x12\xab\x01\n"s + std::string(9, '\0'), "is a TensorFlow SavedModel"},
      {"\x08\x08\x12\x07pytorch\x1a"s, "is an ONNX file"},
      {"GGUF\3\0\0\0\0"s, "is a GGUF file"},
      {"\x93NUMPY\1\0v\0{"s, "is a NumPy array"},
      {"\x80\4\x95\5\0\0\0\0\0\0\0}\x94."s, "is a Python pickle that torch.save has not written"},
      {"\x89PNG\r\n\x1a\n\0\0"s, "is a PNG image"},
      {"model: resnet18\nlayers: 3\n", "is a text file"},
      {"\1\2\3\4\5\6\7\x08\x09\x0a\xff"s, "is neither safetensors nor what torch.save writes"},
  };
  for (const auto& [content, words] : kinds) {
    write_file(path(), content);
    EXPECT_NE(refused(path()).find(words), std::string::npos) << words << "\n" << refused(path());
  }
}

TEST_F(SafeTensorsFile, OneErrorNamesAllThatDoesNotFit) {
  nn::Sequential module = net();
  const Tensor one = Tensor::full({DType::f32, {1}}, 1);
  write_safetensors(path(), {{"0.weight", Tensor::full({DType::f32, {4, 3}}, 5)},
                             {"0.bias", Tensor::full({DType::f32, {7}}, 5)},
                             {"head.a", one},
                             {"head.b", one},
                             {"bn1.num_batches_tracked", Tensor::scalar(1, DType::i64)}});
  const std::vector<float> before = named_parameters(module)[0].tensor.values<float>();
  try {
    load_model(module, path());
    FAIL() << "loaded";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::data);
    const std::string what = error.what();
    EXPECT_NE(what.find("2 missing from the file (1.weight, 1.bias)"), std::string::npos) << what;
    EXPECT_NE(what.find("1 of another type (0.bias: f32(7) in the file, f32(4) here)"), std::string::npos) << what;
    EXPECT_NE(what.find("2 left over in the file (head.a, head.b)"), std::string::npos) << what;
  }
  EXPECT_EQ(named_parameters(module)[0].tensor.values<float>(), before);  // nothing was changed
  load_model(module, path(), Fit::any);
  EXPECT_EQ(named_parameters(module)[0].tensor.values<float>(), std::vector<float>(12, 5));
}

TEST_F(SafeTensorsFile, HalvesLoadIntoFloats) {
  struct One {
    Tensor w = Tensor::full({DType::f32, {2}}, 0);
    void parts(Parts& p) { p("w", w); }
  } module;
  for (const DType dtype : {DType::f16, DType::bf16, DType::f64}) {
    write_safetensors(path(), {{"w", Tensor::full({dtype, {2}}, -1.5)}});
    load_model(module, path());
    EXPECT_EQ(module.w.values<float>(), (std::vector<float>{-1.5, -1.5})) << name(dtype);
    module.w.assign(Tensor::full({DType::f32, {2}}, 0));
  }
  write_safetensors(path(), {{"w", Tensor::full({DType::i64, {2}}, 1)}});
  EXPECT_THROW(load_model(module, path()), Error);
}

TEST_F(SafeTensorsFile, TiedTensorsAreWrittenOnceAndLoadUnderAnyName) {
  struct Tied {
    Tensor a = Tensor::full({DType::f32, {2}}, 3), b = a;
    void parts(Parts& p) { p("a", a)("b", b); }
  } module;
  save_model(module, path());
  EXPECT_EQ(SafeTensors(path()).names(), (std::vector<std::string>{"a"}));
  write_safetensors(path(), {{"b", Tensor::full({DType::f32, {2}}, 4)}});
  load_model(module, path());
  EXPECT_EQ(module.a.values<float>(), (std::vector<float>{4, 4}));
}

}  // namespace
}  // namespace neurim
