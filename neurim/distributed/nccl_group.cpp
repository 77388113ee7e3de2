#include "neurim/distributed/nccl_group.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/core/float16.h"
#include "neurim/distributed/flight_recorder.h"
#include "neurim/distributed/loaded_library.h"

namespace neurim {

namespace {

// What the headers of NCCL 2 and of the CUDA runtime say of their binary interfaces.
struct UniqueId {
  std::array<char, 128> bytes;
};
using Communicator = void*;
using Stream = void*;
enum NcclResult : int { kNcclDone = 0, kNcclInProgress = 7 };
enum NcclType : int { kNcclF16 = 6, kNcclF32 = 7, kNcclF64 = 8, kNcclBf16 = 9 };
enum CudaError : int { kCudaDone = 0, kCudaNotReady = 600 };
enum CudaCopy : int { kToDevice = 1, kToHost = 2 };

constexpr std::array kReductions{0, 3, 2, 1};  // of sum, min, max, product
constexpr auto kLook = std::chrono::microseconds(20);

/// The functions of both libraries that are called.
struct Nccl {
  int (*get_unique_id)(UniqueId*);
  int (*init_rank)(Communicator*, int, UniqueId, int);
  int (*destroy)(Communicator);
  int (*abort)(Communicator);
  int (*async_error)(Communicator, int*);
  int (*all_reduce)(const void*, void*, std::size_t, int, int, Communicator, Stream);
  int (*reduce)(const void*, void*, std::size_t, int, int, int, Communicator, Stream);
  int (*broadcast)(const void*, void*, std::size_t, int, int, Communicator, Stream);
  int (*group_start)();
  int (*group_end)();
  const char* (*error_string)(int);
  int (*count_devices)(int*);
  int (*set_device)(int);
  int (*allocate)(void**, std::size_t);
  int (*free)(void*);
  int (*copy)(void*, const void*, std::size_t, int, Stream);
  int (*create_stream)(Stream*);
  int (*query_stream)(Stream);
  int (*destroy_stream)(Stream);
  const char* (*cuda_error_string)(int);

  Nccl() {
    constexpr const char* kInstead = "set NEURIM_BACKEND=tcp";
    const LoadedLibrary nccl("NCCL", "NEURIM_NCCL_LIBRARY", {"libnccl.so.2"}, kInstead);
    const LoadedLibrary cuda("CUDA", "NEURIM_CUDA_LIBRARY", {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"},
                             kInstead);
    nccl.load(get_unique_id, "ncclGetUniqueId"), nccl.load(init_rank, "ncclCommInitRank");
    nccl.load(destroy, "ncclCommDestroy"), nccl.load(abort, "ncclCommAbort");
    nccl.load(async_error, "ncclCommGetAsyncError"), nccl.load(all_reduce, "ncclAllReduce");
    nccl.load(reduce, "ncclReduce"), nccl.load(broadcast, "ncclBroadcast");
    nccl.load(group_start, "ncclGroupStart"), nccl.load(group_end, "ncclGroupEnd");
    nccl.load(error_string, "ncclGetErrorString");
    cuda.load(count_devices, "cudaGetDeviceCount"), cuda.load(set_device, "cudaSetDevice"),
        cuda.load(allocate, "cudaMalloc"), cuda.load(free, "cudaFree");
    cuda.load(copy, "cudaMemcpyAsync"), cuda.load(create_stream, "cudaStreamCreate");
    cuda.load(query_stream, "cudaStreamQuery"), cuda.load(destroy_stream, "cudaStreamDestroy");
    cuda.load(cuda_error_string, "cudaGetErrorString");
  }
  void check(int result, const char* call) const {
    if (result != kNcclDone) fail(Fault::failure, call, ": ", error_string(result));
  }
  void check_cuda(int error, const char* call) const {
    if (error != kCudaDone) fail(Fault::failure, call, ": ", cuda_error_string(error));
  }
};

class NcclGroup final : public ProcessGroup {
 public:
  NcclGroup(std::shared_ptr<ProcessGroup> control, const Nccl& nccl, int device, std::chrono::milliseconds timeout)
      : nccl_(nccl), control_(std::move(control)), device_(device), timeout_(timeout) {
    UniqueId id{};
    std::string why;  // a rank that cannot take part says so before the others wait for it
    try {
      nccl_.check_cuda(nccl_.set_device(device_), "cudaSetDevice");
      nccl_.check_cuda(nccl_.create_stream(&stream_), "cudaStreamCreate");
      if (rank() == 0) nccl_.check(nccl_.get_unique_id(&id), "ncclGetUniqueId");
    } catch (const Error& error) {
      why = error.what();
    }
    agree(*control_, why);
    control_->broadcast(std::as_writable_bytes(std::span(id.bytes)), 0);
    nccl_.check(nccl_.init_rank(&communicator_, size(), id, rank()), "ncclCommInitRank");
  }
  ~NcclGroup() override {
    if (communicator_) nccl_.destroy(communicator_);
    for (void* const memory : memory_) nccl_.free(memory);
    nccl_.destroy_stream(stream_);
  }
  /// Throws on all ranks what one of them says; "": all is well.
  static void agree(ProcessGroup& control, const std::string& why) {
    const std::vector<std::string> said = control.all_gather(why);
    for (std::size_t rank = 0; rank < said.size(); ++rank)
      if (!said[rank].empty()) fail(Fault::failure, "rank ", rank, ": ", said[rank]);
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  int rank() const override { return control_->rank(); }
  int size() const override { return control_->size(); }
  std::string backend() const override { return "nccl"; }

  void all_reduce(std::span<float> values, Reduction reduction, DType sent) override {
    with_sent("all_reduce", values, sent, [&](void* memory, std::size_t, NcclType type) {
      call("ncclAllReduce",
           nccl_.all_reduce(memory, memory, values.size(), type, of(reduction), communicator_, stream_));
    });
  }
  void all_reduce(std::span<double> values, Reduction reduction) override {
    run("all_reduce", std::as_writable_bytes(values), [&](void* memory) {
      call("ncclAllReduce",
           nccl_.all_reduce(memory, memory, values.size(), kNcclF64, of(reduction), communicator_, stream_));
    });
  }
  void reduce_scatter(std::span<float> values, std::span<const std::size_t> bounds, DType sent) override {
    of_parts("reduce_scatter", values, bounds, sent, [&](void* part, std::size_t count, NcclType type, int owner) {
      call("ncclReduce", nccl_.reduce(part, part, count, type, of(Reduction::sum), owner, communicator_, stream_));
    });
  }
  void all_gather(std::span<float> values, std::span<const std::size_t> bounds, DType sent) override {
    of_parts("all_gather", values, bounds, sent, [&](void* part, std::size_t count, NcclType type, int owner) {
      call("ncclBroadcast", nccl_.broadcast(part, part, count, type, owner, communicator_, stream_));
    });
  }

  std::vector<std::string> all_gather(std::string_view bytes) override { return control_->all_gather(bytes); }
  void broadcast(std::span<std::byte> bytes, int root) override { control_->broadcast(bytes, root); }
  std::vector<std::string> all_to_all(const std::vector<std::string>& bytes) override {
    return control_->all_to_all(bytes);
  }
  void send(std::span<const std::byte> bytes, int to) override { control_->send(bytes, to); }
  void receive(std::span<std::byte> bytes, int from) override { control_->receive(bytes, from); }
  void abandon(const std::string& why) override { control_->abandon(why); }
  std::shared_ptr<ProcessGroup> duplicate() override {
    return std::make_shared<NcclGroup>(control_->duplicate(), nccl_, device_, timeout_);
  }
  std::shared_ptr<ProcessGroup> subgroup(const std::vector<int>& ranks) override {
    std::shared_ptr<ProcessGroup> part = control_->subgroup(ranks);
    return ranks.size() == 1 ? part : std::make_shared<NcclGroup>(std::move(part), nccl_, device_, timeout_);
  }
  bool many_threads() const override { return control_->many_threads(); }
  std::shared_ptr<FlightRecorder> recorder() const override { return control_->recorder(); }
  std::string last_operations() const override { return control_->last_operations(); }
  double seconds_in_operations() const override { return control_->seconds_in_operations(); }
  double seconds_behind() const override { return control_->seconds_behind(); }
  std::string under_way(double& seconds) const override { return control_->under_way(seconds); }

 private:
  static int of(Reduction reduction) { return kReductions[static_cast<std::size_t>(reduction)]; }
  void call(const char* name, int result) const { nccl_.check(result, name); }

  /// Copies the bytes to the GPU, does there what `begin` begins, and copies them back.
  void run(const char* name, std::span<std::byte> bytes, const std::function<void(void* memory)>& begin) {
    if (!communicator_) fail(Fault::failure, "rank ", rank(), ": ", name, " of NCCL after one that has failed");
    if (bytes.empty()) return;
    const std::shared_ptr<FlightRecorder> recorder = control_->recorder();
    const std::uint64_t number = recorder ? recorder->begin({++operations_, text(name, " of NCCL"), bytes.size()}) : 0;
    try {
      nccl_.check_cuda(nccl_.set_device(device_), "cudaSetDevice");  // of this thread
      grow(bytes.size());
      nccl_.check_cuda(nccl_.copy(memory_.back(), bytes.data(), bytes.size(), kToDevice, stream_), "cudaMemcpyAsync");
      begin(memory_.back());
      wait(name);  // before the copy, which would wait for ever where NCCL does
      nccl_.check_cuda(nccl_.copy(bytes.data(), memory_.back(), bytes.size(), kToHost, stream_), "cudaMemcpyAsync");
      wait(name);
    } catch (...) {
      if (recorder) recorder->end(number, true);
      throw;
    }
    if (recorder) recorder->end(number, false);
  }

  /// Memory that is too small stays until the end: to free it would wait for what other groups do on the GPU.
  void grow(std::size_t bytes) {
    if (bytes <= memory_size_) return;
    const std::size_t size = std::max(bytes, 2 * memory_size_);
    void* memory = nullptr;
    nccl_.check_cuda(nccl_.allocate(&memory, size), "cudaMalloc");
    memory_.push_back(memory);
    memory_size_ = size;
  }

  /// NCCL waits for a lost rank for ever: this does not.
  void wait(const char* name) {
    const auto until = std::chrono::steady_clock::now() + timeout_;
    for (;;) {
      const int state = nccl_.query_stream(stream_);
      if (state == kCudaDone) return;
      int error = kNcclDone;
      nccl_.async_error(communicator_, &error);
      const bool late = std::chrono::steady_clock::now() > until;
      if (state != kCudaNotReady || late || (error != kNcclDone && error != kNcclInProgress)) {
        nccl_.abort(std::exchange(communicator_, nullptr));
        control_->barrier();  // throws, and names the rank, where one is lost
        fail(Fault::failure, "rank ", rank(), ": ", name, " of NCCL ",
             late                     ? "did not end in time"
             : state == kCudaNotReady ? text("failed: ", nccl_.error_string(error))
                                      : text("failed: ", nccl_.cuda_error_string(state)));
      }
      std::this_thread::sleep_for(kLook);
    }
  }

  /// Calls begin(memory, bytes of a number, type) for the numbers as they are sent.
  void with_sent(const char* name, std::span<float> values, DType sent,
                 const std::function<void(void* memory, std::size_t width, NcclType type)>& begin) {
    require(sent == DType::f32 || sent == DType::bf16 || sent == DType::f16, "numbers are sent as ", sent,
            "; known are f32, bf16, f16");
    if (sent == DType::f32)
      return run(name, std::as_writable_bytes(values), [&](void* memory) { begin(memory, sizeof(float), kNcclF32); });
    const bool half = sent == DType::f16;
    std::vector<std::uint16_t> words(values.size());
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = half ? to_f16(values[i]) : to_bf16(values[i]);
    run(name, std::as_writable_bytes(std::span(words)),
        [&](void* memory) { begin(memory, sizeof(std::uint16_t), half ? kNcclF16 : kNcclBf16); });
    for (std::size_t i = 0; i < words.size(); ++i) values[i] = half ? from_f16(words[i]) : from_bf16(words[i]);
  }

  /// The same for the part of each rank, as one operation.
  void of_parts(const char* name, std::span<float> values, std::span<const std::size_t> bounds, DType sent,
                const std::function<void(void* part, std::size_t count, NcclType type, int owner)>& begin) {
    require(std::ssize(bounds) == size() + 1 && bounds.front() == 0 && bounds.back() == values.size() &&
                std::is_sorted(bounds.begin(), bounds.end()),
            "the bounds of ", values.size(), " numbers are ", size() + 1, " offsets from 0 to ", values.size());
    with_sent(name, values, sent, [&](void* memory, std::size_t width, NcclType type) {
      call("ncclGroupStart", nccl_.group_start());
      for (std::size_t owner = 0; owner + 1 < bounds.size(); ++owner)
        if (bounds[owner + 1] > bounds[owner])
          begin(static_cast<std::byte*>(memory) + bounds[owner] * width, bounds[owner + 1] - bounds[owner], type,
                static_cast<int>(owner));
      call("ncclGroupEnd", nccl_.group_end());
    });
  }

  const Nccl nccl_;
  const std::shared_ptr<ProcessGroup> control_;
  const int device_;
  const std::chrono::milliseconds timeout_;
  Communicator communicator_ = nullptr;
  Stream stream_ = nullptr;
  std::vector<void*> memory_;  // on the GPU; the last one is used
  std::size_t memory_size_ = 0;
  std::uint64_t operations_ = 0;
};

}  // namespace

std::shared_ptr<ProcessGroup> nccl_group(std::shared_ptr<ProcessGroup> control, int local_rank,
                                         std::chrono::milliseconds timeout) {
  std::optional<Nccl> nccl;
  std::string why;
  int devices = 0;
  try {
    nccl.emplace();
    nccl->check_cuda(nccl->count_devices(&devices), "cudaGetDeviceCount");
    require(devices > 0, "there is no GPU");
  } catch (const Error& error) {
    why = error.what();
  }
  NcclGroup::agree(*control, why);
  return std::make_shared<NcclGroup>(std::move(control), *nccl, local_rank % devices, timeout);
}

}  // namespace neurim
