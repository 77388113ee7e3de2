// Forecasters and language models: the networks, their evaluation, runs, and what they are used for.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <numbers>

#include "neurim/neurim.h"
#include "neurim/train/results_csv.h"
#include "tests/errors.h"
#include "tests/images.h"

namespace neurim {
namespace {

void set(const Model& model, std::string_view name, float value) {
  for (const Parameter& parameter : named_parameters(Model(model)))
    if (parameter.name == name)
      parameter.tensor.write(std::vector<float>(static_cast<std::size_t>(parameter.tensor.numel()), value).data());
}

std::vector<std::string> names_in(const Model& model) {
  std::vector<std::string> names;
  for (const Parameter& parameter : named_parameters(Model(model))) names.push_back(parameter.name);
  return names;
}

TEST(Forecaster, AddsToTheLastValueInTheUnitsOfTheSeries) {
  for (const std::string& name : recurrent_model_names()) {
    const Model model = create_forecaster(name, {.mean = {3, 10}, .std = {1, 2}, .target = 1, .horizon = 3},
                                          {.hidden_size = 4, .num_layers = 2});
    set(model, "head.weight", 0);
    set(model, "head.bias", 0);
    const Tensor x = Tensor::from({2, 2, 2}, std::vector<float>{1, 7, 5, 12, 1, 1, 1, -4});
    EXPECT_EQ(model(x).values<float>(), (std::vector<float>{12, 12, 12, -4, -4, -4})) << name;
    set(model, "head.bias", 0.5);
    EXPECT_EQ(model(x).values<float>(), (std::vector<float>{13, 13, 13, -3, -3, -3})) << name;
  }
}

TEST(Forecaster, ScalesWhatItSees) {
  const auto made = [](double mean, double std) { return create_forecaster("gru", {.mean = {mean}, .std = {std}}); };
  const Tensor plain = made(0, 1)(Tensor::from({1, 3, 1}, std::vector<float>{-1, 0.5, 2}));
  const Tensor moved = made(8, 4)(Tensor::from({1, 3, 1}, std::vector<float>{4, 10, 16}));
  EXPECT_NEAR(moved.item(), 8 + 4 * plain.item(), 1e-5);
}

TEST(Forecaster, ALevelIsNotLostInDoubles) {
  const auto made = [](double mean, double std) {
    return create_forecaster("gru", {.mean = {mean}, .std = {std}, .horizon = 2});
  };
  const auto forecast = [](const Model& model, std::vector<double> steps) {
    return model(Tensor::from({DType::f64, {1, 3, 1}}, steps.data())).values<double>();
  };
  const std::vector<double> plain = forecast(made(0, 1), {-1, 0.5, 2}),
                            level = forecast(made(1e12, 0.5), {1e12 - 0.5, 1e12 + 0.25, 1e12 + 1}),
                            tiny = forecast(made(0, 1e-60), {-1e-60, 0.5e-60, 2e-60});
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(level[i], 1e12 + 0.5 * plain[i], 1e-3);
    EXPECT_NEAR(tiny[i] * 1e60, plain[i], 1e-6);
  }
}

TEST(Forecaster, TakesWeightsWhoseScaleIsF32) {
  const TempFolder temp;
  const Model model = create_forecaster("gru", {.mean = {0}, .std = {1}}, {.hidden_size = 4});
  std::vector<std::pair<std::string, Tensor>> older;
  for (const Parameter& parameter : named_parameters(Model(model)))
    older.emplace_back(parameter.name,
                       parameter.role == Role::state ? Tensor::from({1}, std::vector<float>{0.75f}) : parameter.tensor);
  write_safetensors(temp.at("older.safetensors"), older, {});
  load_model(model, temp.at("older.safetensors"));
  EXPECT_EQ(std_of(model, 0), 0.75);
}

TEST(Forecaster, NamesItsTensorsAndItsFaults) {
  const Model model = create_forecaster("lstm", {.mean = {0}, .std = {1}});
  EXPECT_EQ(names_in(model),
            (std::vector<std::string>{"mean", "deviation", "rnn.weight_ih_l0", "rnn.weight_hh_l0", "rnn.bias_ih_l0",
                                      "rnn.bias_hh_l0", "head.weight", "head.bias"}));
  EXPECT_EQ(parameter_count(Model(model)), 4 * 64 * (1 + 64 + 2) + 65);
  expect_words(usage_error([&] { model(Tensor::full({DType::f32, {1, 3, 2}}, 0)); }), {"of 1 columns", "(1,3,2)"});
  expect_words(usage_error([] { create_forecaster("lstn", {.mean = {0}, .std = {1}}); }), {"did you mean 'lstm'"});
  expect_words(usage_error([] { create_forecaster("lstm", {.mean = {0}, .std = {1}, .target = 1}); }),
               {"the target 1"});
  expect_words(usage_error([] { create_model("lstm"); }), {"data=series.csv model=lstm"});
  expect_words(usage_error([] { create_model("ltsm"); }), {"did you mean 'lstm'"});
}

TEST(LanguageModel, SeesNothingOfWhatComesLater) {
  for (const std::string& name : recurrent_model_names()) {
    const Model model = create_language_model(name, 5, {.hidden_size = 8});
    const auto logits = [&](std::vector<std::int64_t> characters) {
      const Tensor out = model(Tensor::from({1, 4}, std::span<const std::int64_t>(characters)));
      EXPECT_EQ(out.shape(), (Shape{1, 4, 5}));
      return out.values<float>();
    };
    const std::vector<float> a = logits({3, 1, 2, 4}), b = logits({3, 1, 0, 0});
    EXPECT_TRUE(std::equal(a.begin(), a.begin() + 10, b.begin())) << name;
    EXPECT_FALSE(std::equal(a.begin() + 10, a.begin() + 15, b.begin() + 10)) << name;
  }
}

TEST(ForecastEvaluation, ErrorsInTheUnitsOfTheSeries) {
  ForecastEvaluation evaluation;
  EXPECT_TRUE(std::isnan(evaluation.mae()));
  evaluation.add({.step = 4, .ahead = 1, .actual = 10, .forecast = 12, .naive = 9, .seasonal_naive = 14});
  evaluation.add({.step = 5, .ahead = 2, .actual = 10, .forecast = 9, .naive = 8});
  EXPECT_EQ(evaluation.mae(), 1.5);
  EXPECT_DOUBLE_EQ(evaluation.rmse(), std::sqrt(2.5));
  EXPECT_EQ(evaluation.naive_mae(), 1.5);
  EXPECT_EQ(evaluation.seasonal_naive_mae(), 4);
  EXPECT_EQ(forecasts_csv(evaluation),
            "step,ahead,actual,forecast,naive,seasonal_naive\n5,1,10,12,9,14\n6,2,10,9,8,\n");
  expect_words(error_of([&] { evaluation.add({.forecast = std::nan("")}); }, Fault::failure), {"step 1"});
  EXPECT_EQ(evaluation.forecasts().size(), 2u);
  const Metrics metrics = metrics_of(evaluation, 2);
  EXPECT_DOUBLE_EQ(metrics["loss"], 2.5 / 4);
  EXPECT_EQ(metrics.samples, 2);
}

TEST(ForecastEvaluation, ErrorsNeitherOverflowNorVanish) {
  for (const double unit : {1e300, 1e-300}) {
    ForecastEvaluation evaluation;
    for (int i = 0; i < 3; ++i) evaluation.add({.actual = 1 * unit, .forecast = 5 * unit, .naive = 3 * unit});
    EXPECT_DOUBLE_EQ(evaluation.rmse(), 4 * unit);
    EXPECT_DOUBLE_EQ(evaluation.mae(), 4 * unit);
    EXPECT_DOUBLE_EQ(evaluation.naive_mae(), 2 * unit);
  }
}

TEST(Bigram, CountsPairsAndOneMoreOfEach) {
  const std::vector<std::int32_t> text{0, 1, 0, 1, 0, 0};
  const Bigram bigram(text, 3);
  EXPECT_DOUBLE_EQ(bigram.bits(0, 1), std::log2(6. / 3));
  EXPECT_DOUBLE_EQ(bigram.bits(0, 0), std::log2(6. / 2));
  EXPECT_DOUBLE_EQ(bigram.bits(1, 2), std::log2(5.));
  EXPECT_DOUBLE_EQ(bigram.bits(2, 2), std::log2(3.));  // never met
  for (const std::int32_t previous : {0, 1, 2}) {
    double sum = 0;
    for (const std::int32_t next : {0, 1, 2}) sum += std::exp2(-bigram.bits(previous, next));
    EXPECT_NEAR(sum, 1, 1e-12);
  }
  expect_words(usage_error([&] { Bigram(text, 1); }), {"1 is no character"});
}

TEST(Corpus, ReadsWithAVocabularyThatIsKnown) {
  const TempFolder temp;
  write(temp.at("t.txt"), "abba");
  const Vocabulary vocabulary = Vocabulary::of("cab", "x");
  EXPECT_EQ(vocabulary.characters(), (std::vector<char32_t>{U'a', U'b', U'c'}));
  EXPECT_EQ(read_corpus(temp.at("t.txt"), vocabulary).characters, (std::vector<std::int32_t>{0, 1, 1, 0}));
  expect_words(error_of([&] { read_corpus(temp.at("t.txt"), Vocabulary::of("a", "x")); }), {"t.txt", "'b'", "byte 1"});
}

std::string tensors_of(const fs::path& file) {
  const SafeTensors opened(file);
  std::string bytes;
  for (const std::string& name : opened.names()) {
    const auto data = opened.bytes(name);
    bytes += name;
    bytes.append(reinterpret_cast<const char*>(data.data()), data.size());
  }
  return bytes;
}

/// Runs on small data: a shop's sales with a season of 12 days, and rain that has no influence; a text that
/// repeats itself.
class SequenceTraining : public testing::Test {
 protected:
  static std::string sales(std::int64_t days) {
    Random random(1);
    std::string table = "Day,Sold,Rain\n";
    for (std::int64_t day = 0; day < days; ++day)
      table += text('d', day, ',',
                    100 + 20 * std::sin(2 * std::numbers::pi * static_cast<double>(day) / 12) + random.uniform(-2, 2),
                    ',', random.uniform(0, 5), '\n');
    return table;
  }

  TrainOptions forecasting(const std::string& name) const {
    write(temp_.at("sales.csv"), sales(240));
    return {.data = temp_.at("sales.csv"),
            .model = "lstm",
            .epochs = 2,
            .batch = 64,
            .target = "sold",
            .window = 24,
            .horizon = 3,
            .season = 12,
            .hidden_size = 8,
            .project = temp_.at("runs"),
            .name = name,
            .plots = false};
  }
  TrainOptions writing(const std::string& name) const {
    std::string story;
    for (int i = 0; i < 40; ++i) story += "the cat sat on the mat. ";
    write(temp_.at("story.txt"), story);
    return {.data = temp_.at("story.txt"),
            .model = "gru",
            .epochs = 2,
            .batch = 16,
            .window = 16,
            .hidden_size = 16,
            .project = temp_.at("runs"),
            .name = name,
            .plots = false};
  }
  static TrainOptions options_of(const ModelConfig& config) {
    TrainOptions of_run;
    Options named;
    of_run.visit(named);
    named.read_yaml(config.options, "options");
    return of_run;
  }

  const TempFolder temp_;
};

TEST_F(SequenceTraining, LeavesAWholeRunFolder) {
  TrainOptions options = forecasting("series");
  options.plots = true;
  const TrainResult series = train(options);
  EXPECT_EQ(series.epochs, 2);
  options = writing("text");
  options.plots = true;
  const TrainResult text = train(options);
  for (const TrainResult& result : {series, text}) {
    for (const char* name :
         {"args.yaml", "env.json", "data.json", "log.txt", "results.csv", "results.png", "metrics.jsonl",
          "weights/best.safetensors", "weights/last.safetensors", "weights/last.opt.safetensors"})
      EXPECT_TRUE(fs::exists(result.run / name)) << name;
    EXPECT_EQ(split(read_file(result.run / "metrics.jsonl"), '\n').size(), 3u);
  }
  const std::string log = read_file(series.run / "log.txt");
  for (const char* part :
       {"240 steps of sold", "the column day holds no numbers", "mae", "val: the last 10 % of the data"})
    EXPECT_NE(log.find(part), std::string::npos) << part << '\n' << log;
  // 24 of the 240 steps are validation, and each is forecast once.
  EXPECT_EQ(split(read_file(series.run / "forecasts.csv"), '\n').size(), 1 + 24 + 1u);
  EXPECT_EQ(series.metrics.samples, 24);
  EXPECT_EQ(text.metrics.samples, 96 / 16 * 16);
}

TEST_F(SequenceTraining, TheCheckpointGivesTheRunsMetrics) {
  const TrainResult result = train(forecasting("train"));
  const Checkpoint checkpoint = load_checkpoint(result.run);
  const SequenceConfig& config = *checkpoint.config.sequence;
  EXPECT_EQ(checkpoint.config.task(), forecast_task());
  EXPECT_EQ(config.columns, (std::vector<std::string>{"sold", "rain"}));
  EXPECT_EQ(config.target, "sold");
  const TrainOptions of_run = options_of(checkpoint.config);
  EXPECT_EQ(of_run.target, "sold");
  EXPECT_EQ(of_run.monitor, "mae");
  const Series series = read_series(of_run.data, config.columns);
  const ForecastData data{series, Windows(series.steps(), windows_of(of_run, forecast_task()), of_run.data), 0};
  const Scaling scaling = scaling_of(series, 216);
  EXPECT_EQ(std_of(checkpoint.model, 0), scaling.std[0]);
  const ForecastEvaluation evaluation = *ForecastValidation(checkpoint.model, data, Split::val, 12, of_run).run();
  const Metrics metrics = metrics_of(evaluation, std_of(checkpoint.model, 0));
  for (const TaskMetric& one : forecast_task().metrics)
    EXPECT_EQ(metrics[one.name], result.metrics[one.name]) << one.name;
  const auto sold = [&](std::int64_t step) { return series.values[2 * step]; };
  ASSERT_EQ(evaluation.forecasts().size(), 24u);
  for (std::int64_t i = 0; i < 24; ++i) {
    const Forecast& one = evaluation.forecasts()[i];
    EXPECT_EQ(one.step, 216 + i);
    EXPECT_EQ(one.ahead, 1 + i % 3);
    EXPECT_EQ(one.actual, sold(one.step));
    EXPECT_EQ(one.naive, sold(one.step - one.ahead));
    EXPECT_EQ(one.seasonal_naive, sold(one.step - 12));
  }
  const std::vector<double> next = forecast(checkpoint, series);
  ASSERT_EQ(next.size(), 3u);
  const Tensor direct = checkpoint.model(
      Tensor::from({DType::f64, {1, 24, 2}}, std::span(series.values).last(48).data()));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(next[i], direct.values<double>()[i], 1e-3);
}

TEST_F(SequenceTraining, ALevelChangesNoMetric) {
  const auto metrics = [&](const std::string& name, double level, double unit) {
    TrainOptions options = forecasting(name);
    std::string table = "sold\n";
    for (const std::string& row : split(read_file(options.data), '\n'))
      if (const std::vector<std::string> cells = split(row, ','); cells.size() == 3 && cells[1] != "Sold")
        table += text(level + unit * (std::round(std::stod(cells[1]) * 64) / 64), '\n');
    write(options.data, table);
    const TrainResult result = train(options);
    EXPECT_EQ(split(split(read_file(result.run / "forecasts.csv"), '\n')[1], ',')[2], split(table, '\n')[217]);
    const std::string lost = lost_in_f32(load_checkpoint(result.run));
    EXPECT_EQ(lost.find("rounds values of sold near 1e+09") != std::string::npos, level > 0) << lost;
    return result.metrics;
  };
  const Metrics plain = metrics("plain", 0, 1), level = metrics("level", 1e9, 1), unit = metrics("unit", 0, 1024);
  EXPECT_GT(plain["naive_mae"], 1);
  EXPECT_DOUBLE_EQ(level["naive_mae"], plain["naive_mae"]);
  EXPECT_DOUBLE_EQ(level["seasonal_naive_mae"], plain["seasonal_naive_mae"]);
  EXPECT_NEAR(level["mae"], plain["mae"], 1e-4 * plain["mae"]);
  EXPECT_NEAR(level["loss"], plain["loss"], 1e-4 * plain["loss"]);
  EXPECT_NEAR(unit["rmse"], 1024 * plain["rmse"], 0.1 * plain["rmse"]);
  expect_words(error_of([&] { metrics("tiny", 0, 0x1p-200); }), {"the column sold", "f32 cannot hold"});
}

TEST_F(SequenceTraining, ASeasonShorterThanTheHorizonGoesBackAsFarAsIsKnown) {
  TrainOptions options = forecasting("long");
  options.horizon = 8;
  options.season = 3;
  const TrainResult result = train(options);
  const Checkpoint checkpoint = load_checkpoint(result.run);
  const TrainOptions of_run = options_of(checkpoint.config);
  const Series series = read_series(of_run.data, checkpoint.config.sequence->columns);
  const ForecastData data{series, Windows(series.steps(), windows_of(of_run, forecast_task()), of_run.data), 0};
  const ForecastEvaluation evaluation = *ForecastValidation(checkpoint.model, data, Split::train, 3, of_run).run();
  for (const Forecast& one : evaluation.forecasts()) {
    const std::int64_t known = one.step - one.ahead;
    std::int64_t same = one.step;
    while (same > known) same -= 3;
    EXPECT_EQ(one.seasonal_naive, series.values[2 * same]);
  }
}

TEST_F(SequenceTraining, StoppedAfterEveryStepAndResumedIsTheSameRun) {
  for (const bool language : {false, true}) {
    const auto options = [&](const std::string& name) { return language ? writing(name) : forecasting(name); };
    const std::string kind = language ? "text" : "series";
    const TrainResult whole = train(options("whole" + kind));
    const std::atomic<int> stop{1};
    TrainResult result = train(options("pieces" + kind), {.stop = &stop});
    int stops = 0;
    for (; result.stopped; ++stops) result = resume(result.run, {}, {.stop = &stop});
    EXPECT_GE(stops, 4) << kind;
    for (const char* name : {"weights/best.safetensors", "weights/last.safetensors", "weights/last.opt.safetensors"})
      EXPECT_EQ(tensors_of(result.run / name), tensors_of(whole.run / name)) << kind << ' ' << name;
    const TaskInfo& task = language ? language_task() : forecast_task();
    const ResultsCsv a(whole.run / "results.csv", 2, task), b(result.run / "results.csv", 2, task);
    ASSERT_EQ(a.rows().size(), 2u);
    ASSERT_EQ(b.rows().size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(a.rows()[i].step, b.rows()[i].step);
      EXPECT_EQ(a.rows()[i].train_loss, b.rows()[i].train_loss);
      EXPECT_EQ(a.rows()[i].train_metric, b.rows()[i].train_metric);
      EXPECT_EQ(a.rows()[i].val["loss"], b.rows()[i].val["loss"]);
    }
  }
}

TEST_F(SequenceTraining, ResumeKeepsColumnsAndCharacters) {
  TrainOptions options = forecasting("series");
  const TrainResult series = train(options);
  std::string wider = sales(240);
  wider.insert(wider.find('\n'), ",Snow");
  for (std::size_t at = wider.find('\n') + 1; (at = wider.find('\n', at)) != std::string::npos; at += 3)
    wider.insert(at, ",1");
  write(options.data, wider);
  EXPECT_EQ(resume(series.run, 3).epochs, 3);

  options = writing("text");
  const TrainResult text = train(options);
  const std::string story = read_file(options.data);
  write(options.data, story + "the cat");
  EXPECT_EQ(resume(text.run, 3).epochs, 3);
  EXPECT_NE(read_file(text.run / "log.txt").find("data are not those"), std::string::npos);
  write(options.data, story + "a zoo");
  expect_words(error_of([&] { resume(text.run, 4); }), {"story.txt", "'z'"});
}

TEST_F(SequenceTraining, MetricsOfAnEpochAreThoseOfItsSamples) {
  TrainOptions still = forecasting("still");  // with a learning rate of 0 all batches see the same weights
  still.epochs = 1;
  still.lr = 0;
  const TrainResult series = train(still);
  Checkpoint checkpoint = load_checkpoint(series.run);
  TrainOptions of_run = options_of(checkpoint.config);
  const Series values = read_series(of_run.data, checkpoint.config.sequence->columns);
  const std::int64_t samples = Windows(values.steps(), windows_of(of_run, forecast_task()), "").size(Split::train);
  const ForecastData data{values, Windows(values.steps(), windows_of(of_run, forecast_task()), ""), 0};
  const ForecastEvaluation evaluated = *ForecastValidation(checkpoint.model, data, Split::train, 0, of_run).run();
  EXPECT_EQ(std::ssize(evaluated.forecasts()), 3 * samples);
  EXPECT_TRUE(std::isnan(evaluated.seasonal_naive_mae()));
  const EpochResult row = ResultsCsv(series.run / "results.csv", 1, forecast_task()).rows().at(0);
  EXPECT_NEAR(row.train_metric, evaluated.mae(), 1e-4);
  EXPECT_NEAR(row.train_loss, metrics_of(evaluated, std_of(checkpoint.model, 0)).loss(), 1e-5);

  still = writing("still-text");
  still.epochs = 1;
  still.lr = 0;
  const TrainResult text = train(still);
  checkpoint = load_checkpoint(text.run);
  of_run = options_of(checkpoint.config);
  Corpus corpus = read_corpus(of_run.data);
  const Windows windows(std::ssize(corpus.characters), windows_of(of_run, language_task()), "");
  const LanguageData story{std::move(corpus), windows};
  const Metrics of_text = *LanguageValidation(checkpoint.model, story, Split::train, of_run).run();
  const EpochResult line = ResultsCsv(text.run / "results.csv", 1, language_task()).rows().at(0);
  EXPECT_NEAR(line.train_loss, of_text["loss"], 1e-5);
  EXPECT_NEAR(line.train_metric, of_text["top1"], 1e-6);
  EXPECT_NEAR(of_text["bits_per_character"], of_text["loss"] / std::numbers::ln2, 1e-12);
}

TEST_F(SequenceTraining, ASeriesOfOneColumnNeedsNoTarget) {
  TrainOptions options = forecasting("one");
  options.target.clear();
  options.columns = " Sold";
  EXPECT_EQ(load_checkpoint(train(options).run).config.sequence->columns, (std::vector<std::string>{"sold"}));
  options.columns = "rain";
  options.target = "Sold";  // is seen too
  EXPECT_EQ(load_checkpoint(train(options).run).config.sequence->columns, (std::vector<std::string>{"rain", "sold"}));
}

TEST_F(SequenceTraining, WhatCannotBeLearntIsNamedAndLeavesNoRun) {
  const auto refused = [&](const auto& change, Fault fault, const std::vector<std::string>& words) {
    TrainOptions wrong = forecasting("wrong");
    change(wrong);
    expect_words(error_of([&] { train(wrong); }, fault), words);
    EXPECT_FALSE(fs::exists(temp_.at("runs/wrong"))) << words[0];
  };
  using O = TrainOptions;
  refused([](O& o) { o.target.clear(); }, Fault::usage, {"target is missing", "sold, rain", "target=sold"});
  refused([](O& o) { o.target = "bought"; }, Fault::usage, {"bought", "sold, rain"});
  refused([](O& o) { o.target = "day"; }, Fault::data, {"sales.csv:2", "the column day holds 'd0'"});
  refused([](O& o) { o.columns = "sold,snow"; }, Fault::data, {"sales.csv", "no column snow"});
  refused([](O& o) { o.window = 300; }, Fault::data, {"training has 216 of the 240 steps", "takes 303"});
  refused([](O& o) { o.horizon = 30; }, Fault::data, {"validation has 24", "forecasts 30", "val_split"});
  refused([](O& o) { o.season = 216; }, Fault::usage, {"season is 216", "216 steps"});
  refused([](O& o) { o.imgsz = 28; }, Fault::usage, {"imgsz is 28", "a series", "leave it out"});
  refused([](O& o) { o.mixup = 0.2; }, Fault::usage, {"mixup"});
  refused([](O& o) { o.monitor = "top1"; }, Fault::usage, {"monitor is top1", "mae, rmse"});
  refused([](O& o) { o.monitor = "naive_mae"; }, Fault::usage, {"there is no 'naive_mae'"});
  refused([&](O& o) { o.data = temp_.path(); }, Fault::data, {"is a folder", "model=lstm"});
  refused([&](O& o) { o.data = temp_.at("none.csv"); }, Fault::data, {"none.csv"});
  refused([&](O& o) { write(o.data, "Sold,Rain\n1,2\n3,\n"); }, Fault::data, {"sales.csv:3", "column rain"});
  refused([&](O& o) { write(o.data, "Sold,Rain\n1,2\n3,4\n"); }, Fault::data, {"training has 2 of the 2 steps"});
  const auto refused_text = [&](const auto& change, Fault fault, const std::vector<std::string>& words) {
    refused([&](O& o) { o = writing("wrong"), change(o); }, fault, words);
  };
  refused_text([](O& o) { o.target = "sold"; }, Fault::usage, {"target is sold", "a text"});
  refused_text([&](O& o) { write(o.data, ""); }, Fault::data, {"story.txt", "is empty"});
  refused_text([&](O& o) { write(o.data, "a\xFF"); }, Fault::data, {"byte 1 is no UTF-8"});
  refused_text([&](O& o) { write(o.data, "abc"); }, Fault::data, {"takes 17"});
  // And the other way round: images have no target.
  refused([](O& o) { o.model = "lenet5"; }, Fault::data, {"sales.csv"});
  write_digits(temp_.at("digits"), 1, 2, 1);
  refused(
      [&](O& o) {
        o = {.data = temp_.at("digits"), .model = "lenet5", .window = 3, .project = temp_.at("runs"), .name = "wrong"};
      },
      Fault::usage, {"window is 3", "series and texts"});
}

TEST_F(SequenceTraining, ALearntTextGoesOnAsItShould) {
  TrainOptions options = writing("story");
  options.epochs = 60;
  options.hidden_size = 32;
  options.lr = 0.01;
  const TrainResult result = train(options);
  EXPECT_LT(result.metrics["bits_per_character"], 0.5 * result.metrics["bigram_bits_per_character"]);
  const Checkpoint checkpoint = load_checkpoint(result.run);
  const std::string next = generate(checkpoint, "the cat sat on the mat. ", {.length = 48, .temperature = 0});
  EXPECT_EQ(next, "the cat sat on the mat. the cat sat on the mat. ");
  EXPECT_EQ(generate(checkpoint, "t", {.length = 0}), "");
  const auto drawn = [&](std::uint64_t seed, double temperature) {
    return generate(checkpoint, "t", {.length = 100, .temperature = temperature, .seed = seed});
  };
  EXPECT_EQ(drawn(1, 3), drawn(1, 3));
  EXPECT_NE(drawn(1, 3), drawn(2, 3));
  EXPECT_EQ(drawn(1, 3).size(), 100u);

  expect_words(error_of([&] { generate(checkpoint, "the dog"); }), {"prompt", "'d'", "byte 4"});
  expect_words(usage_error([&] { generate(checkpoint, ""); }), {"prompt is empty"});
  expect_words(usage_error([&] { generate(checkpoint, "t", {.length = -1}); }), {"length is -1"});
  expect_words(usage_error([&] { generate(checkpoint, "t", {.temperature = -1}); }), {"temperature is -1"});
  expect_words(usage_error([&] { forecast(checkpoint, {}); }), {"a text", "forecasts no series"});
  const Checkpoint forecaster = load_checkpoint(train(forecasting("series")).run);
  expect_words(usage_error([&] { generate(forecaster, "t"); }), {"a series", "writes no text"});
  const Series series = read_series(forecasting("series").data);
  expect_words(usage_error([&] { forecast(forecaster, read_series(series.path, {"sold"})); }), {"sold, rain"});
  write(temp_.at("short.csv"), sales(23));
  expect_words(error_of([&] { forecast(forecaster, read_series(temp_.at("short.csv"))); }),
               {"23 steps", "looks back on 24"});
}

TEST_F(SequenceTraining, EveryNetworkLearnsASeason) {
  for (const std::string& name : recurrent_model_names()) {
    TrainOptions options = forecasting("season-" + name);
    options.model = name;
    options.epochs = 40;
    options.hidden_size = 16;
    options.lr = 0.01;
    const Metrics metrics = train(options).metrics;
    EXPECT_LT(metrics["mae"], 0.5 * metrics["naive_mae"]) << name;
  }
}

TEST_F(SequenceTraining, DamagedCardsAreRefused) {
  const TrainResult result = train(forecasting("train"));
  for (const auto& [from, to] : {std::pair{"\"window\":24", "\"window\":0"},
                                 {"\"hidden_size\":8", "\"hidden_size\":9"},
                                 {"\"hidden_size\":8", "\"hidden_size\":99999"},
                                 {"\"hidden_size\":8", "\"hidden_size\":16384"},
                                 {"\"target\":\"sold\"", "\"target\":\"day\""},
                                 {"\"horizon\":3", "\"horizon\":-3"},
                                 {"\"columns\":[\"sold\",\"rain\"]", "\"columns\":7"}}) {
    Metadata metadata = SafeTensors(result.model).metadata();
    std::string& sequence = metadata["sequence"];
    ASSERT_NE(sequence.find(from), std::string::npos) << sequence;
    sequence.replace(sequence.find(from), std::string_view(from).size(), to);
    save_model(Model(load_checkpoint(result.run).model), temp_.at("damaged.safetensors"), metadata);
    expect_words(error_of([&] { load_checkpoint(temp_.at("damaged.safetensors")); }), {"damaged.safetensors"});
  }
  const auto says = [&](const std::string& key, const std::string& value, const std::vector<std::string>& words) {
    Metadata metadata = SafeTensors(result.model).metadata();
    metadata[key] = value;
    save_model(Model(load_checkpoint(result.run).model), temp_.at("odd.safetensors"), metadata);
    expect_words(error_of([&] { load_checkpoint(temp_.at("odd.safetensors")); }), words);
  };
  says("model", "resnet18", {"odd.safetensors", "'resnet18'", "not one of those of series and texts"});
  says("model_file", "layers = []", {"odd.safetensors", "both a model_file and a sequence"});
}

TEST_F(SequenceTraining, TemperaturesAreForecastBetterThanByTheDayBefore) {
  NEED_DATA(temperatures, "text-and-series/daily-min-temperatures.csv");
  const TrainResult result = train({.data = temperatures,
                                    .model = "gru",
                                    .epochs = 5,
                                    .window = 28,
                                    .season = 365,
                                    .hidden_size = 32,
                                    .project = temp_.at("runs"),
                                    .plots = false});
  EXPECT_EQ(result.metrics.samples, 365);
  EXPECT_LT(result.metrics["mae"], 0.9 * result.metrics["naive_mae"]);
  EXPECT_LT(result.metrics["mae"], 0.75 * result.metrics["seasonal_naive_mae"]);
}

TEST_F(SequenceTraining, SlowShakespeareIsKnownBetterThanByABigram) {
  NEED_DATA(shakespeare, "text-and-series/tinyshakespeare.txt");
  write(temp_.at("shakespeare.txt"), std::string_view(read_file(shakespeare)).substr(0, 300'000));
  const TrainResult result = train({.data = temp_.at("shakespeare.txt"),
                                    .model = "gru",
                                    .epochs = 4,
                                    .batch = 16,
                                    .window = 64,
                                    .hidden_size = 96,
                                    .lr = 4e-3,
                                    .project = temp_.at("runs"),
                                    .plots = false});
  EXPECT_LT(result.metrics["bits_per_character"], 0.85 * result.metrics["bigram_bits_per_character"]);
}

}  // namespace
}  // namespace neurim
