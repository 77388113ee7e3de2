#include <algorithm>

#include "neurim/base/writable.h"
#include "neurim/cli/data_tasks.h"
#include "neurim/cli/open_data.h"
#include "neurim/data/convert.h"
#include "neurim/neurim.h"

namespace neurim::cli {

int data_convert(const Words& words) {
  CommandLine line(
      {"data convert",
       "writes a data set as folders, WebDataset shards or TFRecord files; image files keep their bytes, those "
       "that cannot be decoded whole are left out; exit code 3 where only a part of the data can be read",
       "data",
       {"neurim data convert photos to=wds out=shards", "neurim data convert data=shards to=folders out=again",
        "neurim data convert photos to=tfrecord out=records shard=500"}});
  const std::vector<std::string> forms{"folders", "wds", "tfrecord"};  // in the order of SetForm
  std::string data, out, to;
  std::int64_t shard = 1000;
  std::optional<std::int64_t> threads_wanted;
  line.options("data", data, "what train takes as data", {"data_dir"});
  line.options("to", to, text("the form to write: ", join(forms, ", ")), {"format"});
  line.options("out", out, "folder to write, new or empty");
  line.options("shard", shard, "samples of a shard");
  line.options("threads", threads_wanted, "threads that decode");
  if (!line.parse(words)) return 0;
  require(!data.empty(), "the data are missing; give what train takes: data=photos");
  require(!out.empty(), "the folder is missing; give the folder to write: out=shards");
  const auto form = std::find(forms.begin(), forms.end(), to);
  require(form != forms.end(), "to: there is no form '", to, "'; known are ", join(forms, ", "));
  check_target(out, data, false);
  if (threads_wanted) set_threads(*threads_wanted);
  Console console(line.console());
  const Dataset dataset = open_data(data, {.val_split = 0.0, .for_training = false}, console);
  const ConvertOptions options{
      .form = static_cast<SetForm>(form - forms.begin()), .shard = shard, .threads = threads()};
  if (line.dry_run()) {
    check_convert(dataset, out, options);
    check_can_make(out);
    line.end_dry_run(console, text("write ", plural(dataset.size(), "image"), " as ", to, " into ", out),
                     {{"path", out}, {"samples", dataset.size()}});
    check_whole(dataset, out);
    return 0;
  }
  const ConvertResult result = convert(dataset, out, options, [&](std::int64_t done, std::int64_t all) {
    if (done % 100 == 0) console.progress(text("  ", thousands(done), " of ", thousands(all), " images"));
  });
  for (const std::string& reason : result.skipped) console.print(text("  skipped: ", reason));
  for (const std::string& what : result.not_carried) console.print(text("  not carried: ", what));
  const std::int64_t skipped = std::ssize(result.skipped);
  console.print(text(out, ": ", plural(result.samples, "image"),
                     result.files.empty() ? "" : text(" in ", plural(std::ssize(result.files), "file")),
                     skipped > 0 ? text(", ", thousands(skipped), " skipped") : ""));
  console.event({{"event", "summary"},
                 {"path", out},
                 {"samples", result.samples},
                 {"files", result.files},
                 {"not_carried", result.not_carried},
                 {"skipped", result.skipped}});
  check_whole(dataset, out, skipped);
  return 0;
}

}  // namespace neurim::cli
