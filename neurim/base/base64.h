// Bytes as text: base64 of RFC 4648, with padding.
#pragma once
#include <string>
#include <string_view>

namespace neurim {

std::string to_base64(std::string_view bytes);   ///< without line ends
std::string from_base64(std::string_view text);  ///< throws Error(data) for what is no such text

}  // namespace neurim
