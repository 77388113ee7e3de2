// Functions of Python that are traced once and replayed, and their gradients.
#include "neurim/python/bindings.h"

namespace neurim::python {

namespace {

/// A function of tensors that plans itself for each signature.
class PythonCompiled {
 public:
  PythonCompiled(nb::object function, bool training, bool deterministic, const std::string& precision,
                 const std::string& device, const Tensor& random)
      : function_(held(std::move(function))),
        compiled_(
            [function = function_](const Tensors& in) {
              const nb::gil_scoped_acquire lock;
              return nb::cast<Tensors>((*function)(in));
            },
            {.training = training,
             .deterministic = deterministic,
             .compute_dtype = compute_dtype_named(precision),
             .device = device_named(device),
             .random = random}) {}

  Tensors operator()(const Tensors& in) {
    const nb::gil_scoped_release others_run;
    return compiled_(in);
  }
  std::size_t size() const { return compiled_.size(); }

  // What the function refers to may refer to this: the collector sees it, and may let go of it.
  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<PythonCompiled>(self)->function_->ptr());
    return 0;
  }
  static int clear(PyObject* self) {
    *nb::inst_ptr<PythonCompiled>(self)->function_ = nb::none();
    return 0;
  }

 private:
  std::shared_ptr<nb::object> function_;
  Compiled compiled_;
};

/// What `forward` gives; `backward` gets the gradients of that and of which inputs gradients are wanted, and gives
/// them.
Tensors with_gradient(const std::string& name, const Tensors& inputs, const nb::object& forward, nb::object backward) {
  const auto gradients = [backward = held(std::move(backward))](const Gradient& g) {
    const nb::gil_scoped_acquire lock;
    nb::list given, wanted;
    for (const Tensor& one : g.dout) given.append(one ? nb::cast(one) : nb::none());
    for (const bool one : g.wanted) wanted.append(one);
    Tensors found;
    for (const nb::handle one : nb::cast<nb::list>((*backward)(given, wanted)))
      found.push_back(one.is_none() ? Tensor() : nb::cast<Tensor>(one));
    return found;
  };
  return custom_gradient(inputs, [&](const Tensors&) { return nb::cast<Tensors>(forward()); }, gradients, name);
}

PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(&PythonCompiled::traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(&PythonCompiled::clear)},
                       {0, nullptr}};

}  // namespace

void bind_plans(nb::module_& module) {
  nb::class_<PythonCompiled>(module, "Compiled", nb::type_slots(slots))
      .def(nb::init<nb::object, bool, bool, const std::string&, const std::string&, const Tensor&>())
      .def("__call__", &PythonCompiled::operator())
      .def_prop_ro("size", &PythonCompiled::size);
  module.def("gradients", [](const Tensors& of, const Tensors& wrt) {
    nb::list all;
    for (const Tensor& one : gradients(of, wrt)) all.append(one ? nb::cast(one) : nb::none());
    return all;
  });
  module.def("custom_gradient", &with_gradient);
  module.def("tracing", &tracing);
  module.def("training", &training);
  module.def("set_threads", &set_threads);
  module.def("threads", &threads);
  module.def("seed_key", [](std::int64_t seed) {
    const std::int64_t key[] = {seed, 0};
    return Tensor::from({2}, std::span<const std::int64_t>(key));
  });
}

}  // namespace neurim::python
