// Attributes of fixed length and shapes, visited as lists of numbers.
#pragma once
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

inline void list_field(Fields& f, std::string_view name, Shape& value) {
  std::vector<std::int64_t> list(value.begin(), value.end());
  f(name, list);
  value = Shape(list);
}

}  // namespace neurim
