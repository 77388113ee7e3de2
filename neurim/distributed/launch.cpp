#include "neurim/distributed/launch.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "neurim/base/error.h"
#include "neurim/base/text.h"
#include "neurim/distributed/socket.h"

namespace neurim {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kHandedOn[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};
constexpr double kGrace = 10;  // seconds for ranks to end after one has failed, at most

/// These signals wait for us instead of ending the process, as long as this lives.
class HeldSignals {
 public:
  HeldSignals() {
    ::sigemptyset(&set_);
    for (const int signal : kHandedOn) ::sigaddset(&set_, signal);
    ::sigaddset(&set_, SIGCHLD);
    ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~HeldSignals() { release(); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  void release() const { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  /// The next signal, or 0 after a while. `by_a_process`: not of the terminal, which has told all processes itself.
  int next(bool& by_a_process) const {
    const timespec some_time{0, 200'000'000};
    siginfo_t what{};
    const int signal = ::sigtimedwait(&set_, &what, &some_time);
    by_a_process = what.si_code <= 0;
    return std::max(signal, 0);
  }

 private:
  sigset_t set_{}, before_{};
};

/// How a process ended.
struct Ending {
  int rank = 0, code = 0, signal = 0;
  std::string text() const {
    return signal != 0 ? neurim::text("rank ", rank, " was ended by signal ", signal, " (", ::strsignal(signal), ')')
                       : neurim::text("rank ", rank, " ended with exit code ", code);
  }
};

/// The processes of a job.
class Ranks {
 public:
  Ranks(const std::vector<std::string>& command, const std::vector<std::vector<std::string>>& variables,
        const HeldSignals& signals, const fs::path& folder, double timeout)
      : folder_(folder), grace_(static_cast<std::int64_t>(1000 * std::min(kGrace, timeout))) {
    for (const std::vector<std::string>& own : variables) start(command, own, signals);
  }
  ~Ranks() {
    for (const pid_t process : processes_)
      if (process > 0) ::kill(process, SIGKILL), ::waitpid(process, nullptr, 0);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  /// Waits for the end of all; the ending of the rank that failed first, or of rank 0.
  Ending wait(const HeldSignals& signals) {
    std::vector<Ending> failed;
    Clock::time_point last = Clock::time_point::max();
    while (collect(failed)) {
      if (!failed.empty() && last == Clock::time_point::max()) last = Clock::now() + grace_;
      if (Clock::now() > last) hand_on(SIGKILL);
      bool by_a_process = false;
      const int signal = signals.next(by_a_process);
      if (signal != 0 && signal != SIGCHLD && (by_a_process || signal != SIGINT)) hand_on(signal);
    }
    const auto first = std::find_if(failed.begin(), failed.end(), [](const Ending& one) { return one.rank == 0; });
    if (first == failed.end() || first->code == 1) print_others();
    return failed.empty() ? Ending() : failed.front();
  }

 private:
  void start(const std::vector<std::string>& command, const std::vector<std::string>& variables,
             const HeldSignals& signals) {
    std::vector<char*> arguments, environment;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    for (const std::string& one : variables) environment.push_back(const_cast<char*>(one.c_str()));
    for (char** one = environ; *one; ++one) environment.push_back(*one);
    environment.push_back(nullptr);
    const bool first = processes_.empty();
    const std::string errors = errors_of(processes_.size()).string();
    const pid_t parent = ::getpid();
    const pid_t process = ::fork();
    if (process < 0) fail(Fault::resource, "launch: cannot start a process: ", std::strerror(errno));
    if (process == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // no rank outlives its launcher
      if (::getppid() != parent) ::_exit(1);
      signals.release();
      for (const auto& [path, stream] :
           {std::pair("/dev/null", STDOUT_FILENO), std::pair(errors.c_str(), STDERR_FILENO)})
        if (const int file = first ? -1 : ::open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600); file >= 0)
          ::dup2(file, stream);
      ::execvpe(arguments[0], arguments.data(), environment.data());
      ::_exit(127);
    }
    processes_.push_back(process);
  }

  fs::path errors_of(std::size_t rank) const { return folder_ / neurim::text("errors-", rank); }

  void print_others() const {
    for (std::size_t rank = 1; rank < processes_.size(); ++rank)
      if (is_there(errors_of(rank))) std::fputs(read_file(errors_of(rank)).c_str(), stderr);
  }

  void hand_on(int signal) const {
    for (const pid_t process : processes_)
      if (process > 0) ::kill(process, signal);
  }

  /// Notes who has ended; whether somebody still runs.
  bool collect(std::vector<Ending>& failed) {
    bool any = false;
    for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
      int status = 0;
      if (processes_[rank] == 0) continue;
      if (::waitpid(processes_[rank], &status, WNOHANG) == 0) {
        any = true;
        continue;
      }
      processes_[rank] = 0;
      Ending ending{.rank = static_cast<int>(rank)};
      if (WIFSIGNALED(status))
        ending.code = 1, ending.signal = WTERMSIG(status);
      else
        ending.code = WEXITSTATUS(status);
      if (ending.code != 0) failed.push_back(ending);
    }
    return any;
  }

  const fs::path folder_;  // of what ranks write to stderr
  const std::chrono::milliseconds grace_;
  std::vector<pid_t> processes_;  // 0: has ended
};

}  // namespace

int launch(const std::vector<std::string>& command, const LaunchOptions& options,
           const std::function<std::vector<std::string>(const std::string& run)>& again) {
  require(options.processes >= 1 && options.processes <= 1024, "np is ", options.processes, "; it is 1 to 1024");
  require(options.restarts >= 0, "max_restarts is ", options.restarts, "; it is at least 0");
  require(options.timeout > 0, "timeout is ", options.timeout, "; it is a number of seconds above 0");
  const auto folder = temporary_folder();
  const fs::path run_file = *folder / "run";
  const HeldSignals signals;
  std::vector<std::string> line = command;
  for (int restart = 0;; ++restart) {
    const std::string address = options.address.empty() ? text("127.0.0.1:", Listener("127.0.0.1", "0").port())
                                                        : options.address;
    const std::string secret = drawn_secret();
    std::vector<std::vector<std::string>> variables;
    for (int rank = 0; rank < options.processes; ++rank)
      variables.push_back({text("NEURIM_RANK=", rank), text("NEURIM_SIZE=", options.processes),
                           text("NEURIM_LOCAL_RANK=", rank), text("NEURIM_LOCAL_SIZE=", options.processes),
                           text("NEURIM_ADDRESS=", address), text("NEURIM_SECRET=", secret),
                           text("NEURIM_TIMEOUT=", options.timeout), text(kRunFileVariable, '=', run_file.string())});
    const Ending ending = Ranks(line, variables, signals, *folder, options.timeout).wait(signals);
    if (ending.code == 0) return 0;
    const bool lost = ending.signal != 0 || ending.code == 1;
    if (options.tell && lost) options.tell(ending.text());
    if (!lost || restart == options.restarts) return ending.code;
    const std::string run = is_there(run_file) ? read_file(run_file) : "";
    line = run.empty() ? command : again(run);
    if (options.tell)
      options.tell(text("restart ", restart + 1, " of ", options.restarts, ": ",
                        run.empty() ? "nothing was saved yet, the job begins anew" : text("going on with ", run)));
  }
}

}  // namespace neurim
