// Comma-separated values (RFC 4180, with \n line ends).
#pragma once
#include <string>
#include <string_view>

namespace neurim {

/// `value` as one field: quoted where it holds a comma, a quote or a line end, or has blanks around it.
std::string csv_field(std::string_view value);

}  // namespace neurim
