#include "neurim/base/process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "neurim/base/error.h"

namespace neurim {

namespace {

/// The two ends of a pipe, which other programs that are started do not get.
std::array<int, 2> pipe_ends() {
  std::array<int, 2> ends;
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail(Fault::resource, "cannot make a pipe: ", std::strerror(errno));
  return ends;
}

}  // namespace

Process::Process(const std::vector<std::string>& words, const std::string& errors) {
  const std::array<int, 2> in = pipe_ends(), out = pipe_ends();
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  if (!errors.empty())
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int error = ::posix_spawnp(&child_, words[0].c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(in[0]), ::close(out[1]);
  if (error != 0) {
    ::close(in[1]), ::close(out[0]);
    fail(Fault::resource, "cannot run ", words[0], ": ", std::strerror(error));
  }
  std::signal(SIGPIPE, SIG_IGN);  // a program that has ended is told by what it answers
  to_ = ::fdopen(in[1], "w");
  from_ = ::fdopen(out[0], "r");
}

Process::~Process() {
  std::fclose(to_);  // the program reads the end, and ends
  std::fclose(from_);
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::string Process::ask(const std::string& line) {
  if (std::fputs((line + '\n').c_str(), to_) < 0 || std::fflush(to_) != 0) return "";
  return this->line();
}

std::string Process::line() {
  std::string line;
  for (int c = std::fgetc(from_); c != EOF && c != '\n'; c = std::fgetc(from_)) line += static_cast<char>(c);
  return line;
}

}  // namespace neurim
