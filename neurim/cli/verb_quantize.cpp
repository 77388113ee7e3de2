#include "neurim/base/writable.h"
#include "neurim/cli/interrupt.h"
#include "neurim/cli/open_data.h"
#include "neurim/cli/open_model.h"
#include "neurim/cli/summary.h"
#include "neurim/cli/verbs.h"
#include "neurim/data/sources/parts.h"
#include "neurim/neurim.h"
#include "neurim/quantize/quantize_model.h"
#include "neurim/train/export_checkpoint.h"

namespace neurim::cli {

namespace {

struct Wanted {
  std::string model, arch, data, split = "val", method = kAuto, equalize = kAuto, activations = "u8",
                                 weights_only = "none", others = "f32", keep, output, statistics = kAuto;
  QuantizeOptions quantize;
  TrainOptions training;
  bool qat = false;
  std::int64_t qat_epochs = 3;

  void visit(CommandLine& line) {
    Options named;
    training.visit(named);
    line.options.topic("most used");
    line.options("model", model, "run folder, model folder, weights, function or ONNX file", {"m"});
    line.options("arch", arch, kArchOfWeights);
    line.options("data", data, "images; by default those that it was trained on");
    line.options(
        "max_drop", quantize.max_drop,
        "how far top-1 (of several classes an image mAP) may drop, in points; layers leave 8 bits until it holds");
    line.options("split", split, "on which accuracy is measured: val, test or train");
    line.options("output", output, "file to write; by default export/best.int8.neurim in the run folder");
    line.options.topic("ranges");
    line.options("images", quantize.images, "of the training split, that ranges are found by");
    line.options("method", method,
                 "minmax, percentile (99.99 % on either side), mse, entropy; auto: whose logits differ least");
    line.options("equalize", equalize,
                 "move scales between layers, so that channels are of more equal size: true, false; auto: if logits "
                 "differ less");
    line.options("activations", activations, "u8, or i8: around 0, as TensorRT takes them");
    line.options("weights_only", weights_only,
                 "int8, int4: weights in groups, activations in f32; for small files; none: activations in bytes too");
    line.options("group", quantize.group, "weights that share a scale with weights_only; 0: those of a channel");
    line.options("keep", keep, "layers that are never in fewer bits, with commas");
    line.options("others", others,
                 "what the layers are in that 8 bits do not suit: f32; bf16 or f16: smaller, and faster where the "
                 "processor computes in it");
    line.options("statistics", statistics,
                 "file of what layers read, which is used where it is there; auto: beside the output; none");
    line.options.topic("training");
    line.options("qat", qat, "fine-tune with the rounding in place first, in a run beside the output");
    line.options("qat_epochs", qat_epochs, "its length");
    line.options("qat_lr", quantize.qat_lr, "its learning rate; auto: a hundredth of the training's");
    line.options.topic("data");
    for (const char* name : kOptionsOfReading) line.options.borrow(*named.find(name), "; by default as in training");
  }

  /// Reads the words into the options below.
  void settle(const CommandLine& line) {
    for (const RangeMethod one : kRangeMethods)
      if (method == name(one)) quantize.method = one;
    require(quantize.method || method == kAuto, "method: there is no '", method,
            "'; known are minmax, percentile, mse, entropy, auto");
    if (equalize != kAuto) quantize.equalize = bool_of("equalize", equalize);
    require(activations == "u8" || activations == "i8", "activations: there are no '", activations,
            "'; known are u8, i8");
    quantize.activations = activations == "u8" ? DType::u8 : DType::i8;
    require(weights_only == "none" || weights_only == "int8" || weights_only == "int4", "weights_only: there is no '",
            weights_only, "'; known are int8, int4, none");
    if (weights_only != "none") {
      quantize.weights_only = weights_only == "int4" ? 4 : 8;
      for (const char* option : {"method", "equalize", "activations", "statistics"})
        require(!line.given(option), option, " is of activations, which weights_only leaves in f32; leave it out");
    }
    require(weights_only != "none" || !line.given("group"), "group is for weights_only; leave it out");
    require(others == "f32" || others == "f16" || others == "bf16", "others: there is no '", others,
            "'; known are f32, bf16, f16");
    require(weights_only == "none" || others == "f32", "others is for activations in bytes; leave it out");
    quantize.others = others == "f16" ? DType::f16 : others == "bf16" ? DType::bf16 : DType::f32;
    if (!keep.empty()) quantize.keep = neurim::split(keep, ',');
    quantize.split = split_option(split);
    for (const char* option : {"qat_epochs", "qat_lr"})
      require(qat || !line.given(option), option, " is for qat=true; leave it out");
    require(qat_epochs >= 1, "qat_epochs is ", qat_epochs, "; it is at least 1");
    if (qat) quantize.qat_epochs = qat_epochs;
  }

  static bool bool_of(const char* option, const std::string& word) {
    require(word == "true" || word == "false", option, ": there is no '", word, "'; known are true, false, auto");
    return word == "true";
  }
};

/// Prints which layers are not in fewer bits.
void print_layers(const QuantizedModel& made, Console& console) {
  std::int64_t all = 0, of_bytes = 0, count = 0;
  std::vector<std::string> kept;
  for (const QuantizedLayer& layer : made.layers) {
    all += layer.multiply_adds;
    if (layer.bytes) of_bytes += layer.multiply_adds, ++count;
    if (!layer.bytes) kept.push_back(layer.name);
  }
  console.print(
      text(count, " of ", made.layers.size(), " layers, ",
           fixed(100 * static_cast<double>(of_bytes) / static_cast<double>(std::max<std::int64_t>(1, all)), 1),
           " % of the multiply-adds, are in fewer bits", kept.empty() ? "" : text("; in ", made.others, " are "),
           listed(kept)));
}

}  // namespace

int verb_quantize(const Words& words) {
  CommandLine line(
      {"quantize",
       "writes a classifier in 8 bits that stays as accurate as asked",
       "model data",
       {"neurim quantize runs/classify/train", "neurim quantize model=best.safetensors data=photos max_drop=0.2",
        "neurim quantize runs/classify/train weights_only=int4 --json"}});
  Wanted o;
  o.visit(line);
  if (!line.parse(words)) return 0;
  o.settle(line);
  initialize();
  Console console(line.console());
  const TrainedClassifier trained = open_trained(
      {"quantize", o.model, o.arch, o.data, o.quantize.split, kOptionsOfReading}, line, console);
  const auto& [checkpoint, options, dataset] = trained;
  o.quantize.options = options;

  const std::string ending = o.quantize.weights_only == 0 ? "int8" : o.weights_only;
  const fs::path path = o.output.empty() ? export_path(checkpoint, ending + ".neurim") : fs::path(o.output);
  const auto beside = [&](const char* name) { return path.parent_path() / text(path.stem().string(), '.', name); };
  check_no_input(path, files_of_model(o.model, checkpoint));
  check_can_make(fs::absolute(path).parent_path());
  if (o.quantize.weights_only == 0 && o.statistics != "none")
    o.quantize.statistics = o.statistics == kAuto ? beside("statistics.safetensors") : fs::path(o.statistics);
  if (line.dry_run())
    return line.end_dry_run(console, text("quantize ", checkpoint.path.string(), ", and write ", path.string()),
                            {{"path", path.string()}});
  make_folder(fs::absolute(path).parent_path());
  std::optional<Interrupt> interrupt;
  if (o.qat) interrupt.emplace();
  o.quantize.qat_run = beside("qat");
  QuantizedModel made = quantize_model(
      checkpoint, dataset, o.quantize, [&](const std::string& step) { console.print(step); },
      o.qat ? control_of(*interrupt, console) : TrainControl());
  if (made.stopped) {
    console.warn("stopped; no model is written");
    return interrupt->exit_code();
  }
  const std::string metric = checkpoint.config.task().monitor;
  print_layers(made, console);
  const double drop = 100 * (made.before - made.after);
  console.print(text(metric, ' ', fixed(100 * made.before, 2), " -> ", fixed(100 * made.after, 2), " on ",
                     thousands(dataset.size(o.quantize.split)), ' ', o.split, " images"));
  write_file(beside("layers.csv"), layers_csv(made));
  JsonObject summary{{"event", "summary"},          {metric + "_before", made.before},
                     {metric, made.after},          {"method", std::string(name(made.method))},
                     {"equalized", made.equalized}, {"layers", beside("layers.csv").string()}};
  if (made.held) {
    made.function.metadata["quantized"] = text(ending, ", ", metric, ' ', fixed(100 * made.before, 2), " -> ",
                                               fixed(100 * made.after, 2), " on ", o.split);
    write_function(made.function, path);
    console.print(
        text("Saved ", path.string(), " (", thousands(static_cast<std::int64_t>(fs::file_size(path) >> 10)), " KiB)"));
    summary.add("model", path.string());
    summary.add("bytes", fs::file_size(path));
  } else {
    console.warn(text("no model is written: with a single layer in fewer bits ", metric, " drops by ", fixed(drop, 2),
                      " points or more, and max_drop is ", o.quantize.max_drop));
  }
  console.event(summary);
  return made.held ? 0 : static_cast<int>(Fault::gate);
}

}  // namespace neurim::cli
