#include "neurim/core/device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <map>
#include <mutex>

#include "neurim/base/error.h"
#include "neurim/base/per_thread.h"
#include "neurim/core/cpu_device.h"

namespace neurim {

namespace {

/// The drivers by kind. Every allocation reads it, so that it has no lock, which another thread might hold at a fork.
using Drivers = std::array<std::atomic<DeviceDriver*>, 256>;
Drivers& drivers() {
  static Drivers& all = *[] {
    auto* const made = new Drivers{};
    made->front() = make_cpu_driver().release();
    return made;
  }();
  return all;
}

}  // namespace

std::uint8_t register_driver(std::unique_ptr<DeviceDriver> added) {
  DeviceDriver* const own = added.release();
  for (std::size_t kind = 0; kind < drivers().size(); ++kind)
    if (DeviceDriver* none = nullptr; drivers()[kind].compare_exchange_strong(none, own))
      return static_cast<std::uint8_t>(kind);
  fail(Fault::usage, "device: there are ", drivers().size(), " kinds of devices already");
}

DeviceDriver& driver(Device device) {
  DeviceDriver* const known = drivers()[device.kind];
  NEURIM_ASSERT(known);
  return *known;
}

Device device_named(std::string_view wanted) {
  if (wanted == "auto") wanted = driver(Device{}).name();
  const auto colon = wanted.find(':');
  const std::string_view kind = wanted.substr(0, colon);
  unsigned index = 0;
  bool valid = true;
  if (colon != std::string_view::npos) {
    const auto [end, error] = std::from_chars(wanted.data() + colon + 1, wanted.data() + wanted.size(), index);
    valid = error == std::errc() && end == wanted.data() + wanted.size() && index < 256;
  }
  std::vector<std::string> known;
  for (std::size_t i = 0; i < drivers().size() && drivers()[i]; ++i) {
    known.emplace_back(drivers()[i].load()->name());
    if (valid && known.back() == kind) return {static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(index)};
  }
  fail(Fault::usage, "device: '", wanted, "' is not known here; this build has ", join(known, ", "));
}

void append(std::string& out, Device device) {
  out += driver(device).name();
  if (device.kind != 0) append(out, ':'), append(out, static_cast<int>(device.index));
}

Stream& default_stream(Device device) {
  auto& stream = per_thread<std::map<std::pair<int, int>, std::unique_ptr<Stream>>>()[{device.kind, device.index}];
  if (!stream) stream = driver(device).stream(device.index);
  return *stream;
}

Storage::Storage(Device device, std::size_t bytes)
    : device_(device), bytes_(bytes), data_(driver(device).allocate(std::max<std::size_t>(bytes, 1), device.index)) {}

Storage::Storage(void* data, std::size_t bytes, std::shared_ptr<void> owner)
    : device_(), bytes_(bytes), data_(data), owner_(std::move(owner)) {}

Storage::~Storage() {
  if (!owner_) driver(device_).release(data_, std::max<std::size_t>(bytes_, 1), device_.index);
}

}  // namespace neurim
