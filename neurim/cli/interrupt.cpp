#include "neurim/cli/interrupt.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>

#include "neurim/base/shell.h"
#include "neurim/cli/summary.h"

namespace neurim::cli {

namespace {

/// The signals by which users, closing terminals and batch systems (Slurm, SGE, LSF) announce the end.
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};

struct sigaction before[std::size(kSignals)];  // the handlers before

// The handler may neither allocate nor print with stdio, so what it needs is prepared.
std::atomic<int> noted{0};
std::atomic<bool> asked{false};         // by SIGINT or SIGTERM
std::atomic<const char*> line_end{""};  // ends the progress line on a terminal
std::atomic<const char*> last_words{""};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

/// Does nothing if nobody reads: a blocked write would keep a second signal from ending the process.
void put(const char* words) {
  pollfd stderr_now{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&stderr_now, 1, 0) == 1 && (stderr_now.revents & POLLOUT))
    (void)!::write(STDERR_FILENO, words, std::strlen(words));
}

/// A second SIGINT or SIGTERM quits. The others repeat by themselves: SIGXCPU each second, SIGHUP from the shell and
/// the kernel, SIGUSR1 some time before SIGTERM.
extern "C" void note(int signal) {
  const int error = errno;
  int none = 0;
  const bool first = noted.compare_exchange_strong(none, signal);
  const bool asks = signal == SIGINT || signal == SIGTERM;
  const bool again = asks && asked.exchange(true);
  if (first || asks) {
    put(line_end);
    put(again              ? last_words.load()
        : signal == SIGINT ? "stopping after this step and saving; Ctrl-C again quits at once\n"
        : asks             ? "stopping after this step and saving; a second signal quits at once\n"
                           : "stopping after this step and saving\n");
  }
  if (again) {
    ::signal(signal, SIG_DFL);
    ::raise(signal);  // takes effect when this handler returns
  }
  errno = error;
}

}  // namespace

Interrupt::Interrupt() {
  noted = 0;
  asked = false;
  line_end = ::isatty(STDERR_FILENO) ? "\n" : "";
  last_words = "";
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    ::sigaction(kSignals[i], nullptr, &before[i]);
    // Ignored signals stay ignored (nohup), except SIGINT: shells ignore it for background jobs, where kill -INT is
    // meant.
    if (before[i].sa_handler != SIG_IGN || kSignals[i] == SIGINT) ::sigaction(kSignals[i], &action, nullptr);
  }
}

Interrupt::~Interrupt() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i) ::sigaction(kSignals[i], &before[i], nullptr);
}

const std::atomic<int>& Interrupt::signal() const { return noted; }

int Interrupt::exit_code() const { return noted == SIGINT ? 130 : 75; }

void Interrupt::saved(const fs::path& run) const {
  if (*last_words.load() != '\0') return;
  static std::string words;
  words = text("quit; what was saved last remains, go on with: neurim resume ", shell_word(run.string()), '\n');
  last_words = words.c_str();
}

}  // namespace neurim::cli
