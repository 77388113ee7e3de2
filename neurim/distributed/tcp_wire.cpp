#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "neurim/base/bytes.h"
#include "neurim/base/error.h"
#include "neurim/base/sha256.h"
#include "neurim/base/text.h"
#include "neurim/base/xxh64.h"
#include "neurim/distributed/shared_inbox.h"
#include "neurim/distributed/wire.h"
#include "neurim/hardware/machine.h"

namespace neurim {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kIntroduction = std::chrono::seconds(5);
constexpr auto kLastWords = std::chrono::milliseconds(200);  // for reports to be sent and read
constexpr std::size_t kMostMessage = 1 << 16;                // of those who introduce themselves
constexpr std::size_t kMostFrame = 1 << 20;                  // bytes of a frame
constexpr auto kActive = std::chrono::milliseconds(2);       // since bytes moved last: more will come soon
constexpr auto kAwake = std::chrono::microseconds(500),
               kSoon = std::chrono::microseconds(20);     // before a thread sleeps
constexpr auto kLook = std::chrono::milliseconds(20);     // how often connections beside shared memory are looked at
constexpr auto kGlance = std::chrono::microseconds(200);  // the same of one that bytes go over
constexpr std::size_t kShortFrame = 1 << 14;              // bytes that go with the frame's head

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

/// How bytes get to another rank and back: over the connection, or by memory that both share.
struct Path {
  Socket& socket;
  int other;                  // the rank
  int writer, other_writer;   // numbers of rings: of this rank's in the other's inbox, and the reverse
  SharedInbox *own, *theirs;  // null: the connection

  bool shared() const { return theirs != nullptr; }
  bool may_send() const { return shared() || socket.takes(); }
  bool may_receive() const { return shared() || socket.has_come(); }
  std::size_t send_some(std::span<const std::byte> bytes) const {
    return shared() ? theirs->put(writer, bytes) : socket.send_some(bytes);
  }
  std::size_t receive_some(std::span<std::byte> bytes) const {
    return shared() ? own->take(other_writer, bytes, *theirs) : socket.receive_some(bytes);
  }
};

/// A message that is being sent, in frames. What goes over a connection has checksums.
class Outgoing {
 public:
  Outgoing(const Operation& operation, std::span<const std::byte> bytes, const Path& path)
      : operation_(operation), rest_(bytes), path_(path) {
    begin_frame();
  }
  const Path& path() const { return path_; }
  bool done() const { return rest_.empty() && frame_.empty() && head_.empty(); }
  /// Sends what is taken now; whether anything was.
  bool go_on() {
    std::size_t sent = 0;
    if (!head_.empty()) {
      sent = path_.send_some(std::as_bytes(std::span(head_)));
      head_.erase(0, sent);
    } else {
      sent = path_.send_some(frame_);
      frame_ = frame_.subspan(sent);
    }
    if (head_.empty() && frame_.empty() && !rest_.empty()) begin_frame();
    return sent > 0;
  }

 private:
  void begin_frame() {
    frame_ = rest_.first(std::min(rest_.size(), kMostFrame));
    rest_ = rest_.subspan(frame_.size());
    const std::uint64_t checksum = path_.shared() ? 0 : xxh64(frame_);
    head_ = Frame{.operation = operation_, .size = frame_.size(), .checksum = checksum}.written();
    if (frame_.size() > kShortFrame) return;
    head_ += as_text(frame_);
    frame_ = {};
  }

  const Operation& operation_;
  std::span<const std::byte> rest_, frame_;
  std::string head_;
  const Path path_;
};

/// A message that is being received.
class Incoming {
 public:
  Incoming(const Operation& operation, std::span<std::byte> bytes, std::string sender, const Path& path)
      : operation_(operation), rest_(bytes), sender_(std::move(sender)), path_(path) {}
  const Path& path() const { return path_; }
  bool done() const { return begun_ && rest_.empty() && left_.empty() && head_ == 0; }
  /// Takes what is there; whether anything was. Throws what a report says, and where something else came than is
  /// expected.
  bool go_on() {
    std::size_t came = 0;
    if (left_.empty()) {
      came = path_.receive_some(std::span(bytes_of_head_).subspan(head_));
      head_ += came;
      if (head_ < Frame::kSize) return came > 0;
      begin_frame();
    } else {
      came = path_.receive_some(left_);
      left_ = left_.subspan(came);
    }
    if (left_.empty() && !path_.shared() && xxh64(whole_) != checksum_)
      fail(Fault::failure, sender_, ": what came is not what it sent: the checksum is another");
    return came > 0;
  }

 private:
  void begin_frame() {
    const Frame frame = Frame::read(bytes_of_head_);
    if (frame.report) {
      std::string why(std::min<std::uint64_t>(frame.size, Frame::kMostReport), '\0');
      path_.socket.receive(std::as_writable_bytes(std::span(why)), Clock::now() + kLastWords);
      fail(Fault::failure, why);
    }
    frame.check(operation_, rest_.size(), sender_);
    whole_ = left_ = rest_.first(frame.size);
    rest_ = rest_.subspan(frame.size);
    checksum_ = frame.checksum;
    head_ = 0, begun_ = true;
  }

  const Operation& operation_;
  std::span<std::byte> rest_, left_, whole_;  // of the message; of its frame, what is still to come and all
  const std::string sender_;
  const Path path_;
  std::array<std::byte, Frame::kSize> bytes_of_head_{};
  std::size_t head_ = 0;  // of its bytes, those that came
  std::uint64_t checksum_ = 0;
  bool begun_ = false;
};

class TcpWire final : public Wire {
 public:
  explicit TcpWire(const Place& place)
      : place_(place), rank_(place.rank), size_(place.size), links_(static_cast<std::size_t>(place.size)) {
    const Deadline until = Clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(place.timeout * 1000));
    naming(
        [&] { return text("rank ", rank_, " of ", size_, " (", host_name(), ") meets the others at ", place.address); },
        [&] {
          meet(place, until);
          share_memory(until);
        });
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string host(int rank) const override { return hosts_[static_cast<std::size_t>(rank)]; }

  void exchange(const Operation& operation, int to, std::span<const std::byte> out, int from, std::span<std::byte> in,
                Deadline until) override {
    int at_fault = from;
    try {
      std::optional<Outgoing> outgoing;
      std::optional<Incoming> incoming;
      if (to != kNobody) outgoing.emplace(operation, out, path(to));
      if (from != kNobody) incoming.emplace(operation, in, named(from), path(from));
      for (;;) {
        Outgoing* const sends = outgoing && !outgoing->done() ? &*outgoing : nullptr;
        Incoming* const receives = incoming && !incoming->done() ? &*incoming : nullptr;
        if (!sends && !receives) return;
        at_fault = receives ? from : to;
        if ((sends && sends->path().shared()) || (receives && receives->path().shared())) {
          go_on_sharing(sends, receives, until, at_fault);
          continue;
        }
        bool to_ready = false, from_ready = false;
        Socket::wait(sends ? &link(to) : nullptr, receives ? &link(from) : nullptr, until, to_ready, from_ready);
        if (from_ready) receives->go_on();
        at_fault = to;
        if (to_ready) sends->go_on();
      }
    } catch (const Error& error) {
      if (std::string_view(error.what()).substr(0, 5) == "rank ") throw;  // it names the rank itself
      int by = kNobody;
      const std::string report = report_of_others(by);
      if (from != kNobody && by != from &&
          report.find(named(rank_)) == 0)  // we are late because of the one we wait for
        fail(Fault::failure, named(from), ": nothing came in time");
      fail(Fault::failure, report.empty() ? text(named(at_fault), ": ", error.what()) : report);
    }
  }

  std::string invitation() override {
    return text(links_[1].local_host(), ':', Listener("", "0").port(), ' ', drawn_secret());
  }

  std::unique_ptr<Wire> duplicate(const std::string& invitation) override {
    const std::size_t space = invitation.find(' ');
    Place place = place_;
    place.address = invitation.substr(0, space);
    place.secret = invitation.substr(space + 1);
    return tcp_wire(place);
  }

  void give_up(const std::string& why) noexcept override {
    try {
      const std::string report = why.substr(0, Frame::kMostReport);
      const std::string message = Frame{.report = true, .operation = {}, .size = report.size()}.written() + report;
      const Deadline soon = Clock::now() + kLastWords;
      for (Socket& link : links_) {
        if (!link) continue;
        try {
          link.send(std::as_bytes(std::span(message)), soon);
          link.end_sending();
        } catch (const Error&) {  // it may be the one that is lost
        }
      }
      drain(soon, [](int, std::string&) { return false; });  // closing with bytes unread would drop the report
      for (Socket& link : links_)
        if (link) link.end();          // another thread may be in an exchange
    } catch (const std::exception&) {  // no memory
    }
  }

 private:
  /// Sends and receives what is possible now, or waits a while. A connection beside shared memory brings bytes only
  /// where the other rank ends.
  void go_on_sharing(Outgoing* sends, Incoming* receives, Deadline until, int& at_fault) {
    const std::uint32_t rung = inbox_->rung();
    const auto goes_on = [&] {
      if (receives) at_fault = receives->path().other;
      const bool came = receives && receives->path().may_receive() && receives->go_on();
      if (sends) at_fault = sends->path().other;
      return (sends && sends->path().may_send() && sends->go_on()) || came;
    };
    if (goes_on()) {
      last_moved_ = Clock::now();
      return;
    }
    bool all_shared = true;
    for (const Path* path : {receives ? &receives->path() : nullptr, sends ? &sends->path() : nullptr}) {
      if (!path || !path->shared()) {
        all_shared = all_shared && !path;
      } else if (path->socket.has_come()) {
        if (goes_on()) return;  // it has left bytes before
        at_fault = path->other;
        fail(Fault::failure, "the connection is lost: the other process has ended");
      }
    }
    at_fault = (receives ? receives->path() : sends->path()).other;
    if (Clock::now() >= until) fail(Fault::failure, "nothing came in time");
    inbox_->wait(rung, all_shared ? kLook : kGlance, Clock::now() - last_moved_.load() < kActive ? kAwake : kSoon);
  }

  Path path(int other) {
    return {link(other),      other,        neighbour(rank_),
            neighbour(other), inbox_.get(), inboxes_[static_cast<std::size_t>(other)].get()};
  }

  /// The place of a rank among those of its machine.
  int neighbour(int rank) const {
    const auto own = hosts_.begin() + rank;
    return static_cast<int>(std::count(hosts_.begin(), own, *own));
  }

  /// Finds out with whom of this machine memory can be shared, which both have to see.
  void share_memory(Deadline until) {
    inboxes_.resize(links_.size());
    const std::string& host = hosts_[static_cast<std::size_t>(rank_)];
    const auto neighbours = static_cast<int>(std::count(hosts_.begin(), hosts_.end(), host));
    if (neighbours == 1) return;
    if (place_.shared_memory) inbox_ = SharedInbox::make(neighbours);
    const auto with_each = [&](const auto& call) {
      for (std::size_t other = 0; other < links_.size(); ++other)
        if (links_[other] && hosts_[other] == host) call(links_[other], inboxes_[other]);
    };
    with_each([&](Socket& link, auto& /*theirs*/) { link.send_message(inbox_ ? inbox_->address() : "", until); });
    with_each([&](Socket& link, auto& theirs) {
      const std::string address = link.receive_message(kMostMessage, until);
      if (inbox_) theirs = SharedInbox::open(address, neighbours);
    });
    with_each([&](Socket& link, auto& theirs) { link.send_message(theirs ? "shared" : "", until); });
    with_each([&](Socket& link, auto& theirs) {
      if (link.receive_message(kMostMessage, until).empty()) theirs.reset();
    });
    if (inbox_) inbox_->close_file();
  }

  Socket& link(int rank) {
    Socket& link = links_[static_cast<std::size_t>(rank)];
    if (!link) fail(Fault::failure, "the connection is closed");
    return link;
  }

  /// Reads all connections until they end, or `found` is true of a rank and what it has brought.
  template <class Found>
  void drain(Deadline until, const Found& found) {
    std::vector<std::string> came(links_.size());
    std::vector<char> open(links_.size());
    for (std::size_t i = 0; i < links_.size(); ++i) open[i] = static_cast<bool>(links_[i]);
    std::vector<std::byte> some(1 << 16);
    while (std::count(open.begin(), open.end(), 1) > 0 && Clock::now() < until) {
      bool any = false;
      for (std::size_t i = 0; i < links_.size(); ++i) {
        if (!open[i]) continue;
        try {
          const std::size_t count = links_[i].receive_some(some);
          any = any || count > 0;
          came[i] += as_text(std::span(some).first(count));
          if (found(static_cast<int>(i), came[i])) return;
        } catch (const Error&) {
          open[i] = 0;
        }
      }
      if (!any) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  /// What another rank, `by`, has said on why it ends; "" where none has.
  std::string report_of_others(int& by) {
    std::string why;
    drain(Clock::now() + kLastWords, [&](int rank, std::string& came) {
      const std::size_t at = Frame::find_report(came);
      if (at == came.npos) {
        came.erase(0, came.size() - std::min<std::size_t>(came.size(), 7));  // where it may have begun
        return false;
      }
      came.erase(0, at);
      if (came.size() < Frame::kSize) return false;
      const std::uint64_t size = Frame::read(std::as_bytes(std::span(came)).first(Frame::kSize)).size;
      if (came.size() < Frame::kSize + std::min<std::uint64_t>(size, Frame::kMostReport)) return false;
      why = came.substr(Frame::kSize, size);
      by = rank;
      return true;
    });
    return why;
  }

  /// Rank 0 collects where all listen, and tells all.
  void meet(const Place& place, Deadline until) {
    const auto [host, port] = parts_of(place.address);
    std::vector<std::string> addresses(links_.size());
    hosts_.resize(links_.size());
    if (rank_ == 0) {
      // A name says which machine, and is often that of its loopback alone.
      const bool is_address = is_numeric_host(host) || host == "localhost";
      Listener meeting(is_address ? host : "", port), own("", "0");
      std::vector<Socket> others = collect(meeting, place.secret, addresses, until);
      addresses[0] = text(others[1].local_host(), ' ', own.port());
      make_reachable(addresses, others);
      hosts_[0] = host_name();
      const std::string session = drawn_secret();
      const std::string table = text(session, '\n', join(addresses, "\n"), '\n', join(hosts_, "\n"));
      for (std::size_t rank = 1; rank < others.size(); ++rank) others[rank].send_message(table, until);
      return connect_all(addresses, own, place.secret + session, until);
    }
    Socket meeting = Socket::connect(host, port, until);
    Listener own("", "0");
    introduce(meeting, place.secret,
              text(rank_, ' ', size_, ' ', own.port(), ' ', meeting.local_host(), ' ', host_name()), true, until);
    const std::vector<std::string> lines = split(meeting.receive_message(kMostMessage * 16, until), '\n');
    if (lines.size() != 1 + 2 * links_.size()) fail(Fault::failure, "rank 0 knows another job");
    addresses.assign(lines.begin() + 1, lines.begin() + 1 + size_);
    hosts_.assign(lines.begin() + 1 + size_, lines.end());
    connect_all(addresses, own, place.secret + lines[0], until);
  }

  /// Those who came over the loopback are on this machine, which others know by another address.
  static void make_reachable(std::vector<std::string>& addresses, const std::vector<Socket>& others) {
    std::string outside;
    for (const Socket& other : others)
      if (other && outside.empty() && !is_loopback(other.local_host())) outside = other.local_host();
    if (outside.empty()) return;  // all are on this machine
    for (std::string& address : addresses)
      if (const std::size_t space = address.find(' '); is_loopback(address.substr(0, space)))
        address.replace(0, space, outside);
  }

  /// The connections to the others, by ranks.
  std::vector<Socket> collect(Listener& meeting, const std::string& secret, std::vector<std::string>& addresses,
                              Deadline until) {
    std::vector<Socket> others(links_.size());
    std::string stranger;  // why somebody who came is none of us
    for (int met = 1; met < size_;) {
      std::vector<std::string> words;
      Socket socket;
      try {
        socket = meeting.accept(until);
        const Deadline soon = std::min(until, Clock::now() + kIntroduction);
        words = split(introduce(socket, secret, text("0 ", size_), false, soon), ' ');
      } catch (const Error& error) {
        if (Clock::now() >= until)
          fail(Fault::failure, met, " of ", size_, " processes came", stranger.empty() ? "" : "; another: ", stranger);
        if (stranger.empty()) stranger = error.what();
      }
      if (words.size() != 5) continue;
      ++met;
      const int rank = std::stoi(words[0]);
      if (words[1] != text(size_))
        fail(Fault::failure, "rank ", rank, " (", words[4], ") belongs to a job of ", words[1], " processes, not ",
             size_);
      const auto place = static_cast<std::size_t>(rank);
      if (rank < 1 || rank >= size_ || others[place])
        fail(Fault::failure, "rank ", rank, " (", words[4], ") is there twice");
      addresses[place] = words[3] + ' ' + words[2];
      hosts_[place] = words[4];
      others[place] = std::move(socket);
    }
    return others;
  }

  /// Each rank calls those of lower rank, then waits for those of higher rank: rank 0 waits at once, so that nobody
  /// waits for ever.
  void connect_all(const std::vector<std::string>& addresses, Listener& listener, const std::string& secret,
                   Deadline until) {
    for (int other = 0; other < rank_; ++other) {
      const std::vector<std::string> words = split(addresses[static_cast<std::size_t>(other)], ' ');
      Socket socket = Socket::connect(words.at(0), words.at(1), until);
      if (introduce(socket, secret, text(rank_), true, until) != text(other))
        fail(Fault::failure, "who answers is not rank ", other);
      links_[static_cast<std::size_t>(other)] = std::move(socket);
    }
    for (int missing = size_ - 1 - rank_; missing > 0;) {
      Socket socket = listener.accept(until);
      int other = kNobody;
      try {
        const Deadline soon = std::min(until, Clock::now() + kIntroduction);
        other = std::stoi(introduce(socket, secret, text(rank_), false, soon));
      } catch (const Error&) {  // a stranger
        continue;
      }
      if (other <= rank_ || other >= size_ || links_[static_cast<std::size_t>(other)])
        fail(Fault::failure, "rank ", other, " is not expected here");
      links_[static_cast<std::size_t>(other)] = std::move(socket);
      --missing;
    }
  }

  const Place place_;
  const int rank_, size_;
  std::vector<std::string> hosts_;                     // by ranks
  std::vector<Socket> links_;                          // to the others
  std::atomic<Clock::time_point> last_moved_{};        // bytes, in memory
  std::unique_ptr<SharedInbox> inbox_;                 // null: no memory is shared
  std::vector<std::unique_ptr<SharedInbox>> inboxes_;  // of the others; null: it goes over the link
};

}  // namespace

std::unique_ptr<Wire> tcp_wire(const Place& place) { return std::make_unique<TcpWire>(place); }

}  // namespace neurim
