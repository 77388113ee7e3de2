// Sizes of axes in Python: numbers, or in a trace for any number of samples what follows from symbols.
#pragma once
#include <nanobind/nanobind.h>

#include "neurim/core/dim.h"

namespace neurim::python {

/// A size that is no number, as the class Size of Python has it.
struct SymbolicSize {
  Dim dim;
};

}  // namespace neurim::python

namespace nanobind::detail {

/// A size is an int of Python, or a Size.
template <>
struct type_caster<neurim::Dim> {
  NB_TYPE_CASTER(neurim::Dim, const_name("int"))

  bool from_python(handle source, std::uint8_t flags, cleanup_list* cleanup) noexcept {
    if (neurim::python::SymbolicSize* symbolic = nullptr; try_cast(source, symbolic) && symbolic) {
      value = symbolic->dim;
      return true;
    }
    make_caster<std::int64_t> number;
    constexpr std::int64_t kLeast = -(std::int64_t{1} << 62);
    if (!number.from_python(source, flags, cleanup) || number.value < kLeast) return false;
    value = number.value;
    return true;
  }
  static handle from_cpp(neurim::Dim dim, rv_policy policy, cleanup_list* cleanup) noexcept {
    if (!dim.symbolic()) return make_caster<std::int64_t>::from_cpp(std::int64_t{dim}, policy, cleanup);
    return make_caster<neurim::python::SymbolicSize>::from_cpp(neurim::python::SymbolicSize{dim}, rv_policy::move,
                                                               cleanup);
  }
};

}  // namespace nanobind::detail
