#include "neurim/base/json.h"

#include <nlohmann/json.hpp>

namespace neurim {

std::string JsonText::quoted(std::string_view value) {
  return nlohmann::json(value).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string JsonText::number(double value) { return nlohmann::json(value).dump(); }

JsonText::JsonText(const JsonObject& object) : line_(object.line()) {}

JsonObject::JsonObject(std::initializer_list<Member> members) {
  for (const Member& member : members) add(member.key, member.value);
}

void JsonObject::add(std::string_view key, const JsonText& value) {
  if (!members_.empty()) members_ += ',';
  members_ += text(JsonText(key).line(), ':', value.line());
}

std::string JsonObject::line() const { return text('{', members_, '}'); }

std::string JsonObject::indented() const {
  const std::string packed = line();
  std::string out;
  std::size_t depth = 0;
  const auto new_line = [&] { out.append(1, '\n').append(2 * depth, ' '); };
  for (std::size_t i = 0; i < packed.size(); ++i) {
    const char c = packed[i];
    if (c == '"') {
      const std::size_t begin = i++;
      while (packed[i] != '"') i += packed[i] == '\\' ? 2 : 1;
      out.append(packed, begin, i + 1 - begin);
    } else if (c == '{' || c == '[') {
      out += c;
      if (packed[i + 1] == '}' || packed[i + 1] == ']') {
        out += packed[++i];
        continue;
      }
      ++depth;
      new_line();
    } else if (c == '}' || c == ']') {
      --depth;
      new_line();
      out += c;
    } else {
      out += c;
      if (c == ',') new_line();
      if (c == ':') out += ' ';
    }
  }
  return out;
}

}  // namespace neurim
