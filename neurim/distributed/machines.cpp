#include "neurim/distributed/machines.h"

#include "neurim/base/error.h"

namespace neurim {

namespace {

constexpr double kGiga = 1e9;

// NCCL's cost table (src/graph/tuning.cc, 2.18.5) gives a step of its protocol LL128 1.9 us over NVLink in a ring and
// 8.5 us over the network in a tree. Two nodes of 8 GPUs then take 44 us for a small sum; NCCL issue 1244 measures 46
// to 48.
constexpr double kNvLinkLatency = 1.9e-6, kGpuNetworkLatency = 8.5e-6;
// 18 links of 25 GB/s, 450 GB/s, of which a ring reaches 365 to 370 (NCCL issue 1455, nccl-tests issue 212).
constexpr LinkCosts kH100Link{kNvLinkLatency, 370 * kGiga};
// 8 adapters of 400 Gb/s; 248 nodes reach 350 GB/s in sums of 512 MB (nccl-tests issue 283).
constexpr LinkCosts kH100Network{kGpuNetworkLatency, 350 * kGiga};
// 12 links of 25 GB/s; published measurements in a node are 230 to 250 GB/s.
constexpr LinkCosts kA100Link{kNvLinkLatency, 230 * kGiga};
// 8 adapters of 200 Gb/s; NVIDIA measures 192 GB/s (NCCL issue 812), 24 GB/s an adapter.
constexpr LinkCosts kA100Network{kGpuNetworkLatency, 192 * kGiga};
constexpr double kHdr200 = 24 * kGiga, kHdr100 = 12 * kGiga;  // bytes a second of an adapter, as reached

constexpr const char* kH100LinkSource = "in a node 370 GB/s: NCCL issue 1455, nccl-tests issue 212; ";
constexpr const char* kH100NetworkSource = "network 350 GB/s of 8 x 400 Gb/s: nccl-tests issue 283; ";
constexpr const char* kA100Source =
    "in a node 230 GB/s: published nccl-tests of 8 A100; network 192 GB/s of 8 x 200 Gb/s: NCCL issue 812; ";
constexpr const char* kLatencySource = "latencies: NCCL 2.18.5, src/graph/tuning.cc";

std::vector<Fabric> described() {
  constexpr double kMemory80 = 80 * kGiga, kMemory40 = 40 * kGiga;
  return {
      {"dgx-h100", "one DGX H100: 8 H100 80 GB on NVSwitch", 8, 1, kMemory80, kH100Link, LinkCosts{},
       text(kH100LinkSource, kLatencySource, "; memory: MLPerf Training v3.0, NVIDIA, systems/dgxh100")},
      {"superpod-h100", "DGX SuperPOD of DGX H100: 4 scalable units, NDR 400 Gb/s for each GPU", 8, 127, kMemory80,
       kH100Link, kH100Network,
       text(kH100LinkSource, kH100NetworkSource, kLatencySource,
            "; 127 nodes: NVIDIA's DGX SuperPOD H100 reference architecture, table of the compute fabric")},
      {"eos-dfw", "NVIDIA's 1452 DGX H100 nodes of MLPerf Training v4.0, NDR 400 Gb/s for each GPU", 8, 1452, kMemory80,
       kH100Link, kH100Network,
       text(kH100LinkSource, kH100NetworkSource, kLatencySource,
            "; 1452 nodes: MLPerf Training v4.0, NVIDIA, eos-dfw_n1452")},
      {"dgx-a100", "DGX A100 nodes: 8 A100 80 GB on NVSwitch, HDR 200 Gb/s for each GPU", 8, 540, kMemory80, kA100Link,
       kA100Network, text(kA100Source, kLatencySource, "; 540 nodes: MLPerf Training v1.1, NVIDIA, dgxa100_n540")},
      {"karolina-gpu", "Karolina at IT4Innovations, GPU nodes: 8 A100 40 GB; 4 x HDR 200 Gb/s a node, not confirmed", 8,
       72, kMemory40, kA100Link, LinkCosts{kGpuNetworkLatency, 4 * kHdr200},
       "nodes and GPUs: WarpX's page on Karolina; the number of adapters of a GPU node is an assumption, as "
       "docs.it4i.cz/karolina/network speaks of 100 Gb/s a port: measure, and give network_gbs; otherwise as dgx-a100"},
      {"barbora-gpu", "Barbora at IT4Innovations, GPU nodes: 4 V100 with NVLink 2.0, 2 x HDR 100 Gb/s a node", 4, 8,
       16 * kGiga, LinkCosts{kNvLinkLatency, 120 * kGiga}, LinkCosts{kGpuNetworkLatency, 2 * kHdr100},
       text("nodes and adapters: docs.it4i.cz, Barbora, compute nodes; assumptions: 16 GB of memory, and 120 GB/s of 6 "
            "NVLinks of 25 GB/s, the share that H100 reaches; ",
            kLatencySource)},
      {"barbora-cpu", "Barbora at IT4Innovations, CPU nodes: one device a node, HDR 100 Gb/s", 1, 192, 192 * kGiga,
       LinkCosts{}, LinkCosts{2e-6, kHdr100},
       "nodes, memory, adapter: docs.it4i.cz, Barbora, compute nodes; 12 GB/s as adapters of twice the rate reach 24; "
       "a "
       "message of 2 us is an assumption: the network alone has 0.6 us (docs.it4i.cz/barbora/network)"},
  };
}

}  // namespace

const std::vector<Fabric>& described_machines() {
  static const std::vector<Fabric>& machines = *new std::vector<Fabric>(described());
  return machines;
}

const Fabric& machine_named(std::string_view name) {
  std::vector<std::string> names;
  for (const Fabric& machine : described_machines()) {
    if (machine.name == name) return machine;
    names.push_back(machine.name);
  }
  const std::string near = nearest(name, names);
  fail(Fault::usage, "machine: there is no '", name, "'; ", near.empty() ? "" : text("did you mean '", near, "'? "),
       "known are ", join(names, ", "), ", and own with node_devices, node_gbs, network_gbs and their kin");
}

}  // namespace neurim
