#include "neurim/distributed/mpi_wire.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <list>
#include <thread>
#include <vector>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/distributed/loaded_library.h"
#include "neurim/hardware/machine.h"

namespace neurim {

namespace {

constexpr int kHeads = 7001, kBytes = 7002;    // tags of messages
constexpr std::size_t kMostFrame = 64u << 20;  // bytes of a message
constexpr std::size_t kMostHost = 1024;        // characters
constexpr auto kLastWords = std::chrono::milliseconds(200);
constexpr int kSpins = 2000;  // tests of a request before others may run

/// That of the launcher: Open MPI, MPICH, or its kin such as Intel MPI.
LoadedLibrary library_of(const Place& place) {
  std::vector<std::string> names{"libmpi.so.40", "libmpich.so.12", "libmpi.so.12"};
  if (place.launcher.find("MPICH") != std::string::npos) std::rotate(names.begin(), names.begin() + 1, names.end());
  return {"MPI", "NEURIM_MPI_LIBRARY", std::move(names),
          "set NEURIM_ADDRESS=HOST:PORT for all processes to meet over TCP", true};  // Open MPI's own parts look in it
}

/// What differs between libraries: pointers to objects of Open MPI, numbers of MPICH.
template <class Handle>
struct Handles {
  Handle world, byte, errors_return;
  void* ignored_status;
};
Handles<void*> open_mpi_handles(const LoadedLibrary& library) {
  return {library.symbol("ompi_mpi_comm_world"), library.symbol("ompi_mpi_byte"),
          library.symbol("ompi_mpi_errors_return"), nullptr};
}
// NOLINTNEXTLINE(performance-no-int-to-ptr): MPI_STATUS_IGNORE is this number there
Handles<int> mpich_handles() { return {0x44000000, 0x4c00010d, 0x54000001, reinterpret_cast<void*>(std::intptr_t{1})}; }

std::atomic<int (*)()> finalize{nullptr};  // at the end of the process, unless ranks were lost
void finalize_at_exit(int status, void* /*unused*/) {
  int (*const end)() = finalize.load();
  if (end && status == 0) end();  // else the launcher ends the others, who would wait for us
}

template <class Handle>
class MpiWire final : public Wire {
 public:
  MpiWire(const LoadedLibrary& library, const Handles<Handle>& handles, const Place& place) : handles_(handles) {
    const auto load = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(library.symbol(name));
    };
    load(isend_, "MPI_Isend"), load(irecv_, "MPI_Irecv"), load(test_, "MPI_Test");
    const auto call = [&](const char* name, auto... arguments) {
      const auto function = reinterpret_cast<int (*)(decltype(arguments)...)>(library.symbol(name));
      check(function(arguments...), name);
    };
    int provided = 0;
    constexpr int kMultiple = 3;  // MPI_THREAD_MULTIPLE: of both families
    int begun = 0;
    call("MPI_Initialized", &begun);
    if (begun != 0)
      call("MPI_Query_thread", &provided);
    else
      call("MPI_Init_thread", static_cast<int*>(nullptr), static_cast<char***>(nullptr), kMultiple, &provided);
    many_threads_ = provided >= kMultiple;
    load(duplicate_, "MPI_Comm_dup");
    call("MPI_Comm_set_errhandler", handles_.world, handles_.errors_return);
    call("MPI_Comm_rank", handles_.world, &rank_);
    call("MPI_Comm_size", handles_.world, &size_);
    if (begun == 0) {
      finalize = reinterpret_cast<int (*)()>(library.symbol("MPI_Finalize"));
      ::on_exit(finalize_at_exit, nullptr);
    }
    if (rank_ != place.rank || size_ != place.size)
      fail(Fault::failure, "the launcher says rank ", place.rank, " of ", place.size, " (", place.launcher,
           ") and MPI says ", rank_, " of ", size_,
           "; the library is not that of the launcher: set NEURIM_MPI_LIBRARY");
    std::string hosts(static_cast<std::size_t>(size_) * kMostHost, '\0'), own = host_name();
    own.resize(kMostHost);
    call("MPI_Allgather", static_cast<const void*>(own.data()), static_cast<int>(kMostHost), handles_.byte,
         static_cast<void*>(hosts.data()), static_cast<int>(kMostHost), handles_.byte, handles_.world);
    for (int rank = 0; rank < size_; ++rank)
      hosts_.emplace_back(hosts.data() + static_cast<std::size_t>(rank) * kMostHost);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool many_threads() const override { return many_threads_; }
  std::string host(int rank) const override { return hosts_[static_cast<std::size_t>(rank)]; }

  void exchange(const Operation& operation, int to, std::span<const std::byte> out, int from, std::span<std::byte> in,
                Deadline until) override {
    bool sends = to != kNobody, receives = from != kNobody;
    while (sends || receives) {
      std::list<Request> requests;  // of what is sent
      const std::span<const std::byte> frame = out.first(std::min(out.size(), kMostFrame));
      const std::string head = Frame{.operation = operation, .size = frame.size()}.written();
      std::array<std::byte, Frame::kSize> theirs{};
      Request head_comes, bytes_come;
      if (receives) receive(theirs, from, kHeads, head_comes);
      if (sends) {
        send(std::as_bytes(std::span(head)), to, kHeads, requests);
        if (!frame.empty()) send(frame, to, kBytes, requests);
      }
      if (receives) {
        finish(head_comes, from, until);
        const Frame came = read(theirs, from, until);
        came.check(operation, in.size(), named(from));
        if (came.size > 0) {
          receive(in.first(came.size), from, kBytes, bytes_come);
          finish(bytes_come, from, until);
        }
        in = in.subspan(came.size);
      }
      for (Request& request : requests) finish(request, to, until);
      out = out.subspan(frame.size());
      sends = sends && !out.empty(), receives = receives && !in.empty();
    }
  }

  std::string invitation() override { return "MPI_Comm_dup"; }
  std::unique_ptr<Wire> duplicate(const std::string& /*invitation*/) override {
    if (!many_threads_)
      fail(Fault::failure, "this MPI library takes calls of one thread alone; use NEURIM_BACKEND=tcp");
    auto other = std::make_unique<MpiWire>(*this);
    check(duplicate_(handles_.world, &other->handles_.world), "MPI_Comm_dup");
    return other;
  }

  void give_up(const std::string& why) noexcept override {
    finalize = nullptr;  // it would wait for those who are lost
    try {
      const std::string report = why.substr(0, Frame::kMostReport);
      const std::string head = Frame{.report = true, .operation = {}, .size = report.size()}.written();
      std::list<Request> requests;
      for (int other = 0; other < size_; ++other) {
        if (other == rank_) continue;
        send(std::as_bytes(std::span(head)), other, kHeads, requests);
        send(std::as_bytes(std::span(report)), other, kBytes, requests);
      }
      const Deadline soon = std::chrono::steady_clock::now() + kLastWords;
      for (Request& request : requests) finish(request, kNobody, soon);
    } catch (const std::exception&) {  // others may be lost
    }
  }

 private:
  struct Request {
    Handle handle{};
  };

  static void check(int error, const char* what) {
    if (error != 0) fail(Fault::failure, what, " of the MPI library gives error ", error);
  }

  void send(std::span<const std::byte> bytes, int to, int tag, std::list<Request>& requests) {
    check(isend_(bytes.data(), static_cast<int>(bytes.size()), handles_.byte, to, tag, handles_.world,
                 &requests.emplace_back().handle),
          "MPI_Isend");
  }
  void receive(std::span<std::byte> bytes, int from, int tag, Request& request) {
    check(
        irecv_(bytes.data(), static_cast<int>(bytes.size()), handles_.byte, from, tag, handles_.world, &request.handle),
        "MPI_Irecv");
  }
  /// Waits for a request that is of this rank.
  void finish(Request& request, int other, Deadline until) {
    for (int tests = 0;; ++tests) {
      int done = 0;
      const int error = test_(&request.handle, &done, handles_.ignored_status);
      if (error != 0) fail(Fault::failure, named(other), ": the connection is lost: error ", error, " of MPI_Test");
      if (done != 0) return;
      if (tests < kSpins) continue;
      if (std::chrono::steady_clock::now() > until)
        fail(Fault::failure, other == kNobody ? "another" : named(other), ": nothing came in time");
      std::this_thread::yield();
    }
  }
  /// What a head says; throws what a report says.
  Frame read(std::span<const std::byte> head, int from, Deadline until) {
    const Frame frame = Frame::read(head);
    if (!frame.report) return frame;
    std::string why(std::min<std::uint64_t>(frame.size, Frame::kMostReport), '\0');
    Request request;
    receive(std::as_writable_bytes(std::span(why)), from, kBytes, request);
    finish(request, from, until);
    fail(Fault::failure, why);
  }

  Handles<Handle> handles_;
  int (*isend_)(const void*, int, Handle, int, int, Handle, Handle*) = nullptr;
  int (*irecv_)(void*, int, Handle, int, int, Handle, Handle*) = nullptr;
  int (*test_)(Handle*, int*, void*) = nullptr;
  int (*duplicate_)(Handle, Handle*) = nullptr;
  bool many_threads_ = false;
  int rank_ = 0, size_ = 1;
  std::vector<std::string> hosts_;  // by ranks
};

}  // namespace

std::unique_ptr<Wire> mpi_wire(const Place& place) {
  const LoadedLibrary library = library_of(place);
  if (library.has("ompi_mpi_comm_world"))
    return std::make_unique<MpiWire<void*>>(library, open_mpi_handles(library), place);
  return std::make_unique<MpiWire<int>>(library, mpich_handles(), place);
}

}  // namespace neurim
