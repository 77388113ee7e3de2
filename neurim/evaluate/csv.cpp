#include "neurim/evaluate/csv.h"

namespace neurim {

std::string csv_field(std::string_view value) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  const bool framed = !value.empty() && (blank(value.front()) || blank(value.back()));
  if (!framed && value.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(value);
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace neurim
