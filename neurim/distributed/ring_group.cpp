#include "neurim/distributed/ring_group.h"

#include <algorithm>

#include "neurim/base/bytes.h"
#include "neurim/base/error.h"
#include "neurim/base/sha256.h"
#include "neurim/base/text.h"
#include "neurim/base/xxh64.h"
#include "neurim/hardware/machine.h"

namespace neurim {

namespace {

constexpr auto kIntroduction = std::chrono::seconds(5);
constexpr std::size_t kMostMessage = 1 << 16;     // of those who introduce themselves
constexpr std::size_t kMostGathered = 1u << 30;   // of a rank in all_gather
constexpr std::size_t kHeader = 32;               // of an operation: number, bytes and name; or of a report
constexpr std::string_view kReport = "NEURIMer";  // in the place of the number
constexpr std::size_t kMostReport = 4096;

/// "host:port" -> its parts; of "[::1]:80" without the brackets.
std::pair<std::string, std::string> parts_of(const std::string& address) {
  const std::size_t colon = address.rfind(':');
  require(colon != address.npos && colon + 1 < address.size(), "the address of the job is '", address,
          "'; it is HOST:PORT");
  std::string host = address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return {host, address.substr(colon + 1)};
}

/// Both ends show that they know the secret. Returns the message of the other one. `caller`: this end has connected.
std::string introduce(Socket& socket, const std::string& secret, const std::string& message, bool caller,
                      Deadline until) {
  const std::string mine = drawn_secret();
  socket.send_message(mine, until);
  const std::string theirs = socket.receive_message(kMostMessage, until);
  const auto proof = [&](const std::string& number, bool of_caller, const std::string& said) {
    return hmac_sha256(secret, text(number, of_caller ? "caller" : "called", said));
  };
  socket.send_message(proof(theirs, caller, message) + message, until);
  const std::string answer = socket.receive_message(kMostMessage, until);
  constexpr std::size_t kDigits = 64;
  const std::string said = answer.size() < kDigits ? "" : answer.substr(kDigits);
  if (answer.size() < kDigits || answer.substr(0, kDigits) != proof(mine, !caller, said))
    fail(Fault::failure, "a process has another secret than this one (NEURIM_SECRET)");
  return said;
}

}  // namespace

RingGroup::RingGroup(const Place& place)
    : timeout_(static_cast<std::int64_t>(place.timeout * 1000)), rank_(place.rank), size_(place.size) {
  naming(
      [&] { return text("rank ", rank_, " of ", size_, " (", host_name(), ") meets the others at ", place.address); },
      [&] { meet(place); });
}

/// Rank 0 collects where all listen, and tells all.
void RingGroup::meet(const Place& place) {
  const Deadline until = deadline();
  const auto [host, port] = parts_of(place.address);
  const auto introduction = [&](const std::string& where, int at) {
    return text(rank_, ' ', size_, ' ', at, ' ', where, ' ', host_name());
  };
  std::vector<std::string> addresses(static_cast<std::size_t>(size_));
  hosts_.resize(static_cast<std::size_t>(size_));
  std::string session;
  if (rank_ == 0) {
    Listener meeting(host, port), own("", "0");
    std::vector<Socket> others(static_cast<std::size_t>(size_));
    std::string stranger;  // why somebody who came is none of us
    for (int met = 1; met < size_;) {
      std::vector<std::string> words;
      Socket socket;
      try {
        socket = meeting.accept(until);
        const Deadline soon = std::min(until, std::chrono::steady_clock::now() + kIntroduction);
        words = split(introduce(socket, place.secret, text("0 ", size_), false, soon), ' ');
      } catch (const Error& error) {
        if (std::chrono::steady_clock::now() >= until)
          fail(Fault::failure, met, " of ", size_, " processes came", stranger.empty() ? "" : "; another: ", stranger);
        if (stranger.empty()) stranger = error.what();
      }
      if (words.size() != 5) continue;
      ++met;
      const int rank = std::stoi(words[0]);
      if (words[1] != text(size_))
        fail(Fault::failure, "rank ", rank, " (", words[4], ") belongs to a job of ", words[1], " processes, not ",
             size_);
      if (rank < 1 || rank >= size_ || others[static_cast<std::size_t>(rank)])
        fail(Fault::failure, "rank ", rank, " (", words[4], ") is there twice");
      addresses[static_cast<std::size_t>(rank)] = words[3] + ' ' + words[2];
      hosts_[static_cast<std::size_t>(rank)] = words[4];
      others[static_cast<std::size_t>(rank)] = std::move(socket);
    }
    addresses[0] = text(others[1].local_host(), ' ', own.port());
    hosts_[0] = host_name();
    session = drawn_secret();
    const std::string table = text(session, '\n', join(addresses, "\n"), '\n', join(hosts_, "\n"));
    for (int rank = 1; rank < size_; ++rank) others[static_cast<std::size_t>(rank)].send_message(table, until);
    return connect_ring(addresses, own, session, place.secret);
  }
  Socket meeting = Socket::connect(host, port, until);
  Listener own("", "0");
  introduce(meeting, place.secret, introduction(meeting.local_host(), own.port()), true, until);
  const std::vector<std::string> lines = split(meeting.receive_message(kMostMessage * 16, until), '\n');
  if (lines.size() != 1 + 2 * static_cast<std::size_t>(size_)) fail(Fault::failure, "rank 0 knows another job");
  addresses.assign(lines.begin() + 1, lines.begin() + 1 + size_);
  hosts_.assign(lines.begin() + 1 + size_, lines.end());
  connect_ring(addresses, own, lines[0], place.secret);
}

void RingGroup::connect_ring(const std::vector<std::string>& addresses, Listener& listener, const std::string& session,
                             const std::string& secret) {
  const Deadline until = deadline();
  const std::vector<std::string> words = split(addresses[static_cast<std::size_t>(next_rank())], ' ');
  next_ = Socket::connect(words.at(0), words.at(1), until);
  previous_ = listener.accept(until);
  // Each end speaks to both neighbours; that of lower rank first, so that the ring does not wait for itself.
  const auto check = [&](Socket& socket, int rank, bool caller) {
    if (introduce(socket, secret + session, text(rank_), caller, until) != text(rank))
      fail(Fault::failure, "the neighbour is not rank ", rank);
  };
  if (rank_ % 2 == 0 && rank_ + 1 < size_)
    check(next_, next_rank(), true), check(previous_, previous_rank(), false);
  else
    check(previous_, previous_rank(), false), check(next_, next_rank(), true);
}

std::string RingGroup::named(int rank) const {
  return text("rank ", rank, " (", hosts_[static_cast<std::size_t>(rank)], ")");
}

/// Tells the next rank why, which tells its own.
void RingGroup::give_up(const Operation& operation, const std::string& why) {
  const std::string report = why.substr(0, kMostReport);
  try {
    std::string header(kReport);
    put_little_endian(header, report.size(), 8);
    header.resize(kHeader);
    const std::string message = header + report;
    const Deadline soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    next_.send(std::as_bytes(std::span(message)), soon);
  } catch (const std::exception&) {  // the next rank may be the one that is lost
  }
  next_ = Socket(), previous_ = Socket();
  fail(Fault::failure, named(rank_), ": operation ", operations_, " (", operation.name, " of ", operation.bytes,
       " bytes): ", why);
}

template <class Steps>
void RingGroup::run(const Operation& operation, const Steps& steps) {
  if (!next_) fail(Fault::failure, named(rank_), ": ", operation.name, " after the group has failed");
  ++operations_;
  try {
    const Deadline until = deadline();
    agree(operation, until);
    steps(until);
  } catch (const Error& error) {
    give_up(operation, error.what());
  }
}

void RingGroup::exchange(std::span<const std::byte> out, std::span<std::byte> in, Deadline until) {
  std::size_t received = 0;
  bool of_sender = false;
  try {
    Socket::exchange(next_, out, previous_, in, until, received, of_sender);
  } catch (const Error& error) {
    if (const std::string report = report_in(std::string(as_text(in.first(received)))); !report.empty())
      fail(Fault::failure, report);
    fail(Fault::failure, named(of_sender ? previous_rank() : next_rank()), ": ", error.what());
  }
}

/// The report that the bytes and what is still to be read have in them; "" where there is none.
std::string RingGroup::report_in(std::string came) {
  try {
    const Deadline soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
    for (std::size_t more = 0; more < kHeader + kMostReport; ++more) {
      char one = 0;
      previous_.receive(std::as_writable_bytes(std::span(&one, 1)), soon);
      came += one;
    }
  } catch (const Error&) {  // the end of it
  }
  const std::size_t at = came.find(kReport);
  if (at == came.npos) return "";
  if (came.size() < at + kHeader) return text(named(previous_rank()), " has given up");
  return came.substr(at + kHeader, std::min<std::uint64_t>(little(came, at + kReport.size(), 8), kMostReport));
}

void RingGroup::pass(std::span<const std::byte> out, std::span<std::byte> in, Deadline until) {
  exchange(out, in, until);
  constexpr std::size_t kSum = 16;
  const std::string mine = out.empty() ? "" : xxh64_hex(out);
  std::string theirs(in.empty() ? 0 : kSum, '\0');
  exchange(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(theirs)), until);
  if (in.empty() || theirs == xxh64_hex(in)) return;
  const std::string report = report_in(std::string(as_text(in)) + theirs);
  if (report.empty())
    fail(Fault::failure, named(previous_rank()), ": what came is not what it sent: the checksum is another");
  fail(Fault::failure, report);
}

/// Each rank says to the next what it is about to do.
void RingGroup::agree(const Operation& operation, Deadline until) {
  std::string mine;
  put_little_endian(mine, operations_, 8);
  put_little_endian(mine, operation.bytes, 8);
  mine += operation.name;
  mine.resize(kHeader);
  std::string theirs(kHeader, '\0');
  exchange(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(theirs)), until);
  if (theirs.find(kReport) != theirs.npos) fail(Fault::failure, report_in(theirs));
  if (theirs != mine)
    fail(Fault::failure, named(previous_rank()), " is at operation ", little(theirs, 0, 8), ", ",
         theirs.substr(16, theirs.find('\0', 16) - 16), " of ", little(theirs, 8, 8), " bytes");
}

namespace {

template <class Number>
void combine(std::span<Number> into, std::span<const Number> other, Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      for (std::size_t i = 0; i < into.size(); ++i) into[i] += other[i];
      break;
    case Reduction::min:
      for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::min(into[i], other[i]);
      break;
    case Reduction::max:
      for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], other[i]);
      break;
  }
}

}  // namespace

template <class Number>
void RingGroup::reduce(std::span<Number> values, Reduction reduction) {
  constexpr const char* kNames[] = {"all_reduce sum", "all_reduce min", "all_reduce max"};
  const Operation operation{kNames[static_cast<std::size_t>(reduction)], values.size_bytes()};
  run(operation, [&](Deadline until) {
    const auto ranks = static_cast<std::size_t>(size_);
    const auto part = [&](int number) {
      const auto n = static_cast<std::size_t>((number % size_ + size_) % size_);
      const std::size_t begin = values.size() * n / ranks, end = values.size() * (n + 1) / ranks;
      return values.subspan(begin, end - begin);
    };
    std::vector<Number> arrived((values.size() + ranks - 1) / ranks + 1);
    for (int step = 0; step + 1 < size_; ++step) {
      const std::span<Number> mine = part(rank_ - step - 1), in = std::span(arrived).first(mine.size());
      pass(std::as_bytes(part(rank_ - step)), std::as_writable_bytes(in), until);
      combine<Number>(mine, in, reduction);
    }
    for (int step = 0; step + 1 < size_; ++step)
      pass(std::as_bytes(part(rank_ + 1 - step)), std::as_writable_bytes(part(rank_ - step)), until);
  });
}

void RingGroup::all_reduce(std::span<float> values, Reduction reduction) { reduce(values, reduction); }
void RingGroup::all_reduce(std::span<double> values, Reduction reduction) { reduce(values, reduction); }

void RingGroup::broadcast(std::span<std::byte> bytes, int root) {
  require(root >= 0 && root < size_, "broadcast: the root is rank ", root, " of ", size_);
  run({"broadcast", bytes.size()}, [&](Deadline until) {
    constexpr std::size_t kPiece = 1 << 20;
    for (std::size_t at = 0; at < bytes.size(); at += kPiece) {
      const auto piece = bytes.subspan(at, std::min(kPiece, bytes.size() - at));
      if (rank_ != root) pass({}, piece, until);
      if (next_rank() != root) pass(piece, {}, until);
    }
  });
}

std::vector<std::string> RingGroup::all_gather(std::string_view bytes) {
  std::vector<std::string> all(static_cast<std::size_t>(size_));
  all[static_cast<std::size_t>(rank_)] = bytes;
  run({"all_gather", 0}, [&](Deadline until) {
    for (int step = 0; step + 1 < size_; ++step) {
      const std::string& out = all[static_cast<std::size_t>((rank_ - step + size_) % size_)];
      std::string& in = all[static_cast<std::size_t>((rank_ - step - 1 + size_) % size_)];
      std::string mine, theirs(8, '\0');
      put_little_endian(mine, out.size(), 8);
      exchange(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(theirs)), until);
      const std::uint64_t size = little(theirs, 0, 8);
      if (size > kMostGathered) fail(Fault::failure, named(previous_rank()), ": a message claims ", size, " bytes");
      in.resize(size);
      pass(std::as_bytes(std::span(out)), std::as_writable_bytes(std::span(in)), until);
    }
  });
  return all;
}

}  // namespace neurim
