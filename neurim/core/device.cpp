#include "neurim/core/device.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>

#include "neurim/base/error.h"
#include "neurim/core/cpu_device.h"

namespace neurim {

namespace {

struct Drivers {
  std::mutex mutex;
  std::vector<std::unique_ptr<DeviceDriver>> list;
  Drivers() { list.push_back(make_cpu_driver()); }
};
Drivers& drivers() {
  static Drivers all;
  return all;
}

}  // namespace

std::uint8_t register_driver(std::unique_ptr<DeviceDriver> added) {
  const std::lock_guard lock(drivers().mutex);
  drivers().list.push_back(std::move(added));
  return static_cast<std::uint8_t>(drivers().list.size() - 1);
}

DeviceDriver& driver(Device device) {
  const std::lock_guard lock(drivers().mutex);
  NEURIM_ASSERT(device.kind < drivers().list.size());
  return *drivers().list[device.kind];
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
  const std::lock_guard lock(drivers().mutex);
  std::vector<std::string> known;
  for (std::size_t i = 0; i < drivers().list.size(); ++i) {
    known.emplace_back(drivers().list[i]->name());
    if (valid && known.back() == kind) return {static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(index)};
  }
  fail(Fault::usage, "device: '", wanted, "' is not known here; this build has ", join(known, ", "));
}

void append(std::string& out, Device device) {
  out += driver(device).name();
  if (device.kind != 0) append(out, ':'), append(out, static_cast<int>(device.index));
}

Stream& default_stream(Device device) {
  thread_local std::map<std::pair<int, int>, std::unique_ptr<Stream>> streams;
  auto& stream = streams[{device.kind, device.index}];
  if (!stream) stream = driver(device).stream(device.index);
  return *stream;
}

Storage::Storage(Device device, std::size_t bytes)
    : device_(device), bytes_(bytes), data_(driver(device).allocate(std::max<std::size_t>(bytes, 1), device.index)) {}

Storage::~Storage() { driver(device_).release(data_, std::max<std::size_t>(bytes_, 1), device_.index); }

}  // namespace neurim
