// The test device for commands: plugins=libtest_device_plugin.so device=test.
#include "neurim/backend/test/test_device.h"
#include "neurim/distributed/group_kernel.h"
#include "neurim/model/plugin.h"

namespace {

void define_all() { neurim::add_group_kernels(neurim::register_test_device()); }

}  // namespace

NEURIM_PLUGIN(define_all);
