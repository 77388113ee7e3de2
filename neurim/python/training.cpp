// Data sets, training, evaluation and classifiers of image files.
#include <nanobind/ndarray.h>

#include <condition_variable>
#include <csignal>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>

#include "neurim/infer/classifier.h"
#include "neurim/python/bindings.h"
#include "neurim/train/image_evaluation.h"
#include "neurim/train/image_task.h"
#include "neurim/train/run_folder.h"

namespace neurim::python {

namespace {

using Pixels = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Words = std::vector<std::pair<std::string, std::string>>;  // options by name

TrainOptions options_of(const Words& words) {
  TrainOptions options;
  Options named;
  options.visit(named);
  for (const auto& [name, value] : words) named.set(name, value);
  return options;
}

ImageSize size_of(const Pixels& pixels);

/// Calls without the interpreter's lock, so that other threads of Python go on.
template <class Call>
auto without_lock(const Call& call) {
  const nb::gil_scoped_release others_run;
  return call();
}

/// Images that a function of Python gives: u8 or u16 of (height, width) or (height, width, channels).
class PythonSource final : public Source {
 public:
  PythonSource(nb::object get, std::optional<ImageSize> size) : get_(held(std::move(get))), size_(size) {}

  std::string name(std::int64_t item) const override { return text("sample ", item); }
  StoredImage read(std::int64_t item, std::vector<std::byte>& buffer) const override {
    const nb::gil_scoped_acquire lock;
    try {
      Pixels pixels;
      require(nb::try_cast((*get_)(item), pixels), "is no array; an image is one of uint8 or uint16");
      const ImageSize size = size_of(pixels);
      buffer.resize(size.bytes());
      std::memcpy(buffer.data(), pixels.data(), size.bytes());
      return {buffer, size};
    } catch (const Error& error) {
      throw Error(Fault::data, error.what());
    } catch (
        const nb::python_error& error) {  // of the caller's own code: an image that cannot be read, or a fault of it
      if (!error.matches(PyExc_Exception)) PyErr_SetInterrupt();  // as KeyboardInterrupt
      const bool unreadable = error.matches(PyExc_OSError) || error.matches(PyExc_ValueError);
      throw Error(unreadable ? Fault::data : Fault::failure,
                  text(unreadable ? "" : name(item) + ": ", nb::cast<std::string>(error.type().attr("__name__")), ": ",
                       nb::cast<std::string>(nb::str(error.value()))));
    }
  }
  std::optional<ImageSize> in_memory() const override { return size_; }

 private:
  std::shared_ptr<nb::object> get_;
  std::optional<ImageSize> size_;
};

Dataset dataset_from(nb::object get, const std::vector<std::int64_t>& labels, std::vector<std::string> class_names,
                     const std::vector<std::string>& splits, const std::vector<int>& size, const Words& words,
                     const std::string& called, std::vector<float> numbers) {
  Listing listing;
  std::optional<ImageSize> all;
  if (size.size() == 4) all = ImageSize{size[0], size[1], size[2], size[3]};
  listing.source = std::make_shared<PythonSource>(std::move(get), all);
  listing.class_names = std::move(class_names);
  listing.labels = labels;
  listing.numbers = std::move(numbers);
  for (std::size_t i = 0; i < splits.size(); ++i)
    listing[split_option(splits[i])].push_back(static_cast<std::int64_t>(i));
  return {std::move(listing), dataset_of(options_of(words)), called};
}

/// How many trainings run, and whether they are to end since the interpreter does.
struct Running {
  std::mutex mutex;
  std::condition_variable changed;
  int count = 0;
  bool ends = false;
};
Running& running() {
  static auto* const all = new Running;
  return *all;
}

/// Counts one as running. With the interpreter's lock at its begin and its end, so that who waits for the end goes on
/// only when this thread no longer has to wait for the lock in the midst of C++.
class Counted {
 public:
  Counted() {
    const std::lock_guard lock(running().mutex);
    ++running().count;
  }
  ~Counted() {
    const std::lock_guard lock(running().mutex);
    --running().count;
    running().changed.notify_all();
  }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  /// Whether it is to end.
  bool ends() const {
    const std::lock_guard lock(running().mutex);
    return running().ends;
  }
};

/// Runs `work` in a thread, so that Ctrl-C is seen meanwhile: it sets what `work` is given, and is raised when that has
/// ended.
template <class Result>
Result interruptible(const std::function<Result(const std::atomic<int>& stop)>& work) {
  const Counted counted;
  std::atomic<int> stop{0};
  std::promise<Result> promise;
  std::future<Result> future = promise.get_future();
  std::optional<nb::python_error> interrupt;
  {
    const nb::gil_scoped_release others_run;
    std::thread thread([&] {
      try {
        promise.set_value(work(stop));
      } catch (...) {
        promise.set_exception(std::current_exception());
      }
    });
    while (future.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
      if (counted.ends()) stop = SIGINT;
      const nb::gil_scoped_acquire lock;
      if (PyErr_CheckSignals() == 0) continue;
      if (!interrupt)
        interrupt.emplace();
      else
        PyErr_Clear();
      stop = SIGINT;
    }
    thread.join();
  }
  if (!interrupt && PyErr_CheckSignals() != 0) interrupt.emplace();  // that a data set of Python has raised at the end
  if (interrupt) throw std::move(*interrupt);
  return future.get();
}

nb::dict metrics_dict(const Metrics& metrics) {
  nb::dict all;
  for (const TaskMetric& one : metrics.task().metrics) all[one.name] = metrics[one.name];
  all["samples"] = metrics.samples;
  return all;
}

/// What a training tells: lines for people, and events as JSON.
struct Listeners {
  std::shared_ptr<nb::object> line, event;

  Console::Options options() const {
    Console::Options options{.quiet = line->is_none()};
    if (!line->is_none())
      options.on_line = [line = line](std::string_view words) {
        const nb::gil_scoped_acquire lock;
        (*line)(nb::str(words.data(), words.size()));
      };
    options.on_event = [event = event](const std::string& json) {
      const nb::gil_scoped_acquire lock;
      (*event)(json);
    };
    return options;
  }
};

nb::dict trained(nb::object line, nb::object event,
                 const std::function<TrainResult(const TrainControl& control)>& train) {
  const Listeners listeners{held(std::move(line)), held(std::move(event))};
  const TrainResult result = interruptible<TrainResult>([&](const std::atomic<int>& stop) {
    Console console(listeners.options());
    return train({.console = &console, .stop = &stop});
  });
  nb::dict all;
  all["run"] = result.run.string();
  all["model"] = result.model.string();
  all["best_epoch"] = result.best_epoch;
  all["epochs"] = result.epochs;
  all["stopped"] = result.stopped;
  all["metrics"] = metrics_dict(result.metrics);
  return all;
}

/// A model of Python with the metadata that its training has left in a file of weights, and with these weights or its
/// `present` ones.
Checkpoint checkpoint_of(const Model& model, const std::string& weights, bool present = false) {
  if (!present) load_model(model, weights);
  Checkpoint checkpoint{.path = weights, .config = config_of(SafeTensors(weights).metadata(), weights), .model = model};
  checkpoint.model.targets = checkpoint.config.targets;
  return checkpoint;
}

/// An image of Python: u8 or u16 of (height, width) or (height, width, channels).
ImageSize size_of(const Pixels& pixels) {
  const int bits = static_cast<int>(pixels.dtype().bits);
  require((pixels.ndim() == 2 || pixels.ndim() == 3) && (bits == 8 || bits == 16) &&
              pixels.dtype().code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt),
          "an image has to be an array of uint8 or uint16, (height, width) or (height, width, channels)");
  for (std::size_t i = 0; i < pixels.ndim(); ++i)
    require(pixels.shape(i) >= 1 && pixels.shape(i) < (1 << 20), "an image has ", pixels.shape(i),
            i < 2 ? " rows or columns" : " channels", "; it has to have one at least");
  return {static_cast<int>(pixels.shape(0)), static_cast<int>(pixels.shape(1)),
          pixels.ndim() == 3 ? static_cast<int>(pixels.shape(2)) : 1, bits};
}

nb::list list_of(const std::vector<Classification>& said) {
  nb::list all;
  for (const Classification& one : said)
    all.append(nb::make_tuple(one.unreadable, one.probabilities, one.classes, one.rejected));
  return all;
}

/// Batches as tensors.
class Batches {
 public:
  Batches(const Dataset& dataset, const std::string& split, int channels, int height, int width,
          const std::vector<double>& mean, const std::vector<double>& std, const std::string& resize, int batch,
          int workers, bool shuffle, bool drop_last, std::uint64_t seed) {
    Preprocess preprocess{.channels = channels, .height = height, .width = width, .mean = mean, .std = std};
    preprocess.choose_resize(resize, {});
    preprocess.check();
    preprocess_ = preprocess;
    const nb::gil_scoped_release others_run;
    source_ = open_loader(
        "neurim", dataset, split_option(split), preprocess, {},
        {.batch = batch, .workers = workers, .seed = seed, .shuffle = shuffle, .drop_last = drop_last});
  }
  void start(std::uint32_t epoch) {
    const nb::gil_scoped_release others_run;
    source_->start(epoch);
  }
  std::optional<std::pair<Tensor, Tensor>> next() {
    const nb::gil_scoped_release others_run;
    Batch batch;
    if (!source_->next(batch)) return {};
    const Type type = image_type(preprocess_, batch.size);
    const Tensor images = Tensor::from(type, batch.images.data());
    if (!batch.targets.empty())
      return {{images,
               Tensor::from({DType::f32, {batch.size, std::ssize(batch.targets) / batch.size}}, batch.targets.data())}};
    return {{images, Tensor::from({DType::i64, {batch.size}}, batch.labels.data())}};
  }
  std::int64_t size() const { return source_->batches(); }
  void close() {
    const nb::gil_scoped_release others_run;  // its threads may wait for the lock
    source_.reset();
  }
  ~Batches() { close(); }

 private:
  Preprocess preprocess_;
  std::unique_ptr<BatchSource> source_;
};

}  // namespace

/// Data sets and their batches.
static void bind_data(nb::module_& module) {
  nb::class_<Dataset>(module, "Dataset")
      .def_static("open",
                  [](const std::string& path, const Words& words, std::vector<std::string> class_names) {
                    const TrainOptions given = options_of(words);
                    DatasetOptions options = dataset_of(given);
                    options.class_names = class_names.empty() ? classes_of(given) : std::move(class_names);
                    const nb::gil_scoped_release others_run;
                    return Dataset::open(path, options);
                  })
      .def_static("from_source", &dataset_from)
      .def("size", [](const Dataset& data, const std::string& split) { return data.size(split_option(split)); })
      .def_prop_ro("class_names", &Dataset::class_names)
      .def_prop_ro("notes", &Dataset::notes)
      .def_prop_ro("multi_label", &Dataset::multi_label)
      .def_prop_ro("regression", &Dataset::regression)
      .def("numbers",
           [](const Dataset& data, const std::string& split, std::int64_t i) {
             const auto numbers = data.numbers(split_option(split), i);
             return std::vector<double>(numbers.begin(), numbers.end());
           })
      .def_prop_ro("image_size",
                   [](const Dataset& data) -> std::optional<std::vector<int>> {
                     const auto size = data.in_memory();
                     if (!size) return {};
                     return std::vector<int>{size->height, size->width, size->channels};
                   })
      .def("name", [](const Dataset& data, const std::string& split,
                      std::int64_t i) { return data.name(split_option(split), i); })
      .def("label", [](const Dataset& data, const std::string& split,
                       std::int64_t i) { return data.label(split_option(split), i); })
      .def("classes", [](const Dataset& data, const std::string& split, std::int64_t i) {
        const auto classes = data.classes(split_option(split), i);
        return std::vector<std::int64_t>(classes.begin(), classes.end());
      });
  nb::class_<Batches>(module, "Batches")
      .def(nb::init<const Dataset&, const std::string&, int, int, int, const std::vector<double>&,
                    const std::vector<double>&, const std::string&, int, int, bool, bool, std::uint64_t>())
      .def("start", &Batches::start)
      .def("next", &Batches::next)
      .def("close", &Batches::close)
      .def_prop_ro("size", &Batches::size);
}

/// Trainings.
static void bind_runs(nb::module_& module) {
  module.def("end_trainings", [] {
    const nb::gil_scoped_release others_run;
    Running& all = running();
    std::unique_lock lock(all.mutex);
    all.ends = true;
    all.changed.wait(lock, [&] { return all.count == 0; });
  });
  module.def("train_options", [] {
    TrainOptions options;
    Options named;
    options.visit(named);
    nb::list all;
    for (const Option& one : named.list()) all.append(nb::make_tuple(one.name, one.aliases, one.get(), one.help));
    return all;
  });
  module.def(
      "train",
      [](const Words& words, nb::object line, nb::object event) {
        const TrainOptions options = options_of(words);
        return trained(std::move(line), std::move(event),
                       [&](const TrainControl& control) { return train(options, control); });
      },
      nb::arg("options"), nb::arg("line").none(), nb::arg("event"));
  module.def(
      "train_model",
      [](const Model& model, const Dataset& dataset, const Words& words, nb::object line, nb::object event) {
        const TrainOptions options = options_of(words);
        return trained(std::move(line), std::move(event),
                       [&](const TrainControl& control) { return train(model, dataset, options, control); });
      },
      nb::arg("model"), nb::arg("dataset"), nb::arg("options"), nb::arg("line").none(), nb::arg("event"));
  module.def(
      "resume",
      [](const std::string& run, std::optional<std::int64_t> epochs, nb::object line, nb::object event) {
        return trained(std::move(line), std::move(event),
                       [&](const TrainControl& control) { return resume(run, epochs, control); });
      },
      nb::arg("run"), nb::arg("epochs").none(), nb::arg("line").none(), nb::arg("event"));
  module.def(
      "resume_model",
      [](const Model& model, const Dataset& dataset, const std::string& run, std::optional<std::int64_t> epochs,
         nb::object line, nb::object event) {
        return trained(std::move(line), std::move(event),
                       [&](const TrainControl& control) { return resume(model, dataset, run, epochs, control); });
      },
      nb::arg("model"), nb::arg("dataset"), nb::arg("run"), nb::arg("epochs").none(), nb::arg("line").none(),
      nb::arg("event"));
}

/// Evaluations.
static void bind_evaluations(nb::module_& module) {
  module.def("open_model", [](const std::string& path) {
    const Checkpoint checkpoint = load_checkpoint(path);
    return nb::make_tuple(checkpoint.model, checkpoint.config.class_names);
  });
  module.def("input_of", [](const std::string& weights) {
    const Preprocess p = config_of(SafeTensors(weights).metadata(), weights).preprocess;
    return std::vector<int>{p.channels, p.height, p.width};
  });
  // `weights`: a file that a training has left, whose images are brought to the input as in that training unless
  // `own_input`; its weights are taken unless the model's `present` ones are asked for. `report`: a folder is written.
  module.def(
      "evaluate_model",
      [](Model model, const Dataset& dataset, const std::string& split, const Words& words,
         const std::optional<std::string>& weights, bool present, bool own_input, bool report) {
        ImageEvaluationOptions options{
            .subject = {.model = weights.value_or(model.name), .split = split_option(split)}};
        std::optional<Checkpoint> checkpoint;
        if (weights) {
          checkpoint = checkpoint_of(model, *weights, present);
          model = checkpoint->model;
          options.thresholds = checkpoint->config.thresholds;
        }
        if (dataset.regression() && model.targets.empty()) scale_targets(model, dataset);
        options.options = options_of(words).resolved(model, dataset);
        options.preprocess = checkpoint && !own_input ? checkpoint->config.preprocess : preprocess_of(options.options);
        options.subject.data = options.options.data.empty() ? "data in memory" : options.options.data;
        fs::path folder;
        const auto metrics = interruptible<Metrics>([&](const std::atomic<int>& stop) {
          const auto evaluation = evaluate_images(model, dataset, options, [&](double) { return stop == 0; });
          if (!evaluation) return Metrics();
          if (report) {
            const fs::path reports = reports_of_weights(*weights, evaluation->metrics.task());
            folder = make_run_folder(reports.string(), split);
            evaluation->write(folder);
          }
          return evaluation->metrics;
        });
        return nb::make_tuple(metrics_dict(metrics), folder.string());
      },
      nb::arg("model"), nb::arg("dataset"), nb::arg("split"), nb::arg("options"), nb::arg("weights").none(),
      nb::arg("present"), nb::arg("own_input"), nb::arg("report"));
}

/// Trained classifiers.
static void bind_classifiers(nb::module_& module) {
  nb::class_<ImageClassifier>(module, "Classifier")
      .def_static("open",
                  [](const std::string& path, std::int64_t batch) {
                    return without_lock([&] { return ImageClassifier::open(path, {.batch = batch}); });
                  })
      .def_static("of",
                  [](const Model& model, const std::string& weights, std::int64_t batch, bool present) {
                    return without_lock(
                        [&] { return ImageClassifier(checkpoint_of(model, weights, present), {.batch = batch}); });
                  })
      .def_prop_ro("class_names", &ImageClassifier::class_names)
      .def_prop_ro("multi_label", [](const ImageClassifier& c) { return c.config().multi_label(); })
      .def_prop_ro("regression", [](const ImageClassifier& c) { return c.config().regression(); })
      .def_prop_ro("input",
                   [](const ImageClassifier& c) {
                     const Preprocess& p = c.config().preprocess;
                     return std::vector<int>{p.channels, p.height, p.width};
                   })
      .def("predict_files",
           [](const ImageClassifier& classifier, const std::vector<std::string>& files) {
             const std::vector<fs::path> paths(files.begin(), files.end());
             return list_of(without_lock([&] { return classifier.predict(paths); }));
           })
      .def("predict_pixels", [](const ImageClassifier& classifier, const std::vector<Pixels>& images) {
        std::vector<StoredImage> stored;
        for (const Pixels& pixels : images) {
          const ImageSize size = size_of(pixels);
          stored.push_back({{static_cast<const std::byte*>(pixels.data()), size.bytes()}, size});
        }
        return list_of(without_lock([&] { return classifier.predict(stored); }));
      });
  module.def("export_onnx", [](const Model& model, const std::string& weights, const std::string& path, bool dynamic,
                               bool present) {
    return without_lock([&] {
      return export_checkpoint(checkpoint_of(model, weights, present), path, {.dynamic_batch = dynamic}).names();
    });
  });
}

void bind_training(nb::module_& module) {
  bind_data(module);
  bind_runs(module);
  bind_evaluations(module);
  bind_classifiers(module);
}

}  // namespace neurim::python
