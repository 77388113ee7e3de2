#include "neurim/serve/http.h"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/strand.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <csignal>
#include <memory>
#include <optional>
#include <thread>

#include "neurim/base/error.h"
#include "neurim/base/text.h"

namespace neurim {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

namespace {

constexpr int kThreads = 4, kMostConnections = 256;
constexpr std::chrono::seconds kTimeout{30};

std::map<std::string, std::string> pairs_of(std::string_view text, std::string_view between, bool decode) {
  std::map<std::string, std::string> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(between), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + between.size(), text.size()));
    const std::size_t equals = one.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string name(one.substr(0, equals)), value(one.substr(equals + 1));
    out[decode ? url_decoded(name) : name] = decode ? url_decoded(value) : value;
  }
  return out;
}

HttpRequest decoded(const http::request<http::empty_body>& request) {
  HttpRequest out;
  out.method = std::string(request.method_string());
  const std::string target(request.target());
  const std::size_t question = target.find('?');
  out.path = url_decoded(target.substr(0, question));
  if (question != std::string::npos) out.query = pairs_of(std::string_view(target).substr(question + 1), "&", true);
  for (const auto& field : request) out.headers[lower(std::string(field.name_string()))] = std::string(field.value());
  out.cookies = pairs_of(out.headers["cookie"], "; ", false);
  return out;
}

http::response<http::string_body> encoded(const HttpReply& reply, const http::request<http::empty_body>& request) {
  http::response<http::string_body> out(static_cast<http::status>(reply.status), request.version());
  out.set(http::field::content_type, reply.type);
  for (const auto& [name, value] : reply.headers) out.insert(name, value);
  out.keep_alive(request.keep_alive());
  out.body() = reply.body;
  out.prepare_payload();
  if (request.method() == http::verb::head) out.body().clear();  // its length stays in the header
  return out;
}

}  // namespace

std::string url_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && text.size() - i > 2) {
      const auto [end, error] = std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16);
      if (error == std::errc() && end == text.data() + i + 3) {
        out += static_cast<char>(value);
        i += 2;
        continue;
      }
    }
    out += text[i] == '+' ? ' ' : text[i];
  }
  return out;
}

struct HttpServer::State {
  explicit State(Handler answer) : handler(std::move(answer)) {}

  Handler handler;
  asio::io_context context{kThreads};
  tcp::acceptor acceptor{context};
  std::atomic<int> connections = 0;

  void accept();
};

namespace {

HttpReply answered(const HttpServer::Handler& handler, const HttpRequest& request) {
  try {
    return handler(request);
  } catch (const std::exception& error) {
    return {.status = 500, .body = text(error.what(), '\n')};
  }
}

/// A connection: reads a request, answers, and so on. It lives as long as an operation waits.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, const HttpServer::Handler& handler, std::atomic<int>& connections)
      : stream_(std::move(socket)), handler_(handler), connections_(connections) {}
  ~Connection() { --connections_; }
  Connection(const Connection&) = delete;

  void read() {
    parser_.emplace();
    parser_->header_limit(16 * 1024);
    stream_.expires_after(kTimeout);
    http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](beast::error_code error, std::size_t) {
      if (!error) self->write();  // else the other side has gone, said nothing in time, or said what is no request
    });
  }

 private:
  void write() {
    const http::request<http::empty_body> request = parser_->release();
    reply_ = encoded(answered(handler_, decoded(request)), request);
    stream_.expires_after(kTimeout);
    http::async_write(stream_, reply_, [self = shared_from_this()](beast::error_code error, std::size_t) {
      if (!error && self->reply_.keep_alive()) self->read();
    });
  }

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::empty_body>> parser_;
  http::response<http::string_body> reply_;
  const HttpServer::Handler& handler_;
  std::atomic<int>& connections_;
};

}  // namespace

void HttpServer::State::accept() {
  // Each connection has a strand, as its time limit and its operations come from several threads.
  acceptor.async_accept(asio::make_strand(context), [this](beast::error_code error, tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (!error && ++connections > kMostConnections)
      --connections;  // and the socket is closed
    else if (!error)
      std::make_shared<Connection>(std::move(socket), handler, connections)->read();
    accept();
  });
}

HttpServer::HttpServer(std::uint16_t port, Handler handler) : state_(std::make_unique<State>(std::move(handler))) {
  const tcp::endpoint here(asio::ip::address_v4::loopback(), port);
  try {
    state_->acceptor.open(here.protocol());
    state_->acceptor.set_option(asio::socket_base::reuse_address(true));
    state_->acceptor.bind(here);
    state_->acceptor.listen();
  } catch (const boost::system::system_error& error) {
    fail(Fault::resource, "port ", port, ": ", error.code().message(), "; name another one, or 0 for any");
  }
  state_->accept();
}

HttpServer::~HttpServer() = default;

std::uint16_t HttpServer::port() const { return state_->acceptor.local_endpoint().port(); }

void HttpServer::run() {
  asio::signal_set signals(state_->context, SIGINT, SIGTERM);
  signals.async_wait([this](const beast::error_code& error, int) {
    if (!error) stop();
  });
  std::vector<std::jthread> others;
  for (int i = 1; i < kThreads; ++i) others.emplace_back([this] { state_->context.run(); });
  state_->context.run();
}

void HttpServer::stop() { state_->context.stop(); }

}  // namespace neurim
