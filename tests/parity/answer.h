// The main program of those that answer their words with one line of JSON.
#pragma once
#include <iostream>
#include <string>
#include <vector>

#include "neurim/neurim.h"

namespace neurim {

/// Prints answer(words); where it throws, the reason under the program's name, and the exit code is 1.
template <class Answer>
int print_answer(const char* who, int argc, char** argv, const Answer& answer) {
  try {
    initialize();
    std::cout << answer(std::vector<std::string>{argv + 1, argv + argc}) << '\n';
    return 0;
  } catch (const std::exception& error) {
    std::cerr << who << ": " << error.what() << '\n';
    return 1;
  }
}

}  // namespace neurim
