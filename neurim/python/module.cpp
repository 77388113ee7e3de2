// The extension module neurim._core: all that Python calls of Neurim. The package's own files give it its names and
// habits.
#include "neurim/python/bindings.h"

NB_MODULE(_core, module) {
  using namespace neurim::python;
  nanobind::set_leak_warnings(false);  // plans and modules may refer to each other until the process ends
  bind_errors(module);
  neurim::initialize();
  bind_sizes(module);
  bind_tensors(module);
  bind_arrow(module);
  bind_ops(module);
  bind_plans(module);
  bind_optimizers(module);
  bind_models(module);
  bind_training(module);
}
