// What the sources of the extension module neurim._core share.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "neurim/neurim.h"

namespace neurim::python {

namespace nb = nanobind;

/// An object of Python that C++ holds: it is let go with the interpreter's lock, in whatever thread that is.
std::shared_ptr<nb::object> held(nb::object object);

DType dtype_of(std::string_view name);  ///< of "f32", "float32", …; throws Error(usage) with the known ones
Shape shape_of(const std::vector<std::int64_t>& sizes);

// Each adds its functions and classes to the module.
void bind_errors(nb::module_& module);
void bind_tensors(nb::module_& module);
void bind_ops(nb::module_& module);
void bind_plans(nb::module_& module);
void bind_optimizers(nb::module_& module);
void bind_models(nb::module_& module);
void bind_training(nb::module_& module);

}  // namespace neurim::python
