#include "neurim/data/preprocess.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "neurim/base/error.h"
#include "neurim/base/json.h"

namespace neurim {
namespace {

using Json = nlohmann::ordered_json;  // whose keys stay in the order in which they are written
constexpr std::string_view kModes[] = {"crop", "squash", "letterbox"};                // in the order of ResizeMode
constexpr std::string_view kResizes[] = {"crop", "squash", "letterbox", "shortest"};  // what an option may say
constexpr std::string_view kInterpolations[] = {"nearest", "bilinear", "bicubic"};    // and of Interpolation
constexpr std::string_view kDecodes[] = {"exact", "scaled"};                          // and of DecodeOptions::scaled

/// Which of the words it is.
template <std::size_t count>
std::size_t index_of(const char* option, std::string_view word, const std::string_view (&words)[count]) {
  const std::vector<std::string> known(std::begin(words), std::end(words));
  for (std::size_t i = 0; i < count; ++i)
    if (words[i] == word) return i;
  const std::string near = nearest(word, known);
  fail(Fault::usage, option, ": there is no \"", word, "\"; ",
       near.empty() ? "" : text("did you mean \"", near, "\"? "), "known are ", join(known, ", "));
}

/// A whole number from 0 to the largest of its type, which get_to would cut others to.
template <class Whole>
void read_whole(const std::string& key, const nlohmann::json& value, Whole& to) {
  constexpr double kMost = std::numeric_limits<Whole>::max();
  const auto number = value.get<double>();
  if (!(number >= 0 && number <= kMost && number == std::floor(number)))
    fail(Fault::data, "preprocess: ", key, " is ", value.dump(), "; it is a whole number from 0 to ", kMost);
  to = static_cast<Whole>(number);
}

void read_field(const std::string& key, const nlohmann::json& value, Preprocess& to) {
  if (key == "channels")
    read_whole(key, value, to.channels);
  else if (key == "bits")
    read_whole(key, value, to.bits);
  else if (key == "height")
    read_whole(key, value, to.height);
  else if (key == "width")
    read_whole(key, value, to.width);
  else if (key == "resize")
    to.resize = resize_mode_named(value.get<std::string>());
  else if (key == "crop_pct")
    value.get_to(to.crop_pct);
  else if (key == "interpolation")
    to.interpolation = interpolation_named(value.get<std::string>());
  else if (key == "fill")
    read_whole(key, value, to.fill);
  else if (key == "mean")
    value.get_to(to.mean);
  else if (key == "std")
    value.get_to(to.std);
  else if (key == "exif")
    value.get_to(to.decode.exif);
  else if (key == "decode")
    to.decode.scaled = scaled_named(value.get<std::string>());
  else if (key == "background")
    for (std::size_t c = 0; c < to.decode.background.size(); ++c) read_whole(key, value.at(c), to.decode.background[c]);
  else
    fail(Fault::data, "preprocess: unknown field \"", key, "\"; the model was written by a newer version or edited");
}

}  // namespace

std::string_view name(ResizeMode mode) { return kModes[static_cast<std::size_t>(mode)]; }
std::string_view name(Interpolation interpolation) { return kInterpolations[static_cast<std::size_t>(interpolation)]; }

ResizeMode resize_mode_named(std::string_view name) {
  return static_cast<ResizeMode>(index_of("resize", name, kModes));
}
Interpolation interpolation_named(std::string_view name) {
  return static_cast<Interpolation>(index_of("interpolation", name, kInterpolations));
}
bool scaled_named(std::string_view decode) { return index_of("decode", decode, kDecodes) == 1; }

void Preprocess::check() const {
  require(channels >= 1 && channels <= kMostChannels, "preprocess: channels is ", channels, "; it is 1 to ",
          kMostChannels);
  require(bits == 8 || bits == 16, "preprocess: bits is ", bits, "; it is 8 or 16");
  require(height >= 1 && width >= 1 && height <= 1 << 14 && width <= 1 << 14, "preprocess: size is ", height, " x ",
          width, "; each is 1 to 16384 pixels");
  require(crop_pct >= kLeastCrop && crop_pct <= 1, "preprocess: crop_pct is ", crop_pct, "; it lies in [", kLeastCrop,
          ", 1]");
  for (const auto* list : {&mean, &std})
    require(list->size() == 1 || list->size() == static_cast<std::size_t>(channels),
            "preprocess: ", list == &mean ? "mean" : "std", " has ", list->size(), " values for ", channels,
            " channels; give one, or one per channel");
  for (const double each : std) require(each > 0, "preprocess: std is ", each, "; it must be above 0");
}

DecodeOptions Preprocess::decoding() const {
  DecodeOptions options = decode;
  options.bits = bits;
  options.all_channels = channels != 1 && channels != 3;
  options.scaled = decode.scaled && interpolation != Interpolation::nearest;  // a smaller image has means of values
  return options;
}

void Preprocess::choose_resize(std::string_view mode, std::optional<double> pct) {
  const bool shortest = mode == "shortest";
  require(!shortest || !pct || *pct == 1, "resize=shortest keeps the whole shorter side, so crop_pct is not ",
          pct.value_or(1), "; leave it out, or use resize=crop");
  if (mode != "auto") {
    const std::size_t chosen = index_of("resize", mode, kResizes);
    resize = shortest ? ResizeMode::crop : static_cast<ResizeMode>(chosen);
  }
  crop_pct = shortest ? 1 : pct.value_or(crop_pct);
}

ImageSize Preprocess::covering(int image_height, int image_width) const {
  // The side that decides is exact and the other one is cut to whole pixels, as torchvision and timm do.
  const int cover_h = static_cast<int>(height / crop_pct), cover_w = static_cast<int>(width / crop_pct);
  const bool by_height = static_cast<std::int64_t>(cover_h) * image_width >=
                         static_cast<std::int64_t>(cover_w) * image_height;
  const auto follow = [](int side, int cover, int of) {
    return static_cast<int>(static_cast<std::int64_t>(side) * cover / of);
  };
  return {by_height ? cover_h : std::max(cover_h, follow(image_height, cover_w, image_width)),
          by_height ? std::max(cover_w, follow(image_width, cover_h, image_height)) : cover_w, channels};
}

double Preprocess::cut_share(int image_height, int image_width) const {
  if (resize != ResizeMode::crop) return 0;
  const ImageSize whole = covering(image_height, image_width);
  const double meant = crop_pct * crop_pct * whole.height * whole.width;
  return std::max(0.0, 1 - static_cast<double>(height) * width / meant);
}

std::string Preprocess::json() const {
  return Json{{"channels", channels},
              {"bits", bits},
              {"height", height},
              {"width", width},
              {"resize", name(resize)},
              {"crop_pct", crop_pct},
              {"interpolation", name(interpolation)},
              {"fill", fill},
              {"mean", mean},
              {"std", std},
              {"exif", decode.exif},
              {"decode", kDecodes[decode.scaled]},
              {"background", decode.background}}
      .dump();
}

Preprocess Preprocess::from_json(std::string_view json) {
  Preprocess result;
  try {
    naming([] { return "preprocess"; }, [&] { check_json(json, 3); });
    const auto fields = nlohmann::json::parse(json);
    if (!fields.is_object()) fail(Fault::data, "preprocess: expected a JSON object, found ", fields.type_name());
    for (const auto& [key, value] : fields.items()) {
      try {
        read_field(key, value, result);
      } catch (const nlohmann::json::exception&) {
        fail(Fault::data, "preprocess: ", key, " cannot be ", value.dump());
      }
    }
    result.check();
  } catch (const Error& e) {
    fail(Fault::data, e.what());
  }
  return result;
}

}  // namespace neurim
