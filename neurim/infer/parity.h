// Whether an exported file answers as the model that it was made of.
#pragma once
#include <optional>
#include <string>

#include "neurim/data/dataset.h"
#include "neurim/infer/session.h"

namespace neurim {

/// A model and its export on the same inputs.
struct Parity {
  std::int64_t samples = 0;  ///< how many inputs
  std::string source;        ///< what they are: "200 images of the split val of flowers", "32 images drawn with seed 0"
  double top1_agreement = 1;               ///< the share with the same likeliest class; 1 where there are no classes
  double largest_difference = 0;           ///< of two probabilities; of a forecast relative to its largest value
  double accuracy = Metrics::kNone,        ///< of the model, where the inputs have labels
      exported_accuracy = Metrics::kNone;  ///< of the export

  /// Whether the likeliest classes agree for this share, and no two probabilities differ by more than the tolerance.
  bool within(double agreement, double tolerance) const {
    return top1_agreement >= agreement && largest_difference <= tolerance;  // false for NaN
  }
  std::string json(double agreement, double tolerance) const;  ///< as parity.json has it, with whether it is within
};

/// Images of a data set to compare on; of each at most kMostParityImages.
struct ParityImages {
  Dataset dataset;   ///< with the model's classes
  Split split;       ///< which images
  std::string name;  ///< of the data, for Parity::source
};
inline constexpr std::int64_t kMostParityImages = 200,  ///< of a data set
    kDrawnParityInputs = 32;                            ///< where there is none

/// The images to compare on: the split val of the data (else their first that is not empty), or without `data` of those
/// that the model was trained on. Nothing where these are not there any more, with the reason in `note`. Throws
/// Error(data) for given data that do not fit.
std::optional<ParityImages> parity_images(const Checkpoint& checkpoint, const std::string& data, std::string& note);

/// Runs both on the images, or on inputs drawn with seed 0; an export that has the preprocessing in it gets images as
/// they are decoded, drawn ones of several sizes. `layout`: of the images that the export takes. Throws Error(data)
/// where more images cannot be read than a loader leaves out.
Parity parity_of(const Checkpoint& checkpoint, const InferenceSession& exported,
                 const std::optional<ParityImages>& images = {}, InputLayout layout = InputLayout::model);

}  // namespace neurim
