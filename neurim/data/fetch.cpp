#include "neurim/data/fetch.h"

#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstring>

#include "neurim/base/error.h"
#include "neurim/base/text.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the program

namespace neurim {

void fetch(const std::string& url, const fs::path& file, std::int64_t most) {
  const std::string target = file.string(), bytes = text(most);
  const char* words[] = {
      "curl",        "--fail",         "--silent",    "--show-error", "--location",   "--retry", "3",         "--proto",
      "=http,https", "--max-filesize", bytes.c_str(), "--output",     target.c_str(), "--",      url.c_str(), nullptr};
  pid_t child = 0;
  if (const int error = ::posix_spawnp(&child, "curl", nullptr, nullptr, const_cast<char**>(words), environ))
    fail(Fault::resource, "cannot run curl: ", std::strerror(error), "; install it, or fetch ", url, " yourself");
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && fs::file_size(file) <= static_cast<std::uintmax_t>(most)) return;
  std::error_code ignored;
  fs::remove(file, ignored);
  fail(Fault::resource, "curl could not fetch ", url, "; see its message above, or fetch it yourself");
}

}  // namespace neurim
