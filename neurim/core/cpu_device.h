// The CPU as a device: host memory, and a stream that executes at once on the compute pool.
#pragma once
#include <memory>

#include "neurim/core/device.h"

namespace neurim {

std::unique_ptr<DeviceDriver> make_cpu_driver();

/// Executes calls in the calling thread and the pool.
void run_on_cpu(ThreadPool& pool, std::span<const Call> calls, void* const* pointers, std::uint32_t* status);

}  // namespace neurim
