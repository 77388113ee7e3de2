#include "neurim/cli/interrupt.h"

#include <csignal>

namespace neurim::cli {

namespace {

std::atomic<int> noted{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void note(int signal) { noted = signal; }

void on_signals(void (*handler)(int), int flags) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = flags;
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
}

}  // namespace

Interrupt::Interrupt() {
  noted = 0;
  on_signals(note, SA_RESTART | static_cast<int>(SA_RESETHAND));
}

Interrupt::~Interrupt() { on_signals(SIG_DFL, 0); }

const std::atomic<int>& Interrupt::signal() const { return noted; }

int Interrupt::exit_code() const { return noted == SIGTERM ? 75 : 130; }

}  // namespace neurim::cli
