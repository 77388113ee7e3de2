#include "neurim/train/options.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <memory>

#include "neurim/base/error.h"
#include "neurim/data/image.h"

namespace neurim {

namespace {

constexpr std::int64_t kMostPixels = 1 << 14;  // of a side

void parse(const std::string& value, std::string& field, std::string_view) { field = value; }

void parse(const std::string& value, bool& field, std::string_view name) {
  const std::optional<bool> truth = truth_of(value);
  require(truth.has_value(), name, ": '", value, "' is neither true nor false");
  field = *truth;
}

template <class Number>
void parse_number(const std::string& value, Number& field, std::string_view name, std::string_view kind) {
  const char* end = value.data() + value.size();
  Number number{};
  const auto [stop, error] = std::from_chars(value.data(), end, number);
  require(error != std::errc::result_out_of_range, name, ": '", value, "' is out of range; it is ", kind, " from ",
          std::numeric_limits<Number>::lowest(), " to ", std::numeric_limits<Number>::max());
  bool good = error == std::errc() && stop == end && !value.empty();
  if constexpr (std::is_floating_point_v<Number>) good = good && std::isfinite(number);
  require(good, name, ": '", value, "' is not ", kind);
  field = number;
}

void parse(const std::string& value, std::int64_t& field, std::string_view name) {
  parse_number(value, field, name, "a whole number");
}

void parse(const std::string& value, double& field, std::string_view name) {
  parse_number(value, field, name, "a number");
}

void parse(std::string value, std::vector<double>& field, std::string_view name) {
  if (starts_with(value, "[") && ends_with(value, "]")) value = value.substr(1, value.size() - 2);
  std::vector<double> numbers;
  if (!value.empty() && value != kAuto)
    for (const std::string& part : split(value, ',')) parse(trimmed(part), numbers.emplace_back(), name);
  field = numbers;
}

void parse(const std::string& value, InputSize& field, std::string_view name) {
  std::string word = lower(value);
  if (starts_with(word, "[") && ends_with(word, "]")) word = word.substr(1, word.size() - 2);
  std::vector<std::int64_t> sides;
  for (const std::string& one : split(word, word.find('x') == word.npos ? ',' : 'x')) {
    const std::string part = trimmed(one);
    const auto [stop, error] = std::from_chars(part.data(), part.data() + part.size(), sides.emplace_back());
    const bool number = error == std::errc() && stop == part.data() + part.size();
    require(number && sides.back() >= 1 && sides.back() <= kMostPixels && sides.size() <= 2, name, ": '", value,
            "' is no size; give one number, or height x width such as 192x320, each of 1 to ", kMostPixels, " pixels");
  }
  field = {sides.front(), sides.back()};
}

void parse(const std::string& value, ChannelCount& field, std::string_view name) {
  constexpr std::string_view kNames[] = {"gray", "la", "rgb", "rgba"};
  const std::string word = lower(value);
  std::int64_t count = std::find(std::begin(kNames), std::end(kNames), word) - std::begin(kNames) + 1;
  if (count > std::ssize(kNames)) {
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), count);
    const bool number = error == std::errc() && stop == word.data() + word.size();
    require(number && count >= 1 && count <= kMostChannels, name, ": '", value,
            "' is no number of channels; give 1 to ", kMostChannels, ", gray, la, rgb or rgba");
  }
  field = count;
}

template <class T>
void parse(const std::string& value, std::optional<T>& field, std::string_view name) {
  if (lower(value) == kAuto) return field.reset();
  T parsed{};
  parse(value, parsed, name);
  field = parsed;
}

template <class T>
std::string written(const T& field) {
  return text(field);
}

std::string written(const ChannelCount& field) { return text(field.count); }

std::string written(const std::vector<double>& field) {
  std::string out;
  for (const double number : field) out += text(out.empty() ? "" : ", ", number);
  return text('[', out, ']');
}

template <class T>
std::string written(const std::optional<T>& field) {
  return field ? written(*field) : kAuto;
}

std::string normal(std::string_view name) {
  std::string out = lower(name);
  std::replace(out.begin(), out.end(), '-', '_');
  return out;
}

/// A YAML scalar: plain if it cannot be misread, else in double quotes.
std::string scalar(const std::string& value) {
  const bool bare = !value.empty() && std::all_of(value.begin(), value.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '/' || c == '.' || c == '-' || c == '+';
  });
  if (bare) return value;
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + '"';
}

std::string unquoted(std::string_view line, std::size_t at) {
  const char quote = line[at];
  std::string out;
  for (++at; at < line.size() && line[at] != quote; ++at) {
    if (quote == '"' && line[at] == '\\' && at + 1 < line.size()) {
      ++at;
      out += line[at] == 'n' ? '\n' : line[at];
    } else {
      out += line[at];
    }
  }
  require(at < line.size(), "the quote ", quote, " is not closed");
  const std::size_t rest = line.find_first_not_of(" \t\r", at + 1);
  require(rest == line.npos || line[rest] == '#', "'", line.substr(std::min(rest, line.size())),
          "' stands behind the closing quote");
  return out;
}

/// The value after the colon of a YAML line.
std::string value_of(std::string_view line) {
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  if (line[begin] == '"' || line[begin] == '\'') return unquoted(line, begin);
  if (line[begin] == '#') return {};
  const std::string_view value = line.substr(begin, line.find(" #", begin) - begin);
  return std::string(value.substr(0, value.find_last_not_of(" \t\r") + 1));
}

}  // namespace

std::optional<bool> truth_of(std::string_view word) {
  const std::string value = lower(word);
  for (const char* yes : {"true", "1", "yes", "on"})
    if (value == yes) return true;
  for (const char* no : {"false", "0", "no", "off"})
    if (value == no) return false;
  return {};
}

void append(std::string& out, const InputSize& size) {
  out += text(size.height);
  if (size.width != size.height) out += text('x', size.width);
}

template <class T>
Options& Options::operator()(std::string name, T& field, std::string help, Aliases aliases) {
  NEURIM_ASSERT(!find(name));
  Option option{.name = name, .help = std::move(help), .topic = topic_, .aliases = std::move(aliases)};
  option.flag = std::is_same_v<T, bool> || std::is_same_v<T, std::optional<bool>>;
  option.get = [&field] { return written(field); };
  option.set = [&field, name](const std::string& value) { parse(value, field, name); };
  if constexpr (std::is_same_v<T, std::string>) option.get = [&field] { return field; };
  list_.push_back(std::move(option));
  return *this;
}
template Options& Options::operator()(std::string, std::string&, std::string, Aliases);
template Options& Options::operator()(std::string, bool&, std::string, Aliases);
template Options& Options::operator()(std::string, std::int64_t&, std::string, Aliases);
template Options& Options::operator()(std::string, double&, std::string, Aliases);
template Options& Options::operator()(std::string, std::vector<double>&, std::string, Aliases);
template Options& Options::operator()(std::string, InputSize&, std::string, Aliases);
template Options& Options::operator()(std::string, ChannelCount&, std::string, Aliases);
template Options& Options::operator()(std::string, std::optional<bool>&, std::string, Aliases);
template Options& Options::operator()(std::string, std::optional<std::int64_t>&, std::string, Aliases);
template Options& Options::operator()(std::string, std::optional<double>&, std::string, Aliases);
template Options& Options::operator()(std::string, std::optional<InputSize>&, std::string, Aliases);
template Options& Options::operator()(std::string, std::optional<ChannelCount>&, std::string, Aliases);

Options& Options::borrow(const Option& option, std::string_view help) {
  NEURIM_ASSERT(!find(option.name));
  const auto words = std::make_shared<std::string>(kAuto);
  Option own{.name = option.name, .help = text(option.help, help), .topic = topic_, .aliases = option.aliases};
  own.get = [words] { return *words; };
  own.set = [words, accept = option.set](const std::string& value) {
    const bool unset = lower(value) == kAuto;
    if (!unset) accept(value);
    *words = unset ? kAuto : value;
  };
  list_.push_back(std::move(own));
  return *this;
}

Option* Options::look_up(std::string_view name) {
  const std::string wanted = normal(name);
  for (Option& option : list_)
    if (option.name == wanted ||
        std::find(option.aliases.begin(), option.aliases.end(), wanted) != option.aliases.end())
      return &option;
  return nullptr;
}

const Option* Options::find(std::string_view name) const { return const_cast<Options*>(this)->look_up(name); }

void Options::set(std::string_view name, const std::string& value) {
  if (Option* option = look_up(name)) {
    option->set(value);
    option->given = option->settled = true;
    return;
  }
  std::vector<std::string> known;
  for (const Option& option : list_) {
    known.push_back(option.name);
    known.insert(known.end(), option.aliases.begin(), option.aliases.end());
  }
  const std::string near = nearest(normal(name), known);
  fail(Fault::usage, "there is no option '", name, "'", near.empty() ? "" : text("; did you mean '", near, "'?"));
}

std::string Options::yaml() const {
  std::string out;
  for (const Option& option : list_) {
    if (option.typed) continue;
    const std::string value = option.get();
    const bool list = starts_with(value, "[") && value.find_first_not_of("[]0123456789+-.,e ") == std::string::npos;
    out += text(option.name, ": ", list ? value : scalar(value), '\n');
  }
  return out;
}

void Options::read_yaml(std::string_view yaml, const std::string& where, const Include& include) {
  const auto in_line = [&](int number, const auto& call) {
    naming([&] { return text(where, ": line ", number); }, call);
  };
  int number = 0;
  std::size_t margin = std::string::npos;  // of the first line
  std::map<std::string, std::string> values;
  std::optional<std::pair<int, std::string>> further;
  for (const std::string& line : split(yaml, '\n')) {
    ++number;
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos || line[begin] == '#') continue;
    in_line(number, [&] {
      if (margin == std::string::npos) margin = begin;
      const std::size_t colon = line.find(':');
      require(colon != std::string::npos && colon > begin, "expected 'name: value'");
      require(begin == margin,
              "is indented, and options have no parts: write each as 'name: value' at the beginning of a line");
      const std::string name = line.substr(begin, line.find_last_not_of(" \t", colon - 1) + 1 - begin);
      const std::string value = value_of(std::string_view(line).substr(colon + 1));
      Option* option = look_up(name);
      const std::string known = option ? option->name : normal(name);
      const auto [earlier, is_first] = values.emplace(known, value);
      require(is_first, known, " is given twice: ", earlier->second, " and ", value);
      if (include && known == "config") {
        further.emplace(number, value);
        return;
      }
      require(!option || !option->typed, name, " is for the command line alone: remove the line");
      if (option && option->settled) return;
      const std::string before = option ? option->get() : "";
      set(name, value);
      option->given = option->get() != before;
    });
  }
  if (further && !further->second.empty()) in_line(further->first, [&] { include(further->second); });
}

}  // namespace neurim
