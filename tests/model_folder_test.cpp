// Folders as timm and Hugging Face publish models.
#include "neurim/train/model_folder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "neurim/base/error.h"
#include "neurim/model/model_file.h"
#include "neurim/model/state.h"
#include "neurim/model/zoo.h"

namespace neurim {
namespace {

class ModelFolder : public testing::Test {
 protected:
  ModelFolder() : folder_(fs::temp_directory_path() / text("neurim-model-folder-", ::getpid())) {
    fs::create_directories(folder_);
  }
  ~ModelFolder() override { fs::remove_all(folder_); }

  ModelConfig config(const std::string& timm) {
    write_file(folder_ / "config.json", timm);
    return config_of_folder(folder_);
  }
  template <class Body>
  void expect_refused(Body&& body, const std::vector<std::string>& words) {
    try {
      body();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::data);
      for (const std::string& word : words)
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << word << "\n" << error.what();
    }
  }

  const fs::path folder_;
};

// As timm.models.save_for_hf writes it, shortened.
const std::string kTimm = R"({"architecture": "lenet5.x1", "num_classes": 3, "num_features": 84,
  "label_names": ["cat", "dog", "owl"],
  "pretrained_cfg": {"tag": "x1", "input_size": [1, 28, 28], "interpolation": "bicubic", "crop_pct": 1.0,
                     "crop_mode": "squash", "mean": [0.5], "std": [0.25], "num_classes": 3, "classifier": "f3"}})";

std::string without(std::string timm, const std::string& part, const std::string& with = "") {
  const std::size_t at = timm.find(part);
  NEURIM_ASSERT(at != std::string::npos);
  return timm.replace(at, part.size(), with);
}

TEST_F(ModelFolder, TimmsConfigIsTheCard) {
  const ModelConfig timm = config(kTimm);
  EXPECT_EQ(timm.model, "lenet5");
  EXPECT_EQ(timm.in_chans, 1);
  EXPECT_EQ(timm.class_names, (std::vector<std::string>{"cat", "dog", "owl"}));
  EXPECT_EQ(timm.preprocess, (Preprocess{.channels = 1,
                                         .height = 28,
                                         .width = 28,
                                         .resize = ResizeMode::squash,
                                         .interpolation = Interpolation::bicubic,
                                         .mean = {0.5},
                                         .std = {0.25}}));

  const ModelConfig plain = config(R"({"architecture":"lenet5","num_classes":2,"input_size":[3,32,16],
                                   "mean":[0.1,0.2,0.3],"std":[1,2,3]})");
  EXPECT_EQ(plain.class_names, (std::vector<std::string>{"0", "1"}));
  EXPECT_EQ(plain.preprocess.width, 16);
  EXPECT_EQ(plain.preprocess.crop_pct, 0.875);
  EXPECT_EQ(plain.preprocess.interpolation, Interpolation::bicubic);
  EXPECT_EQ(config(without(kTimm, R"(["cat", "dog", "owl"])", "null")).class_names[2], "2");
}

TEST_F(ModelFolder, OurConfigComesBack) {
  ModelConfig ours{.model = "resnet18", .in_chans = 3, .class_names = {"a", "b"}};
  ours.preprocess.mean = {0.1, 0.2, 0.3};
  ours.preprocess.resize = ResizeMode::letterbox;
  ours.preprocess.fill = 114;
  ours.thresholds = {0.25, 0.5};
  const ModelConfig back = config(model_json(ours));
  EXPECT_EQ(back.model, ours.model);
  EXPECT_EQ(back.class_names, ours.class_names);
  EXPECT_EQ(back.preprocess, ours.preprocess);
  EXPECT_EQ(back.thresholds, ours.thresholds);
}

TEST_F(ModelFolder, TimmsNetsKeepTheirName) {
  EXPECT_EQ(config(without(kTimm, "lenet5.x1", "efficientnet_b5.sw_in12k")).model, "timm/efficientnet_b5");
  EXPECT_EQ(config(without(kTimm, "lenet5.x1", "resnet20")).model, "resnet20");  // which timm has not
  for (const char* name : {"timm/efficientnet_b5", "efficientnet_b5"}) {
    const std::string timm = model_json({.model = name, .in_chans = 3, .class_names = {"a"}});
    EXPECT_NE(timm.find("\"architecture\": \"efficientnet_b5\""), std::string::npos) << timm;
    EXPECT_EQ(config(timm).model, name);
  }
}

TEST_F(ModelFolder, WhatWouldMakeAnotherNetIsRefused) {
  const auto with = [](const std::string& more) { return without(kTimm, "\"num_features\": 84", more); };
  const std::string as_published =
      R"("global_pool": "avg", "model_args": {"in_chans": 1, "num_classes": 3, "global_pool": "avg", "img_size": [28, 28]})";
  EXPECT_EQ(config(with(as_published)).model, "lenet5");  // as timm writes since 1.0.20
  expect_refused([&] { config(with(R"("global_pool": "max")")); }, {"global_pool is \"max\"", "\"avg\" alone"});
  expect_refused([&] { config(with(R"("model_args": {"in_chans": 3})")); }, {"in_chans is 3", "with 1 alone"});
  expect_refused([&] { config(with(R"("model_args": {"act_layer": "gelu"})")); },
                 {"act_layer is \"gelu\"", "without it"});
  EXPECT_EQ(config(without(kTimm, R"(["cat", "dog", "owl"])", R"({"0": "cat", "2": "owl"})")).class_names,
            (std::vector<std::string>{"cat", "1", "owl"}));
}

TEST_F(ModelFolder, ImagesThatTimmWouldFitInAnotherWayAreRefused) {
  const auto cropped = [](const std::string& mode, const std::string& pct) {
    return without(without(kTimm, "\"squash\"", mode), "\"crop_pct\": 1.0,", pct);
  };
  EXPECT_EQ(config(cropped("\"center\"", "\"crop_pct\": 0.9,")).preprocess.crop_pct, 0.9);
  EXPECT_EQ(config(cropped("null", "\"crop_pct\": null,")).preprocess, config(cropped("\"center\"", "")).preprocess);
  for (const auto& [mode, pct, said] :
       std::vector<std::array<std::string, 3>>{{"\"squash\"", "\"crop_pct\": 0.9,", "\"squash\" with crop_pct 0.9"},
                                               {"\"squash\"", "", "\"squash\" with crop_pct 0.875"},
                                               {"\"border\"", "\"crop_pct\": 1.0,", "\"border\" with crop_pct 1"},
                                               {"\"zoom\"", "", "\"zoom\""}})
    expect_refused([&] { config(cropped(mode, pct)); }, {"crop_mode is " + said, "\"squash\" with crop_pct 1"});

  ModelConfig ours{.model = "lenet5", .in_chans = 3, .class_names = {"a", "b"}};
  ours.preprocess.resize = ResizeMode::squash;
  ours.preprocess.crop_pct = 0.875;  // which squashing does not look at, here
  const std::string written = model_json(ours);
  EXPECT_NE(written.find("\"crop_pct\": 1.0,\n    \"crop_mode\": \"squash\""), std::string::npos) << written;
}

TEST_F(ModelFolder, ConfigsThatSayTooLittleAreRefused) {
  const auto refused = [&](const std::string& timm, const std::vector<std::string>& words) {
    expect_refused([&] { config(timm); }, words);
  };
  refused("", {"config.json: is not valid JSON: it is empty"});
  refused("{\"architecture\":\n 'x'}", {"config.json: is not valid JSON at byte 19 (line 2)"});
  refused(R"({"num_classes":1,"num_classes":2})", {"the key 'num_classes' twice"});
  refused(std::string(1 << 20, '['), {"nests deeper"});
  refused("[]", {"no JSON object"});
  refused("{}", {"names no 'architecture'"});
  refused(R"({"model_type":"resnet","architectures":["ResNetForImageClassification"]})",
          {"Hugging Face", "\"resnet\""});
  refused(without(kTimm, "\"lenet5.x1\"", "5"), {"architecture is 5; it is the name of a model"});
  refused(without(kTimm, "\"owl\"", "3"), {"label_names is [\"cat\",\"dog\",3]; it is a list of names"});
  refused(without(kTimm, R"(["cat", "dog", "owl"])", "7"), {"label_names is 7; it is a list of names"});
  refused(without(kTimm, R"(["cat", "dog", "owl"])", R"({"1": 7})"), {"label_names: 1 is 7; it is a name"});
  refused(without(kTimm, "\"num_classes\": 3", "\"num_classes\": \"10\""),
          {"num_classes is \"10\"; it is a whole number"});
  refused(R"({"architecture":"lenet5","num_classes":2,"pretrained_cfg":null})",
          {"input_size is missing; it is a list of channels"});
  refused(R"({"architecture":"lenet5","num_classes":2,"pretrained_cfg":[]})",
          {"pretrained_cfg is []; it is an object"});
  refused(without(kTimm, "[1, 28, 28]", "[1, 28.5, 28]"), {"input_size is [1,28.5,28]; it is a list of channels"});
  refused(without(kTimm, "[1, 28, 28]", "[1, 28, 9223372036854775807]"), {"size is 28"});
  refused(without(kTimm, "[0.25]", "0.25"), {"std is 0.25; it is a list of numbers"});
  refused(without(kTimm, "\"num_features\": 84", "\"model_args\": 84"), {"model_args is 84; it is an object"});
  refused(without(kTimm, "\"num_features\": 84", R"("neurim": {"preprocess": {"height": "tall"}})"),
          {"preprocess: height cannot be \"tall\""});
  for (const char* part : {R"("height": 28.5)", R"("fill": 300)", R"("background": [1, 2, 256])"})
    refused(without(kTimm, "\"num_features\": 84", text(R"("neurim": {"preprocess": {)", part, "}}")),
            {"preprocess: ", "; it is a whole number from 0 to"});
  refused(without(kTimm, "[0.5]", "[127.5]"), {"mean is 127.5; pixels are scaled to 0 to 1", "divided by 255"});
  refused(without(kTimm, "[0.25]", "[58.395]"), {"std is 58.395; "});
  refused(without(kTimm, "\"num_classes\": 3", "\"num_classes\": 0"),
          {"num_classes is 0, so the weights have no last layer", "pretrained="});
  refused(without(kTimm, ", \"owl\""), {"num_classes is 3, but label_names are 2"});
  refused(R"({"architecture":"lenet5","num_classes":1000001})", {"num_classes is 1000001"});
  refused(R"({"architecture":"lenet5"})", {"num_classes"});
  refused(without(kTimm, "[1, 28, 28]", "[28, 28]"), {"input_size has 2 numbers"});
  refused(without(kTimm, "\"mean\": [0.5],"), {"mean is missing"});
  refused(without(kTimm, "[0.25]", "[0]"), {"std is 0"});
  refused(without(kTimm, "bicubic", "lanczos"), {"lanczos"});
  refused(without(without(kTimm, "squash", "center"), "\"crop_pct\": 1.0", "\"crop_pct\": 2"), {"crop_pct is 2"});
}

TEST_F(ModelFolder, WeightsForAnotherModelNeedNoKnownOneInTheConfig) {
  save_model(create_model("lenet5", {.num_classes = 3, .in_chans = 1, .seed = 1}), folder_ / "model.safetensors");
  const auto scaling = [&](const std::string& timm) {
    write_file(folder_ / "config.json", timm);
    const Weights weights = open_weights(folder_);
    EXPECT_EQ(weights.tensors.path, folder_ / "model.safetensors");
    EXPECT_FALSE(weights.config.has_value());
    return weights.scaling;
  };
  for (const std::string& timm :
       {without(kTimm, "\"num_classes\": 3", "\"num_classes\": 0"), without(kTimm, "lenet5.x1", "nobody_knows_it"),
        without(kTimm, "\"num_features\": 84", R"("global_pool": "max")"), without(kTimm, "squash", "border")}) {
    const auto found = scaling(timm);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->mean, std::vector<double>{0.5});
    EXPECT_EQ(found->std, std::vector<double>{0.25});
  }
  EXPECT_FALSE(scaling(R"({"model_type": "resnet"})").has_value());  // says nothing of pixels
  expect_refused([&] { scaling(without(kTimm, "[0.25]", "[58]")); }, {"config.json: std is 58"});
  expect_refused([&] { scaling("{"); }, {"config.json: is not valid JSON"});
}

TEST_F(ModelFolder, PlainWeightsAreOfTheModelThatIsNamed) {
  const Model model = create_model("timm/mobilenetv3_small_100", {.num_classes = 7, .in_chans = 4, .seed = 1});
  const fs::path file = folder_ / "plain.safetensors";
  save_model(model, file);
  expect_refused([&] { load_checkpoint(file); }, {"plain.safetensors: holds weights alone", "arch=NAME"});
  const Checkpoint opened = load_checkpoint(file, "timm/mobilenetv3_small_100");
  EXPECT_EQ(opened.config.model, "timm/mobilenetv3_small_100");
  EXPECT_EQ(opened.config.in_chans, 4);
  EXPECT_EQ(opened.config.class_names, (std::vector<std::string>{"0", "1", "2", "3", "4", "5", "6"}));
  EXPECT_EQ(opened.config.preprocess.channels, 4);
  EXPECT_EQ(opened.config.preprocess.crop_pct, 0.875);
  EXPECT_EQ(named_parameters(opened.model)[0].tensor.values<float>(),
            named_parameters(model)[0].tensor.values<float>());
  EXPECT_EQ(load_checkpoint(file, "mobilenet_v3_small").config.class_names.size(), 7u);  // by torchvision's names
  expect_refused([&] { load_checkpoint(file, "resnet18"); }, {"has no fc.bias, the last layer of resnet18"});
  write_file(folder_ / "net.toml",
             "layers = [ { layer = \"Flatten\" }, { layer = \"Linear\", out = \"$classes\", name = \"fc\" } ]\nimgsz = "
             "4\nin_chans = 1");
  save_model(create_model_file(folder_ / "net.toml", {.num_classes = 5}), file);
  const Checkpoint own = load_checkpoint(file, (folder_ / "net.toml").string());
  EXPECT_EQ(own.config.class_names.size(), 5u);
  EXPECT_EQ(own.config.preprocess.height, 4);
}

TEST_F(ModelFolder, OpensWithItsWeights) {
  Model model = create_model("lenet5", {.num_classes = 3, .in_chans = 1, .seed = 1});
  config(kTimm);
  expect_refused([&] { load_checkpoint(folder_); }, {"none of model.safetensors"});
  save_model(model, folder_ / "model.safetensors");
  const Checkpoint opened = load_checkpoint(folder_);
  EXPECT_EQ(opened.path, folder_ / "model.safetensors");
  EXPECT_EQ(opened.config.class_names[2], "owl");
  Model loaded = opened.model;
  EXPECT_EQ(named_parameters(loaded)[0].tensor.values<float>(), named_parameters(model)[0].tensor.values<float>());

  config(without(without(kTimm, ", \"owl\""), "\"num_classes\": 3", "\"num_classes\": 2"));
  expect_refused([&] { load_checkpoint(folder_); }, {"f3.weight: f32(3,84) in the file, f32(2,84) here"});
  config(without(kTimm, "lenet5.x1", "vit_of_nobody"));
  expect_refused([&] { load_checkpoint(folder_); }, {"'vit_of_nobody'", "not one of"});
  fs::remove(folder_ / "config.json");
  expect_refused([&] { load_checkpoint(folder_); }, {"neither weights/best.safetensors nor a config.json"});
}

}  // namespace
}  // namespace neurim
