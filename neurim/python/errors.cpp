// Errors of Neurim as exceptions of Python.
#include <nanobind/eval.h>

#include "neurim/python/bindings.h"

namespace neurim::python {

namespace {

/// Made in Python, as each is two kinds at once: the base class, and the one of Python that such errors are there.
constexpr const char* kClasses = R"(
class Error(Exception):
    """What went wrong in Neurim, in one line: what, where, why, and what helps."""

class UsageError(Error, ValueError):
    """An argument, a shape or an option that cannot be."""

class DataError(Error, ValueError):
    """Data or a file that is damaged, missing or of another kind."""

class ResourceError(Error, OSError):
    """Memory or disk that is not there, or that another process has."""

class FailureError(Error, RuntimeError):
    """What failed while it ran."""
)";

PyObject* class_of[4];  // by fault; never let go

PyObject*& of(Fault fault) {
  switch (fault) {
    case Fault::usage: return class_of[0];
    case Fault::data: return class_of[1];
    case Fault::resource: return class_of[2];
    default: return class_of[3];
  }
}

}  // namespace

std::shared_ptr<nb::object> held(nb::object object) {
  return {new nb::object(std::move(object)), [](nb::object* own) {
            const nb::gil_scoped_acquire lock;
            delete own;
          }};
}

void bind_errors(nb::module_& module) {
  nb::dict names;
  names["__name__"] = "neurim";
  nb::exec(nb::str(kClasses), names);
  for (const char* name : {"Error", "UsageError", "DataError", "ResourceError", "FailureError"})
    module.attr(name) = names[name];
  const auto keep = [&](Fault fault, const char* name) { of(fault) = nb::object(names[name]).release().ptr(); };
  keep(Fault::usage, "UsageError"), keep(Fault::data, "DataError");
  keep(Fault::resource, "ResourceError"), keep(Fault::failure, "FailureError");
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void*) {
        try {
          std::rethrow_exception(thrown);
        } catch (const Error& error) {
          PyErr_SetString(of(error.fault()), error.what());
        }
      },
      nullptr);
}

}  // namespace neurim::python
