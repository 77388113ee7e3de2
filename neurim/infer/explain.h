// Which parts of an image an answer rests on.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "neurim/evaluate/contact_sheet.h"
#include "neurim/train/checkpoint.h"

namespace neurim {

/// Ways to explain an answer. `grad_cam`: the last feature maps, each weighted by the mean of its gradient (Selvaraju
/// et al., ICCV 2017). `layer_cam`: each place of them weighted by its own gradient (Jiang et al., TIP 2021).
/// `integrated_gradients`: of the pixels, along the line from a gray image (Sundararajan, Taly and Yan, ICML 2017).
/// `occlusion`: how far the probability falls where a gray square hides a part (Zeiler and Fergus, ECCV 2014).
enum class Explaining : std::uint8_t {
  grad_cam,              ///< maps weighted by mean gradients
  layer_cam,             ///< maps weighted place by place
  integrated_gradients,  ///< of pixels, along a line from gray
  occlusion              ///< what hiding a part costs
};

/// The way of that name: gradcam, layercam, integrated_gradients, occlusion. Throws Error(usage).
Explaining explaining_named(std::string_view name);
std::string_view name(Explaining way);  ///< by which explaining_named knows it

/// How much each pixel of the model's input speaks for a class.
struct Explanation {
  std::int64_t label = 0;   ///< the class that is explained
  double probability = 0;   ///< of it
  int height = 0,           ///< of the input, pixels
      width = 0;            ///< the same
  std::vector<float> heat;  ///< (height, width), in [0, 1] with 1 for the most; all 0 where nothing speaks for it
};

/// Explains a classifier of images. Serves one thread.
class Explainer {
 public:
  /// Throws Error(usage) for a model of series or texts.
  explicit Explainer(const Checkpoint& checkpoint);
  ~Explainer();  ///< Frees its plans.

  /// Explains why the model gives the class `label`, by default the likeliest, to the image of this file. Throws
  /// Error(data) with its name where it cannot be read, Error(usage) for a class that is not there, or for a way that
  /// needs feature maps and a model that has none.
  Explanation explain(const fs::path& image, Explaining way, std::optional<std::int64_t> label = {});

  /// The input that the model saw of the last image.
  Thumbnail input(std::vector<std::string> caption) const;
  /// The same with the heat over it.
  Thumbnail overlay(const Explanation& explanation, std::vector<std::string> caption) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace neurim
