// Choices between kernels that were made by measuring, by request, and the file that keeps them from run to run.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "neurim/base/file.h"

namespace neurim {

struct Graph;

/// The help text of the option `tuning`.
inline constexpr const char* kTuningHelp =
    "on: kernels are measured where a plan is made and the fastest are kept for next time, which takes from a second "
    "to some minutes; "
    "locked: those that were kept, nothing is measured; off: kernels by rule";
/// The help text of the option `tuning_file`.
inline constexpr const char*
    kTuningFileHelp = "where they are kept; empty: neurim/tuning.json in $XDG_CACHE_HOME or ~/.cache";

/// For each request the kernel that was the fastest there on this machine. A plan that is made with it
/// (PlanOptions::tuning) asks no kernel of a higher rank than that at such a request; other requests have their kernels
/// by rank. Not for several threads at once.
class Tuning {
 public:
  /// What a plan does at a request that is not known.
  enum class Mode {
    locked,   ///< takes what is known, and measures nothing
    measure,  ///< requests that are not known are measured when a plan is made
  };
  explicit Tuning(Mode mode = Mode::locked) : mode_(mode) {}  ///< without any choice yet
  Mode mode() const { return mode_; }                         ///< as constructed, or locked since lock()
  void lock() { mode_ = Mode::locked; }                       ///< measures nothing from now on

  /// As options name it: null for "off"; for "locked" what the file holds; for "on" that too, and what is measured is
  /// added to it. Without a file's name usual_file(). Throws Error(usage) for another mode, and for a file with "off";
  /// Error(data) for "locked" where the file has nothing of this machine. Where there is a file `own`, of a run that
  /// goes on, it is read instead.
  static std::shared_ptr<Tuning> named(std::string_view mode, const std::string& file, const fs::path& own = {});

  /// What the file holds for this machine, its instruction set and this version of the library; a file that is not
  /// there holds nothing. Choices that are here already stay. Throws Error(data) for a file that is none of this kind.
  void read(const fs::path& file);
  /// Adds the choices to the file, which keeps those of other machines and of other requests. Throws Error(resource).
  void write(const fs::path& file) const;
  /// The file that is used where none is named, tuning.json in the folder of caches (cache_folder()). Throws
  /// Error(resource).
  static fs::path usual_file();

  /// The file that save() writes; without one it writes nothing.
  void keep_in(fs::path file) { file_ = std::move(file); }
  void save() const;  ///< throws as write()

  /// The name of the kernel that was chosen for the request, or nothing.
  const std::string* chosen(const std::string& key) const;
  /// Replaces an older choice.
  void choose(const std::string& key, std::string kernel) { kernels_[key] = std::move(kernel); }
  std::size_t size() const { return kernels_.size(); }  ///< requests with a choice

 private:
  Mode mode_;
  fs::path file_;
  std::map<std::string, std::string> kernels_;  // by request
};

/// What a choice is made for: the op with its attributes, the types of its operands and which of them are constant, and
/// what else kernels go by. "" for ops without multiply-adds, which nothing is measured for.
std::string tuning_key(const Graph& graph, int node, const struct LowerOptions& options);

}  // namespace neurim
