// Described machines: devices, nodes and links of clusters, each figure with its source.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "neurim/distributed/group_costs.h"

namespace neurim {

/// A machine of many devices. Bandwidths are bus bandwidths of an all-reduce: 2 (n - 1) / n times its bytes by its
/// time.
struct Fabric {
  std::string name;               ///< as `neurim simulate machine=` takes it
  std::string about;              ///< devices and network in one line
  std::int64_t node_devices = 1;  ///< devices in a node
  std::int64_t nodes = 0;         ///< nodes at most; 0: any number
  double memory = 0;              ///< bytes of a device; 0: unknown
  LinkCosts link;      ///< of a device to another one of its node: seconds of a message, bytes a second of each device
  LinkCosts network;   ///< of a node to another one: seconds of a message, bytes a second of all its adapters together
  std::string source;  ///< where the figures come from, and which of them are assumptions
};

/// The machines that are known by name.
const std::vector<Fabric>& described_machines();

/// The machine of this name. Throws Error(usage) with the nearest name and all others if there is none.
const Fabric& machine_named(std::string_view name);

}  // namespace neurim
