#include "neurim/data/views.h"

#include "neurim/base/error.h"

namespace neurim {

std::vector<Augment> parse_views(std::string_view list, const Preprocess& preprocess) {
  std::vector<Augment> views(1);
  if (list == "none" || list == "1" || list.empty()) return views;
  if (list == "5") list = "5crop";
  if (list == "10") list = "5crop,hflip";
  bool crops = false, mirrors = false;
  for (const std::string& word : list_items(list)) {
    require(word == "hflip" || word == "5crop", "tta: there is no '", word, "'; known are hflip, 5crop, none");
    bool& named = word == "hflip" ? mirrors : crops;
    require(!named, "tta names ", word, " twice");
    named = true;
  }
  if (crops) {
    require(preprocess.resize == ResizeMode::crop,
            "tta=5crop cuts parts out of larger images, and resize=", name(preprocess.resize),
            " cuts nothing; add resize=crop");
    views.resize(5);
    for (std::size_t i = 0; i < views.size(); ++i) views[i].crop_at = static_cast<CropAt>(i);
  }
  if (mirrors)
    for (std::size_t i = 0, whole = views.size(); i < whole; ++i) {
      Augment mirrored = views[i];
      mirrored.hflip = 1;
      views.push_back(mirrored);
    }
  return views;
}

}  // namespace neurim
