#include "neurim/base/writable.h"
#include "neurim/cli/data_tasks.h"
#include "neurim/cli/open_data.h"
#include "neurim/data/label_problems.h"
#include "neurim/evaluate/csv.h"
#include "neurim/neurim.h"

namespace neurim::cli {

namespace {

/// The file's path in a table in `folder`: relative to it if that leads to the file, else from the root. Tables are
/// read with ".." resolved in the text, which symbolic links can make another place.
std::string path_in_table(const fs::path& file, const fs::path& folder) {
  std::error_code error;
  const fs::path plain = fs::absolute(file).lexically_normal();
  const fs::path real = fs::weakly_canonical(fs::absolute(file).parent_path()) / file.filename();
  const fs::path real_folder = fs::weakly_canonical(folder);
  for (const fs::path& relative :
       {plain.lexically_relative(folder.lexically_normal()), real.lexically_relative(real_folder)})
    if (!relative.empty() && fs::equivalent((folder / relative).lexically_normal(), file, error) &&
        fs::equivalent((real_folder / relative).lexically_normal(), file, error))
      return relative.string();
  return real.string();
}

}  // namespace

int data_split(const Words& words) {
  CommandLine line({"data split",
                    "writes a table that says which image file is of which split; copies and moves nothing",
                    "data",
                    {"neurim data split photos out=photos.csv val_split=0.1 test_split=0.1",
                     "neurim train data=photos.csv model=resnet18",
                     "neurim data split data=all.csv out=by-person.csv group_by=person"}});
  std::string data, out;
  DatasetOptions options{.val_split = 0.1, .for_training = false};
  std::int64_t seed = 42;
  double val_split = 0.1;
  line.options("data", data, "what train takes as data; its samples have to be files", {"data_dir"});
  line.options("out", out, "table to write: .csv");
  line.options("val_split", val_split, "share of validation, where the data have no val split");
  line.options("test_split", options.test_split, "share of testing, where the data have no test split");
  line.options("group_by", options.group_by, "column of a table whose equal values are never separated");
  line.options("seed", seed, "of the choice");
  if (!line.parse(words)) return 0;
  require(!data.empty(), "the data are missing; give what train takes: data=photos");
  require(out.size() > 4 && ends_with(out, ".csv"), "out is '", out, "'; give the table to write: out=photos.csv");
  check_target(out, data);
  options.val_split = val_split;
  options.seed = static_cast<std::uint64_t>(seed);
  Console console(line.console());
  const Dataset dataset = open_data(data, options, console);
  for (const LabelProblem& problem : class_problems(dataset)) print_notes({problem.what}, console);
  for (const std::string& class_name : dataset.class_names())
    if (class_name.find('|') != std::string::npos)
      fail(Fault::data, data, ": the class \"", class_name,
           "\" has a bar in its name, which a table reads as several classes; rename the class");

  const fs::path folder = fs::absolute(out).parent_path();
  const bool weighted = dataset.weighted();
  std::string table = text("path,label,split,group", weighted ? ",weight" : "", '\n');
  JsonObject sizes;
  std::vector<std::string> counts;
  for (const Split split : kSplits) {
    sizes.add(name(split), dataset.size(split));
    counts.push_back(text(thousands(dataset.size(split)), ' ', name(split)));
    for (std::int64_t i = 0; i < dataset.size(split); ++i) {
      const std::string file = dataset.name(split, i);
      if (!fs::exists(fs::symlink_status(file)))
        fail(Fault::data, data, ": its samples, such as ", file,
             ", are no files; a table lists files: convert it first");
      table += text(csv_field(path_in_table(file, folder)), ',', csv_field(dataset.label_name(split, i)), ',',
                    name(split), ',', csv_field(dataset.group(split, i)));
      table += weighted ? text(',', dataset.weight(split, i), '\n') : "\n";
    }
  }
  if (line.dry_run()) {
    check_can_write(out);
    return line.end_dry_run(console, text("write ", out, ": ", join(counts, ", ")), {{"path", out}, {"splits", sizes}});
  }
  write_file(out, table);
  console.print(text(out, ": ", join(counts, ", ")));
  console.event({{"event", "summary"}, {"path", out}, {"splits", sizes}});
  return 0;
}

}  // namespace neurim::cli
