// NCCL and the CUDA runtime as far as nccl_group calls them, for ranks that are threads of one process: computes on the
// CPU what they would, and notes each call. A pointer that is no memory of the "GPU" is an error.
#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "neurim/core/float16.h"

namespace {

struct UniqueId {
  std::array<char, 128> bytes;
};
constexpr int kF16 = 6, kF32 = 7, kF64 = 8, kBf16 = 9, kSum = 0, kProduct = 1, kMax = 2;
constexpr int kDone = 0, kInvalid = 4, kNotReady = 600, kNoDevice = 101;

/// The ranks of one unique id.
struct World {
  int size = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::pair<const void*, void*>> memory;  // of the operation that is under way: from and to, by ranks
  int came = 0;
  std::uint64_t operation = 0;
};
struct Rank {
  World* world;
  int rank;
};

std::mutex all_mutex;
std::map<std::string, World> worlds;
std::map<char*, std::size_t> allocated;
std::vector<std::string> calls;
int ids = 0;
bool hangs = false;
thread_local int depth = 0, device_of_thread = -1;
thread_local std::vector<std::function<void()>> grouped;

void note(const std::string& call) {
  const std::lock_guard lock(all_mutex);
  calls.push_back(call);
}

bool on_device(const void* pointer, std::size_t bytes) {
  const std::lock_guard lock(all_mutex);
  const char* const at = static_cast<const char*>(pointer);
  return std::any_of(allocated.begin(), allocated.end(),
                     [&](const auto& one) { return at >= one.first && at + bytes <= one.first + one.second; });
}

std::size_t width(int type) { return type == kF64 ? 8 : type == kF32 ? 4 : 2; }
double read(const void* memory, int type, std::size_t i) {
  if (type == kF64) return static_cast<const double*>(memory)[i];
  if (type == kF32) return static_cast<const float*>(memory)[i];
  const std::uint16_t word = static_cast<const std::uint16_t*>(memory)[i];
  return type == kF16 ? neurim::from_f16(word) : neurim::from_bf16(word);
}
void write(void* memory, int type, std::size_t i, double value) {
  if (type == kF64) static_cast<double*>(memory)[i] = value;
  if (type == kF32) static_cast<float*>(memory)[i] = static_cast<float>(value);
  if (type == kF16) static_cast<std::uint16_t*>(memory)[i] = neurim::to_f16(static_cast<float>(value));
  if (type == kBf16) static_cast<std::uint16_t*>(memory)[i] = neurim::to_bf16(static_cast<float>(value));
}
double reduced(int op, double a, double b) {
  return op == kSum ? a + b : op == kProduct ? a * b : op == kMax ? std::max(a, b) : std::min(a, b);
}

/// Waits until all ranks are here; the last one runs `all` for all of them.
void meet(const Rank& own, const void* from, void* to, const std::function<void(World&)>& all) {
  World& world = *own.world;
  std::unique_lock lock(world.mutex);
  world.memory.resize(static_cast<std::size_t>(world.size));
  world.memory[static_cast<std::size_t>(own.rank)] = {from, to};
  const std::uint64_t operation = world.operation;
  if (++world.came == world.size) {
    all(world);
    world.came = 0, ++world.operation;
    world.changed.notify_all();
  } else {
    world.changed.wait(lock, [&] { return world.operation != operation; });
  }
}

int begin(const char* name, void* communicator, const void* from, void* to, std::size_t count, int type,
          const std::string& more, const std::function<void(World&)>& all) {
  const Rank& own = *static_cast<Rank*>(communicator);
  note("rank " + std::to_string(own.rank) + " " + name + " count=" + std::to_string(count) +
       " type=" + std::to_string(type) + more);
  if (!on_device(from, count * width(type)) || !on_device(to, count * width(type))) return kInvalid;
  if (hangs) return kDone;
  const auto run = [own, from, to, all] { meet(own, from, to, all); };
  depth > 0 ? grouped.push_back(run) : run();
  return kDone;
}

std::function<void(World&)> reduction(std::size_t count, int type, int op, int root) {
  return [=](World& world) {
    for (std::size_t i = 0; i < count; ++i) {
      double value = read(world.memory[0].first, type, i);
      for (std::size_t r = 1; r < world.memory.size(); ++r)
        value = reduced(op, value, read(world.memory[r].first, type, i));
      for (std::size_t r = 0; r < world.memory.size(); ++r)
        if (root < 0 || static_cast<int>(r) == root) write(world.memory[r].second, type, i, value);
    }
  };
}

}  // namespace

extern "C" {

// Of the test: the calls so far, a line each; whether operations never end.
const char* fake_nccl_calls() {
  static std::string all;
  const std::lock_guard lock(all_mutex);
  all.clear();
  for (const std::string& call : calls) all += call + '\n';
  return all.c_str();
}
void fake_nccl_hangs(bool value) { hangs = value; }

int ncclGetUniqueId(UniqueId* id) {
  const std::lock_guard lock(all_mutex);
  std::strcpy(id->bytes.data(), ("id " + std::to_string(++ids)).c_str());
  return kDone;
}
int ncclCommInitRank(void** communicator, int size, UniqueId id, int rank) {
  const std::lock_guard lock(all_mutex);
  World& world = worlds[id.bytes.data()];
  world.size = size;
  *communicator = new Rank{&world, rank};
  calls.push_back("rank " + std::to_string(rank) + " ncclCommInitRank of " + std::to_string(size) + " on device " +
                  std::to_string(device_of_thread));
  return kDone;
}
int ncclCommDestroy(void* communicator) {
  delete static_cast<Rank*>(communicator);
  return kDone;
}
int ncclCommAbort(void* communicator) {
  note("rank " + std::to_string(static_cast<Rank*>(communicator)->rank) + " ncclCommAbort");
  return ncclCommDestroy(communicator);
}
int ncclCommGetAsyncError(void* /*communicator*/, int* error) {
  *error = kDone;
  return kDone;
}
int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int op, void* communicator, void* /*s*/) {
  return begin("ncclAllReduce", communicator, from, to, count, type, " op=" + std::to_string(op),
               reduction(count, type, op, -1));
}
int ncclReduce(const void* from, void* to, std::size_t count, int type, int op, int root, void* communicator,
               void* /*stream*/) {
  return begin("ncclReduce", communicator, from, to, count, type, " root=" + std::to_string(root),
               reduction(count, type, op, root));
}
int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root, void* communicator,
                  void* /*stream*/) {
  return begin("ncclBroadcast", communicator, from, to, count, type, " root=" + std::to_string(root),
               [=](World& world) {
                 for (const auto& [own, other] : world.memory)
                   if (other != world.memory[static_cast<std::size_t>(root)].first)
                     std::memcpy(other, world.memory[static_cast<std::size_t>(root)].first, count * width(type));
               });
}
int ncclGroupStart() { return ++depth, kDone; }
int ncclGroupEnd() {
  if (--depth > 0) return kDone;
  for (const auto& run : grouped) run();
  grouped.clear();
  return kDone;
}
const char* ncclGetErrorString(int error) { return error == kInvalid ? "invalid argument" : "an error"; }

int cudaGetDeviceCount(int* count) {
  const char* const said = std::getenv("FAKE_NCCL_DEVICES");
  *count = said ? std::atoi(said) : 8;
  return kDone;
}
int cudaSetDevice(int device) {
  device_of_thread = device;
  return device < 8 ? kDone : kNoDevice;
}
int cudaMalloc(void** memory, std::size_t bytes) {
  *memory = std::malloc(bytes);
  const std::lock_guard lock(all_mutex);
  allocated[static_cast<char*>(*memory)] = bytes;
  return kDone;
}
int cudaFree(void* memory) {
  const std::lock_guard lock(all_mutex);
  allocated.erase(static_cast<char*>(memory));
  std::free(memory);
  return kDone;
}
int cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, int kind, void* /*stream*/) {
  if (!on_device(kind == 1 ? to : from, bytes)) return kInvalid;
  std::memcpy(to, from, bytes);
  return kDone;
}
int cudaStreamCreate(void** stream) {
  *stream = nullptr;
  return kDone;
}
int cudaStreamQuery(void* /*stream*/) { return hangs ? kNotReady : kDone; }
int cudaStreamDestroy(void* /*stream*/) { return kDone; }
const char* cudaGetErrorString(int error) { return error == kNoDevice ? "invalid device ordinal" : "an error"; }
}
