// Comma-separated values (RFC 4180, with \n line ends).
#pragma once
#include <string>
#include <string_view>

namespace neurim {

/// `value` as one field: quoted where it holds a comma, a quote or a line end, or
/// where blanks, which readers take away, stand at its ends.
std::string csv_field(std::string_view value);

}  // namespace neurim
