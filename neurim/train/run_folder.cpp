#include "neurim/train/run_folder.h"

#include "neurim/base/error.h"
#include "neurim/base/json.h"
#include "neurim/base/writable.h"
#include "neurim/data/fingerprint.h"

namespace neurim {

namespace {

fs::path numbered(const fs::path& project, const std::string& name, int number) {
  return project / (number == 1 ? name : text(name, number));
}

}  // namespace

std::string default_project(TaskKind task) {
  return text("runs/", names_of(task == TaskKind::multi_label ? TaskKind::classify : task).task);
}

fs::path make_run_folder(const fs::path& project, const std::string& name, bool exist_ok) {
  std::error_code error;
  fs::create_directories(project, error);
  if (error)
    fail(Fault::resource, project.string(), ": cannot make the folder of the runs: ", error.message());
  for (int number = 1;; ++number) {
    const fs::path run = numbered(project, name, number);
    // Making the folder is the claim: two runs that start at once get two of them.
    if (fs::create_directory(run, error)) return run;
    if (error && !fs::exists(run))
      fail(Fault::resource, run.string(), ": cannot make the folder: ", error.message());
    if (exist_ok) return run;
  }
}

fs::path run_folder_to_make(const fs::path& project, const std::string& name, bool exist_ok) {
  check_can_make(project);
  int number = 1;
  while (!exist_ok && fs::exists(fs::symlink_status(numbered(project, name, number)))) ++number;
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

}  // namespace neurim
