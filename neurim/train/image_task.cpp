#include "neurim/train/image_task.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "neurim/base/error.h"
#include "neurim/core/device.h"
#include "neurim/data/label_problems.h"
#include "neurim/data/statistics.h"
#include "neurim/evaluate/class_counts.h"
#include "neurim/evaluate/drawn_names.h"
#include "neurim/evaluate/report.h"
#include "neurim/graph/trace.h"
#include "neurim/model/state.h"
#include "neurim/train/batch_image.h"
#include "neurim/train/run_folder.h"
#include "neurim/train/step.h"

namespace neurim {

namespace {

constexpr std::int64_t kDrawnBatches = 3;
constexpr std::uint32_t kMixStream = 0x6d697821;  // separates these draws from others of the same seed
constexpr std::int64_t kImbalance = 5;            // largest over smallest class, above which a hint is printed
constexpr std::int64_t kSmallImage = 40;          // pixels of the longer side; images of CIFAR and MNIST have 32 and 28
constexpr double kMuchCut = 0.2;     // share of an image's area cut by evaluation, above which a hint is printed
constexpr double kMuchWaiting = 20;  // percent of an epoch, above which a hint is printed

/// Throws where the model cannot train on so many samples, such as batch norm with one value for each channel.
void check_training(const Model& model, const TrainOptions& options, std::int64_t samples) {
  const Device device = device_of(model);
  Trace trace({.training = true, .device = device, .random = Tensor::full({DType::i64, {2}}, 0, device)});
  model(trace.input({DType::f32, {samples, model.in_chans, options.train_imgsz->height, options.train_imgsz->width}}));
}

/// The samples of the smallest part, above 0, of a batch of so many.
std::int64_t smallest_part(std::int64_t samples, const TrainOptions& options, const Job& job) {
  const std::int64_t parts = options.parallel.pipeline > 1 ? options.parallel.microbatches
                                                           : job.parts(options.deterministic);
  return std::max<std::int64_t>(1, samples / (parts * job.replicas()));
}

/// Whether the model trains on the parts of an epoch's last batch, if that is not full. Throws where it does not on
/// those of any batch.
bool trains_on_last(const Model& model, const TrainOptions& options, std::int64_t samples, const Job& job) {
  const std::int64_t batch = *options.batch, last = samples % batch;
  if (options.parallel.sync_bn && samples > batch && last > 0 && last < job.size()) return false;  // all take part
  if (samples > batch) check_training(model, options, smallest_part(batch, options, job));
  try {
    check_training(model, options, smallest_part(last > 0 ? last : batch, options, job));
  } catch (const Error&) {
    if (samples <= batch) throw;
    return false;
  }
  return true;
}

LoaderOptions training_loader(const TrainOptions& options, std::int64_t samples, bool drop_last, const Job& job) {
  share_of_batch(options, job);  // throws
  require(samples >= job.replicas(), "there are ", samples, " training images for ", job.replicas(),
          " processes or teams of them; start fewer");
  LoaderOptions loader = loader_of(options, job.replica(), job.replicas());
  loader.shuffle = true;
  loader.sampler = sampler_of(options);
  loader.drop_last = drop_last;
  return loader;
}

/// The median of `value` over the images; nothing if there are none.
template <class Value>
auto median(const std::vector<ImageHeader>& headers, const Value& value) -> std::optional<decltype(value(headers[0]))> {
  if (headers.empty()) return {};
  std::vector<decltype(value(headers[0]))> values;
  for (const ImageHeader& header : headers) values.push_back(value(header));
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// A note if images are much smaller than the model's input; else "".
std::string enlarged_note(const Model& model, const std::vector<ImageHeader>& headers, const InputSize& input) {
  const auto side = median(
      headers, [](const ImageHeader& header) -> std::int64_t { return std::max(header.height, header.width); });
  if (!side) return "";
  const std::int64_t enough = (2 * *side + 31) / 32 * 32, least = std::min(input.height, input.width);
  if (2 * enough > least) return "";
  std::string advice;
  try {
    check_size(model, enough);
    advice = text("imgsz=", enough, " takes about 1/", input.height * input.width / (enough * enough), " of the time");
  } catch (const Error&) {
    advice = text(model.name, " takes no much smaller ones");
  }
  return text("the median image has ", *side, " pixels on its longer side and is enlarged to ", input, ": ", advice,
              *side <= kSmallImage ? "; model=resnet20 and model=lenet5 are made for images of this size" : "");
}

/// Throws Error(data) if no image has channels that the model can take: see Preprocess.
void check_image_channels(const Dataset& dataset, std::int64_t wanted) {
  const std::vector<ImageHeader> headers = some_headers(dataset);
  const auto fits = [&](const ImageHeader& header) {
    return header.channels == wanted || (header.channels <= 4 && wanted <= 4);
  };
  if (headers.empty() || std::any_of(headers.begin(), headers.end(), fits)) return;
  fail(Fault::data, "the images have ", plural(headers[0].channels, "channel"), " and the model takes ", wanted,
       "; from or to more than 4 nothing is converted: give in_chans=", headers[0].channels);
}

Tensor weights_tensor(const std::vector<float>& weights, Device device) {
  if (weights.empty()) return {};
  return Tensor::from({static_cast<std::int64_t>(weights.size())}, std::span<const float>(weights), device);
}

}  // namespace

ImageTask::ImageTask(Model model, const Dataset& dataset, const TrainOptions& options, const Job& job)
    : model_(std::move(model)),
      dataset_(dataset),
      options_(options),
      preprocess_(preprocess_of(options_)),
      train_size_(*options_.train_imgsz),
      loader_(open_loader(options_.loader, dataset_, Split::train, training_preprocess_of(options_),
                          augment_of(options_),
                          training_loader(options_, dataset_.size(Split::train),
                                          !trains_on_last(model_, options_, dataset_.size(Split::train), job), job))) {
  if (dataset_.size(Split::val) > 0)
    validation_.emplace(model_, dataset_, Split::val, preprocess_, options_, DType::f32, Augment(), job);
}

ModelConfig ImageTask::config() const {
  ModelConfig config{.model = model_.name,
                     .in_chans = model_.in_chans,
                     .class_names = dataset_.class_names(),
                     .preprocess = preprocess_,
                     .source = model_.source};
  config.thresholds.assign(multi_label() ? config.class_names.size() : 0, 0.5);
  config.targets = model_.targets;
  config.metrics = Metrics(config.task());
  return config;
}

std::string ImageTask::facts() const { return data_json(dataset_); }

std::string ImageTask::contents() const {
  const std::string answers = regression() ? join(dataset_.class_names(), ", ") + ", "
                                           : text(dataset_.class_names().size(), " classes, ");
  return text(answers, multi_label() ? "multi-label, " : "", thousands(dataset_.size(Split::train)), " train / ",
              thousands(dataset_.size(Split::val)), " val");
}

std::string ImageTask::input() const {
  return text(preprocess_.channels, "x", preprocess_.height, "x", preprocess_.width,
              preprocess_.height == preprocess_.width ? "" : " (channels x height x width)");
}

void ImageTask::add_class_notes(std::vector<std::string>& notes) const {
  for (const LabelProblem& problem : class_problems(dataset_)) notes.push_back(problem.what);
  std::vector<std::int64_t> counts = dataset_.class_counts(Split::train);
  std::erase(counts, 0);  // such classes cannot be balanced
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  if (!counts.empty() && *most > kImbalance * *least && options_.sampler == "each" && options_.class_weights == "none")
    notes.push_back(text("classes have ", thousands(*least), " to ", thousands(*most), " training images: ",
                         multi_label() ? "" : "sampler=balanced or ", "class_weights=sqrt helps the rare ones"));
}

std::vector<std::string> ImageTask::notes() const {
  std::vector<std::string> notes = dataset_.notes();
  notes.insert(notes.end(), options_.notes.begin(), options_.notes.end());
  if (!regression()) add_class_notes(notes);
  if (regression() && options_.augment && *options_.hflip == 0 && !*options_.random_resized_crop)
    notes.push_back(
        "images are not flipped or cropped at random, as numbers may follow from places and sizes in them; "
        "hflip=0.5 and random_resized_crop=true do so");
  if (options_.cache != "auto" && options_.cache != "none" && *options_.random_resized_crop)
    notes.push_back(text("cache=", options_.cache,
                         " keeps no training image: random_resized_crop takes another part of it in each epoch"));
  const std::vector<ImageHeader> headers = some_headers(dataset_);
  const auto cut = median(
      headers, [&](const ImageHeader& header) -> double { return preprocess_.cut_share(header.height, header.width); });
  if (cut && *cut > kMuchCut)
    notes.push_back(text("the centre crop of evaluation cuts off ", fixed(*cut * 100, 0),
                         " % of the median image for its shape: resize=letterbox or squash shows all of it"));
  if (const std::string note = enlarged_note(model_, headers, {preprocess_.height, preprocess_.width}); !note.empty())
    notes.push_back(note);
  if (options_.plots && !regression())
    if (const auto note = drawn_names_note(dataset_.class_names())) notes.push_back(*note);
  return notes;
}

std::function<Tensors(Tensors)> ImageTask::step(Optimizer& optimizer) const {
  if (regression()) return regression_training_step(model_, optimizer, number_loss_of(options_));
  return training_step(model_, optimizer, loss_of(options_),
                       weights_tensor(class_weights_of(options_, dataset_), device_named(options_.device)));
}

/// Draws the batch, and the counts of the classes.
void ImageTask::draw(const fs::path& folder, std::int64_t step) const {
  if (step >= kDrawnBatches) return;
  write_file(folder / text("train_batch", step, ".jpg"),
             batch_image(part_, training_preprocess_of(options_), dataset_.class_names(),
                         {.lambda = lambda_, .labels = partner_labels_, .numbers = regression()}));
  if (step > 0 || regression()) return;
  std::vector<ClassCounts> splits;
  for (const Split split : kSplits)
    if (dataset_.size(split) > 0)
      splits.push_back({std::string(name(split)), dataset_.class_counts(split), dataset_.size(split)});
  write_file(folder / "labels.png", class_counts_image(options_.data, dataset_.class_names(), splits));
}

/// Makes the images, labels and targets of a part of the loaded batch the ones to run on.
void ImageTask::take(const Part& part) {
  part_ = batch_;
  if (part.count == 1) return;
  const std::int64_t samples = part.size(batch_.size);
  const auto own = [&](auto from, auto& to) {
    const std::size_t each = from.size() / static_cast<std::size_t>(batch_.size);
    to.resize(each * static_cast<std::size_t>(samples));
    for (std::int64_t i = 0; i < samples; ++i)
      std::copy_n(from.begin() + (part.index + i * part.count) * static_cast<std::int64_t>(each), each,
                  to.begin() + i * static_cast<std::int64_t>(each));
    return std::span(to);
  };
  part_ = {.images = own(batch_.images, of_part_.images),
           .labels = own(batch_.labels, of_part_.labels),
           .targets = own(batch_.targets, of_part_.targets),
           .indices = own(batch_.indices, of_part_.indices),
           .size = static_cast<int>(samples)};
}

/// Mixes each image with its counterpart from the end of the part.
void ImageTask::mix(const Plan& plan, std::int64_t step) {
  const int height = static_cast<int>(train_size_.height), width = static_cast<int>(train_size_.width);
  Random random(static_cast<std::uint64_t>(options_.seed), static_cast<std::uint64_t>(step), kMixStream);
  const Mix drawn = draw_mix(mix_of(options_), height, width, random);
  lambda_ = drawn.lambda;
  partners_.resize(part_.size);
  std::iota(partners_.rbegin(), partners_.rend(), 0);
  mix_images(drawn, partners_, preprocess_.channels, height, width, part_.images, mix_buffers_);
  if (!part_.targets.empty()) {
    const Mix blend{.kind = Mix::Kind::mixup, .lambda = drawn.lambda};  // for CutMix too: labels are blended by area
    const auto classes = static_cast<int>(dataset_.class_names().size());
    return mix_images(blend, partners_, classes, 1, 1, part_.targets, mix_buffers_);
  }
  partner_labels_.assign(part_.labels.rbegin(), part_.labels.rend());
  const float lambda = static_cast<float>(drawn.lambda);
  plan.inputs()[2].write(partner_labels_.data());
  plan.inputs()[3].write(&lambda);
}

Types ImageTask::types(std::int64_t samples) const {
  const std::int64_t channels = preprocess_.channels, height = train_size_.height, width = train_size_.width;
  if (dataset_.has_targets()) return target_types(samples, channels, height, width, std::ssize(dataset_.class_names()));
  return batch_types(samples, channels, height, width, mixes());
}

Plan ImageTask::run(Compiled& plans, std::int64_t step, const Part& part) {
  take(part);
  const Plan& plan = plans.plan_for(types(part_.size));
  if (mixes()) mix(plan, step);
  run_batch(plan, part_);
  return plan;
}

bool ImageTask::validate(const Watch& watch, ModelConfig& config) {
  if (validation_ && multi_label()) {
    multi_label_evaluation_ = validation_->run_multi_label(watch);
    if (!multi_label_evaluation_) return false;
    multi_label_evaluation_->fit_thresholds();
    config.thresholds = multi_label_evaluation_->thresholds();
    config.metrics = metrics_of(*multi_label_evaluation_);
  } else if (validation_ && regression()) {
    regression_evaluation_ = validation_->run_regression(watch);
    if (!regression_evaluation_) return false;
    config.metrics = metrics_of(*regression_evaluation_);
  } else if (validation_) {
    evaluation_ = validation_->run(watch);
    if (!evaluation_) return false;
    config.reject_threshold = evaluation_->reject_threshold(options_.reject_keep);
    config.metrics = metrics_of(*evaluation_);
  }
  check_bad();
  return true;
}

/// Each loader counts its own bad samples; max_bad is for all.
void ImageTask::check_bad() const {
  if (!validation_) return;
  const std::vector<BadSample> training = loader_->bad(), validation = validation_->bad();
  const std::int64_t bad = std::ssize(training) + std::ssize(validation);
  if (bad > loader_->most_bad())
    fail(Fault::data, options_.data, ": ", bad, " images cannot be read (", training.size(), " of train, ",
         validation.size(), " of val), more than the ", loader_->most_bad(), " that max_bad allows, such as ",
         (training.empty() ? validation : training)[0].reason,
         "; 'neurim data scan' names all; repair or remove them, or raise max_bad");
}

void ImageTask::report(const fs::path& folder) const {
  if (evaluation_) write_report(*evaluation_, folder, options_.plots);
  if (multi_label_evaluation_) write_report(*multi_label_evaluation_, folder);
  if (regression_evaluation_) write_file(folder / "per_target.csv", per_target_csv(*regression_evaluation_));
}

/// Prints notes on images: unreadable, sideways, or slow to load.
void ImageTask::print_notes(Console& console, double waited, double seconds) {
  const auto bad = [&](const std::vector<BadSample>& found, std::set<std::int64_t>& told, Split split) {
    if (told.size() == found.size()) return;
    for (const BadSample& one : found)
      if (told.insert(one.index).second) console.print(text("  data    skipped: ", one.reason));
    console.print(text("  data    ", told.size(), " of ", thousands(dataset_.size(split)), ' ', split,
                       " images cannot be read and are skipped"));
  };
  bad(loader_->bad(), train_bad_told_, Split::train);
  if (validation_) bad(validation_->bad(), val_bad_told_, Split::val);
  if (!turned_told_ && loader_->turned() > 0) {
    console.print(text("  data    EXIF says to turn ", thousands(loader_->turned()),
                       " training images, which is done here and in every later use; exif=false leaves them"));
    turned_told_ = true;
  }
  if (waited > kMuchWaiting && seconds > 10 && !hinted_) {
    console.print(text("  data    ", fixed(waited, 0), " % of the time goes by waiting for images: ",
                       "try more workers, a larger cache_mib, or smaller images"));
    hinted_ = true;
  }
}

void scale_targets(Model& model, const Dataset& dataset) {
  constexpr double kLeastSpread = 1e-5;  // of f32, which has seven digits
  const std::vector<std::string>& names = dataset.class_names();
  std::vector<SampleMean> means(names.size());
  for (std::int64_t i = 0; i < dataset.size(Split::train); ++i)
    for (std::size_t t = 0; t < names.size(); ++t) means[t].add(dataset.numbers(Split::train, i)[t]);
  model.targets = {};
  for (std::size_t t = 0; t < names.size(); ++t) {
    const double mean = means[t].mean(), std = std::sqrt(means[t].variance());
    if (!(std > 0))
      fail(Fault::data, "target ", names[t], ": is ", significant(mean),
           " for all training images, so there is nothing to learn; leave it out, or give other data");
    if (std < kLeastSpread * std::abs(mean))
      fail(Fault::data, "target ", names[t], ": lies around ", mean, " and varies by ", significant(std),
           ", which f32 rounds; subtract ", significant(mean), " from its numbers");
    model.targets.std.push_back(std), model.targets.mean.push_back(mean);
  }
}

PreparedRun prepare_images(Model model, const Dataset& dataset, const TrainOptions& options, const Job& job) {
  const auto classes = static_cast<std::int64_t>(dataset.class_names().size());
  if (dataset.regression() && model.targets.empty()) scale_targets(model, dataset);
  require(model.num_classes == classes, model.name, ": the model has ", model.num_classes, " classes, the data ",
          classes, dataset.regression() ? " targets" : "", "; build it with num_classes=", classes);
  check_image_channels(dataset, model.in_chans);
  TrainOptions resolved = options.resolved(model, dataset);
  for (const InputSize& size : {*resolved.train_imgsz, *resolved.imgsz}) check_size(model, size);
  auto task = std::make_unique<ImageTask>(model, dataset, resolved, job);
  return {std::move(resolved), std::move(model), std::move(task)};
}

}  // namespace neurim
