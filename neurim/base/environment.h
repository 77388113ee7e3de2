// Environment variables.
#pragma once
#include <cstdlib>

namespace neurim {

/// The value of the environment variable; null where it is unset or empty.
inline const char* environment(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

}  // namespace neurim
