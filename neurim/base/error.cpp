#include "neurim/base/error.h"

#include <cstdio>
#include <cstdlib>

namespace neurim {

void assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "neurim: internal error at %s:%d: %s\n", file, line, condition);
  std::abort();
}

}  // namespace neurim
