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
#include "neurim/python/sizes.h"

namespace neurim::python {

namespace nb = nanobind;

/// An object of Python that C++ holds: it is let go with the interpreter's lock, in whatever thread that is.
std::shared_ptr<nb::object> held(nb::object object);

DType dtype_of(std::string_view name);          ///< of "f32", "float32", …; throws Error(usage) with the known ones
Shape shape_of(const std::vector<Dim>& sizes);  ///< throws Error(usage) where one is negative

/// A tensor in memory of others where that is aligned, else with a copy. The owner lives as long as the tensor needs
/// the memory. Read-only memory is never written: a tensor that is changed gets a copy first.
Tensor borrowed(const Type& type, const void* data, std::shared_ptr<void> owner, bool read_only);
/// The tensor's own memory, where it is the host's and in the plain order, else a copy. Throws Error(usage) in a trace.
Tensor on_host(const Tensor& tensor);

// Each adds its functions and classes to the module.
void bind_errors(nb::module_& module);
void bind_sizes(nb::module_& module);
void bind_tensors(nb::module_& module);
void bind_arrow(nb::module_& module);
void bind_ops(nb::module_& module);
void bind_plans(nb::module_& module);
void bind_optimizers(nb::module_& module);
void bind_models(nb::module_& module);
void bind_training(nb::module_& module);

}  // namespace neurim::python
