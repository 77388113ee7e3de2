#include "neurim/distributed/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "neurim/base/bytes.h"
#include "neurim/base/error.h"
#include "neurim/base/text.h"

namespace neurim {

namespace {

constexpr auto kBetweenTries = std::chrono::milliseconds(20);

[[noreturn]] void lost(const char* why) { fail(Fault::failure, "the connection is lost: ", why); }

/// Milliseconds for poll().
int left_until(Deadline deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::max<std::int64_t>(0, left.count()));
}

/// Waits for one of these events. What has ended counts as ready: the call that follows says how.
void wait_for(std::span<pollfd> files, Deadline deadline) {
  const int ready = ::poll(files.data(), files.size(), left_until(deadline));
  if (ready == 0) fail(Fault::failure, "nothing came in time");
  if (ready < 0 && errno != EINTR) lost(std::strerror(errno));
}

void settle(int file) {
  const int on = 1, bytes = 4 << 20;
  ::setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(file, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  ::setsockopt(file, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  ::fcntl(file, F_SETFL, ::fcntl(file, F_GETFL) | O_NONBLOCK);
}

/// How many bytes went; 0: none now.
std::size_t sent(int file, std::span<const std::byte> bytes) {
  const ssize_t count = ::send(file, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (count >= 0) return static_cast<std::size_t>(count);
  if (errno == EAGAIN || errno == EINTR) return 0;
  lost(std::strerror(errno));
}

std::size_t received(int file, std::span<std::byte> bytes) {
  const ssize_t count = ::recv(file, bytes.data(), bytes.size(), 0);
  if (count > 0) return static_cast<std::size_t>(count);
  if (count == 0) lost("the other process has ended");
  if (errno == EAGAIN || errno == EINTR) return 0;
  lost(std::strerror(errno));
}

/// Whether a connection that has begun comes about; else errno says why not.
bool connects(int file, Deadline deadline) {
  if (errno != EINPROGRESS) return false;
  pollfd one{file, POLLOUT, 0};
  if (::poll(&one, 1, left_until(deadline)) <= 0) {
    errno = ETIMEDOUT;
    return false;
  }
  socklen_t size = sizeof errno;
  ::getsockopt(file, SOL_SOCKET, SO_ERROR, &errno, &size);
  return errno == 0;
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses addresses_of(const std::string& host, const std::string& port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC, hints.ai_socktype = SOCK_STREAM, hints.ai_flags = flags;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) fail(Fault::failure, "there is no address ", host, ':', port, ": ", ::gai_strerror(error));
  return {found, ::freeaddrinfo};
}

}  // namespace

Socket::~Socket() {
  if (file_ >= 0) ::close(file_);
}
Socket::Socket(Socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(file_, other.file_);
  return *this;
}

Socket Socket::connect(const std::string& host, const std::string& port, Deadline deadline) {
  for (;;) {
    const Addresses addresses = addresses_of(host, port, 0);
    for (const addrinfo* one = addresses.get(); one; one = one->ai_next) {
      Socket socket(::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, one->ai_protocol));
      if (socket && (::connect(socket.file_, one->ai_addr, one->ai_addrlen) == 0 || connects(socket.file_, deadline))) {
        settle(socket.file_);
        return socket;
      }
    }
    if (std::chrono::steady_clock::now() + kBetweenTries > deadline)
      fail(Fault::failure, "nobody answers at ", host, ':', port, ": ", std::strerror(errno));
    std::this_thread::sleep_for(kBetweenTries);
  }
}

void Socket::send(std::span<const std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    bytes = bytes.subspan(sent(file_, bytes));
    pollfd file{file_, POLLOUT, 0};
    if (!bytes.empty()) wait_for({&file, 1}, deadline);
  }
}

void Socket::receive(std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    pollfd file{file_, POLLIN, 0};
    wait_for({&file, 1}, deadline);
    bytes = bytes.subspan(received(file_, bytes));
  }
}

std::size_t Socket::send_some(std::span<const std::byte> bytes) { return sent(file_, bytes); }
std::size_t Socket::receive_some(std::span<std::byte> bytes) { return received(file_, bytes); }

void Socket::wait(const Socket* to, const Socket* from, Deadline deadline, bool& to_ready, bool& from_ready) {
  pollfd files[2];
  std::size_t count = 0;
  if (to) files[count++] = {to->file_, POLLOUT, 0};
  if (from) files[count++] = {from->file_, POLLIN, 0};
  wait_for(std::span(files).first(count), deadline);
  to_ready = to && files[0].revents != 0;
  from_ready = from && files[count - 1].revents != 0;
}

bool Socket::takes() const {
  pollfd file{file_, POLLOUT, 0};
  return ::poll(&file, 1, 0) > 0;
}

bool Socket::has_come() const {
  pollfd file{file_, POLLIN, 0};
  return ::poll(&file, 1, 0) > 0;
}

void Socket::end_sending() { ::shutdown(file_, SHUT_WR); }
void Socket::end() { ::shutdown(file_, SHUT_RDWR); }

void Socket::send_message(std::string_view message, Deadline deadline) {
  std::string framed;
  put_little_endian(framed, message.size(), 8);
  framed += message;
  send(std::as_bytes(std::span(framed)), deadline);
}

std::string Socket::receive_message(std::size_t most, Deadline deadline) {
  std::string length(8, '\0');
  receive(std::as_writable_bytes(std::span(length)), deadline);
  const std::uint64_t size = little(length, 0, 8);
  if (size > most) fail(Fault::failure, "a message claims ", size, " bytes, and at most ", most, " are taken");
  std::string message(size, '\0');
  receive(std::as_writable_bytes(std::span(message)), deadline);
  return message;
}

std::string Socket::local_host() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char host[NI_MAXHOST] = "";
  ::getsockname(file_, reinterpret_cast<sockaddr*>(&address), &size);
  ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return host;
}

bool is_numeric_host(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return ::inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

bool is_loopback(const std::string& host) {
  return host.find("127.") == 0 || host == "::1" || host.find("::ffff:127.") == 0;
}

std::string drawn_secret() {
  std::random_device device;
  std::string secret;
  for (int i = 0; i < 8; ++i) secret += text(device(), '.');
  return secret;
}

Listener::Listener(const std::string& host, const std::string& port) {
  const Addresses addresses = addresses_of(host, port, AI_PASSIVE);
  for (const addrinfo* one = addresses.get(); one; one = one->ai_next) {
    Socket socket(::socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol));
    const int on = 1;
    if (!socket) continue;
    ::setsockopt(socket.file_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(socket.file_, one->ai_addr, one->ai_addrlen) != 0 || ::listen(socket.file_, SOMAXCONN) != 0) continue;
    file_ = std::exchange(socket.file_, -1);
    ::fcntl(file_, F_SETFL, ::fcntl(file_, F_GETFL) | O_NONBLOCK);
    return;
  }
  fail(Fault::failure, "cannot listen at ", host.empty() ? "any address" : host, ", port ", port, ": ",
       std::strerror(errno));
}

Listener::~Listener() { ::close(file_); }

int Listener::port() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(file_, reinterpret_cast<sockaddr*>(&address), &size);
  const auto* six = reinterpret_cast<const sockaddr_in6*>(&address);
  const auto* four = reinterpret_cast<const sockaddr_in*>(&address);
  return ntohs(address.ss_family == AF_INET6 ? six->sin6_port : four->sin_port);
}

Socket Listener::accept(Deadline deadline) {
  for (;;) {
    pollfd file{file_, POLLIN, 0};
    wait_for({&file, 1}, deadline);
    Socket socket(::accept4(file_, nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) continue;  // who came has gone again
    settle(socket.file_);
    return socket;
  }
}

}  // namespace neurim
