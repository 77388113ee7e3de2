// Attributes of fixed length, shapes and what may be missing, visited as lists of numbers.
#pragma once
#include <optional>

#include "neurim/base/error.h"
#include "neurim/graph/op.h"

namespace neurim {

/// Throws Error(data) when a loaded list has another length.
template <std::size_t N>
void list_field(Fields& f, std::string_view name, std::array<std::int64_t, N>& value) {
  std::vector<std::int64_t> list(value.begin(), value.end());
  f(name, list);
  if (list.size() != N) fail(Fault::data, name, ": takes ", N, " numbers, got ", list.size());
  for (std::size_t i = 0; i < N; ++i) value[i] = list[i];
}

/// A shape may have any rank.
inline void list_field(Fields& f, std::string_view name, Shape& value) {
  std::vector<Dim> list(value.begin(), value.end());
  f(name, list);
  value = Shape(list);
}

/// Empty where there is no value.
template <class T>
void list_field(Fields& f, std::string_view name, std::optional<T>& value) {
  std::vector<T> list;
  if (value) list.push_back(*value);
  f(name, list);
  require(list.size() <= 1, name, ": takes one number, got ", list.size());
  value = list.empty() ? std::nullopt : std::optional(list[0]);
}

}  // namespace neurim
