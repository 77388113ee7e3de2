#include "neurim/train/run_folder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "neurim/base/error.h"
#include "neurim/base/sha256.h"

namespace neurim {

fs::path make_run_folder(const fs::path& project, const std::string& name, bool exist_ok) {
  std::error_code error;
  fs::create_directories(project, error);
  if (error)
    fail(Fault::resource, project.string(), ": cannot make the folder of the runs: ", error.message());
  for (int number = 1;; ++number) {
    const fs::path run = project / (number == 1 ? name : text(name, number));
    // Making the folder is the claim: two runs that start at once get two of them.
    if (fs::create_directory(run, error)) return run;
    if (error && !fs::exists(run))
      fail(Fault::resource, run.string(), ": cannot make the folder: ", error.message());
    if (exist_ok) return run;
  }
}

namespace {

/// The digest of which samples a split has and of which class each is: equal for equal splits, wherever the
/// data lie. `root` is how many bytes of all names say where.
std::string fingerprint(const Dataset& dataset, Split split, std::size_t root) {
  Sha256 sha;
  for (std::int64_t i = 0; i < dataset.size(split); ++i) {
    const std::string line =
        text(dataset.name(split, i).substr(root), '\t',
             dataset.class_names()[static_cast<std::size_t>(dataset.label(split, i))], '\n');
    sha.add(std::as_bytes(std::span(line)));
  }
  return sha.hex();
}

/// The length of the folders that all names begin with.
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

std::string data_json(const Dataset& dataset) {
  const std::size_t root = common_root(dataset);
  nlohmann::ordered_json splits;
  for (const Split split : kSplits) {
    nlohmann::ordered_json counts = nlohmann::ordered_json::object();
    const std::vector<std::int64_t> of_class = dataset.class_counts(split);
    for (std::size_t c = 0; c < of_class.size(); ++c) counts[dataset.class_names()[c]] = of_class[c];
    splits[std::string(name(split))] = {
        {"samples", dataset.size(split)}, {"classes", counts}, {"sha256", fingerprint(dataset, split, root)}};
  }
  return splits.dump(2);
}

}  // namespace neurim
