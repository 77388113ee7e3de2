#include "neurim/base/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "neurim/base/error.h"

namespace neurim {

namespace {

using Json = nlohmann::json;

/// Looks on as a text is parsed. Json::parse has a callback for that, but after each object it goes through all
/// siblings.
class Check : public nlohmann::json_sax<Json> {
 public:
  Check(std::string_view text, std::size_t depth) : text_(text), depth_(depth) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(std::int64_t) override { return true; }
  bool number_unsigned(std::uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool start_object(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool key(std::string& name) override {
    if (!keys_.back().insert(name).second) fail(Fault::data, "has the key '", name, "' twice in an object");
    return true;
  }
  bool parse_error(std::size_t at, const std::string&, const Json::exception&) override {
    if (text_.empty()) fail(Fault::data, "is not valid JSON: it is empty");
    if (at > text_.size()) fail(Fault::data, "is not valid JSON: it ends too early");
    const std::string_view before = text_.substr(0, std::max<std::size_t>(at, 1) - 1);
    fail(Fault::data, "is not valid JSON at byte ", at, " (line ", 1 + std::count(before.begin(), before.end(), '\n'),
         ')');
  }

 private:
  bool enter() {
    keys_.emplace_back();
    if (keys_.size() > depth_) fail(Fault::data, "nests deeper than ", depth_, " lists and objects");
    return true;
  }
  bool leave() {
    keys_.pop_back();
    return true;
  }

  std::string_view text_;
  std::size_t depth_;
  std::vector<std::set<std::string>> keys_;  // of the lists and objects around; a list has none
};

}  // namespace

std::string JsonText::quoted(std::string_view value) {
  return Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string JsonText::number(double value) { return Json(value).dump(); }

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

void check_json(std::string_view text, std::size_t depth) {
  Check check(text, depth);
  Json::sax_parse(text, &check);
}

}  // namespace neurim
