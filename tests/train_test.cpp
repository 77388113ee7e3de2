#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <map>

#include "neurim/neurim.h"
#include "neurim/train/results_csv.h"
#include "neurim/train/run_folder.h"
#include "tests/errors.h"

namespace neurim {
namespace {

/// A fresh folder that goes with the test.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / text("neurim_train_test_", ::getpid(), '_', count_++)) {
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  fs::path operator/(const std::string& name) const { return path_ / name; }

 private:
  static inline int count_ = 0;
  fs::path path_;
};

/// The message of the Error that `body` throws, checked for its fault.
template <class Body>
std::string error_of(Fault fault, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), fault) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

struct Example {
  std::string word = "one";
  bool flag = false;
  std::int64_t count = 3;
  double share = 0.25;
  std::vector<double> list{1, 2};
  std::optional<double> rate;
  void visit(Options& o) {
    o("word", word, "a word", {"w"});
    o("flag", flag, "a flag");
    o("item_count", count, "a number");
    o("share", share, "a share");
    o("list", list, "numbers");
    o("rate", rate, "a number or auto");
  }
};

TEST(Options, AreSetByNameAliasAndEitherDash) {
  Example e;
  Options options;
  e.visit(options);
  options.set("w", "two words");
  options.set("item-count", "-7");
  options.set("FLAG", "yes");
  options.set("list", "[0.5, 1e-3]");
  options.set("rate", "0.1");
  EXPECT_EQ(e.word, "two words");
  EXPECT_EQ(e.count, -7);
  EXPECT_TRUE(e.flag);
  EXPECT_EQ(e.list, (std::vector<double>{0.5, 1e-3}));
  EXPECT_EQ(e.rate, 0.1);
  options.set("rate", "auto");
  EXPECT_FALSE(e.rate);
}

TEST(Options, SizesAreHeightByWidth) {
  InputSize size;
  Options options;
  options("imgsz", size, "a size");
  for (const auto& [word, height, width] :
       {std::tuple{"224", 224, 224}, {"192x320", 192, 320}, {"[192, 320]", 192, 320}}) {
    options.set("imgsz", word);
    EXPECT_EQ(size, InputSize(height, width));
  }
  EXPECT_EQ(options.list()[0].get(), "192x320");
  for (const char* wrong : {"", "0", "x320", "1x2x3", "192 x", "16385"})
    EXPECT_NE(error_of(Fault::usage, [&] { options.set("imgsz", wrong); }).find("height x width"), std::string::npos)
        << wrong;
}

TEST(Options, WrongOnesSayWhatIsMeant) {
  Example e;
  Options options;
  e.visit(options);
  EXPECT_EQ(error_of(Fault::usage, [&] { options.set("shrae", "1"); }),
            "there is no option 'shrae'; did you mean 'share'?");
  EXPECT_EQ(error_of(Fault::usage, [&] { options.set("share", "1x"); }), "share: '1x' is not a number");
  EXPECT_EQ(error_of(Fault::usage, [&] { options.set("share", "nan"); }), "share: 'nan' is not a number");
  EXPECT_EQ(error_of(Fault::usage, [&] { options.set("item_count", "1.5"); }),
            "item_count: '1.5' is not a whole number");
  EXPECT_EQ(error_of(Fault::usage, [&] { options.set("flag", "maybe"); }), "flag: 'maybe' is neither true nor false");
}

TEST(Options, ComeBackFromTheirYaml) {
  Example e;
  e.word = "a \"quoted\" \\ word # not a comment: \n second line";
  e.share = 1. / 3;
  e.rate = 1e-300;
  e.list.clear();
  Options options;
  e.visit(options);
  Example back;
  Options back_options;
  back.visit(back_options);
  back_options.read_yaml("# a comment\n\n" + options.yaml(), "args.yaml");
  EXPECT_EQ(back.word, e.word);
  EXPECT_EQ(back.share, e.share);
  EXPECT_EQ(back.rate, e.rate);
  EXPECT_EQ(back.list, e.list);
}

TEST(Options, GivenOnesWinOverAFile) {
  Example e;
  Options options;
  e.visit(options);
  options.set("share", "0.5");
  options.read_yaml("share: 0.75\nitem_count: 9  # a comment\nword: 'single'\n", "file");
  EXPECT_EQ(e.share, 0.5);
  EXPECT_EQ(e.count, 9);
  EXPECT_EQ(e.word, "single");
  EXPECT_EQ(error_of(Fault::usage, [&] { options.read_yaml("\nwrod: x\n", "file"); }),
            "file: line 2: there is no option 'wrod'; did you mean 'word'?");
  EXPECT_EQ(error_of(Fault::usage, [&] { options.read_yaml("word: x\nw: y\n", "file"); }),
            "file: line 2: word is given twice: x and y");
}

/// Small drawn digits and a run of LeNet-5 over them: 3 steps an epoch, the last one of a smaller batch, and
/// one batch to validate on, so that a run that is stopped at every chance gets on.
class Training : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    shared_ = std::make_unique<Folder>();
    write_digits(*shared_ / "digits", 1, 6, 2);
  }
  static void TearDownTestSuite() { shared_.reset(); }

  TrainOptions options(const std::string& name) const {
    return {.data = (*shared_ / "digits").string(),
            .model = "lenet5",
            .epochs = 2,
            .batch = 24,
            .hflip = 0.5,
            .rotation = 10,
            .workers = 1,
            .project = (folder_ / "runs").string(),
            .name = name,
            .plots = false};
  }

  static std::string tensors_of(const fs::path& file) {
    const SafeTensors opened(file);
    std::string bytes;
    for (const std::string& name : opened.names()) {
      const auto data = opened.bytes(name);
      bytes += name;
      bytes.append(reinterpret_cast<const char*>(data.data()), data.size());
    }
    return bytes;
  }

  Folder folder_;
  static inline std::unique_ptr<Folder> shared_;
};

TEST_F(Training, LeavesAWholeRunFolder) {
  TrainOptions with_images = options("train");
  with_images.plots = true;
  const TrainResult result = train(with_images);
  EXPECT_EQ(result.run, folder_ / "runs" / "train");
  EXPECT_EQ(result.epochs, 2);
  for (const char* name :
       {"args.yaml", "env.json", "data.json", "log.txt", "results.csv", "results.png", "metrics.jsonl",
        "confusion_matrix.csv", "confusion_matrix.png", "per_class.csv", "weights/best.safetensors",
        "weights/last.safetensors", "weights/last.opt.safetensors", "weights/model.json", "weights/labels.txt"})
    EXPECT_TRUE(fs::exists(result.run / name)) << name;
  EXPECT_EQ(read_file(result.run / "weights/labels.txt"), "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n");
  EXPECT_EQ(split(read_file(result.run / "metrics.jsonl"), '\n').size(), 3u);
  EXPECT_EQ(train(options("train")).run, folder_ / "runs" / "train2");
}

TEST_F(Training, CheckpointGivesTheRunsMetrics) {
  const TrainResult result = train(options("train"));
  const Checkpoint checkpoint = load_checkpoint(result.run);
  EXPECT_EQ(checkpoint.config.metrics["loss"], result.metrics["loss"]);
  TrainOptions of_run;
  Options named;
  of_run.visit(named);
  named.read_yaml(checkpoint.config.options, "options");
  const Dataset dataset = Dataset::open(of_run.data, dataset_of(of_run));
  Validation validation(checkpoint.model, dataset, Split::val, checkpoint.config.preprocess, of_run);
  const Metrics metrics = metrics_of(*validation.run());
  EXPECT_EQ(metrics["top1"], result.metrics["top1"]);
  EXPECT_EQ(metrics["top5"], result.metrics["top5"]);
  EXPECT_EQ(metrics["loss"], result.metrics["loss"]);
  EXPECT_EQ(metrics.samples, 20);
}

/// Images of a digit with the labels "even" and "low" (0 to 4), as a table beside them.
fs::path multi_label_table(const fs::path& digits) {
  std::string table = "path,label,split\n";
  for (const char* split : {"train", "val"})
    for (int digit = 0; digit < 10; ++digit)
      for (const fs::directory_entry& file : fs::directory_iterator(digits / split / text(digit)))
        table += text(file.path().lexically_relative(digits).string(), ',', digit % 2 ? "" : "even",
                      digit % 2 || digit > 4 ? "" : "|", digit > 4 ? "" : "low", ',', split, '\n');
  write_file(digits / "labels.csv", table);
  return digits / "labels.csv";
}

TEST_F(Training, MultiLabelRunsAreJudgedAndStatedAsSuch) {
  TrainOptions labels = options("labels");
  labels.data = multi_label_table(options("").data).string();
  labels.mixup = 0.2;
  labels.plots = true;
  const TrainResult result = train(labels);
  const Checkpoint checkpoint = load_checkpoint(result.run);
  const ModelConfig& config = checkpoint.config;
  EXPECT_TRUE(config.multi_label());
  EXPECT_EQ(config.class_names, (std::vector<std::string>{"even", "low"}));
  EXPECT_EQ(result.metrics.task(), multi_label_task());
  EXPECT_EQ(message_of([&] { static_cast<void>(result.metrics["top1"]); }),
            "there is no metric 'top1' of multi-label images; known are loss, map, f1_macro, f1_micro, exact_match");
  EXPECT_TRUE(std::isnan(config.reject_threshold));
  const ResultsCsv rows(result.run / "results.csv", 2, multi_label_task());
  EXPECT_EQ(rows.rows().at(static_cast<std::size_t>(result.best_epoch - 1)).val["map"], result.metrics["map"]);
  EXPECT_FALSE(fs::exists(result.run / "confusion_matrix.csv"));
  EXPECT_TRUE(fs::exists(result.run / "per_class.csv"));
  const std::string model = read_file(result.run / "weights/model.json");
  for (const double threshold : config.thresholds) EXPECT_NE(model.find(text(threshold)), std::string::npos) << model;

  TrainOptions of_run;
  Options named;
  of_run.visit(named);
  named.read_yaml(config.options, "options");
  EXPECT_EQ(of_run.monitor, "map");
  EXPECT_EQ(of_run.multi_label, true);
  const Dataset dataset = Dataset::open(of_run.data, dataset_of(of_run));
  Validation validation(checkpoint.model, dataset, Split::val, config.preprocess, of_run);
  MultiLabelEvaluation evaluation = *validation.run_multi_label();
  evaluation.set_thresholds(config.thresholds);
  const Metrics metrics = metrics_of(evaluation);
  for (const TaskMetric& one : multi_label_task().metrics)
    EXPECT_EQ(metrics[one.name], result.metrics[one.name]) << one.name;
  error_of(Fault::usage, [&] { validation.run(); });

  labels.monitor = "top1";
  EXPECT_NE(error_of(Fault::usage, [&] { train(labels); }).find("f1_micro"), std::string::npos);
  TrainOptions single = options("single");
  single.monitor = "map";
  EXPECT_NE(error_of(Fault::usage, [&] { train(single); }).find("top1"), std::string::npos);
}

TEST_F(Training, MultiLabelClassWeightsAreOdds) {
  const Dataset dataset = Dataset::open(multi_label_table(options("").data).string());
  TrainOptions weighted;
  weighted.class_weights = "balanced";  // of 60 samples 30 are even and 30 low
  EXPECT_EQ(class_weights_of(weighted, dataset), (std::vector<float>{1, 1}));
  write_file(folder_ / "m.csv", "path,label\n" + text((fs::path(options("").data) / "labels.csv").string(), ",a|b\n",
                                                      "x,a\ny,a\nz,a\nw,\n"));
  const Dataset skewed = Dataset::open((folder_ / "m.csv").string(), {.val_split = 0.0});
  EXPECT_EQ(class_weights_of(weighted, skewed), (std::vector<float>{0.25f, 4}));
  weighted.class_weights = "sqrt";
  EXPECT_EQ(class_weights_of(weighted, skewed), (std::vector<float>{0.5f, 2}));
}

TEST_F(Training, MultiLabelLossesOfAnEpochAreThoseOfItsImages) {
  TrainOptions still = options("still-labels");
  still.data = multi_label_table(options("").data).string();
  still.epochs = 1;
  still.lr = still.hflip = still.rotation = 0;
  const TrainResult result = train(still);
  const EpochResult row = ResultsCsv(result.run / "results.csv", 1, multi_label_task()).rows().at(0);
  const Checkpoint checkpoint = load_checkpoint(result.run);
  TrainOptions of_run;
  Options named;
  of_run.visit(named);
  named.read_yaml(checkpoint.config.options, "options");
  const Dataset dataset = Dataset::open(of_run.data, dataset_of(of_run));
  const MultiLabelEvaluation at_a_half = *Validation(checkpoint.model, dataset, Split::train,
                                                     checkpoint.config.preprocess, of_run)
                                              .run_multi_label();
  EXPECT_NEAR(row.train_loss, at_a_half.loss(), 1e-6);
  EXPECT_DOUBLE_EQ(row.train_metric, at_a_half.exact_match());
}

TEST_F(Training, TheRejectThresholdIsThatOfTheBestEpoch) {
  TrainOptions keeping = options("keeping");
  keeping.reject_keep = 0.5;
  const TrainResult result = train(keeping);
  const Checkpoint checkpoint = load_checkpoint(result.run);
  TrainOptions of_run;
  Options named;
  of_run.visit(named);
  named.read_yaml(checkpoint.config.options, "options");
  const Dataset dataset = Dataset::open(of_run.data, dataset_of(of_run));
  const Evaluation evaluation = *Validation(checkpoint.model, dataset, Split::val, checkpoint.config.preprocess, of_run)
                                     .run();
  EXPECT_EQ(checkpoint.config.reject_threshold, evaluation.reject_threshold(0.5));
  EXPECT_GT(checkpoint.config.reject_threshold, 0.1);
  EXPECT_NE(read_file(result.run / "weights/model.json").find("reject_threshold"), std::string::npos);
}

TEST_F(Training, PhotosAreTrainedOnSmallAndSeenOftenWhereThereAreFew) {
  const Dataset dataset = Dataset::open(*shared_ / "digits");  // 60 to train on
  const Model model = create_model("resnet18", {.num_classes = 10, .in_chans = 3, .seed = 1});
  const TrainOptions few = TrainOptions{.batch = 2}.resolved(model, dataset);
  EXPECT_EQ(*few.epochs, 42);  // 1,250 steps
  EXPECT_EQ(*few.weight_decay, 0.01);
  const TrainOptions longer = TrainOptions{.epochs = 100'000, .batch = 2}.resolved(model, dataset);
  EXPECT_NEAR(*longer.lr / 2 * *longer.weight_decay * 3e6, 2, 1e-9);
  EXPECT_EQ(*few.train_imgsz, 160);
  EXPECT_EQ(training_preprocess_of(few).height, 160);
  EXPECT_EQ(preprocess_of(few).height, 224);
  EXPECT_EQ(*TrainOptions{}.resolved(model, dataset).batch, 3);  // 20 steps an epoch
  EXPECT_EQ(*TrainOptions{}.resolved(model, dataset).epochs, 63);
  EXPECT_EQ(*TrainOptions{.imgsz = 96}.resolved(model, dataset).train_imgsz, 64);
  EXPECT_EQ(*(TrainOptions{.imgsz = InputSize(96, 224)}.resolved(model, dataset).train_imgsz), InputSize(64, 160));
  EXPECT_EQ(*TrainOptions{.imgsz = 12}.resolved(model, dataset).train_imgsz, 12);  // never larger
  EXPECT_EQ(*TrainOptions{.random_resized_crop = false}.resolved(model, dataset).train_imgsz, 224);
  EXPECT_EQ(*TrainOptions{.augment = false}.resolved(model, dataset).train_imgsz, 224);

  // Only a network that takes images of another size is trained on smaller ones.
  const std::string flatten = "{ layer = \"Flatten\" }, ", linear = "{ layer = \"Linear\", out = 10 }";
  for (const auto& [layers, size] : {std::pair<std::string, std::int64_t>{flatten + linear, 96},
                                     {"{ layer = \"GlobalAvgPool2d\" }, " + flatten + linear, 64},
                                     {"{ layer = \"Flatten\", start_axis = 2 }, { layer = \"Permute\", axes = [0, 2, "
                                      "1] }, { layer = \"LearnedPositions\" }, "
                                      "{ layer = \"Permute\", axes = [0, 2, 1] }, { layer = \"AdaptiveAvgPool1d\" }, " +
                                          flatten + linear,
                                      96}}) {
    const Model own = ModelFile("layers = [ " + layers + " ]", "own.toml")
                          .build({.num_classes = 10, .height = 96, .width = 96});
    EXPECT_EQ(*TrainOptions{}.resolved(own, dataset).train_imgsz, size) << layers;
  }
}

TEST_F(Training, RunsOfModelFilesGoOnWithoutThem) {
  // Also where the file is called as a network of series and texts.
  const Model model = ModelFile("layers = [ { layer = \"Flatten\" }, { layer = \"Linear\", out = 10 } ]", "lstm.toml")
                          .build({.num_classes = 10, .in_chans = 1, .height = 28, .width = 28});
  TrainOptions one = options("file");
  one.model.clear();
  one.epochs = 1;
  const TrainResult result = train(model, Dataset::open(one.data), one);
  EXPECT_EQ(read_file(result.run / "model.toml"), model.source);
  const Checkpoint checkpoint = load_checkpoint(result.run);
  EXPECT_EQ(checkpoint.config.model, "lstm");
  EXPECT_EQ(checkpoint.config.source, model.source);
  EXPECT_EQ(checkpoint.model.source, model.source);
  EXPECT_EQ(checkpoint.config.task(), classify_task());
  EXPECT_EQ(resume(result.run, 2).epochs, 2);
}

TEST_F(Training, MetricsOfAnEpochAreThoseOfItsImages) {
  TrainOptions still = options("still");  // with a learning rate of 0 all batches see the same weights
  still.epochs = 1;
  still.lr = still.hflip = still.rotation = 0;
  const TrainResult result = train(still);
  const EpochResult row = ResultsCsv(result.run / "results.csv", 1).rows().at(0);
  const Checkpoint checkpoint = load_checkpoint(result.run);
  TrainOptions of_run;
  Options named;
  of_run.visit(named);
  named.read_yaml(checkpoint.config.options, "options");
  const Dataset dataset = Dataset::open(of_run.data, dataset_of(of_run));
  const Metrics metrics = metrics_of(
      *Validation(checkpoint.model, dataset, Split::train, checkpoint.config.preprocess, of_run).run());
  EXPECT_GT(metrics["top1"], 0);
  EXPECT_DOUBLE_EQ(row.train_metric, metrics["top1"]);
  EXPECT_NEAR(row.train_loss, metrics["loss"], 1e-6);
}

TEST_F(Training, StoppedAfterEveryStepAndResumedIsTheSameRun) {
  const std::string labels = multi_label_table(options("").data).string();
  for (const char* opt : {"sgd", "adamw", "adam"}) {
    TrainOptions whole = options(text("whole_", opt)), pieces = options(text("pieces_", opt));
    whole.opt = pieces.opt = opt;
    const bool multi_label = whole.opt == "adam";
    if (multi_label) whole.data = pieces.data = labels;
    if (std::string_view(opt) == "adamw") {  // stopped between the batches of a step, too
      whole.grad_accum_steps = pieces.grad_accum_steps = 3;
      whole.clip_grad = pieces.clip_grad = 1;
    }
    const TrainResult uninterrupted = train(whole);
    const std::atomic<int> stop{1};
    TrainResult result = train(pieces, {.stop = &stop});
    int stops = 0;
    for (; result.stopped; ++stops) result = resume(result.run, {}, {.stop = &stop});
    EXPECT_GE(stops, 4);
    for (const char* name : {"weights/best.safetensors", "weights/last.safetensors", "weights/last.opt.safetensors"})
      EXPECT_EQ(tensors_of(result.run / name), tensors_of(uninterrupted.run / name)) << opt << ' ' << name;
    EXPECT_EQ(load_checkpoint(result.model).config.thresholds, load_checkpoint(uninterrupted.model).config.thresholds);
    EXPECT_EQ(read_file(result.run / "weights/model.json"), read_file(uninterrupted.run / "weights/model.json"));
    const TaskInfo& task = multi_label ? multi_label_task() : classify_task();
    const ResultsCsv a(uninterrupted.run / "results.csv", 2, task), b(result.run / "results.csv", 2, task);
    ASSERT_EQ(a.rows().size(), 2u);
    ASSERT_EQ(b.rows().size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(a.rows()[i].step, b.rows()[i].step);
      EXPECT_EQ(a.rows()[i].train_loss, b.rows()[i].train_loss);
      EXPECT_EQ(a.rows()[i].val["loss"], b.rows()[i].val["loss"]);
      EXPECT_EQ(a.rows()[i].learning_rate, b.rows()[i].learning_rate);
    }
    EXPECT_EQ(split(read_file(result.run / "metrics.jsonl"), '\n').size(), 3u);
  }
}

TEST_F(Training, GoesOnWithFewerImagesThanWereSeen) {
  TrainOptions own = options("train");
  own.data = (folder_ / "digits").string();
  write_digits(own.data, 1, 6, 2);
  const std::atomic<int> stop{1};
  const TrainResult stopped = train(own, {.stop = &stop});
  EXPECT_TRUE(resume(stopped.run, {}, {.stop = &stop}).stopped);  // after the second of three steps
  for (const fs::directory_entry& digit : fs::directory_iterator(folder_ / "digits" / "train")) {
    std::vector<fs::path> images;
    for (const fs::directory_entry& image : fs::directory_iterator(digit)) images.push_back(image.path());
    for (std::size_t i = 2; i < images.size(); ++i) fs::remove(images[i]);
  }
  EXPECT_EQ(resume(stopped.run).epochs, 2);
  const std::string log = read_file(stopped.run / "log.txt");
  EXPECT_NE(log.find("the data are not those that the run was begun with"), std::string::npos) << log;
  EXPECT_NE(log.find("epoch 1 was stopped after step 2, and the data make 1 now: it counts as done"), std::string::npos)
      << log;
}

/// A network that no name and no file gives.
Model own_model(std::int64_t classes, std::uint64_t seed) {
  Model model{.name = "own",
              .image_size = 28,
              .in_chans = 1,
              .num_classes = classes,
              .mean = {0.5},
              .std = {0.5},
              .net = nn::Sequential(nn::Conv2d(1, 4, {.kernel = 3, .stride = 2}), nn::BatchNorm2d(4), nn::ReLU(),
                                    nn::Flatten(), nn::Dropout(0.2), nn::Linear(4 * 13 * 13, classes))};
  initialise(model, seed);
  return model;
}

TEST_F(Training, AProgramsOwnNetworkIsResumedByTheProgram) {
  const Dataset data = Dataset::open(options("").data);
  for (const std::string& path : {std::string(), options("").data}) {
    TrainOptions whole = options("whole"), pieces = options("pieces");
    whole.data = pieces.data = path;
    whole.model = pieces.model = "";
    const TrainResult uninterrupted = train(own_model(10, 1), data, whole);
    const std::atomic<int> stop{1};
    TrainResult result = train(own_model(10, 1), data, pieces, {.stop = &stop});
    EXPECT_TRUE(result.stopped);
    EXPECT_NE(error_of(Fault::data, [&] { resume(result.run); })
                  .find("was trained by a program; call resume(model, data, run) there"),
              std::string::npos);
    int stops = 0;
    for (; result.stopped; ++stops) result = resume(own_model(10, 2), data, result.run, {}, {.stop = &stop});
    EXPECT_GE(stops, 4);
    for (const char* name : {"weights/best.safetensors", "weights/last.safetensors", "weights/last.opt.safetensors"})
      EXPECT_EQ(tensors_of(result.run / name), tensors_of(uninterrupted.run / name)) << name;
    EXPECT_EQ(resume(own_model(10, 2), data, result.run, 3).epochs, 3);
    const Dataset reversed = Dataset::open(options("").data,
                                           {.class_names = {"9", "8", "7", "6", "5", "4", "3", "2", "1", "0"}});
    EXPECT_NE(error_of(Fault::data, [&] { resume(own_model(10, 2), reversed, result.run); })
                  .find("was trained on the classes [0, 1,"),
              std::string::npos);
    fs::remove_all(folder_ / "runs");
  }
}

TEST_F(Training, IsTheSameForAnyNumberOfWorkers) {
  TrainOptions none = options("none"), many = options("many");
  none.workers = 0;
  many.workers = 3;
  EXPECT_EQ(tensors_of(train(none).run / "weights/last.safetensors"),
            tensors_of(train(many).run / "weights/last.safetensors"));
}

TEST_F(Training, AFinishedRunGoesOnWithMoreEpochs) {
  const TrainResult first = train(options("train"));
  EXPECT_EQ(resume(first.run).epochs, 2);
  const TrainResult more = resume(first.run, 3);
  EXPECT_EQ(more.epochs, 3);
  EXPECT_FALSE(std::isnan(load_checkpoint(first.run / "weights/last.safetensors").config.metrics["loss"]));
  EXPECT_EQ(ResultsCsv(first.run / "results.csv", 3).rows().size(), 3u);
}

TEST_F(Training, ResumesFromEveryPointWhereSavingMayDie) {
  // save_state writes the pair "next" and renames it file by file; death may come between any two of these.
  const std::atomic<int> stop{1};
  const TrainResult older = train(options("train"), {.stop = &stop});
  const fs::path weights = older.run / "weights", saved = folder_ / "older";
  fs::copy(weights, saved);
  resume(older.run, {}, {.stop = &stop});
  const auto steps_after = [&](bool weights_next, bool state_next, bool renamed) {
    const fs::path run = folder_ / text("run", weights_next, state_next, renamed);
    fs::copy(older.run, run, fs::copy_options::recursive);
    fs::remove_all(run / "weights");
    fs::copy(saved, run / "weights");
    if (weights_next) fs::copy(weights / "last.safetensors", run / "weights/next.safetensors");
    if (state_next) fs::copy(weights / "last.opt.safetensors", run / "weights/next.opt.safetensors");
    if (renamed) fs::rename(run / "weights/next.safetensors", run / "weights/last.safetensors");
    load_checkpoint(run / "weights/last.safetensors");
    const TrainResult result = resume(run, {}, {.stop = &stop});
    EXPECT_TRUE(result.stopped);
    return load_checkpoint(result.run / "weights/last.safetensors").config.step;
  };
  EXPECT_EQ(steps_after(false, false, false), 2);
  EXPECT_EQ(steps_after(true, false, false), 2);
  EXPECT_EQ(steps_after(true, true, false), 2);
  EXPECT_EQ(steps_after(true, true, true), 3);
}

TEST_F(Training, ResumesWhereSavingDiedTwice) {
  const std::atomic<int> stop{1};
  const TrainResult run = train(options("train"), {.stop = &stop});
  const fs::path weights = run.run / "weights", older = folder_ / "older", newer = folder_ / "newer";
  const auto step = [&] { return load_checkpoint(weights / "last.safetensors").config.step; };
  fs::copy(weights, older);
  resume(run.run, {}, {.stop = &stop});
  fs::rename(weights / "last.opt.safetensors", weights / "next.opt.safetensors");  // between the two renames
  fs::copy(older / "last.opt.safetensors", weights / "last.opt.safetensors");
  const std::int64_t before = step();
  fs::create_directory(weights / "next.safetensors");  // the next save fails before any rename of its own
  EXPECT_NE(error_of(Fault::resource, [&] { resume(run.run, {}, {.stop = &stop}); }).find("next.safetensors"),
            std::string::npos);
  fs::remove(weights / "next.safetensors");
  EXPECT_EQ(step(), before);
  resume(run.run, {}, {.stop = &stop});
  EXPECT_EQ(step(), before + 1);
}

TEST_F(Training, ADamagedStateSaysWhatIsLeftOfTheRun) {
  const TrainResult run = train(options("train"));
  for (const char* name : {"last.safetensors", "last.opt.safetensors"}) {
    const fs::path file = run.run / "weights" / name;
    const std::string whole = read_file(file);
    for (const std::size_t size : {std::size_t{0}, std::size_t{5}, whole.size() / 2, whole.size() - 1}) {
      write_file(file, std::string_view(whole).substr(0, size));
      const std::string message = error_of(Fault::data, [&] { resume(run.run, 3); });
      EXPECT_NE(message.find(name), std::string::npos) << message;
      EXPECT_NE(message.find("pretrained=" + run.run.string()), std::string::npos) << message;
    }
    write_file(file, whole);
  }
  EXPECT_EQ(resume(run.run, 3).epochs, 3);
}

TEST_F(Training, AnotherRunInTheSameFolderLeavesNoWeightsOfTheFirst) {
  TrainOptions again = options("train");
  const fs::path best = train(again).run / "weights/best.safetensors";
  ASSERT_TRUE(fs::exists(best));
  again.exist_ok = true;
  const std::atomic<int> stop{1};
  EXPECT_TRUE(train(again, {.stop = &stop}).stopped);
  EXPECT_FALSE(fs::exists(best));
}

TEST_F(Training, AnEpochOfOneStepIsNoneInVain) {
  TrainOptions one = options("one");
  one.batch = 60;
  one.lr = 0.1;
  one.warmup_epochs = 1;
  const TrainResult result = train(one);
  const ResultsCsv rows(result.run / "results.csv", 2);
  EXPECT_EQ(rows.rows().at(0).step, 1);
  EXPECT_FLOAT_EQ(static_cast<float>(rows.rows().at(0).learning_rate), 0.1F);
  TrainOptions wrong = options("wrong");
  wrong.warmup_lr = -1;
  EXPECT_EQ(error_of(Fault::usage, [&] { train(wrong); }), "warmup_lr is -1; it is not negative");
}

TEST_F(Training, ARunFolderHasOneWriter) {
  const TrainResult result = train(options("train"));
  {
    const RunLock lock(result.run);
    EXPECT_EQ(error_of(Fault::resource, [&] { resume(result.run, 3); }),
              text(result.run.string(), " is being written by another process; wait for it or choose another name"));
    TrainOptions again = options("train");
    again.exist_ok = true;
    error_of(Fault::resource, [&] { train(again); });
  }
  EXPECT_EQ(resume(result.run, 3).epochs, 3);
}

TEST_F(Training, ARunThatFailsInItsFirstEpochLeavesTheOneBefore) {
  const TrainResult first = train(options("train"));
  const auto files = [&] {
    std::map<fs::path, std::string> contents;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(first.run))
      if (entry.is_regular_file()) contents[entry.path()] = read_file(entry.path());
    return contents;
  };
  const auto before = files();
  TrainOptions wild = options("train");
  wild.exist_ok = true;
  wild.opt = "sgd";
  wild.lr = 1e30;
  const std::string message = error_of(Fault::failure, [&] { train(wild); });
  EXPECT_EQ(message.find("is kept in"), std::string::npos) << message;
  EXPECT_EQ(files(), before);
  TrainOptions other = options("train");  // of another task, which writes other files
  other.exist_ok = true;
  other.data = multi_label_table(other.data).string();
  EXPECT_EQ(train(other).epochs, 2);
  EXPECT_FALSE(fs::exists(first.run / "confusion_matrix.csv"));
  EXPECT_EQ(split(read_file(first.run / "metrics.jsonl"), '\n').size(), 3u);
  EXPECT_EQ(load_checkpoint(first.run).config.task(), multi_label_task());
}

TEST_F(Training, ALossThatIsNoNumberStopsAndKeepsTheLastState) {
  TrainOptions wild = options("wild");
  wild.opt = "sgd";
  wild.lr = 1e30;
  const std::string message = error_of(Fault::failure, [&] { train(wild); });
  EXPECT_NE(message.find("learning rate"), std::string::npos) << message;
  const Checkpoint kept = load_checkpoint(folder_ / "runs" / "wild");
  for (const Parameter& parameter : named_parameters(Model(kept.model)))
    for (const float value : parameter.tensor.values<float>()) ASSERT_TRUE(std::isfinite(value)) << parameter.name;
}

TEST_F(Training, WrongOptionsFailBeforeAnyFolderIsMade) {
  const auto refused = [&](auto change) {
    TrainOptions wrong = options("wrong");
    change(wrong);
    const std::string message = error_of(Fault::usage, [&] { train(wrong); });
    EXPECT_FALSE(fs::exists(folder_ / "runs")) << message;
    return message;
  };
  EXPECT_NE(refused([](TrainOptions& o) { o.model = "lenet"; }).find("did you mean 'lenet5'"), std::string::npos);
  EXPECT_NE(refused([](TrainOptions& o) { o.opt = "adamv"; }).find("did you mean 'adam"), std::string::npos);
  EXPECT_NE(refused([](TrainOptions& o) { o.sched = "cosin"; }).find("did you mean 'cosine'"), std::string::npos);
  refused([](TrainOptions& o) { o.batch = 0; });
  refused([](TrainOptions& o) { o.imgsz = (std::int64_t{1} << 32) + 28; });
  refused([](TrainOptions& o) { o.threads = 100'000; });
  refused([](TrainOptions& o) { o.workers = 100'000; });
  refused([](TrainOptions& o) { o.sched = "multistep"; });
  refused([](TrainOptions& o) { o.name = ".."; });
  refused([](TrainOptions& o) { o.momentum = 1; });
  refused([](TrainOptions& o) { o.model.clear(); });
  const auto says = [&](auto change, const std::vector<std::string>& words) {
    const std::string message = refused(change);
    for (const std::string& word : words) EXPECT_NE(message.find(word), std::string::npos) << word << "\n" << message;
  };
  says([](TrainOptions& o) { o.mean = "123.675,116.28,103.53"; },
       {"mean is 123.675; pixels are scaled to 0 to 1", "divided by 255"});
  says([](TrainOptions& o) { o.std = "14000"; }, {"std is 14000; ", "divided by 65535"});
  says([](TrainOptions& o) { o.mean = "-2"; }, {"mean is -2; ", "[-1, 1]"});
  says([](TrainOptions& o) { o.name = "\xff\xfe"; }, {"name is ", "not UTF-8"});
  says([](TrainOptions& o) { o.project = "\xff"; }, {"project is ", "not UTF-8"});
  says([](TrainOptions& o) { o.name = "a\nb"; }, {"name is 'a b' with control characters"});
}

TEST_F(Training, OptionsWithoutAnEffectAreRefused) {
  const auto refused = [&](auto change) {
    TrainOptions wrong = options("wrong");
    change(wrong);
    const std::string message = error_of(Fault::usage, [&] { train(wrong); });
    EXPECT_FALSE(fs::exists(folder_ / "runs")) << message;
    return message;
  };
  const auto says = [&](auto change, const std::vector<std::string>& words) {
    const std::string message = refused(change);
    for (const std::string& word : words) EXPECT_NE(message.find(word), std::string::npos) << word << "\n" << message;
  };
  const auto adamw = [](auto change) { return [change](TrainOptions& o) { o.opt = "adamw", change(o); }; };
  says(adamw([](TrainOptions& o) { o.momentum = 0.3; }), {"momentum is an option of opt=sgd, and opt is adamw"});
  says([](TrainOptions& o) { o.momentum = 0.3; },
       {"momentum is an option of opt=sgd, and opt is adamw"});  // which lenet5 takes by itself
  says(adamw([](TrainOptions& o) { o.nesterov = true; }), {"nesterov is an option of opt=sgd"});
  says([](TrainOptions& o) { o.opt = "sgd", o.momentum = 0, o.nesterov = true; },
       {"nesterov is true, which has no effect with momentum=0"});
  says([](TrainOptions& o) { o.gamma = 0.3; }, {"gamma is an option of sched=step and multistep, and sched is cosine"});
  says([](TrainOptions& o) { o.step_epochs = 3; }, {"step_epochs is an option of sched=step"});
  says([](TrainOptions& o) { o.sched = "step", o.min_lr = 1e-5; },
       {"min_lr is an option of sched=cosine and polynomial, and sched is step"});
  says([](TrainOptions& o) { o.warmup_epochs = 0, o.warmup_lr = 1e-5; },
       {"warmup_lr is 1e-05, which has no effect with warmup_epochs=0"});
  says([](TrainOptions& o) { o.weight_decay = 0, o.decay_norms = false; },
       {"decay_norms is false, which has no effect with weight_decay=0"});
  says([](TrainOptions& o) { o.resize = "squash", o.crop_pct = 0.5; },
       {"crop_pct is an option of resize=crop and shortest, and resize is squash"});
  says([](TrainOptions& o) { o.scale = {0.5, 1}; },
       {"scale is [0.5, 1], which has no effect with random_resized_crop=false"});
  says([](TrainOptions& o) { o.cache = "ram", o.cache_mib = 7; },
       {"cache_mib is an option of cache=auto, and cache is ram"});
  TrainOptions labels = options("wrong");
  labels.data = multi_label_table(labels.data).string();
  labels.reject_keep = 0.9;
  EXPECT_NE(error_of(Fault::usage, [&] { train(labels); })
                .find("reject_keep is 0.9, which has no effect with multi_label=true"),
            std::string::npos);

  // What a run was resolved to says all options, and is good for another one.
  for (const char* opt : {"adamw", "sgd"})
    for (const char* sched : {"cosine", "step"}) {
      TrainOptions first = options(text(opt, sched));
      first.opt = opt, first.sched = sched, first.epochs = 1;
      TrainOptions again = options("again");
      Options named;
      again.visit(named);
      named.read_yaml(read_file(train(first).run / "args.yaml"), "args.yaml");
      again.name = "again";
      EXPECT_EQ(train(again).epochs, 1);
    }
}

TEST_F(Training, AShapeErrorInAUsersNetworkNamesTheModuleAndBothShapes) {
  struct Stage {
    nn::Conv2d conv{16, 8, {.kernel = 3}};  // the layer before gives 4 channels
    void parts(Parts& p) { p("conv", conv); }
    Tensor operator()(const Tensor& x) const { return conv(x); }
  };
  struct Net {
    nn::Conv2d stem{1, 4, {.kernel = 3}};
    Stage stage;
    void parts(Parts& p) { p("stem", stem)("stage", stage); }
    Tensor operator()(const Tensor& x) const { return stage(stem(x)); }
  };
  const Dataset digits = Dataset::open(options("").data);
  const Model model{"own", 28, 1, 10, {0.5}, {0.5}, Net()};
  const std::string message = error_of(Fault::usage, [&] { train(model, digits, options("wrong")); });
  EXPECT_NE(message.find("stage.conv: conv2d"), std::string::npos) << message;
  EXPECT_NE(message.find(",4,26,26)"), std::string::npos) << message;
  EXPECT_NE(message.find("(8,16,3,3)"), std::string::npos) << message;
  EXPECT_FALSE(fs::exists(folder_ / "runs" / "wrong"));  // nothing was trained
}

TEST_F(Training, AModelOfOtherClassesThanTheDataIsRefused) {
  const Dataset digits = Dataset::open(options("").data);
  const Model seven = create_model("lenet5", {.num_classes = 7});
  EXPECT_NE(error_of(Fault::usage, [&] { train(seven, digits, options("wrong")); }).find("7 classes"),
            std::string::npos);
  Model claims = seven;
  claims.num_classes = 10;
  EXPECT_NE(error_of(Fault::usage, [&] { train(claims, digits, options("wrong")); }).find("(24,7)"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ / "runs" / "wrong"));
}

TEST_F(Training, ClassesKeepTheirNumbers) {
  // A folder that is renamed would otherwise become another class's number.
  const TrainOptions base = options("order");
  fs::copy(base.data, folder_ / "data", fs::copy_options::recursive);
  TrainOptions ordered = base;
  ordered.data = (folder_ / "data").string();
  ordered.epochs = 1;
  const TrainResult plain = train(ordered);
  const auto config = [](const TrainResult& result) {
    return config_of(SafeTensors(result.model).metadata(), result.model);
  };
  std::vector<std::string> names = config(plain).class_names;
  ASSERT_GT(names.size(), 1u);
  for (const char* split : {"train", "val"})
    if (fs::exists(folder_ / "data" / split))
      fs::rename(folder_ / "data" / split / names[0], folder_ / "data" / split / "zz");
  const std::string message = error_of(Fault::data, [&] { resume(plain.run, 2); });
  EXPECT_NE(message.find("[zz]"), std::string::npos) << message;
  for (const char* split : {"train", "val"})
    if (fs::exists(folder_ / "data" / split))
      fs::rename(folder_ / "data" / split / "zz", folder_ / "data" / split / names[0]);
  EXPECT_EQ(resume(plain.run, 2).epochs, 2);
  const std::string changed = "data are not those";
  EXPECT_EQ(read_file(plain.run / "log.txt").find(changed), std::string::npos);
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "data" / "train"))
    if (entry.is_regular_file()) {
      fs::remove(entry.path());
      break;
    }
  resume(plain.run, 3);
  EXPECT_NE(read_file(plain.run / "log.txt").find(changed), std::string::npos);

  std::reverse(names.begin(), names.end());
  ordered.classes = join(names, ",");
  EXPECT_EQ(config(train(ordered)).class_names, names);
  write_file(folder_ / "classes.txt", join(names, "\r\n") + "\n");
  ordered.classes = (folder_ / "classes.txt").string();
  const TrainResult from_file = train(ordered);
  EXPECT_EQ(config(from_file).class_names, names);
  fs::remove(folder_ / "classes.txt");
  EXPECT_EQ(resume(from_file.run, 2).epochs, 2);
  ordered.classes = names[0] + "," + names[0];
  EXPECT_NE(error_of(Fault::usage, [&] { train(ordered); }).find("stands twice"), std::string::npos);
  ordered.classes = names[0] + ",unknown";
  EXPECT_NE(error_of(Fault::data, [&] { train(ordered); }).find("are not known"), std::string::npos);
}

TEST_F(Training, ResumeTakesNoFewerEpochsAndNoDamagedOptions) {
  const TrainResult result = train(options("train"));
  const std::string args = read_file(result.run / "args.yaml");
  EXPECT_NE(error_of(Fault::usage, [&] { resume(result.run, 1); }).find("has 2 already"), std::string::npos);
  EXPECT_EQ(read_file(result.run / "args.yaml"), args);
  write_file(result.run / "args.yaml", "model: lenet5\n");
  EXPECT_NE(error_of(Fault::data, [&] { resume(result.run); }).find("names no data"), std::string::npos);
  write_file(result.run / "args.yaml", text("model: lenet5\ndata: ", options("").data, "\nepochs: 2\n"));
  EXPECT_EQ(resume(result.run).epochs, 2);
}

TEST_F(Training, WithoutPlotsTheTablesAreStillWritten) {
  const TrainResult result = train(options("train"));
  EXPECT_TRUE(fs::exists(result.run / "per_class.csv"));
  EXPECT_FALSE(fs::exists(result.run / "confusion_matrix.png"));
  EXPECT_FALSE(fs::exists(result.run / "results.png"));
}

TEST_F(Training, UnreadableImagesOfBothSplitsAreNamedAndCounted) {
  TrainOptions spoilt = options("spoilt");
  spoilt.data = (folder_ / "spoilt").string();
  spoilt.max_bad = 2;
  fs::copy(*shared_ / "digits", spoilt.data, fs::copy_options::recursive);
  write_file(fs::path(spoilt.data) / "train/3/broken.png", "no image");
  write_file(fs::path(spoilt.data) / "val/4/empty.png", "");
  const std::string log = read_file(train(spoilt).run / "log.txt");
  for (const char* part : {"broken.png", "1 of 61 train images", "empty.png", "1 of 21 val images"})
    EXPECT_NE(log.find(part), std::string::npos) << part << "\n" << log;
}

TEST_F(Training, BeginsWithOtherWeights) {
  TrainOptions first = options("first");
  first.mean = "0.5";
  first.std = "0.2";
  const TrainResult of_ten = train(first);
  TrainOptions again = options("again");
  again.pretrained = of_ten.run.string();
  again.lr = 0;
  const TrainResult same = train(again);
  EXPECT_EQ(tensors_of(same.model), tensors_of(of_ten.model));
  EXPECT_EQ(load_checkpoint(same.run).config.preprocess, load_checkpoint(of_ten.run).config.preprocess);
  EXPECT_NE(read_file(same.run / "log.txt").find("10 of 10 tensors"), std::string::npos);

  const fs::path few = folder_ / "few";
  for (const char* part : {"train/3", "train/4", "val/3", "val/4"}) {
    fs::create_directories(few / part);
    fs::copy(fs::path(first.data) / part, few / part, fs::copy_options::recursive);
  }
  again.data = few.string();
  const std::string log = read_file(train(again).run / "log.txt");
  EXPECT_NE(log.find("8 of 10 tensors"), std::string::npos) << log;
  EXPECT_NE(log.find("the last layer starts anew: f3."), std::string::npos) << log;

  again.model = "resnet20";
  const std::string message = error_of(Fault::data, [&] { train(again); });
  for (const char* part : {"best.safetensors", "missing", "left over"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  again.pretrained = (folder_ / "nothing").string();
  error_of(Fault::data, [&] { train(again); });
}

TEST_F(Training, CheckpointsThatAreNoneAreRefused) {
  const TrainResult result = train(options("train"));
  const std::string bytes = read_file(result.model);
  write_file(folder_ / "cut.safetensors", std::string_view(bytes).substr(0, bytes.size() / 2));
  error_of(Fault::data, [&] { load_checkpoint(folder_ / "cut.safetensors"); });
  write_safetensors(folder_ / "plain.safetensors", {{"x", Tensor::scalar(1)}});
  EXPECT_NE(error_of(Fault::data, [&] { load_checkpoint(folder_ / "plain.safetensors"); }).find("holds weights alone"),
            std::string::npos);
  error_of(Fault::data, [&] { load_checkpoint(folder_ / "nothing"); });
  error_of(Fault::data, [&] { resume(folder_ / "nothing"); });
  Metadata metadata = SafeTensors(result.model).metadata();
  metadata["model"] = "resnet20";
  save_model(Model(load_checkpoint(result.run).model), folder_ / "other.safetensors", metadata);
  error_of(Fault::data, [&] { load_checkpoint(folder_ / "other.safetensors"); });
  for (const auto& [key, value] : {std::pair{"model", "unknown"},
                                   {"preprocess", "{\"channels\":-3}"},
                                   {"figures", "{}"},
                                   {"thresholds", "[0.5]"},
                                   {"reject_threshold", "high"}}) {
    metadata = SafeTensors(result.model).metadata();
    metadata[key] = value;
    save_model(Model(load_checkpoint(result.run).model), folder_ / "damaged.safetensors", metadata);
    EXPECT_NE(
        error_of(Fault::data, [&] { load_checkpoint(folder_ / "damaged.safetensors"); }).find("damaged.safetensors"),
        std::string::npos)
        << key;
  }
}

TEST(Npy, ComesBack) {
  const Folder folder;
  const Tensor in = Tensor::from({2, 3}, std::vector<float>{1, 2, 3, 4, 5, 6});
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::i64, DType::i32, DType::i8, DType::u8}) {
    const Tensor typed = cast(in, dtype);
    write_npy(folder / "x.npy", typed);
    const Tensor back = read_npy(folder / "x.npy");
    EXPECT_EQ(back.type(), typed.type());
    EXPECT_EQ(back.values<float>(), in.values<float>());
  }
  write_npy(folder / "s.npy", Tensor::scalar(3));
  EXPECT_EQ(read_npy(folder / "s.npy").shape(), Shape{});
  const std::string bytes = read_file(folder / "x.npy");
  write_file(folder / "cut.npy", std::string_view(bytes).substr(0, bytes.size() - 1));
  error_of(Fault::data, [&] { read_npy(folder / "cut.npy"); });
  write_file(folder / "no.npy", "this is no array at all");
  error_of(Fault::data, [&] { read_npy(folder / "no.npy"); });
  write_npy(folder / "x.npy", in);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string bytes = read_file(folder / "x.npy");
    bytes.replace(bytes.find(from), from.size(), to);
    write_file(folder / "changed.npy", bytes);
    return error_of(Fault::data, [&] { read_npy(folder / "changed.npy"); });
  };
  changed("(2,3,)", "(2,-3)");
  changed("(2,3,)", " 2,3  ");
  changed("(2,3,), }                         ", "(4611686018427387904,4,6), }      ");
  EXPECT_NE(changed("'<f4'", "'>f4'").find("'>f4'"), std::string::npos);
  EXPECT_NE(changed("False", "True ").find("column-major"), std::string::npos);
}

}  // namespace
}  // namespace neurim
