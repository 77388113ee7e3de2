// The syntax of the command: neurim VERB name=value --name value ..., in any order.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "neurim/base/file.h"
#include "neurim/compile/plan.h"
#include "neurim/train/console.h"
#include "neurim/train/options.h"

namespace neurim::cli {

using Words = std::vector<std::string>;

/// One verb's help and options. The verb adds its own options to `options` and then parses.
class CommandLine {
 public:
  struct About {
    std::string name, summary;
    /// The options that words without '=' set in turn, such as "model data". A first word that names no model is not
    /// taken for `model`.
    std::string plain_words;
    std::array<std::string, 3> examples;  ///< each a whole command
    Words* more = nullptr;                ///< receives further words of the last kind; null: only one is allowed
  };
  explicit CommandLine(About about);
  CommandLine(const CommandLine&) = delete;

  Options options;

  /// Adds the option `device`, for verbs that compute on one. Call it before parse(), which adds `device` and `seed` to
  /// verbs that lack them: scripts pass both to every verb.
  void add_device();
  /// Adds the option `precision`, for verbs that run models or measure them.
  void add_precision();
  /// Adds the option `verbose`, for verbs with more to print.
  void add_verbose();
  /// Adds the options `tuning` and `tuning_file`, for verbs that plan a model.
  void add_tuning();

  /// Sets the options and loads the plug-ins that they name. Returns false if help or the configuration was asked for;
  /// it is then printed. Throws Error(usage) for an unknown option or word, naming the nearest known one.
  bool parse(const Words& words);

  Console::Options console() const { return {json_, quiet_, verbose_}; }
  bool given(std::string_view name) const { return options.find(name)->given; }
  Device device() const;             ///< where to compute
  DType compute_dtype() const;       ///< PlanOptions::compute_dtype; throws Error(usage) for an unknown precision
  PlanOptions plan_options() const;  ///< products and tuning

  /// Whether nothing may be written. A verb then calls end_dry_run after it has opened and checked everything and
  /// before it writes or measures, so that a dry run fails where the real one would.
  bool dry_run() const { return dry_run_; }
  /// Prints "dry run: would ..." and a summary event. Returns the exit code, 0.
  int end_dry_run(Console& console, std::string_view would, std::initializer_list<JsonObject::Member> known) const;

 private:
  void read(const Words& words);
  void set_plain(const Words& plain);
  void read_config(const std::string& file, std::vector<fs::path>& around);
  void set(const std::string& name, const std::string& value);  ///< throws if it was set to another value before
  bool is_option(const std::string& word) const;                ///< "--name" or "--name=value" of an option of the verb
  void print_help() const;
  void print_config() const;

  About about_;
  bool help_ = false, json_ = false, quiet_ = false, print_config_ = false, dry_run_ = false, verbose_ = false;
  std::string config_, plugins_, device_ = "auto", precision_ = "f32", tuning_ = "off", tuning_file_;
  std::optional<std::int64_t> max_image_mib_, seed_;
};

/// Whether the words ask for JSON lines, even if they are wrong otherwise.
bool asks_for_json(const Words& words);

}  // namespace neurim::cli
