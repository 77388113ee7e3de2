#include "neurim/train/sequence_task.h"

#include <algorithm>

#include "neurim/base/error.h"
#include "neurim/base/json.h"
#include "neurim/base/sha256.h"
#include "neurim/data/sources/table.h"
#include "neurim/model/recurrent_models.h"
#include "neurim/train/forecast.h"
#include "neurim/train/language.h"
#include "neurim/train/step.h"

namespace neurim {

namespace {

/// What both kinds of sequences share: the samples of a batch.
class SequenceTask : public TrainingTask {
 public:
  std::int64_t batches() const override { return loader_.batches(); }
  void start(std::uint32_t epoch, std::int64_t first_batch) override { loader_.start(epoch, first_batch); }
  bool next() override { return loader_.next(samples_); }
  std::int64_t batch_size() const override { return std::ssize(samples_); }
  std::string validation() const override {
    if (!has_validation()) return "";
    const double test = options_.test_split;
    return text("the last ", significant(100 * *options_.val_split), " % of the data",
                test > 0 ? text(" before the ", significant(100 * test), " % of test") : "");
  }
  std::int64_t validation_samples() const override { return windows_.size(Split::val); }

 protected:
  SequenceTask(Model model, const TrainOptions& options, SequenceConfig config, const Windows& windows, const Job& job)
      : model_(std::move(model)),
        options_(options),
        config_(std::move(config)),
        windows_(windows),
        loader_(windows, Split::train, static_cast<int>(share_of_batch(options, job)),
                {.seed = static_cast<std::uint64_t>(options.seed),
                 .shuffle = true,
                 .rank = job.replica(),
                 .ranks = job.replicas()}) {}

  /// The samples of the loaded batch in a part of it.
  std::vector<std::int64_t> samples_of(const Part& part) const {
    std::vector<std::int64_t> own;
    for (std::int64_t i = part.index; i < std::ssize(samples_); i += part.count) own.push_back(samples_[i]);
    return own;
  }

  /// The facts in data.json for both.
  JsonObject facts_of(const char* kind, std::int64_t steps, std::span<const std::byte> content) const {
    Sha256 sha;
    sha.add(content);
    JsonObject samples;
    for (const Split split : kSplits) samples.add(name(split), windows_.size(split));
    return {{"kind", kind}, {"steps", steps}, {"sha256", sha.hex()}, {"samples", samples}};
  }
  std::string sizes() const {
    return text(thousands(windows_.size(Split::train)), " train / ", thousands(windows_.size(Split::val)), " val");
  }

  const Model model_;
  const TrainOptions options_;
  const SequenceConfig config_;
  const Windows windows_;
  WindowLoader loader_;
  std::vector<std::int64_t> samples_;  // of the batch
};

class ForecastTask final : public SequenceTask {
 public:
  ForecastTask(Model model, const TrainOptions& options, SequenceConfig config, ForecastData data, const Job& job)
      : SequenceTask(std::move(model), options, std::move(config), data.windows, job),
        data_(std::move(data)),
        validation_(model_, data_, Split::val, config_.season, options_) {}

  ModelConfig config() const override {
    return {
        .model = model_.name, .in_chans = model_.in_chans, .metrics = Metrics(forecast_task()), .sequence = config_};
  }
  std::string facts() const override {
    JsonObject facts = facts_of("series", data_.series.steps(), std::as_bytes(std::span(data_.series.values)));
    facts.add("columns", data_.series.columns);
    return facts.indented();
  }
  std::string contents() const override {
    return text(thousands(data_.series.steps()), " steps of ", config_.target, ", ", sizes());
  }
  std::string input() const override {
    return text(config_.window, " steps of ", join(config_.columns, ", "), " · forecasts ", config_.horizon);
  }
  std::vector<std::string> notes() const override { return data_.notes(Split::val); }

  std::function<Tensors(Tensors)> step(Optimizer& optimizer) const override {
    return forecast_training_step(model_, optimizer, std_of(model_, data_.target));
  }
  Types types(std::int64_t samples) const override {
    return {{DType::f64, {samples, config_.window, data_.series.width()}}, {DType::f64, {samples, config_.horizon}}};
  }
  Plan run(Compiled& plans, std::int64_t /*step*/, const Part& part) override {
    data_.copy(Split::train, samples_of(part), steps_, following_);
    const Plan& plan = plans.plan_for(types(part.size(batch_size())));
    plan.inputs()[0].write(steps_.data());
    plan.inputs()[1].write(following_.data());
    plan.run(plan.inputs(), plan.outputs());
    return plan;
  }

  bool validate(const Watch& watch, ModelConfig& evaluated) override {
    if (!has_validation()) return true;
    evaluation_ = validation_.run(watch);
    if (!evaluation_) return false;
    evaluated.metrics = metrics_of(*evaluation_, std_of(model_, data_.target));
    return true;
  }
  void report(const fs::path& folder) const override {
    if (evaluation_) write_file(folder / "forecasts.csv", forecasts_csv(*evaluation_));
  }

 private:
  const ForecastData data_;
  ForecastValidation validation_;
  std::optional<ForecastEvaluation> evaluation_;
  std::vector<double> steps_, following_;
};

class LanguageTask final : public SequenceTask {
 public:
  LanguageTask(Model model, const TrainOptions& options, SequenceConfig config, LanguageData data, const Job& job)
      : SequenceTask(std::move(model), options, std::move(config), data.windows, job),
        data_(std::move(data)),
        validation_(model_, data_, Split::val, options_) {
    for (std::int32_t i = 0; i < data_.corpus.vocabulary.size(); ++i)
      characters_.push_back(data_.corpus.vocabulary.decode({i}));
  }

  ModelConfig config() const override {
    return {.model = model_.name,
            .in_chans = model_.in_chans,
            .class_names = characters_,
            .metrics = Metrics(language_task()),
            .sequence = config_};
  }
  std::string facts() const override {
    const std::string content = data_.corpus.vocabulary.decode(data_.corpus.characters);
    JsonObject facts = facts_of("text", std::ssize(data_.corpus.characters), std::as_bytes(std::span(content)));
    facts.add("characters", join(characters_, ""));
    return facts.indented();
  }
  std::string contents() const override {
    return text(thousands(std::ssize(data_.corpus.characters)), " characters, ", characters_.size(), " different, ",
                sizes());
  }
  std::string input() const override { return text(config_.window, " characters"); }
  std::vector<std::string> notes() const override { return {}; }

  std::function<Tensors(Tensors)> step(Optimizer& optimizer) const override {
    return language_training_step(model_, optimizer);
  }
  Types types(std::int64_t samples) const override {
    const Type type{DType::i64, {samples, config_.window}};
    return {type, type};
  }
  Plan run(Compiled& plans, std::int64_t /*step*/, const Part& part) override {
    data_.copy(Split::train, samples_of(part), seen_, next_);
    const Plan& plan = plans.plan_for(types(part.size(batch_size())));
    plan.inputs()[0].write(seen_.data());
    plan.inputs()[1].write(next_.data());
    plan.run(plan.inputs(), plan.outputs());
    return plan;
  }

  bool validate(const Watch& watch, ModelConfig& evaluated) override {
    if (!has_validation()) return true;
    const std::optional<Metrics> metrics = validation_.run(watch);
    if (!metrics) return false;
    evaluated.metrics = *metrics;
    return true;
  }
  void report(const fs::path&) const override {}  // results.csv has all metrics

 private:
  const LanguageData data_;
  LanguageValidation validation_;
  std::vector<std::string> characters_;
  std::vector<std::int64_t> seen_, next_;
};

/// The columns to read: those of the options and the target, or all.
std::vector<std::string> columns_of(const TrainOptions& options) {
  std::vector<std::string> columns;
  if (options.columns.empty()) return columns;
  const auto has = [&](const std::string& column) {
    return std::find(columns.begin(), columns.end(), column) != columns.end();
  };
  for (const std::string& word : split(options.columns, ',')) {
    const std::string column = lower(trimmed(word));
    require(!has(column), "columns names ", column, " twice; name each column once");
    columns.push_back(column);
  }
  if (const std::string target = lower(options.target); !target.empty() && !has(target)) columns.push_back(target);
  return columns;
}

RecurrentModelOptions model_options(const TrainOptions& options) {
  return {.hidden_size = *options.hidden_size,
          .num_layers = *options.num_layers,
          .seed = static_cast<std::uint64_t>(options.seed)};
}

/// Throws Error(data) where the data are none that such a task learns from, or the run was another one's.
void check_task(const TaskInfo& task, const TrainOptions& options, const std::optional<ModelConfig>& config) {
  std::error_code error;
  if (fs::is_directory(options.data, error))
    fail(Fault::data, options.data, ": is a folder, but model=", options.model,
         " learns from one file, a series (.csv, .tsv, .jsonl) or a text; for images take a model file "
         "or another one of `neurim models`");
  if (config && config->task() != task)
    fail(Fault::data, options.data, ": is ", task.data, ", but the weights of the run are those of ",
         config->task().data, "; put the old data back into args.yaml");
}

}  // namespace

bool is_forecast(const TrainOptions& options) { return is_recurrent_model(options.model) && is_table(options.data); }
bool is_language(const TrainOptions& options) { return is_recurrent_model(options.model) && !is_table(options.data); }

PreparedRun prepare_forecast(const TrainOptions& options, const std::optional<ModelConfig>& config, const Job& job) {
  check_task(forecast_task(), options, config);
  Series series = read_series(options.data, config ? config->sequence->columns : columns_of(options), options.target);
  require(!options.target.empty() || series.width() == 1, "target is missing; give the column to forecast, one of ",
          join(series.columns, ", "), ": target=", series.columns[0]);
  const std::int64_t target = options.target.empty() ? 0 : series.column(options.target);
  TrainOptions resolved = options.resolved(forecast_task(), series.steps());
  resolved.target = series.columns[target];
  const Windows windows(series.steps(), windows_of(resolved, forecast_task()), options.data);
  const Scaling scaling = scaling_of(series, windows.training_steps());
  Model model = create_forecaster(
      resolved.model, {.mean = scaling.mean, .std = scaling.std, .target = target, .horizon = *resolved.horizon},
      model_options(resolved));
  SequenceConfig sequence{.window = *resolved.window,
                          .hidden_size = *resolved.hidden_size,
                          .num_layers = *resolved.num_layers,
                          .columns = series.columns,
                          .target = resolved.target,
                          .horizon = *resolved.horizon,
                          .season = resolved.season};
  auto task = std::make_unique<ForecastTask>(model, resolved, std::move(sequence),
                                             ForecastData{std::move(series), windows, target}, job);
  return {std::move(resolved), std::move(model), std::move(task)};
}

PreparedRun prepare_language(const TrainOptions& options, const std::optional<ModelConfig>& config, const Job& job) {
  check_task(language_task(), options, config);
  Corpus corpus = config ? read_corpus(options.data, vocabulary_of(*config)) : read_corpus(options.data);
  TrainOptions resolved = options.resolved(language_task(), std::ssize(corpus.characters));
  const Windows windows(std::ssize(corpus.characters), windows_of(resolved, language_task()), options.data);
  Model model = create_language_model(resolved.model, corpus.vocabulary.size(), model_options(resolved));
  SequenceConfig sequence{
      .window = *resolved.window, .hidden_size = *resolved.hidden_size, .num_layers = *resolved.num_layers};
  auto task = std::make_unique<LanguageTask>(model, resolved, std::move(sequence),
                                             LanguageData{std::move(corpus), windows}, job);
  return {std::move(resolved), std::move(model), std::move(task)};
}

}  // namespace neurim
