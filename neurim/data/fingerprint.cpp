#include "neurim/data/fingerprint.h"

#include <algorithm>
#include <optional>

#include "neurim/base/sha256.h"

namespace neurim {
namespace {

/// The length of the folders that all names of the set begin with: they say where it lies.
std::size_t common_root(const Dataset& dataset) {
  std::optional<std::string> common;
  for (const Split split : kSplits)
    for (std::int64_t i = 0; i < dataset.size(split); ++i) {
      const std::string name = dataset.name(split, i);
      if (!common) common = name;
      common->resize(static_cast<std::size_t>(
          std::mismatch(common->begin(), common->end(), name.begin(), name.end()).first - common->begin()));
    }
  return common ? common->rfind('/') + 1 : 0;
}

}  // namespace

std::string fingerprint(const Dataset& dataset, Split split) {
  const std::size_t root = common_root(dataset);
  Sha256 sha;
  for (std::int64_t i = 0; i < dataset.size(split); ++i) {
    const std::string line =
        text(dataset.name(split, i).substr(root), '\t', dataset.label_name(split, i), '\n');
    sha.add(std::as_bytes(std::span(line)));
  }
  return sha.hex();
}

}  // namespace neurim
