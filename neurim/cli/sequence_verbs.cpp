#include "neurim/cli/sequence_verbs.h"

#include <algorithm>

#include "neurim/base/error.h"
#include "neurim/base/writable.h"
#include "neurim/cli/open_data.h"
#include "neurim/cli/summary.h"
#include "neurim/evaluate/csv.h"
#include "neurim/train/environment.h"
#include "neurim/train/forecast.h"
#include "neurim/train/run_folder.h"

namespace neurim::cli {

namespace {

/// Throws where the data have no sample in the split.
void require_samples(const Windows& windows, Split split, const std::string& data) {
  if (windows.size(split) == 0)
    fail(Fault::data, data, ": has no sample of ", windows.options().inputs + windows.options().targets,
         " steps in its ", split, " split; it has some in ", splits_of(windows));
}

}  // namespace

int val_sequence(const Checkpoint& checkpoint, TrainOptions options, Split split, const DryRunOfVal& end_dry_run,
                 const SaveReport& save, Console& console) {
  const ModelConfig& config = checkpoint.config;
  const SequenceConfig& sequence = *config.sequence;
  options.window = sequence.window;
  options.horizon = sequence.horizon;
  options.stride = options.stride.value_or(1);
  options.val_split = options.val_split.value_or(0);
  const WindowOptions windowing = windows_of(options, config.task());
  const auto begin = [&](const Windows& windows) {
    require_samples(windows, split, options.data);
    console.print(text("neurim ", version(), "  val  ", checkpoint.path.string(), "  ", options.data, " (",
                       plural(windows.size(split), text(split, " sample")), ")"));
  };
  const TrainingTask::Watch watch = [&](double share) {
    console.progress(text("  ", bar(share, 12), ' ', fixed(share * 100, 0), " %"));
    return true;
  };
  if (config.task() == forecast_task()) {
    Series series = read_series(options.data, sequence.columns, sequence.target);
    const Windows windows(series.steps(), windowing, options.data);
    const ForecastData data{std::move(series), windows, sequence.target_column()};
    begin(data.windows);
    print_notes(data.notes(split), console);
    if (end_dry_run) return end_dry_run(data.windows.size(split));
    const ForecastEvaluation evaluation = *ForecastValidation(checkpoint.model, data, split, sequence.season, options)
                                               .run(watch);
    const Metrics metrics = metrics_of(evaluation, std_of(checkpoint.model, data.target));
    save(metrics, headline_metrics(evaluation, data.naive_mae()),
         [&](const fs::path& folder) { write_file(folder / "forecasts.csv", forecasts_csv(evaluation)); });
  } else {
    Corpus corpus = read_corpus(options.data, vocabulary_of(config));
    const Windows windows(std::ssize(corpus.characters), windowing, options.data);
    const LanguageData data{std::move(corpus), windows};
    begin(data.windows);
    if (end_dry_run) return end_dry_run(data.windows.size(split));
    LanguageValidation validation(checkpoint.model, data, split, options);
    const Metrics metrics = *validation.run(watch);
    save(metrics, validation.headline(), {});
  }
  return 0;
}

int predict_series(const Checkpoint& checkpoint, const std::string& source, const std::string& save_csv,
                   const CommandLine& line, Console& console) {
  const SequenceConfig& config = *checkpoint.config.sequence;
  std::string path = source;
  if (path.empty()) {
    TrainOptions trained;
    Options named;
    trained.visit(named);
    named.read_yaml(checkpoint.config.options, text(checkpoint.path.string(), " (options)"));
    path = trained.data;
    check_remembered_data(path, checkpoint.path, "give source=FILE");
  }
  const Series series = read_series(path, config.columns, config.target);
  for (const std::string& note : series.notes) console.warn(text("note: ", note));
  if (!save_csv.empty()) check_no_input(save_csv, {path});
  if (line.dry_run()) {
    check_forecast(checkpoint, series);
    if (!save_csv.empty()) check_can_write(save_csv);
    return line.end_dry_run(
        console,
        text("forecast ", plural(config.horizon, "value"), " of ", config.target, " after the ",
             plural(series.steps(), "step"), " of ", path, save_csv.empty() ? "" : text(", and write ", save_csv)),
        {{"path", path}, {"target", config.target}, {"horizon", config.horizon}, {"save_csv", save_csv}});
  }
  const std::vector<double> values = forecast(checkpoint, series);
  std::string csv = text("ahead,", csv_field(config.target), '\n');
  for (std::size_t i = 0; i < values.size(); ++i) csv += text(i + 1, ',', values[i], '\n');
  if (!save_csv.empty()) write_file(save_csv, csv);
  console.print_lines(std::string_view(csv).substr(0, csv.size() - 1));  // without the last line break
  console.event({{"event", "forecast"}, {"path", path}, {"target", config.target}, {"values", values}});
  return 0;
}

int predict_text(const Checkpoint& checkpoint, std::string prompt, const GenerateOptions& options,
                 const CommandLine& line, Console& console) {
  if (prompt.empty()) {
    prompt = usual_prompt(checkpoint.config);
    if (prompt != "\n")
      console.print(text("note: the model knows no line break, so the text begins with '", prompt,
                         "'; give another beginning: prompt=…"));
  }
  if (line.dry_run()) {
    GenerateOptions none = options;
    none.length = std::min<std::int64_t>(options.length, 0);
    generate(checkpoint, prompt, none);
    return line.end_dry_run(console, text("write ", plural(options.length, "character"), " behind the prompt"),
                            {{"prompt", prompt}, {"length", options.length}});
  }
  const std::string written = generate(checkpoint, prompt, options);
  console.print_lines(prompt + written);
  console.event({{"event", "text"}, {"prompt", prompt}, {"text", written}});
  return 0;
}

}  // namespace neurim::cli
