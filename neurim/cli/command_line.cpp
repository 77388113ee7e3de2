#include "neurim/cli/command_line.h"

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "neurim/base/error.h"
#include "neurim/cli/open_model.h"
#include "neurim/compile/tuning.h"
#include "neurim/core/device.h"
#include "neurim/model/inference.h"
#include "neurim/neurim.h"

namespace neurim::cli {

namespace {

constexpr const char* kTask = "classify";  // accepted after the verb, as other tools have it
constexpr const char* kOfEveryVerb = "every verb";

/// Whether the word is a value of a flag.
bool is_truth(const std::string& word) { return truth_of(word) || lower(word) == "auto"; }

/// Whether the word reads name=value.
bool is_assignment(const std::string& word) {
  const std::size_t equals = word.find('=');
  return equals != std::string::npos && equals > 0 &&
         std::all_of(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(equals),
                     [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; });
}

/// The option's name in "--name" or "-n"; "" for other words ("-5" is a number).
std::string dashed_name(const std::string& word) {
  if (starts_with(word, "--")) return word.substr(2);
  return word.size() >= 2 && word[0] == '-' && std::isalpha(static_cast<unsigned char>(word[1])) ? word.substr(1)
                                                                                                 : std::string();
}

}  // namespace

CommandLine::CommandLine(About about) : about_(std::move(about)) {
  options.topic(kOfEveryVerb);
  options("help", help_, "print this", {"h"});
  options("json", json_, "JSON lines on stdout, text on stderr");
  options("quiet", quiet_, "no text on the terminal");
  options("config", config_,
          "file of options, one 'name: value' a line; those of the command line win, then those of the file, then "
          "those of a file that it "
          "names itself: 'config: other.yaml', relative to it");
  options("print_config", print_config_, "print all options as such a file, and end");
  options("dry_run", dry_run_, "check everything, print what would be done, and write nothing");
  options("max_image_mib", max_image_mib_, "larger images are refused: MiB decoded; by default 256",
          {"max_picture_mib"});
  options("plugins", plugins_, "libraries with ops and layers of your own, with commas: see docs/guides/models.md");
  for (const char* name : {"help", "config", "print_config"}) options.only_typed(name);
  options.topic("");
}

void CommandLine::add_device() {
  options.topic("computing");
  options("device", device_, "where to compute: cpu, auto");
}

Device CommandLine::device() const { return device_named(options.find("device")->get()); }

void CommandLine::add_precision() {
  options.topic("computing");
  options("precision", precision_,
          "f32, or bf16 or fp16: factors of products and activations between layers are rounded to 16 bits, sums stay "
          "f32; gains where "
          "`neurim doctor --bench` shows a higher peak of it; auto: the fastest by such peaks",
          {"amp"});
}

void CommandLine::add_verbose() {
  options.topic("output");
  options("verbose", verbose_, "say also what was chosen where nothing was given, which args.yaml has", {"v"});
}

void CommandLine::add_tuning() {
  options("tuning", tuning_, kTuningHelp);
  options("tuning_file", tuning_file_, kTuningFileHelp);
}

DType CommandLine::compute_dtype() const { return compute_dtype_named(precision_); }

PlanOptions CommandLine::plan_options() const {
  const std::shared_ptr<Tuning> tuning = Tuning::named(tuning_, tuning_file_);
  if (tuning && dry_run_) tuning->lock();
  return {.compute_dtype = compute_dtype(), .tuning = tuning};
}

int CommandLine::end_dry_run(Console& console, std::string_view would,
                             std::initializer_list<JsonObject::Member> known) const {
  console.print(text("dry run: would ", would));
  JsonObject event{{"event", "summary"}, {"dry_run", true}};
  for (const JsonObject::Member& member : known) event.add(member.key, member.value);
  console.event(event);
  return 0;
}

void CommandLine::set(const std::string& name, const std::string& value) {
  const Option* option = options.find(name);
  const bool twice = option && option->given;
  const std::string before = twice ? option->get() : "";
  options.set(name, value);
  if (twice) require(option->get() == before, option->name, " is given twice: ", before, " and ", option->get());
}

void CommandLine::set_plain(const Words& plain) {
  const Words names = split(about_.plain_words, ' ');
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const std::string& word = plain[i];
    const auto may_be_data = [&] { return i > 0 || is_there(word) || word.find_first_of("*?[{") != word.npos; };
    const auto takes = [&](const std::string& name) {
      if (name.empty() || given(name)) return false;
      return name != "model" || names.size() == 1 || names_model(word) || !may_be_data();
    };
    const bool is_option = names.size() > 1 && options.find(word) && !is_there(word);
    const auto name = is_option ? names.end() : std::find_if(names.begin(), names.end(), takes);
    if (name != names.end()) {
      set(*name, word);
    } else if (about_.more && !is_option) {
      about_.more->push_back(word);
    } else if (i == 0 && names.size() == 1 && !names[0].empty()) {
      set(names[0], word);  // throws if it has another value already
    } else {
      fail(Fault::usage, "the word '", word, "' has no meaning here; options are written name=value or --name value",
           options.find(word) ? text(": ", word, "=VALUE") : "");
    }
  }
}

void CommandLine::read_config(const std::string& file, std::vector<fs::path>& around) {
  std::error_code error;
  const fs::path place = fs::weakly_canonical(file, error);
  require(std::find(around.begin(), around.end(), place) == around.end(), "config: ", file,
          " would be read in a circle; remove the line");
  around.push_back(place);
  options.read_yaml(read_text(file), file, [&](const std::string& further) {
    read_config((fs::path(file).parent_path() / further).string(), around);
  });
}

void CommandLine::read(const Words& words) {
  Words plain;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::string name = dashed_name(word);
    if (is_assignment(name.empty() ? word : name)) {
      const std::string& whole = name.empty() ? word : name;
      set(whole.substr(0, whole.find('=')), whole.substr(whole.find('=') + 1));
    } else if (!name.empty()) {
      const Option* option = options.find(name);
      const bool flag = option && option->flag;
      if (flag && (i + 1 == words.size() || !is_truth(words[i + 1]))) {
        set(name, "true");
      } else {
        const bool has_value = i + 1 < words.size() && !is_option(words[i + 1]);
        require(!option || has_value, word, " needs a value: ", word, " VALUE or ", name, "=VALUE");
        set(name, option ? words[++i] : "");
      }
    } else if (i == 0 && word == kTask) {
      continue;
    } else {
      plain.push_back(word);
    }
  }
  set_plain(plain);
}

bool CommandLine::is_option(const std::string& word) const {
  const std::string name = dashed_name(word);
  return !name.empty() && options.find(std::string_view(name).substr(0, name.find('='))) != nullptr;
}

bool CommandLine::parse(const Words& words) {
  options.topic(kOfEveryVerb);
  if (!options.find("seed")) options("seed", seed_, "taken by every verb; nothing is drawn here");
  if (!options.find("device")) options("device", device_, "taken by every verb; nothing is computed on a device here");
  read(words);
  if (help_) {
    print_help();
    return false;
  }
  if (std::vector<fs::path> around; !config_.empty()) read_config(config_, around);
  if (print_config_) {
    print_config();
    return false;
  }
  if (precision_ == "auto") {
    precision_ = precision_of(compute_dtype());
    Console(console()).print(text("precision: ", precision_, ", of which this machine multiplies the most"));
  }
  compute_dtype();  // throws
  if (max_image_mib_) {
    require(*max_image_mib_ >= 1 && *max_image_mib_ <= 1 << 20, "max_image_mib is ", *max_image_mib_,
            "; it is from 1 to ", 1 << 20);
    set_most_image_bytes(*max_image_mib_ << 20);
  }
  if (!plugins_.empty()) {
    initialize();
    for (const std::string& path : split(plugins_, ',')) load_library(trimmed(path));
  }
  for (const std::string& device : split(options.find("device")->get(), ',')) device_named(device);  // throws
  return true;
}

void CommandLine::print_config() const {
  require(!about_.more || about_.more->empty(), "print_config: such a file holds one ",
          split(about_.plain_words, ' ').back(), ", not also ", about_.more ? join(*about_.more, ", ") : "",
          "; give the others beside it");
  if (!json_) return write_out(stdout, options.yaml());
  JsonObject values;
  for (const Option& option : options.list())
    if (!option.typed) values.add(option.name, option.get());
  Console(console()).event({{"event", "config"}, {"verb", about_.name}, {"options", values}});
}

void CommandLine::print_help() const {
  if (json_) {
    Console console(this->console());
    for (const Option& option : options.list())
      console.event({{"event", "option"},
                     {"name", option.name},
                     {"value", option.get()},
                     {"help", option.help},
                     {"topic", option.topic},
                     {"aliases", option.aliases}});
    return console.event({{"event", "summary"}, {"verb", about_.name}, {"summary", about_.summary}});
  }
  std::string out = text("neurim ", about_.name, ": ", about_.summary, "\n\nusage: neurim ", about_.name);
  for (const std::string& word : split(about_.plain_words, ' '))
    if (!word.empty()) out += text(" [", word, ']');
  if (about_.more) out += " …";
  out += " name=value … (or --name value; '-' and '_' are the same)\n\nexamples:\n";
  for (const std::string& example : about_.examples) out += text("  ", example, '\n');
  std::vector<std::string> topics;
  for (const Option& option : options.list())
    if (option.topic != kOfEveryVerb && std::find(topics.begin(), topics.end(), option.topic) == topics.end())
      topics.push_back(option.topic);
  topics.emplace_back(kOfEveryVerb);
  for (const std::string& topic : topics) {
    out += text('\n', topic.empty() ? "options" : topic, ":\n");
    for (const Option& option : options.list()) {
      if (option.topic != topic) continue;
      const std::string value = option.name == "help" ? "" : option.get();
      std::string left = text("  ", option.name, value.empty() || value == "[]" ? "" : text('=', value));
      left.resize(std::max<std::size_t>(left.size() + 1, 30), ' ');
      out += text(left, option.help, option.aliases.empty() ? "" : text(" (also ", join(option.aliases, ", "), ')'),
                  '\n');
    }
  }
  write_out(stdout, out);
}

bool asks_for_json(const Words& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string name = dashed_name(words[i]), whole = name.empty() ? words[i] : name;
    if (name == "json") return i + 1 == words.size() || truth_of(words[i + 1]).value_or(true);
    if (starts_with(whole, "json=")) return truth_of(whole.substr(5)).value_or(false);
  }
  return false;
}

}  // namespace neurim::cli
