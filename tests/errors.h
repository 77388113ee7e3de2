// What errors say.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "neurim/base/error.h"

namespace neurim {

/// The message of the Error that `action` throws; fails where it throws none or one of another kind.
inline std::string error_of(const std::function<void()>& action, Fault fault = Fault::data) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(static_cast<int>(e.fault()), static_cast<int>(fault)) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

/// The message of the Error of any kind that `action` throws, or "nothing was thrown".
inline std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing was thrown";
}

/// The same as error_of, of a usage error.
inline std::string usage_error(const std::function<void()>& action) { return error_of(action, Fault::usage); }

inline void expect_words(const std::string& message, const std::vector<std::string>& words) {
  for (const std::string& word : words) EXPECT_NE(message.find(word), std::string::npos) << word << " | " << message;
}

}  // namespace neurim
