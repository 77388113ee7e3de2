#include <algorithm>

#include "neurim/base/writable.h"
#include "neurim/cli/data_tasks.h"
#include "neurim/cli/open_data.h"
#include "neurim/data/duplicates.h"
#include "neurim/evaluate/contact_sheet.h"
#include "neurim/neurim.h"
#include "neurim/train/thumbnail.h"

namespace neurim::cli {

namespace {

constexpr std::size_t kDrawn = 24;  // groups on the contact sheet
constexpr std::size_t kOfEach = 4;  // images of a group on the contact sheet

Thumbnail thumbnail_of(const Dataset& dataset, const SampleId& id) {
  return thumbnail(dataset, id.split, id.index, 160,
                   {text(name(id.split), " ", dataset.label_name(id.split, id.index))});
}

/// A contact sheet with a row for each group.
std::string sheet_of(const Dataset& dataset, const std::vector<DuplicateGroup>& groups) {
  std::vector<Thumbnail> images;
  const Thumbnail blank{.rgb = std::vector<std::uint8_t>(3, 255), .height = 1, .width = 1};
  for (std::size_t g = 0; g < std::min(kDrawn, groups.size()); ++g)
    for (std::size_t i = 0; i < kOfEach; ++i)
      images.push_back(i < groups[g].samples.size() ? thumbnail_of(dataset, groups[g].samples[i]) : blank);
  return contact_sheet(images, kOfEach, 160);
}

}  // namespace

int data_dedupe(const Words& words) {
  CommandLine line({"data dedupe",
                    "finds images that are there more than once, above all in two splits; changes nothing",
                    "data",
                    {"neurim data dedupe photos", "neurim data dedupe photos sheet=duplicates.jpg",
                     "neurim data dedupe data=photos --json > duplicates.jsonl"}});
  std::string data, sheet;
  std::optional<std::int64_t> threads_wanted;
  line.options("data", data, "what train takes as data", {"data_dir"});
  line.options("sheet", sheet, "file to draw the groups to, a JPEG");
  line.options("threads", threads_wanted, "threads that decode");
  if (!line.parse(words)) return 0;
  require(!data.empty(), "the data are missing; give what train takes: data=photos");
  if (!sheet.empty()) check_target(sheet, data);
  if (threads_wanted) set_threads(*threads_wanted);
  Console console(line.console());
  const Dataset dataset = open_data(data, {.val_split = 0.0, .for_training = false}, console);
  if (line.dry_run()) {
    if (!sheet.empty()) check_can_write(sheet);
    return line.end_dry_run(
        console, text("compare ", plural(dataset.size(), "image"), sheet.empty() ? "" : text(", and write ", sheet)),
        {{"samples", dataset.size()}, {"path", sheet}});
  }
  const Duplicates found = find_duplicates(dataset, threads(), [&](std::int64_t done, std::int64_t all) {
    console.progress(text("  ", thousands(done), " of ", thousands(all), " images"));
  });

  std::int64_t across = 0, differ = 0, exact = 0, shown = 0;
  for (const DuplicateGroup& group : found.groups) {
    across += group.across_splits, differ += group.labels_differ, exact += group.exact;
    std::vector<JsonObject> files;
    std::vector<std::string> names;
    for (const SampleId& id : group.samples) {
      const std::string file = dataset.name(id.split, id.index);
      files.push_back({{"file", file}, {"split", name(id.split)}, {"class", dataset.label_name(id.split, id.index)}});
      names.push_back(file);
    }
    console.event({{"event", "group"},
                   {"exact", group.exact},
                   {"across_splits", group.across_splits},
                   {"labels_differ", group.labels_differ},
                   {"files", files}});
    if (static_cast<std::size_t>(shown++) < kNamed)
      console.print(text("  ", group.exact ? "equal" : "alike", group.across_splits ? ", across splits" : "",
                         group.labels_differ ? ", of different classes" : "", ": ", join(names, " = ")));
  }
  if (found.groups.size() > kNamed)
    console.print(text("  … and ", found.groups.size() - kNamed, " more; --json lists all"));
  if (!sheet.empty()) write_file(sheet, sheet_of(dataset, found.groups));
  console.print(text(data, ": ", plural(static_cast<std::int64_t>(found.groups.size()), "group"), " of duplicates (",
                     exact, " of equal files), ", across, " across splits, ", differ, " of different classes",
                     found.unreadable.empty() ? "" : text("; ", found.unreadable.size(), " images cannot be read")));
  console.event({{"event", "summary"},
                 {"groups", found.groups.size()},
                 {"exact", exact},
                 {"across_splits", across},
                 {"labels_differ", differ},
                 {"unreadable", found.unreadable}});
  return 0;
}

}  // namespace neurim::cli
