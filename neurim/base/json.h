// JSON that is written, and a check of what is read: light to include, where nlohmann's header costs seconds in each
// source.
#pragma once
#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/base/text.h"

namespace neurim {

class JsonObject;

/// A value, kept as its text. Writing never fails: bytes that are no UTF-8, such as file names may have,
/// become U+FFFD, and NaN and infinite numbers become null.
class JsonText {
 public:
  /// A string, quoted and escaped.
  template <std::convertible_to<std::string_view> String>
  JsonText(const String& value) : line_(quoted(value)) {}
  /// A whole number; of bool: true or false.
  template <std::integral Number>
    requires(!std::same_as<Number, char>)
  JsonText(Number value) : line_(text(value)) {}
  /// A number; null where it is not finite.
  template <std::floating_point Number>
  JsonText(Number value) : line_(number(value)) {}
  /// A list.
  template <class Value>
  JsonText(const std::vector<Value>& values) : line_("[") {
    for (const Value& value : values) {
      if (line_.size() > 1) line_ += ',';
      line_ += JsonText(value).line_;
    }
    line_ += ']';
  }
  JsonText(const JsonObject& object);  ///< the object as a value of another

  const std::string& line() const { return line_; }  ///< without blanks or line ends

 private:
  static std::string quoted(std::string_view value);
  static std::string number(double value);

  std::string line_;
};

/// An object; its keys keep their order: JsonObject{{"event", "summary"}, {"bytes", 7}}.
class JsonObject {
 public:
  /// A key with its value.
  struct Member {
    std::string_view key;  ///< not yet quoted
    JsonText value;        ///< of any kind
  };

  JsonObject() = default;
  JsonObject(std::initializer_list<Member> members);  ///< the members in this order
  /// A key that is added again stands there twice, and readers take the last.
  void add(std::string_view key, const JsonText& value);

  std::string line() const;      ///< without blanks or line ends
  std::string indented() const;  ///< a line for each member and element, for files that people read

 private:
  std::string members_;
};

/// Throws Error(data) where the text is no JSON, has a key twice in an object, or nests more lists and objects than
/// `depth`: "is not valid JSON at byte 7 (line 2)", without a name in front. The time is in proportion to the size.
void check_json(std::string_view text, std::size_t depth);

}  // namespace neurim
