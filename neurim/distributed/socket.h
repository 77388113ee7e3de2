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
  /// Sends to one neighbour while it receives from another, so that a ring of them does not wait for itself. Where it
  /// fails `received` is how many bytes came, and `of_sender` whether it is the fault of the one who sends.
  static void exchange(Socket& to, std::span<const std::byte> out, Socket& from, std::span<std::byte> in,
                       Deadline deadline, std::size_t& received, bool& of_sender);
  /// A message with its length before it.
  void send_message(std::string_view message, Deadline deadline);
  std::string receive_message(std::size_t most, Deadline deadline);  ///< throws where it is longer than `most`

  std::string local_host() const;  ///< the address of this end
  explicit operator bool() const { return file_ >= 0; }

 private:
  friend class Listener;
  int file_ = -1;
};

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
