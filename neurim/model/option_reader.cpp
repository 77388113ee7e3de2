#include "neurim/model/option_reader.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

namespace neurim {

namespace {

constexpr std::int64_t kMostNumber = 1 << 24;

double number(std::string_view what, const Toml& value) {
  const auto* whole = value.as<std::int64_t>();
  const auto* real = value.as<double>();
  const double found = whole ? static_cast<double>(*whole) : real ? *real : NAN;
  require(std::abs(found) <= static_cast<double>(kMostNumber), what, " is ", value, "; it is a number up to ",
          kMostNumber);
  return found;
}

/// What `read` makes of each item of a list, or of the one value that is no list.
template <class Read>
auto each_of(const Toml& value, Read read) {
  std::vector<decltype(read(value))> all;
  if (const auto* list = value.as<Toml::Array>())
    for (const Toml& item : *list) all.push_back(read(item));
  else
    all.push_back(read(value));
  return all;
}

std::vector<std::int64_t> whole_numbers(std::string_view what, const Toml& value) {
  return each_of(value, [&](const Toml& item) { return whole_number(what, item); });
}

/// A sum of products of numbers and $names.
class Expression {
 public:
  Expression(std::string_view expression, const Toml::Table& scope)
      : all_(expression), rest_(expression), scope_(scope) {}

  Toml value() {
    if (takes('$')) {  // alone it may stand for anything
      const Toml& named = variable();
      skip_spaces();
      if (rest_.empty()) return named;
      rest_ = all_;
    }
    const double result = sum();
    require(rest_.empty(), '"', all_, "\": '", rest_, "' is no part of a sum of products of numbers and $names");
    Toml toml;
    if (result == std::floor(result) && std::abs(result) <= static_cast<double>(kMostNumber))
      toml.value = static_cast<std::int64_t>(result);
    else
      toml.value = result;
    return toml;
  }

 private:
  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }

  bool takes(char sign) {
    skip_spaces();
    if (!rest_.starts_with(sign)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  /// What the name at the beginning of the rest stands for.
  const Toml& variable() {
    const auto end = std::find_if(rest_.begin(), rest_.end(),
                                  [](unsigned char c) { return !std::isalnum(c) && c != '_'; });
    const std::string_view name = rest_.substr(0, (end - rest_.begin()));
    rest_.remove_prefix(name.size());
    const Toml* found = find(scope_, name);
    if (found) return *found;
    std::vector<std::string> known;
    for (const auto& [each, value] : scope_) known.push_back(each);
    fail(Fault::usage, "there is no $", name, suggestion(name, known));
  }

  double factor() {
    if (takes('$')) return number(all_, variable());
    double value = 0;
    const auto [stop, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    require(error == std::errc(), '"', all_, "\": a number or a $name is missing before '", rest_, '\'');
    rest_.remove_prefix(static_cast<std::size_t>(stop - rest_.data()));
    return value;
  }

  double product() {
    double value = factor();
    for (;;) {
      if (takes('*'))
        value *= factor();
      else if (takes('/'))
        value /= factor();
      else
        return value;
    }
  }

  double sum() {
    double value = product();
    for (;;) {
      if (takes('+'))
        value += product();
      else if (takes('-'))
        value -= product();
      else
        return value;
    }
  }

  std::string_view all_, rest_;
  const Toml::Table& scope_;
};

}  // namespace

const Toml* find(const Toml::Table& table, std::string_view key) {
  const auto at = table.find(key);
  return at == table.end() ? nullptr : &at->second;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::string near = nearest(word, known);
  if (!near.empty()) return text("; did you mean '", near, "'?");
  return known.empty() ? "; there are none" : text("; known are ", join(known, ", "));
}

void check_known(const std::string& where, std::string_view what, const Toml::Table& table,
                 const std::vector<std::string>& known) {
  for (const auto& [name, value] : table)
    if (std::find(known.begin(), known.end(), name) == known.end())
      fail(Fault::data, where, ':', value.line, ": ", what, "there is no '", name, '\'', suggestion(name, known));
}

std::int64_t whole_number(std::string_view what, const Toml& value, std::int64_t least, std::int64_t most) {
  const auto* found = value.as<std::int64_t>();
  const auto* real = value.as<double>();
  const double number = found ? static_cast<double>(*found) : real ? *real : NAN;  // 8.0 is as good as 8
  require(number == std::floor(number) && number >= static_cast<double>(least) && number <= static_cast<double>(most),
          what, " is ", value, "; it is a whole number from ", least, " to ", most);
  return static_cast<std::int64_t>(number);
}

std::int64_t whole_number(std::string_view what, const Toml& value) {
  return whole_number(what, value, -kMostNumber, kMostNumber);
}

std::vector<double> numbers(std::string_view what, const Toml& value) {
  return each_of(value, [&](const Toml& item) { return number(what, item); });
}

Toml evaluated(const Toml& value, const Toml::Table& scope) {
  Toml result = value;
  if (auto* list = std::get_if<Toml::Array>(&result.value)) {
    for (Toml& item : *list) item = evaluated(item, scope);
  } else if (const auto* word = value.as<std::string>(); word && word->find('$') != std::string::npos) {
    result = Expression(*word, scope).value();
    result.line = value.line;
  }
  return result;
}

template <class Take>
Fields& OptionReader::read(std::string_view name, Take take) {
  visited_.emplace_back(name);
  if (const Toml* value = find(given_, name)) take(*value);
  return *this;
}

Fields& OptionReader::operator()(std::string_view name, std::int64_t& value) {
  return read(name, [&](const Toml& given) { value = whole_number(name, given); });
}

Fields& OptionReader::operator()(std::string_view name, double& value) {
  return read(name, [&](const Toml& given) { value = number(name, given); });
}

Fields& OptionReader::operator()(std::string_view name, bool& value) {
  return read(name, [&](const Toml& given) {
    const auto* truth = given.as<bool>();
    require(truth, name, " is ", given, "; it is true or false");
    value = *truth;
  });
}

Fields& OptionReader::operator()(std::string_view name, std::string& value) {
  return read(name, [&](const Toml& given) {
    std::vector<std::string> words;
    if (const auto* word = given.as<std::string>())
      words.push_back(*word);
    else
      for (const std::int64_t each : whole_numbers(name, given)) words.push_back(text(each));
    value = join(words, ",");
  });
}

Fields& OptionReader::operator()(std::string_view name, DType& value) {
  return read(name, [&](const Toml& given) {
    const auto* word = given.as<std::string>();
    const std::optional<DType> dtype = word ? dtype_named(*word) : std::nullopt;
    require(dtype.has_value(), name, " is ", given, "; it is a dtype such as \"f32\"");
    value = *dtype;
  });
}

Fields& OptionReader::operator()(std::string_view name, std::vector<std::int64_t>& value) {
  return read(name, [&](const Toml& given) { value = whole_numbers(name, given); });
}

Fields& OptionReader::operator()(std::string_view name, std::vector<double>& value) {
  return read(name, [&](const Toml& given) { value = numbers(name, given); });
}

void OptionReader::check_all_known() const {
  for (const auto& [name, value] : given_)
    require(std::find(visited_.begin(), visited_.end(), name) != visited_.end(), "there is no option '", name, '\'',
            suggestion(name, visited_));
}

}  // namespace neurim
