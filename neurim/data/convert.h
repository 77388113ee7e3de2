// Writing a data set in another form.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "neurim/data/dataset.h"

namespace neurim {

enum class SetForm : std::uint8_t {
  folders,   ///< out/SPLIT/CLASS/000000123.jpg
  tar,       ///< WebDataset shards out/SPLIT-000000.tar: an image, .cls (the class's number) and .json (its name)
  tfrecord,  ///< out/SPLIT-00000-of-00004.tfrecord: image/encoded, image/class/label, image/class/text, image/filename
};

struct ConvertOptions {
  SetForm form = SetForm::tar;
  std::int64_t shard = 1000;  ///< samples of a shard; the last one has the rest
  int threads = 1;            ///< that decode
};

struct ConvertResult {
  std::int64_t samples = 0;
  std::vector<std::string> files;        ///< shards; empty for folders
  std::vector<std::string> not_carried;  ///< what of the set these forms cannot hold, with the form that can
  std::vector<std::string> skipped;      ///< why samples are left out; names them
};

/// Throws what convert throws before it writes anything: also Error(data) where a name of a class would not be read
/// back.
void check_convert(const Dataset& dataset, const std::string& out, const ConvertOptions& options);

/// Writes all splits below the folder `out`, which is made and must be empty. Image files keep their bytes;
/// values that are no file become PNGs. A sample that cannot be decoded whole is left out, as by pack. Throws
/// Error(usage) where `out` holds something or the set is multi-label, Error(resource) where it cannot be written.
ConvertResult convert(const Dataset& dataset, const std::string& out, const ConvertOptions& options,
                      const std::function<void(std::int64_t done, std::int64_t all)>& progress = {});

}  // namespace neurim
