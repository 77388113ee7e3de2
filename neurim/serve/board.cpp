#include "neurim/serve/board.h"

#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>

#include "neurim/base/error.h"
#include "neurim/base/json.h"
#include "neurim/base/text.h"
#include "neurim/serve/pages.h"
#include "neurim/serve/run_log.h"
#include "neurim/train/run_summary.h"

namespace neurim {

namespace {

constexpr std::string_view kCookie = "neurim_board";
constexpr std::uintmax_t kMostFile = 64 << 20;

std::string drawn_token() {
  unsigned char bytes[32];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    fail(Fault::resource, "board: the system gives no random bits");
  std::string token;
  for (const unsigned char byte : bytes) token += "0123456789abcdef"[byte >> 4], token += "0123456789abcdef"[byte & 15];
  return token;
}

/// Compares in a time that does not say how much is right.
bool same_token(std::string_view a, std::string_view b) {
  unsigned different = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < b.size(); ++i) different |= static_cast<unsigned>(b[i] ^ (i < a.size() ? a[i] : 0));
  return different == 0;
}

/// Whether a browser means this machine: pages of others may not ask by a name of theirs.
bool is_local(std::string host) {
  if (const std::size_t colon = host.rfind(':'); colon != std::string::npos && host.back() != ']') host.resize(colon);
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

/// The reply with the headers that every one has, and the policy of pages unless it has one of its own.
HttpReply secured(HttpReply reply) {
  const std::string policy = "Content-Security-Policy";
  if (std::none_of(reply.headers.begin(), reply.headers.end(), [&](const auto& one) { return one.first == policy; }))
    reply.headers.emplace_back(policy,
                               "default-src 'self'; img-src 'self' data:; style-src 'self'; frame-ancestors 'none'");
  reply.headers.insert(
      reply.headers.end(),
      {{"X-Content-Type-Options", "nosniff"}, {"Referrer-Policy", "no-referrer"}, {"Cache-Control", "no-store"}});
  return reply;
}

HttpReply refusal(int status, const std::string& words) { return {.status = status, .body = words + '\n'}; }

HttpReply json(const JsonObject& object) { return {.type = "application/json", .body = object.line()}; }

/// The kind of a file that the board shows; "" of all others.
std::string type_of(const fs::path& file) {
  static const std::map<std::string, std::string> kTypes{{".png", "image/png"},
                                                         {".jpg", "image/jpeg"},
                                                         {".svg", "image/svg+xml"},
                                                         {".html", "text/html; charset=utf-8"},
                                                         {".csv", "text/plain; charset=utf-8"},
                                                         {".json", "application/json"},
                                                         {".txt", "text/plain; charset=utf-8"}};
  const auto found = kTypes.find(file.extension().string());
  return found == kTypes.end() ? "" : found->second;
}

/// The share of all processors that was busy since the last call, the memory in use, and all there is.
class Machine {
 public:
  JsonObject state() {
    std::ifstream stat("/proc/stat"), memory("/proc/meminfo");
    std::string word;
    double value = 0, all = 0, idle = 0;
    stat >> word;
    for (int i = 0; i < 8 && stat >> value; ++i) all += value, idle += i == 3 || i == 4 ? value : 0;
    std::map<std::string, double> kilobytes;
    std::string line;
    while (std::getline(memory, line)) {
      std::istringstream words(line);
      if (words >> word >> value) kilobytes[word] = value;
    }
    const std::lock_guard lock(mutex_);
    const double passed = all - all_, busy = passed > 0 ? 1 - (idle - idle_) / passed : 0;
    all_ = all, idle_ = idle;
    return {{"cpu", busy},
            {"memory_used", (kilobytes["MemTotal:"] - kilobytes["MemAvailable:"]) * 1024},
            {"memory_all", kilobytes["MemTotal:"] * 1024}};
  }

 private:
  std::mutex mutex_;
  double all_ = 0, idle_ = 0;
};

std::vector<double> numbers(const RunLog::Points& points, double after, double std::pair<double, double>::*which) {
  std::vector<double> out;
  for (const auto& point : points)
    if (point.first > after) out.push_back(point.*which);
  return out;
}

}  // namespace

struct Board::State {
  fs::path folder;
  std::string token = drawn_token();
  Machine machine;
  std::mutex mutex;
  std::map<fs::path, RunLog> logs;

  /// The run of that name below the folder: one that runs_below finds, so that no path leads out of it.
  std::optional<fs::path> run_named(const std::string& name) const {
    for (const fs::path& run : runs_below(folder))
      if (name_of(run) == name) return run;
    return std::nullopt;
  }
  std::string name_of(const fs::path& run) const {
    const std::string name = run.lexically_relative(folder).string();
    return name == "." ? run.filename().string() : name;
  }

  JsonObject runs() const {
    std::vector<JsonObject> list;
    for (const fs::path& path : runs_below(folder)) {
      const fs::path log = path / "metrics.jsonl";
      const std::map<std::string, double> last = last_epoch(log);
      std::error_code error;
      const auto written = fs::last_write_time(log, error);
      const double age = error ? -1 : std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count();
      JsonObject metrics;
      for (const auto& [name, value] : last) metrics.add(name, value);
      std::map<std::string, std::string> options = options_of_run(path);
      list.push_back({{"name", name_of(path)},
                      {"model", options["model"]},
                      {"data", options["data"]},
                      {"epochs", options["epochs"]},
                      {"age", age},
                      {"monitor", last.empty() ? "" : monitor_of(options, last).metric},
                      {"last", metrics}});
    }
    return {{"folder", folder.string()}, {"runs", list}};
  }

  /// Curves after an epoch.
  JsonObject curves(const fs::path& run, double after) {
    const std::lock_guard lock(mutex);
    RunLog& log = logs.try_emplace(run, run / "metrics.jsonl").first->second;
    log.update();
    JsonObject all;
    for (const auto& [name, points] : log.curves())
      all.add(name, JsonObject{{"x", numbers(points, after, &std::pair<double, double>::first)},
                               {"y", numbers(points, after, &std::pair<double, double>::second)}});
    return {{"epochs", log.epochs()}, {"curves", all}};
  }

  /// Options and files of a run.
  JsonObject about(const fs::path& run) const {
    JsonObject options;
    for (const auto& [name, value] : options_of_run(run)) options.add(name, value);
    std::vector<std::string> files;
    std::error_code error;
    for (auto entry = fs::recursive_directory_iterator(run, error);
         !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
      if (entry->is_symlink(error) || entry->path().filename() == "weights" || entry.depth() > 3) {
        entry.disable_recursion_pending();
        continue;
      }
      if (entry->is_regular_file(error) && !type_of(entry->path()).empty())
        files.push_back(entry->path().lexically_relative(run).string());
      if (files.size() >= 500) break;
    }
    std::sort(files.begin(), files.end());
    return {{"options", options}, {"files", files}};
  }

  HttpReply file(const fs::path& run, const std::string& path) const {
    std::error_code error;
    const fs::path full = fs::weakly_canonical(run / path, error), root = fs::canonical(run, error);
    const fs::path inside = full.lexically_relative(root);
    const bool beneath = !error && !inside.empty() && *inside.begin() != ".." && !fs::path(path).is_absolute();
    if (!beneath || type_of(full).empty() || !fs::is_regular_file(full, error))
      return refusal(404, "there is no such file");
    if (fs::file_size(full, error) > kMostFile) return refusal(413, "the file is too large to show");
    HttpReply reply{.type = type_of(full), .body = read_file(full)};
    // Pages and drawings of runs run no scripts, and get no cookie.
    if (full.extension() == ".html" || full.extension() == ".svg")
      reply.headers.push_back(
          {"Content-Security-Policy", "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'"});
    return reply;
  }

  HttpReply route(const HttpRequest& request) {
    if (request.path == "/") return {.type = "text/html; charset=utf-8", .body = std::string(kBoardPage)};
    if (request.path == "/board.js")
      return {.type = "text/javascript; charset=utf-8", .body = std::string(kBoardScript)};
    if (request.path == "/board.css") return {.type = "text/css; charset=utf-8", .body = std::string(kBoardStyle)};
    if (request.path == "/api/runs") return json(runs());
    if (request.path == "/api/machine") return json(machine.state());
    const auto asked = request.query.find("run");
    const std::optional<fs::path> run = asked == request.query.end() ? std::nullopt : run_named(asked->second);
    if (!run) return refusal(404, "there is no such run or page");
    if (request.path == "/api/curves") {
      const auto after = request.query.find("after");
      return json(curves(*run, after == request.query.end() ? -1 : std::atof(after->second.c_str())));
    }
    if (request.path == "/api/run") return json(about(*run));
    const auto path = request.query.find("path");
    if (request.path == "/file" && path != request.query.end()) return file(*run, path->second);
    return refusal(404, "there is no such page");
  }
};

Board::Board(const fs::path& folder) : state_(std::make_unique<State>()) {
  if (!is_there(folder)) fail(Fault::data, folder.string(), ": there is no such folder; check the path");
  state_->folder = folder;
}

Board::~Board() = default;

const std::string& Board::token() const { return state_->token; }

HttpReply Board::answer(const HttpRequest& request) {
  const auto header = [&](const char* name) {
    const auto found = request.headers.find(name);
    return found == request.headers.end() ? std::string() : found->second;
  };
  if (!is_local(header("host"))) return secured(refusal(403, "the board answers to localhost alone"));
  if (request.method != "GET" && request.method != "HEAD") return secured(refusal(405, "the board only reads"));
  if (const auto token = request.query.find("token");
      token != request.query.end() && same_token(token->second, state_->token))
    return secured(
        {.status = 303,
         .headers = {{"Location", "/"},
                     {"Set-Cookie", text(kCookie, '=', state_->token, "; HttpOnly; SameSite=Strict; Path=/")}}});
  const auto cookie = request.cookies.find(std::string(kCookie));
  const std::string bearer = header("authorization");
  const bool known = (cookie != request.cookies.end() && same_token(cookie->second, state_->token)) ||
                     (bearer.starts_with("Bearer ") && same_token(bearer.substr(7), state_->token));
  if (!known) return secured(refusal(401, "open the address with ?token= that `neurim board` printed"));
  return secured(state_->route(request));
}

}  // namespace neurim
