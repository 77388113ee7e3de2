#include "neurim/train/run_folder.h"

#include "neurim/base/error.h"
#include "neurim/base/json.h"
#include "neurim/base/writable.h"
#include "neurim/data/fingerprint.h"

namespace neurim {

namespace {

fs::path numbered(const fs::path& project, const std::string& name, int number) {
  constexpr std::size_t kMost = 240;  // bytes: file systems take 255, and a number may follow
  require(name.size() <= kMost, "name has ", name.size(), " bytes, which no folder can be called; it has at most ", kMost);
  return project / (number == 1 ? name : text(name, number));
}

/// Whether there is anything of that name, and be it a link to nothing.
bool is_taken(const fs::path& run) {
  std::error_code error;
  return fs::exists(fs::symlink_status(run, error));
}

}  // namespace

std::string default_project(TaskKind task) {
  return text("runs/", names_of(task == TaskKind::multi_label ? TaskKind::classify : task).task);
}

fs::path make_run_folder(const fs::path& project, const std::string& name, bool exist_ok) {
  make_folder(project);
  for (int number = 1;; ++number) {
    const fs::path run = numbered(project, name, number);
    std::error_code error;
    // Making the folder is the claim: two runs that start at once get two of them.
    if (fs::create_directory(run, error)) return run;
    if (error && !is_taken(run))
      fail(Fault::resource, run.string(), ": cannot make the folder: ", error.message());
    if (exist_ok) return run;
  }
}

fs::path run_folder_to_make(const fs::path& project, const std::string& name, bool exist_ok) {
  check_can_make(project);
  int number = 1;
  while (!exist_ok && is_taken(numbered(project, name, number))) ++number;
  return numbered(project, name, number);
}

std::string data_json(const Dataset& dataset) {
  JsonObject splits;
  const ContentPrint contents = content_fingerprint(dataset);
  for (const Split split : kSplits) {
    JsonObject counts;
    const std::vector<std::int64_t> of_class = dataset.class_counts(split);
    for (std::size_t c = 0; c < of_class.size(); ++c) counts.add(dataset.class_names()[c], of_class[c]);
    splits.add(name(split), JsonObject{{"samples", dataset.size(split)},
                                       {"classes", counts},
                                       {"sha256", fingerprint(dataset, split)},
                                       {contents.whole ? "bytes_sha256" : "sizes_and_times_sha256",
                                        contents.splits[static_cast<std::size_t>(split)]}});
  }
  return splits.indented();
}

bool is_split_of_run(const fs::path& run, const Dataset& dataset, Split split) {
  return read_file(run / "data.json").find(fingerprint(dataset, split)) != std::string::npos;
}

}  // namespace neurim
