// Options by name: one visit of a struct's fields gives parsing, help, printing and reading back.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace neurim {

/// Height and width of a model's input in pixels; one number means a square. Written "224", or "192x320": the height
/// comes first, as in Ultralytics' imgsz and in the model's input of (N,C,H,W).
struct InputSize {
  std::int64_t height, width;
  InputSize(std::int64_t side = 0) : InputSize(side, side) {}
  InputSize(std::int64_t rows, std::int64_t columns) : height(rows), width(columns) {}
  bool operator==(const InputSize&) const = default;
};
void append(std::string& out, const InputSize& size);

/// What the word says of an option that is true or false, in small or capital letters: true, 1, yes, on; false, 0, no,
/// off.
std::optional<bool> truth_of(std::string_view word);

/// Channels of a model's input: a number, or gray (1), la (gray and alpha, 2), rgb (3) or rgba (4).
struct ChannelCount {
  std::int64_t count;
  ChannelCount(std::int64_t channels = 0) : count(channels) {}
  operator std::int64_t() const { return count; }
};

/// A named option that stands for a field of some struct, which outlives it.
struct Option {
  std::string name, help, topic;
  std::vector<std::string> aliases;
  bool flag = false;                            ///< `--name` alone means true
  std::function<std::string()> get;             ///< the field as text
  std::function<void(const std::string&)> set;  ///< throws Error(usage) naming the option and what it takes
  bool given = false;                           ///< set by name, so not a default
  bool settled = false;                         ///< a file that is read leaves it as it is
  bool typed = false;                           ///< for the command line alone: no file of options has it
};

/// The options of a struct whose `visit(Options&)` lists its fields. Names are told apart with '-' as '_'.
class Options {
 public:
  using Aliases = std::vector<std::string>;
  /// Reads the further file that a key `config` names.
  using Include = std::function<void(const std::string& file)>;

  /// What the options that are listed from here on are about, for the help.
  void topic(std::string name) { topic_ = std::move(name); }

  /// T: std::string, bool, std::int64_t, double, std::vector<double>, InputSize, ChannelCount, or std::optional of
  /// all but words and lists, where unset is written "auto".
  template <class T>
  Options& operator()(std::string name, T& field, std::string help, Aliases aliases = {});

  /// Throws Error(usage) for an unknown name, with the nearest known one.
  void set(std::string_view name, const std::string& value);
  const Option* find(std::string_view name) const;  ///< null when there is none
  const std::vector<Option>& list() const { return list_; }
  void only_typed(std::string_view name) { look_up(name)->typed = true; }

  /// One `name: value` line each but those for the command line alone: valid YAML, which read_yaml takes back.
  std::string yaml() const;
  /// Sets what the text gives: flat YAML, one `name: value` a line, with comments. `where` is what errors
  /// call it. Options that were set by name or read before keep their value; those that it leaves as they are do
  /// not count as given, so that a file of all options says no more than one of those that matter. `include` is called
  /// last, so that the text wins over the file that it names. Throws Error(usage) naming the line that is none of
  /// these, or has an option of an earlier line.
  void read_yaml(std::string_view yaml, const std::string& where, const Include& include = {});

 private:
  Option* look_up(std::string_view name);
  std::vector<Option> list_;
  std::string topic_;
};

}  // namespace neurim
