// Every test program starts here: the registries are full before GoogleTest lists its cases.
#include <gtest/gtest.h>

#include <cstdlib>

#include "neurim/backend/reference/view.h"

namespace neurim {
void define_ops();
void add_reference_kernels();
void add_cpu_kernels();
}  // namespace neurim

int main(int argc, char** argv) {
  ::unsetenv("LD_PRELOAD");  // a sanitizer's: it is for this program, not for the tar that unpacks its data (whose leaks would fail it)
  neurim::define_ops();
  neurim::add_reference_kernels();
  neurim::add_reference_kernels_for(0);
  neurim::add_cpu_kernels();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
