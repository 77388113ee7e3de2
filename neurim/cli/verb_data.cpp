// neurim data TASK ...: inspects and prepares data sets.
#include <algorithm>

#include "neurim/base/error.h"
#include "neurim/base/file.h"
#include "neurim/cli/data_tasks.h"
#include "neurim/cli/verbs.h"

namespace neurim::cli {

namespace {

struct Task {
  const char* name;
  const char* summary;
  int (*run)(const Words& words);
};

constexpr Task kTasks[] = {
    {"convert", "write a data set as folders, WebDataset or TFRecord", data_convert},
    {"dedupe", "find images that are there twice, above all in two splits", data_dedupe},
    {"download", "fetch a public data set by its name", data_download},
    {"label-issues", "find labels that are probably wrong, by models that were not trained on them", data_label_issues},
    {"pack", "write a data set to one file that loads faster", data_pack},
    {"preview", "draw training images as a model would get them", data_preview},
    {"scan", "find unreadable, truncated and odd images, and odd labels", data_scan},
    {"split", "write a table of which file is of which split", data_split},
    {"stats", "count classes, measure mean and std of the pixels", data_stats},
};

}  // namespace

void check_target(const std::string& out, const std::string& data, bool fresh) {
  std::error_code error;
  if (fresh && fs::exists(fs::symlink_status(out, error)))
    fail(Fault::usage, out,
         fs::is_directory(out, error) ? ": is a folder; give the name of a file"
                                      : ": exists already; remove it, or give another name");
  if (!fs::is_directory(data, error)) return;
  const fs::path inner = fs::weakly_canonical(fs::absolute(out), error), outer = fs::canonical(data, error);
  if (std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end())
    fail(Fault::usage, out, ": lies in the data, ", data, ", which are never written to; give a name outside of them");
}

int verb_data(const Words& words) {
  std::vector<std::string> names;
  std::string summary =
      "looks at data sets and prepares them: neurim data TASK name=value …\n\n"
      "tasks ('neurim data TASK --help' shows their options and examples):";
  for (const Task& task : kTasks) {
    names.emplace_back(task.name);
    summary += text("\n  ", task.name, std::string(15 - names.back().size(), ' '), task.summary);
  }
  // The task is the first word, or the first one after options.
  const bool behind = !words.empty() && (words[0].starts_with('-') || words[0].find('=') != std::string::npos);
  for (std::size_t i = 0; i < (behind ? words.size() : std::min<std::size_t>(words.size(), 1)); ++i)
    for (const Task& task : kTasks)
      if (words[i] == task.name || words[i] == text("task=", task.name)) {
        Words others = words;
        others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
        return task.run(others);
      }
  CommandLine line({"data",
                    summary,
                    "task",
                    {"neurim data scan photos", "neurim data pack photos out=photos.pack",
                     "neurim data preview photos augment=rrc,hflip"}});
  std::string task;
  line.options("task", task, text("what to do: ", join(names, ", ")));
  if (!line.parse(words.empty() ? Words{"--help"} : words)) return 0;
  const std::string near = nearest(task, names);
  fail(Fault::usage, task.empty() ? "the task is missing; " : text("there is no task '", task, "'; "),
       near.empty() ? "" : text("did you mean '", near, "'? "), "known are ", join(names, ", "));
}

}  // namespace neurim::cli
