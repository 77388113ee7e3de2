#include "neurim/base/base64.h"

#include <array>
#include <cstdint>

#include "neurim/base/error.h"

namespace neurim {

namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8 | (i + k < bytes.size() ? static_cast<std::uint8_t>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k) text += i + k <= bytes.size() ? kDigits[three >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::string from_base64(std::string_view text) {
  const auto bad = [] { fail(Fault::data, "is no base64"); };
  if (text.size() % 4 != 0) bad();
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::uint32_t three = 0;
    std::size_t digits = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const std::size_t digit = kDigits.find(text[i + k]);
      const bool padding = text[i + k] == '=' && i + 4 == text.size() && k >= 2 && digits <= k;
      if (digit == std::string_view::npos ? !padding : digits < k) bad();
      three = three << 6 | (padding ? 0 : static_cast<std::uint32_t>(digit));
      digits += !padding;
    }
    for (std::size_t k = 0; k + 1 < digits; ++k) bytes += static_cast<char>(three >> (16 - 8 * k) & 255);
  }
  return bytes;
}

}  // namespace neurim
