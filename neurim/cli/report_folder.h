// Where a verb that asks a trained model puts its report.
#pragma once
#include <string>
#include <utility>

#include "neurim/cli/command_line.h"
#include "neurim/train/checkpoint.h"

namespace neurim::cli {

/// The options project, name and exist_ok.
class ReportFolder {
 public:
  explicit ReportFolder(std::string name) : name_(std::move(name)) {}

  /// `name_by_default`: what is said of the folder's name.
  void visit(CommandLine& line, const std::string& name_by_default = "");
  /// Puts what stands for auto: the reports of these weights, and this name.
  void settle(const Checkpoint& checkpoint, const std::string& name = "");

  const std::string& project() const { return project_; }
  const std::string& name() const { return name_; }
  bool exist_ok() const { return exist_ok_; }
  fs::path to_make() const;  ///< the folder that make() would make
  fs::path make() const;     ///< makes it

 private:
  std::string project_ = kAuto, name_;
  bool exist_ok_ = false;
};

}  // namespace neurim::cli
