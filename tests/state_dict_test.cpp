// Reading state dicts that torch.save wrote, whole, damaged and hostile; and fitting weights to modules.
#include "neurim/weights/state_dict.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "neurim/model/model.h"
#include "neurim/model/positions.h"
#include "neurim/model/state.h"
#include "neurim/nn/conv.h"
#include "neurim/nn/linear.h"
#include "neurim/ops/cast.h"
#include "neurim/weights/pytorch_file.h"
#include "tests/damage.h"
#include "tests/memory_file.h"
#include "tests/pytorch_bytes.h"

namespace neurim {
namespace {

using Floats = std::vector<float>;

template <class T>
std::string raw(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

/// The message of the data error that `body` throws.
template <class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::data) << error.what();
    return error.what();
  }
  return "nothing was thrown";
}

StateDict parsed(const std::string& bytes) { return read_state_dict(MemoryFile(bytes).path()); }

void expect_refused(const std::string& bytes, const std::vector<std::string>& words) {
  const std::string message = error_of([&] { parsed(bytes); });
  for (const std::string& word : words) EXPECT_NE(message.find(word), std::string::npos) << word << "\n" << message;
}

Floats values(const StateDict& dict, std::string_view name) {
  return dict.entries.find(name)->second.load().values<float>();
}

/// Six numbers in one storage, which two tensors share.
const std::string kObject = pickled::dict(
    {{"w", pickled::tensor({.count = 6, .sizes = {2, 3}, .strides = {3, 1}})},
     {"t", pickled::tensor({.count = 6, .offset = 1, .sizes = {2, 2}, .strides = {1, 3}})}},
    pickled::ordered_dict());
const Members kStorages{{"0", raw(Floats{0, 1, 2, 3, 4, 5})}};

TEST(PyTorchFile, BothFormsAreRead) {
  for (const std::string& file :
       {pytorch_zip(kObject, kStorages), pytorch_zip(kObject, kStorages, true), pytorch_legacy(kObject, kStorages)}) {
    const StateDict dict = parsed(file);
    EXPECT_EQ(dict.names(), (std::vector<std::string>{"t", "w"}));
    EXPECT_EQ(dict.entries.at("w").type, (Type{DType::f32, {2, 3}}));
    EXPECT_EQ(values(dict, "w"), (Floats{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(values(dict, "t"), (Floats{1, 4, 2, 5}));
    EXPECT_TRUE(dict.notes.empty());
  }
}

TEST(PyTorchFile, EveryDType) {
  const auto check = [](const std::string& storage, DType dtype, const std::string& data) {
    const std::string object = pickled::dict(
        {{"x", pickled::tensor({.storage = storage, .count = 2, .sizes = {2}, .strides = {1}})}});
    const StateDict dict = parsed(pytorch_zip(object, {{"0", data}}));
    EXPECT_EQ(dict.entries.at("x").type, (Type{dtype, {2}})) << storage;
    EXPECT_EQ(values(dict, "x"), (Floats{1, dtype == DType::u8 || dtype == DType::boolean ? 0.f : -2.f})) << storage;
  };
  check("DoubleStorage", DType::f64, raw(std::vector<double>{1, -2}));
  check("FloatStorage", DType::f32, raw(Floats{1, -2}));
  check("HalfStorage", DType::f16, raw(std::vector<std::uint16_t>{0x3c00, 0xc000}));
  check("BFloat16Storage", DType::bf16, raw(std::vector<std::uint16_t>{0x3f80, 0xc000}));
  check("LongStorage", DType::i64, raw(std::vector<std::int64_t>{1, -2}));
  check("IntStorage", DType::i32, raw(std::vector<std::int32_t>{1, -2}));
  check("ShortStorage", DType::i16, raw(std::vector<std::int16_t>{1, -2}));
  check("CharStorage", DType::i8, raw(std::vector<std::int8_t>{1, -2}));
  check("ByteStorage", DType::u8, raw(std::vector<std::uint8_t>{1, 0}));
  check("BoolStorage", DType::boolean, raw(std::vector<std::uint8_t>{1, 0}));
}

TEST(PyTorchFile, EveryShape) {
  const auto read = [](const pickled::Tensor& tensor) {
    return parsed(pytorch_zip(pickled::dict({{"x", pickled::tensor(tensor)}}), {{"0", raw(Floats{0, 1, 2, 3, 4, 5})}}))
        .entries.at("x");
  };
  EXPECT_EQ(read({.count = 6, .offset = 4}).load().item(), 4);
  EXPECT_EQ(read({.count = 6, .sizes = {2, 0}, .strides = {INT64_MAX, 1}}).type, (Type{DType::f32, {2, 0}}));
  EXPECT_EQ(read({.count = 6, .sizes = {1, 2}, .strides = {INT64_MAX, 5}}).load().values<float>(), (Floats{0, 5}));
  EXPECT_EQ(read({.count = 6, .offset = 2, .sizes = {2, 2}, .strides = {0, 1}}).load().values<float>(),
            (Floats{2, 3, 2, 3}));
  EXPECT_EQ(read({.count = 6, .sizes = {1, 3, 2}, .strides = {6, 1, 3}}).load().values<float>(),
            (Floats{0, 3, 1, 4, 2, 5}));
}

TEST(PyTorchFile, ViewsOfTheNegativeHaveItsSignsAndOthersAreRefused) {
  const auto with = [](std::vector<std::string> more, const std::string& storage = "FloatStorage",
                       const std::string& data = raw(Floats{1, -2, 0, 4})) {
    const auto count = static_cast<std::int64_t>(data.size() / (storage == "HalfStorage" ? 2 : 4));
    return pytorch_zip(pickled::dict({{"x", pickled::tensor({.storage = storage,
                                                             .count = count,
                                                             .sizes = {2, count / 2},
                                                             .strides = {1, 2},
                                                             .more = std::move(more)})}}),
                       {{"0", data}});
  };
  const auto facts = [](const std::string& name, const std::string& value) {
    return std::vector{pickled::dict({{name, value}})};
  };
  const std::string yes = "\x88", no = "\x89";
  EXPECT_EQ(values(parsed(with(facts("neg", yes))), "x"), (Floats{-1, 0, 2, -4}));
  EXPECT_EQ(
      values(parsed(with(facts("neg", yes), "HalfStorage", raw(std::vector<std::uint16_t>{0x3c00, 0xc000}))), "x"),
      (Floats{-1, 2}));
  for (const auto& more : {facts("neg", no), facts("conj", no), {"}"}, {"N"}})
    EXPECT_EQ(values(parsed(with(more)), "x"), (Floats{1, 0, -2, 4}));
  expect_refused(with(facts("conj", yes)), {"'x'", "(conj)", "save it with .clone()"});
  expect_refused(with(facts("zero", yes)), {"'x'", "(zero)"});
  expect_refused(with(facts("neg", "K\1")), {"'x'", "(neg)"});
  expect_refused(with(facts("neg", yes), "IntStorage"), {"'x'", "(neg)"});
  expect_refused(with({"K\1"}), {"'x'", "damaged"});
  expect_refused(with({"}", "}"}), {"'x'", "damaged"});
  EXPECT_EQ(parsed(with(facts("neg", yes), "FloatStorage", "")).entries.at("x").load().numel(), 0);
}

TEST(PyTorchFile, LaterProtocolsAreRead) {
  // Each value is remembered under the next number, and names of globals are strings.
  const auto word = [](const std::string& value) { return "\x8c" + little_endian(value.size(), 1) + value + "\x94"; };
  const auto global = [&](const std::string& module, const std::string& name) {
    return word(module) + word(name) + "\x93\x94";
  };
  const auto pair = [](const std::string& values) { return values + "\x86\x94"; };
  const auto tensor = [&](std::int64_t offset) {
    return global("torch._utils", "_rebuild_tensor_v2") + "((" + word("storage") + global("torch", "FloatStorage") +
           word("0") + word("cpu") + "K\6t\x94Q" + pickled::integer(offset) + pair("K\2K\2") + pair("K\1K\3") + "\x89" +
           global("collections", "OrderedDict") + ")R\x94t\x94R\x94";
  };
  const auto whole = [](char protocol, const std::string& object) {
    return std::string("\x80") + protocol + "\x95" + little_endian(object.size() + 1, 8) + object + ".";
  };
  const std::string object = "}\x94" + word("t") + tensor(1) + "s\x8d" + little_endian(1, 8) + "u" + tensor(0) + "s";
  for (const char protocol : {3, 4, 5}) {
    const StateDict dict = parsed(
        zip_archive({{"a/data.pkl", whole(protocol, object)}, {"a/data/0", kStorages[0].second}}));
    EXPECT_EQ(values(dict, "t"), (Floats{1, 4, 2, 5}));
    EXPECT_EQ(values(dict, "u"), (Floats{0, 3, 1, 4}));
  }
  // Number 1 is the first key, which takes the second tensor.
  EXPECT_EQ(values(parsed(zip_archive({{"a/data.pkl", whole(4, object + "h\1" + tensor(0) + "s")},
                                       {"a/data/0", kStorages[0].second}})),
                   "t"),
            (Floats{0, 3, 1, 4}));
  std::string legacy = pytorch_legacy(kObject, kStorages);
  EXPECT_EQ(values(parsed(legacy.replace(0, 2, "\x80\4\x95" + little_endian(13, 8))), "t"), (Floats{1, 4, 2, 5}));

  const auto refused = [&](const std::string& pickle, const std::vector<std::string>& words) {
    expect_refused(zip_archive({{"a/data.pkl", pickle}}), words);
  };
  refused(whole(4, global("os", "system") + word("true") + "\x85R"), {"names os.system", "not run here"});
  refused(whole(4, "N" + word("system") + "\x93"), {"damaged"});
  refused(whole(4, "(" + global("torch", "Size")), {"proc"});
  refused(whole(4, "\x8d" + std::string(8, '\xff')), {"cut off"});
  refused(whole(4, "\x8d" + little_endian(300, 8) + std::string(300, 'a') + word("b") + "\x93"), {"damaged"});
  refused("\x80\4\x95.", {"cut off"});
}

TEST(PyTorchFile, ParametersAndPython2) {
  const std::string tensor = pickled::tensor({.count = 6, .sizes = {6}, .strides = {1}});
  const std::string parameter = pickled::global("torch._utils", "_rebuild_parameter") +
                                pickled::tuple({tensor, "\x88", pickled::ordered_dict()}) + "R";
  EXPECT_EQ(values(parsed(pytorch_zip(pickled::dict({{"x", parameter}}), kStorages)), "x").size(), 6u);
  // Python 2: OrderedDict([['x', tensor]]), with a name of bytes.
  const std::string pairs = "](](U\x01x" + tensor + "ee";
  const std::string object = pickled::global("collections", "OrderedDict") + pairs + "\x85R";
  EXPECT_EQ(values(parsed(pytorch_legacy(object, kStorages)), "x").size(), 6u);
}

TEST(PyTorchFile, TheStateDictInACheckpointIsFound) {
  const std::string other = pickled::dict({{"v", pickled::tensor({.count = 6, .sizes = {6}, .strides = {1}})}});
  const auto read = [&](const std::vector<std::pair<std::string, std::string>>& items) {
    return parsed(pytorch_zip(pickled::dict(items), kStorages));
  };
  const StateDict plain = read({{"epoch", "K\x03"}, {"state_dict", kObject}, {"best", "N"}});
  EXPECT_EQ(plain.names(), (std::vector<std::string>{"t", "w"}));
  EXPECT_EQ(plain.notes, (std::vector<std::string>{"takes 'state_dict', not epoch, best"}));
  EXPECT_EQ(read({{"model", kObject}, {"model_ema", other}}).names(), (std::vector<std::string>{"v"}));
  EXPECT_EQ(read({{"net", kObject}, {"acc", "G" + std::string(8, '\0')}}).notes,
            (std::vector<std::string>{"takes 'net', not acc"}));
  EXPECT_EQ(read({{"w", pickled::tensor({.count = 6})}, {"extra", "N"}}).names(), (std::vector<std::string>{"w"}));
  // A figure beside it may be a tensor; and a key may stand twice.
  EXPECT_EQ(read({{"state_dict", kObject}, {"best_acc1", pickled::tensor({.count = 6})}}).names(),
            (std::vector<std::string>{"t", "w"}));
  EXPECT_EQ(read({{"model", kObject}, {"model", "N"}}).names(), (std::vector<std::string>{"t", "w"}));
  expect_refused(pytorch_zip(pickled::dict({{"a", kObject}, {"b", other}}), kStorages), {"several state dicts (a, b)"});
  expect_refused(pytorch_zip(pickled::dict({{"a", "N"}, {"b\n", "N"}}), {}), {"no tensors under its keys (a, b?)"});
  expect_refused(pytorch_zip("K\x01", {}), {"no dict of tensors"});
}

TEST(PyTorchFile, WhatIsNoStateDictIsRefusedByName) {
  const std::string run = pickled::global("os", "system") + pickled::tuple({pickled::string("touch /tmp/owned")}) + "R";
  for (const std::string& file : {pytorch_zip(run, {}), pytorch_legacy(run, {})})
    expect_refused(file, {"names os.system", "not run here", "torch.save(model.state_dict(), FILE)"});
  expect_refused(pytorch_zip(pickled::global("__torch__.net", "Net") + ")\x81", {}), {"__torch__.net.Net"});
  expect_refused(pytorch_zip("(i", {}), {"operation 105"});
  expect_refused(pytorch_zip("\x8a\x09" + std::string(9, '\1'), {}), {"more than 64 bits"});
  for (const char protocol : {1, 6})
    expect_refused(zip_archive({{"a/data.pkl", text('\x80', protocol, "N.")}}),
                   {text("protocol ", static_cast<int>(protocol)), "2 to 5"});
  expect_refused(zip_archive({{"a/data.pkl", "N."}}), {"no pickle of protocol 2 or later"});
  std::string other_version = pytorch_legacy(kObject, kStorages);
  other_version[other_version.find("M\xe9\3") + 1] ^= 1;
  expect_refused(other_version, {"its version is damaged"});
  expect_refused(zip_archive({{"a/b/data.pkl", pickled::whole("N")}}), {"without a data.pkl"});
  expect_refused(zip_archive({{"a/data.pkl", pickled::whole("N")}, {"a/byteorder", "big"}}), {"big-endian"});
  expect_refused(pytorch_legacy(kObject, kStorages, 4, "\x89"), {"big-endian"});
  expect_refused(pytorch_zip(kObject, kStorages, false, 8), {"archive/byteorder is compressed"});
  std::string spoilt = pytorch_zip(kObject, kStorages);
  spoilt[spoilt.find(kStorages[0].second) + 5] ^= 1;
  expect_refused(spoilt, {"'w'", "checksum"});
  expect_refused("neither", {"not a safetensors file"});
  EXPECT_NE(error_of([&] { read_pytorch_file(MemoryFile("neither").path()); }).find("torch.save"), std::string::npos);
}

TEST(PyTorchFile, WhatStandsBesideTheWeightsIsPassedOver) {
  const std::string metric = pickled::tensor({.count = 6, .offset = 5}),
                    net = pickled::dict({{"fc.w", pickled::tensor({.count = 6, .sizes = {6}, .strides = {1}})}});
  const auto names = [&](const std::vector<std::pair<std::string, std::string>>& items) {
    return parsed(pytorch_zip(pickled::dict(items), kStorages)).names();
  };
  const std::vector<std::string> weights{"fc.w"};
  for (const char* key : {"model", "state_dict", "model_state_dict", "model_state", "net", "ema", "module", "params",
                          "network", "backbone"}) {
    EXPECT_EQ(names({{"epoch", pickled::integer(3)}, {"loss", metric}, {key, net}}), weights) << key;
    EXPECT_EQ(names({{key, net}, {"best", metric}, {"optimizer", pickled::dict({{"state", "}"}})}}), weights) << key;
  }
  EXPECT_EQ(names({{"ema", pickled::dict({{"decay", pickled::integer(1)}, {"module", net}})}, {"loss", metric}}),
            weights);
  EXPECT_EQ(names({{"loss", metric}, {"fc.w", metric}}), (std::vector<std::string>{"fc.w", "loss"}));  // that itself
  EXPECT_EQ(names({{"weight", metric}, {"bias", metric}}), (std::vector<std::string>{"bias", "weight"}));
  // NumPy's number, as pickle protocol 2 has it.
  const std::string type = pickled::global("numpy", "dtype") + pickled::tuple({pickled::string("f8"), "\x89", "\x88"}) +
                           "R" + pickled::tuple({pickled::integer(3), pickled::string("<"), "N", "N", "N"}) + "b";
  const std::string number = pickled::global("numpy.core.multiarray", "scalar") +
                             pickled::tuple({type, pickled::string("8 bytes")}) + "R";
  EXPECT_EQ(names({{"best_acc1", number}, {"state_dict", net}}), weights);
}

TEST(PyTorchFile, OtherZipArchivesAreNamed) {
  expect_refused(zip_archive({{"a.npy", "x"}, {"b.npy", "y"}}), {"is a NumPy archive (.npz)"});
  expect_refused(zip_archive({{"config.json", "{}"}, {"model.weights.h5", "x"}}), {"is a Keras model"});
  expect_refused(zip_archive({{"net/model.pth", "x"}}), {"is a zip archive of weights; unpack it"});
  expect_refused(zip_archive({{"net/data.pkl", pickled::whole("N")}, {"net/constants.pkl", "x"}}),
                 {"is a TorchScript program"});
}

TEST(PyTorchFile, TensorsOutsideTheirStorageAreRefused) {
  const auto refused = [](const pickled::Tensor& tensor, const std::vector<std::string>& words,
                          const std::string& data = raw(Floats{0, 1, 2, 3, 4, 5})) {
    expect_refused(pytorch_zip(pickled::dict({{"x", pickled::tensor(tensor)}}), {{"0", data}}), words);
    expect_refused(pytorch_legacy(pickled::dict({{"x", pickled::tensor(tensor)}}), {{"0", data}}), {});
  };
  constexpr std::int64_t large = std::int64_t{1} << 62;
  refused({.count = 6, .offset = 6}, {"'x'", "element 6 of a storage of 6"});
  refused({.count = 6, .sizes = {7}, .strides = {1}}, {"element 6"});
  refused({.count = 6, .sizes = {3, 3}, .strides = {3, 1}}, {"element 8"});
  refused({.count = 6, .sizes = {2}, .strides = {large}}, {"element 46"});
  refused({.count = 6, .sizes = {large, large}, .strides = {0, 0}}, {"larger than the file"});
  refused({.count = 6, .sizes = {100000}, .strides = {0}}, {"larger than the file", ".contiguous()"});
  refused({.count = 6, .sizes = {0, large, large}, .strides = {1, 1, 1}}, {"larger than the file"});
  refused({.count = 6, .offset = -1}, {"damaged"});
  refused({.count = 6, .sizes = {-1}, .strides = {1}}, {"damaged"});
  refused({.count = 6, .sizes = {1}, .strides = {-1}}, {"damaged"});
  refused({.count = 6, .sizes = {1}}, {"damaged"});
  refused({.count = -1}, {"damaged"});
  refused({.count = large}, {"24 bytes where 4611686018427387904 elements"});
  refused({.count = 6}, {"23 bytes"}, std::string(23, '\1'));
  refused({.key = "1", .count = 6}, {"archive/data/1"});
  refused({.storage = "ComplexFloatStorage", .count = 6}, {"torch.ComplexFloatStorage"});
  refused({.count = 6, .sizes = std::vector<std::int64_t>(9, 1), .strides = std::vector<std::int64_t>(9, 1)},
          {"9 axes"});
}

TEST(PyTorchFile, MembersOverTheSameBytesAreRefused) {
  const std::string data(40000, '\1');
  const auto tensor = [](const std::string& key) {
    return pickled::tensor({.key = key, .count = 10000, .sizes = {10000}, .strides = {1}});
  };
  std::string file = pytorch_zip(pickled::dict({{"a", tensor("0")}, {"b", tensor("1")}}), {{"0", data}, {"1", data}});
  read_state_dict(MemoryFile(file).path());
  // The entry of the second, made to point at the first.
  const std::size_t first = file.find("PK\x03\x04", file.find("byteorder")), entry = file.rfind("archive/data/1") - 46;
  file.replace(entry + 42, 4, little_endian(first, 4));
  file.erase(file.find("PK\x03\x04", first + 1), 30 + 14 + data.size());
  const std::size_t end = file.size() - 22;
  file.replace(end + 16, 4, little_endian(file.find("PK\x01\x02"), 4));
  expect_refused(file, {"'b'", "zip directory is damaged"});
}

TEST(PyTorchFile, HostilePicklesEndSoonAndSmall) {
  const auto zip = [](const std::string& object) { return pytorch_zip(object, {}); };
  expect_refused(zip(std::string(1 << 18, ')') + std::string(1 << 18, '\x85')), {"no dict"});  // a deep tuple
  expect_refused(zip(std::string(5 << 20, '(')), {"more than 2097152 values"});
  expect_refused(zip(std::string(5 << 20, ']')), {"more than 2097152 values"});

  expect_refused(zip("]q" + std::string(1, '\0') + "h" + std::string(1, '\0') + "a"), {"no dict"});  // holds itself
  // A million values, given to a call again and again.
  std::string many = "(" + std::string(1'000'000, 'N') + "tq" + std::string(1, '\1') +
                     pickled::global("torch", "Size") + "q" + std::string(1, '\2');
  for (int i = 0; i < 1000; ++i) many += "h\2h\1R";
  expect_refused(zip(many), {"more than 2097152 values"});
  // A dict of a million values without a tensor, under a hundred thousand keys: it is searched once.
  std::string shared = "}(X" + little_endian(1, 4) + "k}(" + std::string(1'000'000, 'N') + "uq\1";
  for (int i = 0; i < 100'000; ++i) shared += pickled::string(text(i)) + "h\1";
  expect_refused(zip(shared + "u"), {"no tensors under its keys"});
  expect_refused(zip("c" + std::string(1 << 20, 'a') + "\nb\n"), {"damaged"});
  expect_refused(zip("X\xff\xff\xff\xff"), {"cut off"});
  expect_refused(zip("h\5"), {"damaged"});
  for (const char* object : {"t", "a", "(e", "Na", "NNs", "}(Nu", "NR", "NNb", "NQ", "(a", "q"})
    expect_refused(zip(object), {"proc"});
}

/// Reads the file and everything in it.
void read_all(const std::string& bytes) {
  const StateDict dict = parsed(bytes);
  for (const auto& [name, entry] : dict.entries)
    EXPECT_LE(entry.load().numel(), static_cast<std::int64_t>(bytes.size()));
}

TEST(PyTorchFile, NoDamageCrashes) {
  const std::string wrapped = pickled::dict({{"epoch", "K\1"}, {"state_dict", kObject}});
  for (const std::string& file :
       {pytorch_zip(kObject, kStorages), pytorch_zip(kObject, kStorages, true), pytorch_legacy(wrapped, kStorages)}) {
    read_all(file);
    damage_everywhere(file, read_all);
  }
}

std::string file_of(const std::vector<std::pair<std::string, Tensor>>& tensors) {
  const fs::path path = fs::temp_directory_path() / text("neurim-state-dict-", ::getpid());
  write_safetensors(path, tensors, {{"format", "pt"}});
  const std::string bytes = read_file(path);
  fs::remove(path);
  return bytes;
}

TEST(SafeTensorsFile, NoDamageCrashes) {
  const std::string file = file_of(
      {{"a", Tensor::full({DType::f32, {2, 3}}, 1)}, {"b.bias", Tensor::scalar(3, DType::i64)}});
  read_all(file);
  damage_everywhere(file, read_all);
}

/// A folder for the files of an index.
class Index : public testing::Test {
 protected:
  Index() : folder_(fs::temp_directory_path() / text("neurim-index-", ::getpid())) { fs::create_directories(folder_); }
  ~Index() override { fs::remove_all(folder_); }
  StateDict read(const std::string& index) {
    write_file(folder_ / "model.safetensors.index.json", index);
    return read_state_dict(folder_ / "model.safetensors.index.json");
  }
  std::string refused(const std::string& index) {
    return error_of([&] { read(index); });
  }

  fs::path folder_;
};

TEST_F(Index, FilesTogetherAreOneStateDict) {
  write_safetensors(folder_ / "one.safetensors", {{"a", Tensor::scalar(1)}, {"b", Tensor::scalar(2)}});
  write_safetensors(folder_ / "two.safetensors", {{"c", Tensor::scalar(3)}});
  const StateDict dict = read(
      R"({"metadata":{},"weight_map":{"a":"one.safetensors","b":"one.safetensors","c":"two.safetensors"}})");
  EXPECT_EQ(dict.names(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(values(dict, "c"), Floats{3});
  EXPECT_NE(refused(R"({"weight_map":{"c":"one.safetensors"}})").find("'c' is in one.safetensors"), std::string::npos);
  EXPECT_NE(refused(R"({"weight_map":{"c":"three.safetensors"}})").find("three.safetensors"), std::string::npos);
  EXPECT_EQ(read(R"({"weight_map":{"a":"one.safetensors"}})").notes,
            (std::vector<std::string>{"passes over 'b' in one.safetensors, which the index does not list"}));
  write_file(folder_ / "one.bin", pytorch_zip(kObject, kStorages));
  EXPECT_EQ(values(read(R"({"weight_map":{"t":"one.bin","w":"one.bin","c":"two.safetensors"}})"), "t").size(), 4u);
  for (const char* path : {"../one.safetensors", "/etc/passwd", "..", ".", ""})
    EXPECT_NE(refused(text(R"({"weight_map":{"a":")", path, "\"}}")).find("beside the index"), std::string::npos)
        << path;
  EXPECT_NE(refused(R"({"weight_map":{"a":1}})").find("beside the index"), std::string::npos);
  EXPECT_NE(refused("").find("is not valid JSON: it is empty"), std::string::npos);
  EXPECT_NE(refused(R"({"weight_map":{"a":"x","a":"y"}})").find("the key 'a' twice"), std::string::npos);
  for (const char* index : {"[]", "{}", R"({"weight_map":[]})"})
    EXPECT_NE(refused(index).find("no weight_map"), std::string::npos) << index;
  EXPECT_NE(refused(std::string(100000, '[')).find("nests deeper"), std::string::npos);
}

/// A convolution and a last layer.
struct Net {
  Net(std::int64_t channels, std::int64_t classes) : conv(channels, 2, {.kernel = 1}), fc(2, classes) {}
  void parts(Parts& p) { p("conv", conv)("fc", fc); }
  nn::Conv2d conv;
  nn::Linear fc;
};

struct Callable : Net {
  using Net::Net;
  Tensor operator()(const Tensor& x) const { return x; }
};

StateDict dict_of(const std::vector<std::pair<std::string, Tensor>>& tensors) { return parsed(file_of(tensors)); }

/// Weights for Net(3, 4).
std::vector<std::pair<std::string, Tensor>> net_tensors(const std::string& prefix = "") {
  return {{prefix + "conv.weight", Tensor::from({2, 3, 1, 1}, Floats{1, 2, 3, 4, 5, 6})},
          {prefix + "conv.bias", Tensor::full({DType::f32, {2}}, 7)},
          {prefix + "fc.weight", Tensor::full({DType::f32, {4, 2}}, 8)},
          {prefix + "fc.bias", Tensor::full({DType::f32, {4}}, 9)}};
}

TEST(Fit, WrappersNamesArePassedOverAndSaid) {
  Net net(3, 4);
  for (const std::string prefix : {"module.", "_orig_mod.", "module._orig_mod."}) {
    auto tensors = net_tensors(prefix);
    tensors.emplace_back("n_averaged", Tensor::scalar(1, DType::i64));
    tensors.emplace_back(prefix + "bn.num_batches_tracked", Tensor::scalar(1, DType::i64));
    const LoadReport report = load_model(net, dict_of(tensors));
    EXPECT_EQ(report.notes, (std::vector<std::string>{text("passes over '", prefix, "' before all names")}));
    EXPECT_EQ(report.taken, 4);
    EXPECT_EQ(net.fc.bias.values<float>(), Floats(4, 9));
  }
  auto mixed = net_tensors("module.");
  mixed[0].first = "conv.weight";
  EXPECT_NE(error_of([&] { load_model(net, dict_of(mixed)); }).find("left over in the file (module.conv.bias"),
            std::string::npos);
  struct Wrapped {
    Net module{3, 4};
    void parts(Parts& p) { p("module", module); }
  } wrapped;
  EXPECT_TRUE(load_model(wrapped, dict_of(net_tensors("module."))).notes.empty());
}

Model model_of(const Callable& net) { return {"net", 8, 3, 4, {0}, {1}, net}; }

TEST(Fit, NamesOfOlderFilesAreKnownAndAuxiliaryClassifiersPassedOver) {
  Model model = model_of(Callable(3, 4));
  model.other_names = {{"conv.weight", "stem.weight"}, {"conv.bias", "stem.bias"}};
  model.older_names = {{"fc.bias", "classifier.b"}};
  model.passed_over = {"aux."};
  auto tensors = net_tensors();
  tensors[3].first = "classifier.b";
  tensors.emplace_back("aux.fc.weight", Tensor::scalar(1));
  EXPECT_EQ(load_model(model, dict_of(tensors)).notes,
            (std::vector<std::string>{
                "passes over 'aux.…', an auxiliary classifier for training, which this net leaves out"}));
  tensors.back().first = "auxiliary";
  EXPECT_NE(error_of([&] { load_model(model, dict_of(tensors)); }).find("left over in the file (auxiliary)"),
            std::string::npos);
  // The other library's convolution may be a linear layer, but of the same rows in the same order.
  auto others = net_tensors();
  others[0] = {"stem.weight", Tensor::from({2, 3}, Floats{1, 2, 3, 4, 5, 6})}, others[1].first = "stem.bias";
  EXPECT_EQ(load_model(model, dict_of(others)).taken, 4);
  others[0].second = Tensor::from({2, 1, 3, 1}, Floats{1, 2, 3, 4, 5, 6});
  EXPECT_EQ(load_model(model, dict_of(others)).taken, 4);
  others[0].second = Tensor::from({6, 1, 1, 1}, Floats{1, 2, 3, 4, 5, 6});
  EXPECT_NE(error_of([&] {
              load_model(model, dict_of(others));
            }).find("stem.weight: f32(6,1,1,1) in the file, f32(2,3,1,1) here"),
            std::string::npos);
}

TEST(Fit, WhatTheNetComputesMayBeMissingButNotAnother) {
  const Callable net(3, 4);
  const Tensor places = Tensor::from({4}, std::vector<std::int64_t>{0, 1, 2, 3});
  Model model = model_of(net);
  model.computed = {{"conv.bias", Tensor::full({DType::f32, {2}}, 7)}, {".places", places}};
  auto tensors = net_tensors();
  EXPECT_EQ(load_model(model, dict_of(tensors)).all, 3);
  tensors.erase(tensors.begin() + 1);  // conv.bias
  EXPECT_EQ(load_model(model, dict_of(tensors)).taken, 3);
  tensors.emplace_back("conv.places", Tensor::from({2, 2}, std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_TRUE(load_model(model, dict_of(tensors)).notes.empty());

  net.fc.bias.write(Floats(4, 1).data());
  for (const Tensor& other :
       {Tensor::from({4}, std::vector<std::int64_t>{0, 1, 3, 2}), Tensor::from({2}, std::vector<std::int64_t>{0, 1})}) {
    tensors.back().second = other;
    for (const Fit fit : {Fit::exact, Fit::adapt, Fit::any})
      EXPECT_NE(error_of([&] {
                  load_model(model, dict_of(tensors), fit);
                }).find(text("conv.places ", other.type(), " is not the i64(4) that the model computes")),
                std::string::npos);
  }
  EXPECT_EQ(net.fc.bias.values<float>(), Floats(4, 1));
  tensors.back().first = "places";
  EXPECT_NE(error_of([&] { load_model(model, dict_of(tensors)); }).find("left over in the file (places)"),
            std::string::npos);
}

TEST(Fit, FineTuningStartsAnotherLastLayerAnew) {
  Net net(3, 5);
  const Floats drawn = net.fc.weight.values<float>(), bias = net.fc.bias.values<float>();
  EXPECT_NE(error_of([&] { load_model(net, dict_of(net_tensors())); }).find("fc.bias: f32(4) in the file, f32(5) here"),
            std::string::npos);
  const LoadReport report = load_model(net, dict_of(net_tensors()), Fit::adapt);
  EXPECT_EQ(report.taken, 2);
  EXPECT_EQ(report.all, 4);
  ASSERT_EQ(report.notes.size(), 1u);
  EXPECT_NE(report.notes[0].find("the last layer starts anew: fc.bias: f32(4) in the file, f32(5) here"),
            std::string::npos);
  EXPECT_EQ(net.fc.weight.values<float>(), drawn);
  EXPECT_EQ(net.fc.bias.values<float>(), bias);
  EXPECT_EQ(net.conv.bias.values<float>(), Floats(2, 7));

  auto headless = net_tensors();
  headless.erase(headless.begin() + 2);  // its bias alone is of no use
  Net same(3, 4);
  const Floats kept = same.fc.bias.values<float>();
  EXPECT_NE(load_model(same, dict_of(headless), Fit::adapt).notes.at(0).find("fc.weight is not in the file"),
            std::string::npos);
  EXPECT_EQ(same.fc.bias.values<float>(), kept);
}

/// The numbers are those of PyTorch's interpolate, bicubic with antialias.
TEST(Fit, PositionsAreResampledAsPixels) {
  Floats values{7, -7};  // the class token's
  for (int i = 0; i < 32; ++i) values.push_back(static_cast<float>(i * 37 % 11) / 8 - 0.5f);
  const Tensor positions = Tensor::from({1, 17, 2}, values);
  EXPECT_TRUE(are_positions(positions.shape()));
  EXPECT_FALSE(are_positions({1, 18, 2}));
  EXPECT_FALSE(are_positions({1, 1, 2}));
  for (const auto& [tokens, expected] : std::vector<std::pair<std::int64_t, Floats>>{
           {5, {0.2942337, -0.1276296, -0.1033058, 0.2966754, 0.3533058, 0.1705015, -0.0442337, 0.2059072}},
           {10,
            {0.000686, -0.1975674, 0.3251982, 0.0591589, -0.2025172, 0.3806442, 0.6527154, -0.1281465, 0.125, 0.3054508,
             -0.4027154, 0.1730549, 0.4525172, -0.0587255, -0.0751982, 0.5517426, 0.249314, -0.0345344}},
           {37, {-0.6539777, 0.0328947, -0.0470201, -0.2270704, 0.5305304, -0.2637671, 0.212685, 0.5302144}}}) {
    const Floats found = resampled_positions(positions, tokens);
    ASSERT_EQ(std::ssize(found), 2 * tokens);
    EXPECT_EQ(found[0], 7);
    EXPECT_EQ(found[1], -7);
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(found[i + 2], expected[i], 1e-6) << tokens << ' ' << i;
  }
  const Floats same = resampled_positions(positions, 17);
  for (std::size_t i = 0; i < same.size(); ++i) EXPECT_NEAR(same[i], values[i], 1e-6);
}

TEST(Fit, FineTuningFitsTheFirstConvolution) {
  Net gray(1, 4), four(4, 4), two(2, 4);
  const StateDict dict = dict_of(net_tensors());
  EXPECT_NE(load_model(gray, dict, Fit::adapt).notes.at(0).find("fits the first convolution to 1 input channels"),
            std::string::npos);
  EXPECT_EQ(gray.conv.weight.values<float>(), (Floats{6, 15}));
  load_model(four, dict, Fit::adapt);
  EXPECT_EQ(four.conv.weight.values<float>(), (Floats{.75, 1.5, 2.25, .75, 3, 3.75, 4.5, 3}));
  load_model(two, dict, Fit::adapt);
  EXPECT_EQ(two.conv.weight.values<float>(), (Floats{1.5, 3, 6, 7.5}));
  EXPECT_NE(error_of([&] { load_model(two, dict); }).find("conv.weight: f32(2,3,1,1) in the file, f32(2,2,1,1) here"),
            std::string::npos);
}

TEST(Fit, FineTuningRefusesOtherDifferences) {
  Net net(3, 4);
  const Floats before = net.fc.bias.values<float>();
  const auto refused = [&](std::size_t at, const Tensor& tensor, const std::string& reason) {
    auto tensors = net_tensors();
    tensors[at].second = tensor;
    const std::string message = error_of([&] { load_model(net, dict_of(tensors), Fit::adapt); });
    EXPECT_NE(message.find(reason), std::string::npos) << message;
    EXPECT_EQ(net.fc.bias.values<float>(), before);
  };
  refused(1, Tensor::full({DType::f32, {3}}, 1), "conv.bias: f32(3) in the file, f32(2) here");
  refused(0, Tensor::full({DType::f32, {2, 3, 3, 3}}, 1), "conv.weight");
  refused(0, Tensor::full({DType::f32, {2, 0, 1, 1}}, 1), "conv.weight");
  refused(2, Tensor::full({DType::f32, {4, 3}}, 1), "fc.weight");
  refused(2, Tensor::full({DType::i64, {4, 2}}, 1), "fc.weight: i64(4,2) in the file");
}

TEST(Fit, ValuesThatAreNotFiniteAreRefused) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16})
    for (const float bad : {inf, -inf, nan}) {
      auto tensors = net_tensors();
      tensors[2].second = cast(Tensor::from({4, 2}, Floats{1, 2, 3, bad, 5, -6, bad, 8}), dtype);
      Net net(3, 4);
      const std::string message = error_of([&] { load_model(net, dict_of(tensors)); });
      EXPECT_NE(message.find(": 2 of the 8 values of fc.weight are infinite or not a number, the first at index 3; "
                             "the training that wrote it diverged"),
                std::string::npos)
          << name(dtype) << ' ' << bad << '\n'
          << message;
      EXPECT_NE(net.conv.bias.values<float>(), Floats(2, 7));  // nothing has changed, not even what comes before
      tensors[2].second = cast(Tensor::from({4, 2}, Floats{1, 2, 3, 60000, 5, -60000, 0, 8}), dtype);
      EXPECT_EQ(load_model(net, dict_of(tensors)).taken, 4);
    }
  auto of_input = net_tensors();
  of_input[0].second = Tensor::from({2, 3, 1, 1}, Floats{1, 2, 3, 4, 5, nan});
  Net gray(1, 4);
  EXPECT_NE(error_of([&] { load_model(gray, dict_of(of_input), Fit::adapt); }).find("1 of the 6 values of conv.weight"),
            std::string::npos);
  auto of_head = net_tensors();
  of_head[3].second = Tensor::full({DType::f32, {4}}, nan);
  Net anew(3, 5);  // whose last layer is not taken
  EXPECT_EQ(load_model(anew, dict_of(of_head), Fit::adapt).taken, 2);
}

}  // namespace
}  // namespace neurim
