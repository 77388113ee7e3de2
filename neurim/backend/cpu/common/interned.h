// What a packed format is made for: PackedFormat::self points to it, so it stays where it is.
#pragma once
#include <algorithm>
#include <deque>
#include <mutex>

#include "neurim/core/types.h"

namespace neurim::cpu {

/// The one object of the process that equals the argument.
template <class T>
const T* interned(const T& given) {
  static std::mutex mutex;
  static auto& all = *new std::deque<T>;
  const std::lock_guard lock(mutex);
  const auto known = std::find(all.begin(), all.end(), given);
  return known != all.end() ? &*known : &all.emplace_back(given);
}

/// What the layout's format is made for, where it is packed by this function; else null.
template <class T>
const T* interned_for(const Layout& layout, decltype(PackedFormat::pack) pack) {
  if (layout.kind != Layout::packed) return nullptr;
  const PackedFormat& format = packed_format(layout.format);
  return format.pack == pack ? static_cast<const T*>(format.self) : nullptr;
}

}  // namespace neurim::cpu
