// Streams of bytes between two processes, with deadlines.
#pragma once
#include <chrono>
#include <cstddef>
#include <span>
#include <string>

namespace neurim {

/// A point in time by which something has to be done.
using Deadline = std::chrono::steady_clock::time_point;

/// A TCP connection. What goes wrong throws Error(failure) without a word on whom it leads to.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int file) : file_(file) {}
  ~Socket();
  Socket(Socket&& other) noexcept;
  Socket& operator=(Socket&& other) noexcept;

  /// Tries until the deadline, as the other side may not listen yet.
  static Socket connect(const std::string& host, const std::string& port, Deadline deadline);

  void send(std::span<const std::byte> bytes, Deadline deadline);
  void receive(std::span<std::byte> bytes, Deadline deadline);
  /// What goes, or comes, without waiting: how many bytes; throws where the other process has ended.
  std::size_t send_some(std::span<const std::byte> bytes);
  std::size_t receive_some(std::span<std::byte> bytes);
  /// Waits until `to` takes bytes or `from` has some; null: neither is waited for. Sets which of them are ready. Throws
  /// at the deadline.
  static void wait(const Socket* to, const Socket* from, Deadline deadline, bool& to_ready, bool& from_ready);
  bool takes() const;     ///< whether bytes can be sent now
  bool has_come() const;  ///< whether there are bytes, or the other process has ended
  /// Sends nothing more; what was sent still arrives.
  void end_sending();
  /// Ends the connection; whoever waits for it is told.
  void end();
  /// A message with its length before it.
  void send_message(std::string_view message, Deadline deadline);
  std::string receive_message(std::size_t most, Deadline deadline);  ///< throws where it is longer than `most`

  std::string local_host() const;  ///< the address of this end
  explicit operator bool() const { return file_ >= 0; }

 private:
  friend class Listener;
  int file_ = -1;
};

bool is_numeric_host(const std::string& host);  ///< "10.0.0.1", "::1": an address and no name
bool is_loopback(const std::string& host);      ///< of an address: whether it leads to the same machine

/// 256 bits by chance, as text: what nobody guesses.
std::string drawn_secret();

/// A port at which others connect.
class Listener {
 public:
  /// At that address and port of this machine; port 0: any free one, host "": all addresses. Throws Error(failure).
  Listener(const std::string& host, const std::string& port);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  int port() const;
  Socket accept(Deadline deadline);

 private:
  int file_ = -1;
};

}  // namespace neurim
