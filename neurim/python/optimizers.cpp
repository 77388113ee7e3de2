// Optimizers over tensors that Python names.
#include <algorithm>

#include "neurim/python/bindings.h"

namespace neurim::python {

namespace {

using Named = std::vector<std::pair<std::string, Tensor>>;

Parameters parameters_of(const Named& named) {
  Parameters all;
  for (const auto& [name, tensor] : named) all.push_back({name, tensor});
  return all;
}

/// Adam or AdamW, whose options have the same names.
template <class Kind>
void bind_adam(nb::module_& module, const char* name) {
  nb::class_<Kind, Optimizer>(module, name)
      .def("__init__", [](Kind* self, const Named& named, double lr, double beta1, double beta2, double eps,
                          double weight_decay, bool decay_1d) {
        new (self) Kind(parameters_of(named), {lr, beta1, beta2, eps, weight_decay, decay_1d});
      });
}

}  // namespace

void bind_optimizers(nb::module_& module) {
  nb::class_<Optimizer>(module, "Optimizer")
      .def(
          "minimize",
          [](Optimizer& optimizer, const Tensor& loss, double samples) {
            const Tensors read = captured(), &own = optimizer.weights();
            const bool depends = std::any_of(read.begin(), read.end(), [&](const Tensor& one) {
              return std::any_of(own.begin(), own.end(), [&](const Tensor& w) { return w.value() == one.value(); });
            });
            require(depends,
                    "minimize: the loss depends on none of the optimizer's weights; make the optimizer of the "
                    "parameters as they are now, after net.to(…)");
            optimizer.minimize(loss, samples);
          },
          nb::arg("loss"), nb::arg("samples") = 1.0)
      .def("step", nb::overload_cast<const Tensors&>(&Optimizer::step))
      .def_prop_rw("lr", &Optimizer::lr, &Optimizer::set_lr)
      .def_prop_ro("steps", &Optimizer::steps)
      .def("state",
           [](Optimizer& optimizer) {
             Named all;
             for (const Parameter& one : named_parameters(optimizer)) all.emplace_back(one.name, one.tensor);
             return all;
           })
      .def("clip_norm", [](Optimizer& o, double most) { o.add(std::make_unique<ClipGradientNorm>(most)); })
      .def("clip_value", [](Optimizer& o, double most) { o.add(std::make_unique<ClipGradientValue>(most)); });
  nb::class_<SGD, Optimizer>(module, "SGD")
      .def("__init__", [](SGD* self, const Named& named, double lr, double momentum, double dampening,
                          double weight_decay, bool nesterov, bool decay_1d) {
        new (self) SGD(parameters_of(named), {lr, momentum, dampening, weight_decay, nesterov, decay_1d});
      });
  bind_adam<Adam>(module, "Adam");
  bind_adam<AdamW>(module, "AdamW");
  module.def("cosine_lr", &cosine_lr);
  module.def("step_lr", &step_lr);
  module.def("warmup_lr", &warmup_lr);
}

}  // namespace neurim::python
