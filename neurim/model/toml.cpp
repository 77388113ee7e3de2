#include "neurim/model/toml.h"

#include <algorithm>

#include "neurim/base/error.h"

// Of what files may hold, nothing here is nested deeper than this.
#define TOML_MAX_NESTED_VALUES 16
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace neurim {

namespace {

constexpr std::size_t kMostBytes = 1 << 18;  // the parser searches lists: its time is quadratic
// Each dot of a key a.b.c nests a table, without a limit in the parser, and tables are left by recursion.
// Numbers have dots too: a list of as many as an image may have channels stays below.
constexpr std::ptrdiff_t kMostDots = 600;

Toml converted(const toml::node& node, const std::string& where) {
  Toml out;
  out.line = node.source().begin.line;
  if (const auto* table = node.as_table()) {
    auto& items = out.value.emplace<Toml::Table>();
    for (auto&& [key, item] : *table) items.emplace(std::string(key.str()), converted(item, where));
  } else if (const auto* array = node.as_array()) {
    auto& items = out.value.emplace<Toml::Array>();
    for (const toml::node& item : *array) items.push_back(converted(item, where));
  } else if (const auto* word = node.as_string()) {
    out.value = word->get();
  } else if (const auto* whole = node.as_integer()) {
    out.value = whole->get();
  } else if (const auto* number = node.as_floating_point()) {
    out.value = number->get();
  } else if (const auto* truth = node.as_boolean()) {
    out.value = truth->get();
  } else {
    fail(Fault::data, where, ':', out.line, ": dates and times mean nothing here; leave it out, or quote it");
  }
  return out;
}

void check_dots(std::string_view document, const std::string& where) {
  std::int64_t line = 0;
  for (const std::string& each : split(document, '\n')) {
    ++line;
    if (std::count(each.begin(), each.end(), '.') > kMostDots)
      fail(Fault::data, where, ':', line, ": has more than ", kMostDots, " dots; break the line");
  }
}

}  // namespace

void append(std::string& out, const Toml& toml) {
  if (const auto* word = toml.as<std::string>())
    out += text('"', *word, '"');
  else if (const auto* whole = toml.as<std::int64_t>())
    out += text(*whole);
  else if (const auto* number = toml.as<double>())
    out += text(*number);
  else if (const auto* truth = toml.as<bool>())
    out += text(*truth);
  else
    out += toml.as<Toml::Array>() ? "a list" : "a table";
}

Toml parse_toml(std::string_view document, const std::string& where) {
  if (document.size() > kMostBytes)
    fail(Fault::data, where, ": has ", document.size(), " bytes; a file of this kind has at most ", kMostBytes);
  check_dots(document, where);
  try {
    return converted(toml::parse(document), where);
  } catch (const toml::parse_error& error) {
    fail(Fault::data, where, ':', error.source().begin.line, ": ", error.description());
  }
}

}  // namespace neurim
