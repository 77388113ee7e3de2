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
#include <map>
#include <random>
#include <utility>

#include "neurim/base/error.h"
#include "neurim/base/shell.h"
#include "neurim/base/text.h"
#include "neurim/distributed/socket.h"
#include "neurim/hardware/machine.h"

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
  bool of_shell = false;  // that was to start it elsewhere
  std::string text() const {
    if (of_shell) return neurim::text("rank ", rank, " was not started: the remote shell ended with exit code ", code);
    return signal != 0 ? neurim::text("rank ", rank, " was ended by signal ", signal, " (", ::strsignal(signal), ')')
                       : neurim::text("rank ", rank, " ended with exit code ", code);
  }
};

/// How a rank is started.
struct Start {
  std::vector<std::string> command, variables;
  std::string first_line;  // that it reads; "": it is a process of this machine, which reads nothing
};

/// The processes of a job: of this machine, or the remote shells of those elsewhere.
class Ranks {
 public:
  Ranks(const std::vector<Start>& starts, const HeldSignals& signals, const fs::path& folder, double timeout)
      : folder_(folder), grace_(static_cast<std::int64_t>(1000 * std::min(kGrace, timeout))) {
    for (const Start& one : starts) start(one, signals);
  }
  ~Ranks() {
    for (const pid_t process : processes_)
      if (process > 0) ::kill(process, SIGKILL), ::waitpid(process, nullptr, 0);
    for (const int input : inputs_)
      if (input >= 0) ::close(input);
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  /// Waits for the end of all; the ending of the rank that failed first, or of rank 0.
  Ending wait(const HeldSignals& signals) {
    std::vector<Ending> failed;
    Clock::time_point last = Clock::time_point::max();
    while (collect(failed)) {
      if (!failed.empty() && last == Clock::time_point::max()) last = Clock::now() + grace_;
      if (Clock::now() > last) {
        hand_on(SIGKILL);
        last = Clock::now() + grace_;
      }
      bool by_a_process = false;
      const int signal = signals.next(by_a_process);
      if (signal != 0 && signal != SIGCHLD) hand_on(signal, by_a_process || signal != SIGINT);
    }
    const auto first = std::find_if(failed.begin(), failed.end(), [](const Ending& one) { return one.rank == 0; });
    if (first == failed.end() || first->code == 1) print_others();
    return failed.empty() ? Ending() : failed.front();
  }

 private:
  void start(const Start& how, const HeldSignals& signals) {
    std::vector<char*> arguments, environment;
    for (const std::string& word : how.command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    for (const std::string& one : how.variables) environment.push_back(const_cast<char*>(one.c_str()));
    for (char** one = environ; *one; ++one) environment.push_back(*one);
    environment.push_back(nullptr);
    const bool first = processes_.empty();
    const std::string errors = errors_of(processes_.size()).string();
    const pid_t parent = ::getpid();
    int input[2] = {-1, -1};
    if (!how.first_line.empty() && ::pipe2(input, O_CLOEXEC) != 0)
      fail(Fault::resource, "launch: cannot make a pipe: ", std::strerror(errno));
    const pid_t process = ::fork();
    if (process < 0) fail(Fault::resource, "launch: cannot start a process: ", std::strerror(errno));
    if (process == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // no rank outlives its launcher
      if (::getppid() != parent) ::_exit(1);
      signals.release();
      if (input[0] >= 0) {
        ::dup2(input[0], STDIN_FILENO);
        ::setpgid(0, 0);  // Ctrl-C of the terminal would end the shell before its rank
      }
      for (const auto& [path, stream] :
           {std::pair("/dev/null", STDOUT_FILENO), std::pair(errors.c_str(), STDERR_FILENO)})
        if (const int file = first ? -1 : ::open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600); file >= 0)
          ::dup2(file, stream);
      ::execvpe(arguments[0], arguments.data(), environment.data());
      ::_exit(127);
    }
    processes_.push_back(process);
    inputs_.push_back(input[1]);
    is_elsewhere_.push_back(!how.first_line.empty());
    if (input[0] < 0) return;
    ::close(input[0]);
    tell(input[1], how.first_line);
  }

  /// Writes a line for a remote shell; one that has ended reads nothing.
  static void tell(int input, const std::string& line) {
    const std::string whole = line + '\n';
    if (::write(input, whole.data(), whole.size()) < 0 && errno != EPIPE)
      fail(Fault::resource, "launch: cannot write to a remote shell: ", std::strerror(errno));
  }

  fs::path errors_of(std::size_t rank) const { return folder_ / neurim::text("errors-", rank); }

  void print_others() const {
    for (std::size_t rank = 1; rank < processes_.size(); ++rank)
      if (is_there(errors_of(rank))) std::fputs(read_file(errors_of(rank)).c_str(), stderr);
  }

  /// `to_all`: also to the processes of this machine.
  void hand_on(int signal, bool to_all = true) {
    for (std::size_t rank = 0; rank < processes_.size(); ++rank) {
      if (processes_[rank] == 0) continue;
      if (inputs_[rank] < 0) {
        if (to_all) ::kill(processes_[rank], signal);
      } else if (signal != SIGKILL) {
        tell(inputs_[rank], ::sigabbrev_np(signal));
      } else {  // the shell there kills it; if it does not answer, ours is ended next
        ::close(std::exchange(inputs_[rank], -1));
      }
    }
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
      if (is_elsewhere_[rank]) read_shell(ending);
      if (ending.code != 0) failed.push_back(ending);
    }
    return any;
  }

  /// What the exit code of a remote shell says: its own fault (ssh's is 255), or the signal that has ended the rank.
  static void read_shell(Ending& ending) {
    constexpr int kNotRun = 126, kNotFound = 127, kSignals = 128, kSsh = 255;
    ending.of_shell = ending.code == kNotRun || ending.code == kNotFound || ending.code == kSsh;
    if (ending.of_shell || ending.code <= kSignals || ending.code == kSignals + SIGINT) return;  // that of a saved run
    ending.signal = std::exchange(ending.code, 1) - kSignals;
  }

  const fs::path folder_;  // of what ranks write to stderr
  const std::chrono::milliseconds grace_;
  std::vector<pid_t> processes_;  // 0: has ended
  std::vector<char> is_elsewhere_;
  std::vector<int> inputs_;  // of remote shells; -1: a process of this machine, or a shell that was told to end
};

/// Where each rank runs.
struct RankPlace {
  std::string host;  // "": this machine
  int local_rank = 0, local_size = 1;
};

std::vector<RankPlace> places_of(const LaunchOptions& options) {
  std::vector<RankPlace> places;
  const std::vector<HostSlots> here{{.host = "localhost", .slots = options.processes}};
  for (const HostSlots& one : options.hosts.empty() ? here : options.hosts)
    for (int local = 0; local < one.slots && std::ssize(places) < options.processes; ++local)
      places.push_back({is_this_machine(one.host) ? "" : one.host});
  std::map<std::string, int> of_host;
  for (RankPlace& place : places) place.local_rank = of_host[place.host]++;
  for (RankPlace& place : places) place.local_size = of_host[place.host];
  require(std::ssize(places) == options.processes, "np is ", options.processes, ", and hosts has room for ",
          places.size(), " processes");
  return places;
}

/// Where the ranks meet.
std::string meeting_of(const LaunchOptions& options, const std::vector<RankPlace>& places) {
  if (!options.address.empty()) return options.address;
  const bool all_here = std::all_of(places.begin(), places.end(),
                                    [](const RankPlace& one) { return one.host.empty(); });
  if (all_here) return text("127.0.0.1:", Listener("127.0.0.1", "0").port());
  if (places[0].host.empty()) return text(host_name(), ':', Listener("", "0").port());
  constexpr unsigned kFirstPort = 20000, kPorts = 12000;  // below those that systems give to clients
  const std::string& first = places[0].host;
  return text(first.substr(first.find('@') + 1), ':', kFirstPort + std::random_device()() % kPorts);
}

/// The variables of this process that ranks of other machines get too: those of ours and of Horovod's, but no secrets,
/// which lists of processes would show.
std::vector<std::string> handed_on_variables() {
  std::vector<std::string> variables;
  for (char** one = environ; *one; ++one) {
    const std::string_view variable = *one, name = variable.substr(0, variable.find('='));
    const bool ours = name.find("NEURIM_") == 0 || name.find("HOROVOD_") == 0;
    const bool secret = name.find("SECRET") != name.npos || name.find("KEY") != name.npos;
    if (ours && !secret) variables.emplace_back(variable);
  }
  return variables;
}

/// All ranks of a job that has this secret.
std::vector<Start> starts_of(const std::vector<std::string>& command, const LaunchOptions& options,
                             const std::vector<RankPlace>& places, const fs::path& run_file) {
  const std::string address = meeting_of(options, places), secret = drawn_secret();
  std::vector<Start> starts;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    const RankPlace& place = places[rank];
    std::vector<std::string> variables{text("NEURIM_RANK=", rank),
                                       text("NEURIM_SIZE=", places.size()),
                                       text("NEURIM_LOCAL_RANK=", place.local_rank),
                                       text("NEURIM_LOCAL_SIZE=", place.local_size),
                                       text("NEURIM_ADDRESS=", address),
                                       text("NEURIM_TIMEOUT=", options.timeout)};
    if (place.host.empty()) {
      variables.push_back(text(kRunFileVariable, '=', run_file.string()));
      variables.push_back(text("NEURIM_SECRET=", secret));
      starts.push_back({command, std::move(variables), ""});
      continue;
    }
    const std::vector<std::string> handed_on = handed_on_variables();
    variables.insert(variables.begin(), handed_on.begin(), handed_on.end());
    std::vector<std::string> shell = split(options.remote_shell, ' ');
    shell.push_back(place.host);
    const std::string script = remote_script(fs::current_path().string(), variables, command, "NEURIM_SECRET");
    shell.push_back(text("sh -c ", shell_word(script)));  // whatever shell the user has there
    starts.push_back({std::move(shell), {}, secret});
  }
  return starts;
}

}  // namespace

int launch(const std::vector<std::string>& command, const LaunchOptions& options,
           const std::function<std::vector<std::string>(const std::string& run)>& again) {
  require(options.processes >= 1 && options.processes <= 1024, "np is ", options.processes, "; it is 1 to 1024");
  require(options.restarts >= 0, "max_restarts is ", options.restarts, "; it is at least 0");
  require(options.timeout > 0, "timeout is ", options.timeout, "; it is a number of seconds above 0");
  const std::vector<RankPlace> places = places_of(options);
  require(options.restarts == 0 || places[0].host.empty(),
          "max_restarts takes rank 0 on this machine, which keeps what was saved; name it first in hosts: localhost:1,",
          places[0].host);
  const auto folder = temporary_folder();
  const fs::path run_file = *folder / "run";
  const HeldSignals signals;
  std::vector<std::string> line = command;
  for (int restart = 0;; ++restart) {
    const Ending ending = Ranks(starts_of(line, options, places, run_file), signals, *folder, options.timeout)
                              .wait(signals);
    if (ending.code == 0) return 0;
    const bool lost = ending.signal != 0 || ending.code == 1 || ending.of_shell;
    if (options.tell && lost) options.tell(ending.text());
    if (!lost || restart == options.restarts) return lost ? 1 : ending.code;
    const std::string run = is_there(run_file) ? read_file(run_file) : "";
    line = run.empty() ? command : again(run);
    if (options.tell)
      options.tell(text("restart ", restart + 1, " of ", options.restarts, ": ",
                        run.empty() ? "nothing was saved yet, the job begins anew" : text("going on with ", run)));
  }
}

}  // namespace neurim
