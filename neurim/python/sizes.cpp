#include "neurim/python/sizes.h"

#include <nanobind/operators.h>

#include "neurim/python/bindings.h"

namespace neurim::python {

void bind_sizes(nb::module_& module) {
  using S = SymbolicSize;
  nb::class_<S>(module, "Size")
      .def(
          "__add__", [](const S& a, Dim b) { return a.dim + b; }, nb::is_operator())
      .def(
          "__radd__", [](const S& a, Dim b) { return b + a.dim; }, nb::is_operator())
      .def(
          "__sub__", [](const S& a, Dim b) { return a.dim - b; }, nb::is_operator())
      .def(
          "__rsub__", [](const S& a, Dim b) { return b - a.dim; }, nb::is_operator())
      .def(
          "__mul__", [](const S& a, Dim b) { return a.dim * b; }, nb::is_operator())
      .def(
          "__rmul__", [](const S& a, Dim b) { return b * a.dim; }, nb::is_operator())
      .def(
          "__floordiv__", [](const S& a, Dim b) { return a.dim / b; }, nb::is_operator())
      .def(
          "__rfloordiv__", [](const S& a, Dim b) { return b / a.dim; }, nb::is_operator())
      .def(
          "__mod__", [](const S& a, Dim b) { return a.dim % b; }, nb::is_operator())
      .def("__neg__", [](const S& a) { return -a.dim; })
      .def(
          "__eq__", [](const S& a, Dim b) { return a.dim == b; }, nb::is_operator())
      .def(
          "__ne__", [](const S& a, Dim b) { return !(a.dim == b); }, nb::is_operator())
      .def(
          "__lt__", [](const S& a, Dim b) { return a.dim < b; }, nb::is_operator())
      .def(
          "__le__", [](const S& a, Dim b) { return a.dim <= b; }, nb::is_operator())
      .def(
          "__gt__", [](const S& a, Dim b) { return a.dim > b; }, nb::is_operator())
      .def(
          "__ge__", [](const S& a, Dim b) { return a.dim >= b; }, nb::is_operator())
      .def("__hash__", [](const S& a) { return std::hash<std::string>()(text(a.dim)); })
      .def("__repr__", [](const S& a) { return text(a.dim); })
      .def("__index__", [](const S& a) { return std::int64_t{a.dim}; });  // throws
}

}  // namespace neurim::python
