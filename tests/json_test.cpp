// JSON that is written against what nlohmann's library writes.
#include "neurim/base/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/errors.h"

namespace neurim {
namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

template <class Value>
void expect_same(const Value& value) {
  EXPECT_EQ(JsonText(value).line(), dumped(Json(value)));
}

TEST(Json, Strings) {
  for (const std::string_view value : {"", "plain", "say \"no\"", "a\\b/c", "tab\tline\r\n\b\f", "\x01\x1F\x7F",
                                       "Käse 犬 😀", "\\", "\"", "{\"a\": [1, 2]}"})
    expect_same(value);
  expect_same(std::string("nul\0inside", 10));
  expect_same("a literal");
}

TEST(Json, StringsThatAreNotUtf8) {
  for (const std::string_view value : {"caf\xE9.jpg", "cut off \xC3", "\xC0\xAF overlong", "\xED\xA0\x80 surrogate",
                                       "\xF5\x80\x80\x80", "\x80\x80", "\xE9\"quoted\"\xE9"}) {
    expect_same(value);
    EXPECT_NE(JsonText(value).line().find("\uFFFD"), std::string::npos);
    const JsonObject object{{value, value}};
    EXPECT_EQ(object.line(), dumped(Json{{std::string(value), value}}));
    EXPECT_TRUE(Json::accept(object.line()) && Json::accept(object.indented()));
  }
}

TEST(Json, Numbers) {
  using Limits = std::numeric_limits<double>;
  for (const double value :
       {0.0, -0.0, 1.0, -1.5, 0.1, 1.0 / 3, 1e15, 1e16, 123456789012345680.0, 1e-5, 1e300, 5e-324, Limits::max(),
        Limits::min(), Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()})
    expect_same(value);
  for (std::uint64_t bits = 1; bits < 1000; ++bits) {
    const double value = std::ldexp(static_cast<double>(bits * 0x9E3779B97F4A7C15), static_cast<int>(bits % 200) - 100);
    expect_same(value);
    expect_same(static_cast<float>(value));
  }
  EXPECT_EQ(JsonText(std::nan("")).line(), "null");
  expect_same(std::numeric_limits<std::uint64_t>::max());
  expect_same(std::numeric_limits<std::int64_t>::min());
  expect_same(std::numeric_limits<std::int64_t>::max());
  expect_same(std::uint8_t{200});
  expect_same(std::int8_t{-100});
  expect_same(0);
  expect_same(true);
  expect_same(false);
}

TEST(Json, Vectors) {
  expect_same(std::vector<double>{1, 0.1, std::nan("")});
  expect_same(std::vector<std::string>{"a,b", "caf\xE9", ""});
  expect_same(std::vector<std::vector<int>>{{1, 2}, {}, {3}});
  expect_same(std::vector<bool>{true, false});
  expect_same(std::vector<int>{});
}

TEST(Json, Objects) {
  JsonObject object{{"event", "summary"}, {"a \"key\"\n", 1}, {"empty", JsonObject()}, {"none", std::vector<int>()}};
  Json json{{"event", "summary"}, {"a \"key\"\n", 1}, {"empty", Json::object()}, {"none", Json::array()}};
  const auto expect_alike = [&] {
    EXPECT_EQ(object.line(), dumped(json));
    EXPECT_EQ(object.indented(), dumped(json, 2));
  };
  expect_alike();
  object.add("files", std::vector{JsonObject{{"file", "a: {b}, [c] \\"}, {"sizes", std::vector{1, 2}}}, JsonObject()});
  json["files"] = {{{"file", "a: {b}, [c] \\"}, {"sizes", {1, 2}}}, Json::object()};
  object.add("deep", JsonObject{{"er", JsonObject{{"est", std::vector<std::vector<int>>{{}, {1}}}}}});
  json["deep"] = {{"er", {{"est", {Json::array(), {1}}}}}};
  expect_alike();
  object = {};
  json = Json::object();
  expect_alike();
}

TEST(Json, KeysKeepTheirOrder) {
  JsonObject object;
  for (const char* key : {"z", "a", "m"}) object.add(key, key);
  EXPECT_EQ(object.line(), R"({"z":"z","a":"a","m":"m"})");
}

TEST(Json, WhatIsReadIsCheckedInOurWords) {
  for (const char* good : {"{}", "3", R"({"a":[1,-2.5e3,true,null],"b":{"a":""}})", "\xEF\xBB\xBF[[\"ä\"]]"})
    check_json(good, 2);
  const auto expect_refused = [](const std::string& text, const std::string& words) {
    EXPECT_EQ(error_of([&] { check_json(text, 2); }), words) << text;
  };
  expect_refused("", "is not valid JSON: it is empty");
  for (const char* cut : {" ", "{", "[1,", "\"a", "tru"}) expect_refused(cut, "is not valid JSON: it ends too early");
  expect_refused("{\"a\":1,\n \"b\":x}", "is not valid JSON at byte 14 (line 2)");
  expect_refused("[\"a\nb\"]", "is not valid JSON at byte 4 (line 1)");
  expect_refused("{}{}", "is not valid JSON at byte 3 (line 1)");
  expect_refused("[1e999]", "is not valid JSON at byte 6 (line 1)");
  expect_refused(R"([{"a":1},{"a":1,"b":2,"a":3}])", "has the key 'a' twice in an object");
  expect_refused(std::string(1 << 20, '['), "nests deeper than 2 lists and objects");
  expect_refused(R"([{"a":{}}])", "nests deeper than 2 lists and objects");
}

}  // namespace
}  // namespace neurim
