// A small HTTP/1.1 server for pages of this machine.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace neurim {

/// A request, decoded.
struct HttpRequest {
  std::string method, path;                                    ///< path: percent-decoded, without the query
  std::map<std::string, std::string> query, headers, cookies;  ///< names of headers in small letters
};

struct HttpReply {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
};

/// Answers requests of loopback connections in a few threads. A request has at most 16 KiB of header and no body; a
/// connection that says nothing for 30 s, or is one of more than 256, is closed.
class HttpServer {
 public:
  using Handler = std::function<HttpReply(const HttpRequest&)>;
  /// Listens on 127.0.0.1. Port 0: any that is free. The handler is called from several threads. Throws Error(resource)
  /// where the port is taken.
  HttpServer(std::uint16_t port, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;

  std::uint16_t port() const;
  void run();   ///< Answers until stop(), SIGINT or SIGTERM.
  void stop();  ///< From any thread.

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The text with %41 and + decoded; nothing else of it changes.
std::string url_decoded(std::string_view text);

}  // namespace neurim
