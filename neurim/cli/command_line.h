// The grammar of the command: neurim VERB name=value --name value …, in any order.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "neurim/train/console.h"
#include "neurim/train/options.h"

namespace neurim::cli {

using Words = std::vector<std::string>;

/// One verb's help and options. The verb adds its own options to `options` and then parses.
class CommandLine {
 public:
  struct About {
    std::string name, summary;
    std::string plain_word;               ///< the option that a word without '=' sets; "": none
    std::array<std::string, 3> examples;  ///< each a whole command
    Words* more = nullptr;                ///< takes the further words of that kind; null: one is all
  };
  explicit CommandLine(About about);
  CommandLine(const CommandLine&) = delete;

  Options options;

  /// Sets the options and loads the plug-ins that they name; false when the words asked for help or for the
  /// configuration, which is then printed. Throws Error(usage) for what the verb does not know, with the nearest it
  /// does.
  bool parse(const Words& words);

  Console::Options console() const { return {json_, quiet_}; }
  bool given(std::string_view name) const { return options.find(name)->given; }

 private:
  void read(const Words& words);
  void print_help() const;

  About about_;
  bool help_ = false, json_ = false, quiet_ = false, print_config_ = false;
  std::string config_, plugins_;
  std::optional<std::int64_t> max_picture_mib_;
};

}  // namespace neurim::cli
