// TOML documents as trees that know their lines. https://toml.io/en/v1.0.0
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace neurim {

/// A value of a document.
struct Toml {
  using Array = std::vector<Toml>;                         ///< in the order of the text
  using Table = std::map<std::string, Toml, std::less<>>;  ///< by key

  std::int64_t line = 0;                                                      ///< where it begins, from 1
  std::variant<bool, std::int64_t, double, std::string, Array, Table> value;  ///< what it holds

  /// The value as a T; null where it is of another type.
  template <class T>
  const T* as() const {
    return std::get_if<T>(&value);
  }
};

/// As an error quotes it: 3, "word", a list, a table.
void append(std::string& out, const Toml& toml);

/// The document, a table. Throws Error(data) "WHERE:LINE: …" where it is no TOML, and for dates and times,
/// which nothing here takes.
Toml parse_toml(std::string_view document, const std::string& where);

}  // namespace neurim
