// Networks that are written in files: docs/guides/models.md.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "neurim/base/file.h"
#include "neurim/model/model.h"
#include "neurim/model/toml.h"

namespace neurim {

/// What a model file is built for.
struct ModelFileOptions {
  std::int64_t num_classes = 0,           ///< 0: what the file says, or else 1000
      in_chans = 0;                       ///< 0: what the file says, or else 3
  std::int64_t height = 0,                ///< of the images; 0: what the file says, or else 224
      width = 0;                          ///< the same
  std::optional<std::uint64_t> seed = 0;  ///< as in ModelOptions
  /// More values than this in all parameters are an error, before there is memory for them.
  std::int64_t most_values = std::int64_t{1} << 31;
};

/// The text of a model file, TOML: a list of layers in order, which name their inputs where it is not the
/// layer before, blocks that are defined once and used with arguments, and what images the network is made
/// for.
class ModelFile {
 public:
  /// `where` is what errors call the text. Throws Error(data) "WHERE:LINE: …" where it is no TOML or has
  /// other parts.
  ModelFile(std::string text, const std::string& where);

  /// Whether it says imgsz, in_chans or num_classes itself.
  bool says(std::string_view key) const;
  /// Height and width of the images that build makes a network for.
  std::pair<std::int64_t, std::int64_t> size(const ModelFileOptions& options = {}) const;

  /// Builds the network on the CPU for such images, every tensor named; the model is called as the file, and
  /// keeps the text. Sizes of weights follow from what comes in, and each layer is asked what it makes of it:
  /// throws Error(data) "WHERE:LINE: layer PATH (KIND): …" for what is unknown, misses, or does not fit.
  Model build(const ModelFileOptions& options = {}) const;

 private:
  const Toml::Table& document() const;

  std::string text_, where_;
  std::shared_ptr<const Toml> document_;
};

/// Whether the name of a model names such a file: it ends in .toml, or in .yaml or .yml, which a ModelFile refuses.
bool is_model_file(std::string_view name);

/// The network of the file.
Model create_model_file(const fs::path& path, const ModelFileOptions& options = {});

}  // namespace neurim
