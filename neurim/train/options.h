// Options by name. One visit of a struct's fields gives parsing, help, printing and reading back.
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
  std::int64_t height, width;  ///< pixels
  /// A square.
  InputSize(std::int64_t side = 0) : InputSize(side, side) {}
  /// Height and width.
  InputSize(std::int64_t rows, std::int64_t columns) : height(rows), width(columns) {}
  /// Of a square; 0: it is none.
  std::int64_t side() const { return height == width ? height : 0; }
  bool operator==(const InputSize&) const = default;
};
void append(std::string& out, const InputSize& size);  ///< prints 224, or 192x320

/// Parses a boolean, in any case: true, 1, yes, on; false, 0, no, off.
std::optional<bool> truth_of(std::string_view word);

/// Channels of a model's input: a number, or gray (1), la (gray and alpha, 2), rgb (3), rgba (4).
struct ChannelCount {
  std::int64_t count;  ///< of channels
  /// So many channels.
  ChannelCount(std::int64_t channels = 0) : count(channels) {}
  /// The number.
  operator std::int64_t() const { return count; }
};

/// How an unset option is written.
inline constexpr const char* kAuto = "auto";

/// An option: the name of a struct's field, which outlives it.
struct Option {
  std::string name, help, topic;                ///< as --help shows them
  std::vector<std::string> aliases;             ///< other names
  bool flag = false;                            ///< `--name` alone means true
  std::function<std::string()> get;             ///< the field as text
  std::function<void(const std::string&)> set;  ///< throws Error(usage) with the option's name and values
  bool given = false;                           ///< set by name, so no default
  bool settled = false;                         ///< files that are read do not change it
  bool typed = false;                           ///< only on the command line, not in option files
};

/// The options of a struct whose `visit(Options&)` lists its fields. In names '-' equals '_'.
class Options {
 public:
  using Aliases = std::vector<std::string>;  ///< other names of an option
  /// Reads the file that the key `config` names.
  using Include = std::function<void(const std::string& file)>;

  /// The topic, in the help, of options listed from here on.
  void topic(std::string name) { topic_ = std::move(name); }

  /// T: std::string, bool, std::int64_t, double, std::vector<double>, InputSize, ChannelCount, or std::optional of
  /// all but words and lists, where unset is written "auto".
  template <class T>
  Options& operator()(std::string name, T& field, std::string help, Aliases aliases = {});

  /// Lists an option of another struct, which stays as it is: "auto" until it is set, and then the text, which that
  /// option accepts. Its help is the other's and `help`.
  Options& borrow(const Option& option, std::string_view help);

  /// Throws Error(usage) for an unknown name, with the nearest known one.
  void set(std::string_view name, const std::string& value);
  const Option* find(std::string_view name) const;  ///< null if there is none
  /// In the order of the help.
  const std::vector<Option>& list() const { return list_; }
  /// Excludes an option from files.
  void only_typed(std::string_view name) { look_up(name)->typed = true; }

  /// All options, except those of the command line only, as `name: value` lines: YAML that read_yaml reads back.
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
