#include "neurim/cli/interrupt.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "neurim/cli/summary.h"

namespace neurim::cli {

namespace {

// What the handler needs is ready when it comes: it may neither allocate nor print.
std::atomic<int> noted{0};
std::atomic<const char*> line_end{""};  // of the progress line that a terminal shows
std::atomic<const char*> last_words{""};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

/// Says nothing where nobody reads, which would keep a second signal from ending the process.
void put(const char* words) {
  pollfd stderr_now{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&stderr_now, 1, 0) == 1 && (stderr_now.revents & POLLOUT)) (void)!::write(STDERR_FILENO, words, std::strlen(words));
}

extern "C" void note(int signal) {
  const int error = errno;
  int none = 0;
  const bool first = noted.compare_exchange_strong(none, signal);
  put(line_end);
  put(!first             ? last_words.load()
      : signal == SIGINT ? "stopping after this step and saving; Ctrl-C again quits at once\n"
                         : "stopping after this step and saving; a second signal quits at once\n");
  if (!first) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);  // takes effect at the end of this handler
  }
  errno = error;
}

void on_signals(void (*handler)(int), int flags) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = flags;
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
}

}  // namespace

Interrupt::Interrupt() {
  noted = 0;
  line_end = ::isatty(STDERR_FILENO) ? "\n" : "";
  last_words = "";
  on_signals(note, SA_RESTART);
}

Interrupt::~Interrupt() { on_signals(SIG_DFL, 0); }

const std::atomic<int>& Interrupt::signal() const { return noted; }

int Interrupt::exit_code() const { return noted == SIGTERM ? 75 : 130; }

void Interrupt::saved(const fs::path& run) const {
  if (*last_words.load() != '\0') return;
  static std::string words;
  words = text("quit; what was saved last remains, go on with: neurim resume ", shell_word(run.string()), '\n');
  last_words = words.c_str();
}

}  // namespace neurim::cli
