#include "neurim/neurim.h"

#include <execinfo.h>

#include "neurim/backend/reference/view.h"

namespace neurim {

void define_ops();
void add_reference_kernels();
void add_cpu_kernels();
void define_distributed();

void initialize() {
  [[maybe_unused]] static const bool once = [] {
    define_ops();
    add_reference_kernels();
    add_reference_kernels_for(0);
    add_cpu_kernels();
    define_distributed();
    // What the C library needs where an exception passes it, it looks up at the first, and aborts if there is no memory
    // then.
    void* caller = nullptr;
    ::backtrace(&caller, 1);
    return true;
  }();
}

}  // namespace neurim
