#include <algorithm>
#include <set>

#include "neurim/cli/open_data.h"
#include "neurim/cli/open_model.h"
#include "neurim/cli/report_folder.h"
#include "neurim/cli/verbs.h"
#include "neurim/data/augmentations/augmentations.h"
#include "neurim/data/sources/image_list.h"
#include "neurim/data/sources/parts.h"
#include "neurim/infer/explain.h"
#include "neurim/neurim.h"
#include "neurim/weights/npy.h"

namespace neurim::cli {

namespace {

/// The class of that name or number.
std::optional<std::int64_t> class_of(const std::string& word, const std::vector<std::string>& names) {
  if (word == kAuto) return std::nullopt;
  const auto found = std::find(names.begin(), names.end(), word);
  if (found != names.end()) return found - names.begin();
  for (std::size_t i = 0; i < names.size(); ++i)
    if (word == text(i)) return static_cast<std::int64_t>(i);
  fail(Fault::usage, "class: the model has no '", word, "'; it knows [", listed(names), ']');
}

std::vector<Explaining> ways_of(const std::string& method) {
  if (method == "all")
    return {Explaining::grad_cam, Explaining::layer_cam, Explaining::integrated_gradients, Explaining::occlusion};
  std::vector<Explaining> ways;
  for (const std::string& one : list_items(method)) ways.push_back(explaining_named(one));
  require(!ways.empty(), "method is empty; name gradcam, layercam, integrated_gradients, occlusion or all");
  return ways;
}

}  // namespace

int verb_explain(const Words& words) {
  Words more;
  CommandLine line(
      {"explain",
       "shows which parts of images an answer rests on",
       "model source",
       {"neurim explain runs/classify/train photo.jpg", "neurim explain runs/classify/train photos method=all",
        "neurim explain runs/classify/train photo.jpg class=cat method=occlusion save_npy=true"},
       &more});
  std::string model, arch, source, method = "gradcam", label = kAuto;
  ReportFolder report("explain");
  bool save_npy = false;
  std::optional<std::int64_t> threads;
  line.options("model", model, "run folder, model folder, weights, function or ONNX file", {"m"});
  line.options("arch", arch, kArchOfWeights);
  line.options("source", source, "image, folder of images, pattern, .txt file with a path a line, - or @https://…");
  line.options("method", method, "gradcam, layercam, integrated_gradients, occlusion, several with commas, or all");
  line.options("class", label, "which class to explain: its name or number; auto: the likeliest of each image");
  line.options("save_npy", save_npy, "write the heat maps as .npy too, (height, width) in [0, 1]");
  report.visit(line);
  line.options("threads", threads, "compute threads");
  line.add_device();
  if (!line.parse(words)) return 0;
  require(!model.empty(), "the model is missing; give a run folder or a weights file: model=runs/classify/train");
  require(!source.empty(), "the source is missing; give an image or a folder: source=photos");
  const std::vector<Explaining> ways = ways_of(method);
  initialize();
  if (threads) set_threads(*threads);
  Console console(line.console());
  const Checkpoint checkpoint = load_checkpoint(model, arch);
  refuse_numbers(checkpoint, "explain");
  place(checkpoint.model, line.device());
  print_notes(checkpoint, console);
  Explainer explainer(checkpoint);
  const std::vector<std::string>& names = checkpoint.config.class_names;
  const std::optional<std::int64_t> asked = class_of(label, names);
  ImageList images;
  images.add(source);
  for (const std::string& further : more) images.add(further);
  print_notes(images.notes(), console);
  report.settle(checkpoint);
  if (line.dry_run())
    return line.end_dry_run(
        console, text("explain ", plural(std::ssize(images.files()), "image"), " in ", report.to_make().string()),
        {{"pictures", images.files().size()}, {"run", report.to_make().string()}});
  const fs::path folder = report.make();
  std::set<std::string> taken;
  for (std::size_t i = 0; i < images.files().size(); ++i) {
    std::vector<Thumbnail> shown;
    std::string stem = images.files()[i].stem().string();
    for (int number = 2; !taken.insert(stem).second; ++number)
      stem = text(images.files()[i].stem().string(), '-', number);
    for (const Explaining way : ways) {
      const Explanation found = explainer.explain(images.files()[i], way, asked);
      const std::string& named = names[static_cast<std::size_t>(found.label)];
      if (shown.empty()) shown.push_back(explainer.input({text(named, ' ', fixed(100 * found.probability, 1), " %")}));
      shown.push_back(explainer.overlay(found, {std::string(name(way))}));
      if (save_npy)
        write_npy(folder / text(stem, '-', name(way), ".npy"), Tensor::from({found.height, found.width}, found.heat));
      console.event({{"event", "explanation"},
                     {"path", images.name(i)},
                     {"method", std::string(name(way))},
                     {"label", named},
                     {"prob", found.probability}});
    }
    write_file(folder / (stem + ".jpg"), contact_sheet(shown, static_cast<int>(shown.size()), 320));
    console.print(text(images.name(i), "  ", (folder / (stem + ".jpg")).string()));
  }
  console.event({{"event", "summary"}, {"pictures", images.files().size()}, {"run", folder.string()}});
  return 0;
}

}  // namespace neurim::cli
