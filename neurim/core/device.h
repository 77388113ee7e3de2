// The interface that a device backend fills: memory, and streams that execute in order.
#pragma once
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "neurim/core/launch.h"
#include "neurim/core/types.h"

namespace neurim {

/// An ordered queue of work on one device. Copies and runs are asynchronous until wait(); host memory that they use has
/// to live until then.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void upload(void* device, const void* host, std::size_t bytes) = 0;    ///< from the host to the device
  virtual void download(void* host, const void* device, std::size_t bytes) = 0;  ///< from the device to the host
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;          ///< within the device
  /// Executes the calls in order. `pointers` is the flat table that the calls index; `status` is host memory. All three
  /// live until wait().
  virtual void run(std::span<const Call> calls, void* const* pointers, std::uint32_t* status) = 0;
  virtual void wait() = 0;  ///< until all is done; throws what went wrong since the last wait
};

/// One kind of device.
class DeviceDriver {
 public:
  virtual ~DeviceDriver() = default;
  virtual std::string_view name() const = 0;                             ///< "cpu": what device_named() knows it by
  virtual void* allocate(std::size_t bytes, int index) = 0;              ///< 64-byte aligned; throws Error(resource)
  virtual void release(void* memory, std::size_t bytes, int index) = 0;  ///< `bytes` as they were allocated
  virtual std::unique_ptr<Stream> stream(int index) = 0;                 ///< a new stream on the device of this index
};

/// Registers a kind of device; the result is Device::kind. The CPU registers first and is kind 0.
std::uint8_t register_driver(std::unique_ptr<DeviceDriver> driver);
DeviceDriver& driver(Device device);  ///< of its kind; throws Error(usage) if there is none
/// The device called `name` ("cpu", "test", "test:1"); throws Error(usage) naming the known ones.
Device device_named(std::string_view name);
/// The stream that eager work of the calling thread uses on this device.
Stream& default_stream(Device device);

/// A block of device memory.
class Storage {
 public:
  Storage(Device device, std::size_t bytes);  ///< uninitialised; throws Error(resource)
  /// Memory of the host that belongs to `owner`, which lives as long as this; aligned to 16 bytes.
  Storage(void* data, std::size_t bytes, std::shared_ptr<void> owner);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  Device device() const { return device_; }     ///< where the memory lies
  void* data() const { return data_; }          ///< a device pointer, 64-byte aligned where the memory is its own
  std::size_t bytes() const { return bytes_; }  ///< as asked for
  /// Whoever changes the data of a stored tensor counts it up, so that what was made of them is known to be old.
  std::uint64_t version = 0;
  /// Held by those that need the data as they are now, so that whoever changes them makes a copy first; null: nobody.
  std::shared_ptr<void> frozen;

 private:
  Device device_;
  std::size_t bytes_;
  void* data_;
  std::shared_ptr<void> owner_;  // null: the memory is its own
};

/// The number of compute threads, 1 to 1024; by default what the machine and its cgroup allow. Set before the first
/// use.
void set_threads(std::int64_t threads);
int threads();  ///< their number
class ThreadPool;
/// Those threads: one pool for all streams of the process. A stream that finds it at work computes in its own thread.
std::shared_ptr<ThreadPool> compute_pool();

}  // namespace neurim
