#include "neurim/cli/report_folder.h"

#include "neurim/train/run_folder.h"

namespace neurim::cli {

void ReportFolder::visit(CommandLine& line, const std::string& name_by_default) {
  line.options("project", project_,
               "folder of the reports; auto: reports in the run, or of other weights in runs/classify and such");
  line.options("name", name_,
               text("name of the report's folder", name_by_default, "; a number is added where it exists"));
  line.options("exist_ok", exist_ok_, "write into an existing folder");
}

void ReportFolder::settle(const Checkpoint& checkpoint, const std::string& name) {
  if (project_ == kAuto) project_ = reports_of_weights(checkpoint.path, checkpoint.config.task()).string();
  if (name_ == kAuto) name_ = name;
}

fs::path ReportFolder::to_make() const { return run_folder_to_make(project_, name_, exist_ok_); }

fs::path ReportFolder::make() const { return make_run_folder(project_, name_, exist_ok_); }

}  // namespace neurim::cli
