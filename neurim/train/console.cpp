#include "neurim/train/console.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "neurim/base/error.h"

namespace neurim {

namespace {

constexpr std::chrono::milliseconds kTerminalPause{100};
constexpr std::chrono::seconds kPlainPause{30};

std::atomic<int> stdout_failure{0};  // errno of the first failed write

/// The beginning of a UTF-8 line that fits into so many columns.
std::string_view cut(std::string_view line, std::size_t columns) {
  for (std::size_t at = 0, used = 0; at < line.size(); ++at)
    if ((line[at] & 0xC0) != 0x80 && ++used > columns) return line.substr(0, at);
  return line;
}

/// The columns of the terminal behind a descriptor.
std::size_t columns_of(int descriptor) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col : 80;
}

}  // namespace

Console::Console(Options options)
    : options_(std::move(options)),
      terminal_(::isatty(options_.json ? STDERR_FILENO : STDOUT_FILENO)),
      next_(terminal_ ? Clock::time_point::min() : Clock::now() + kPlainPause) {}

Console::~Console() {
  wipe();
  if (log_ >= 0) ::close(log_);
}

void Console::log_into(const fs::path& path) {
  if (log_ >= 0) ::close(log_);
  log_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (log_ < 0) fail(Fault::resource, path.string(), ": cannot open: ", std::strerror(errno));
}

void Console::wipe() {
  if (!drawn_) return;
  std::FILE* out = options_.json ? stderr : stdout;
  write_out(out, "\r\x1b[K");
  drawn_ = false;
}

void Console::print(std::string_view line) { print_to(line, options_.json ? stderr : stdout); }

void Console::warn(std::string_view line) { print_to(line, stderr); }

void Console::print_to(std::string_view line, std::FILE* out) {
  const std::string whole = text(printable(line), '\n');
  // A full disk must not end a run because of its log; write_file, which saves the weights, reports errors.
  if (log_ >= 0) (void)!::write(log_, whole.data(), whole.size());
  if (!terminal_) next_ = Clock::now() + kPlainPause;
  if (options_.quiet) return;
  if (options_.on_line) return options_.on_line(printable(line));
  wipe();
  write_out(out, whole);
}

void Console::print_lines(std::string_view lines) {
  for (const std::string& line : split(lines, '\n')) print(line);
}

void Console::progress(std::string_view line) {
  const Clock::time_point now = Clock::now();
  if (options_.quiet || options_.on_line || now < next_) return;
  if (!terminal_) return print(line);
  std::FILE* out = options_.json ? stderr : stdout;
  write_out(out, text('\r', cut(printable(line), progress_columns()), "\x1b[K"));
  next_ = now + kTerminalPause;
  drawn_ = true;
}

std::size_t Console::progress_columns() const {
  // A line that wraps would leave its first half on the terminal.
  return terminal_ ? columns_of(options_.json ? STDERR_FILENO : STDOUT_FILENO) - 1 : 1 << 16;
}

void Console::event(const JsonObject& object) {
  if (options_.on_event) options_.on_event(object.line());
  if (!options_.json) return;
  write_out(stdout, text(object.line(), '\n'));
}

void write_out(std::FILE* out, std::string_view words) {
  errno = 0;
  const bool written = std::fwrite(words.data(), 1, words.size(), out) == words.size();
  int first = 0;
  if ((std::fflush(out) != 0 || !written) && out == stdout) stdout_failure.compare_exchange_strong(first, errno);
}

std::string lost_output() {
  write_out(stdout, "");  // flushes stdio's buffer
  const int reason = stdout_failure;
  struct stat place {};
  const bool closed = reason == EIO && ::fstat(STDOUT_FILENO, &place) == 0 && S_ISCHR(place.st_mode);  // a terminal
  return reason == 0 || reason == EPIPE || closed ? "" : std::strerror(reason);
}

std::string duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  const auto two = [](std::int64_t n) { return text(n < 10 ? "0" : "", n); };
  return whole < 3600 ? text(whole / 60, ':', two(whole % 60))
                      : text(whole / 3600, ':', two(whole / 60 % 60), ':', two(whole % 60));
}

std::string bar(double share, int columns) {
  const int full = static_cast<int>(std::clamp(share, 0.0, 1.0) * columns);
  std::string out;
  for (int i = 0; i < columns; ++i) out += i < full ? "▇" : "·";
  return out;
}

}  // namespace neurim
