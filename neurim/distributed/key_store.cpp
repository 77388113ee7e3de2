#include "neurim/distributed/key_store.h"

#include <cstdlib>
#include <thread>

#include "neurim/base/error.h"
#include "neurim/base/text.h"

namespace neurim {

namespace {

constexpr std::size_t kMostAnswer = 1 << 16;
constexpr int kFound = 200, kNothing = 404;  // of HTTP
constexpr auto kBetweenTries = std::chrono::milliseconds(20);

}  // namespace

Socket KeyStore::connect(Deadline deadline) const {
  const std::size_t colon = address_.rfind(':');
  require(colon != address_.npos, "the address of the key store is '", address_, "'; it is HOST:PORT");
  return Socket::connect(address_.substr(0, colon), address_.substr(colon + 1), deadline);
}

std::string KeyStore::local_host(Deadline deadline) const { return connect(deadline).local_host(); }

std::string KeyStore::answer(const std::string& request, int& status, Deadline deadline) const {
  Socket socket = connect(deadline);
  socket.send(std::as_bytes(std::span(request)), deadline);
  std::string came;
  std::size_t end = came.npos;
  for (char one = 0; end == came.npos; end = came.find("\r\n\r\n")) {
    socket.receive(std::as_writable_bytes(std::span(&one, 1)), deadline);
    came += one;
    if (came.size() > kMostAnswer) fail(Fault::failure, "the key store at ", address_, " answers at too great length");
  }
  const std::size_t space = came.find(' ');
  status = space == came.npos ? 0 : std::atoi(came.c_str() + space);
  const std::string name = "content-length:";
  const std::size_t length = lower(came).find(name);
  const unsigned long size = length == came.npos ? 0 : std::strtoul(came.c_str() + length + name.size(), nullptr, 10);
  if (size > kMostAnswer) fail(Fault::failure, "the key store at ", address_, " answers ", size, " bytes");
  std::string value(size, '\0');
  socket.receive(std::as_writable_bytes(std::span(value)), deadline);
  return value;
}

void KeyStore::put(const std::string& key, const std::string& value, Deadline deadline) const {
  int status = 0;
  answer(text("PUT /neurim/", key, " HTTP/1.0\r\nContent-Length: ", value.size(), "\r\n\r\n", value), status, deadline);
  if (status != kFound) fail(Fault::failure, "the key store at ", address_, " does not take ", key, ": HTTP ", status);
}

std::string KeyStore::get(const std::string& key, Deadline deadline) const {
  for (;;) {
    int status = 0;
    const std::string value = answer(text("GET /neurim/", key, " HTTP/1.0\r\n\r\n"), status, deadline);
    if (status == kFound) return value;
    if (status != kNothing) fail(Fault::failure, "the key store at ", address_, " gives no ", key, ": HTTP ", status);
    if (std::chrono::steady_clock::now() > deadline)
      fail(Fault::failure, "rank 0 has not left its ", key, " in the key store at ", address_);
    std::this_thread::sleep_for(kBetweenTries);
  }
}

}  // namespace neurim
