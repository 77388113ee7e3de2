// Damaged files, which no parser may crash on.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "neurim/base/error.h"

namespace neurim {

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

/// Runs `parse` on every beginning of `file` and on it with each byte changed; Errors are what it may throw.
inline void damage_everywhere(std::string file, const std::function<void(const std::string&)>& parse) {
  const auto run = [&](const std::string& bytes) {
    try {
      parse(bytes);
    } catch (const Error&) {
    }
  };
  for (std::size_t size = 0; size < file.size(); ++size) run(file.substr(0, size));
  for (char& byte : file)
    for (const int change : {0x01, 0x80, 0xFF}) {
      byte ^= static_cast<char>(change);
      run(file);
      byte ^= static_cast<char>(change);
    }
}

}  // namespace neurim
