#include "neurim/base/writable.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "neurim/base/error.h"

namespace neurim {

namespace {

/// `folder` is there.
void check_open(const fs::path& folder, const fs::path& path) {
  std::error_code error;
  const int reason = !fs::is_directory(folder, error)             ? ENOTDIR
                     : ::access(folder.c_str(), W_OK | X_OK) != 0 ? errno
                                                                  : 0;
  if (reason != 0)
    fail(Fault::resource, path.string(), ": cannot be written: ", folder.string(), ": ", std::strerror(reason));
}

/// A path with its symbolic links resolved.
fs::path followed(const fs::path& path) {
  std::error_code error;
  const fs::path target = fs::weakly_canonical(fs::absolute(path), error);
  if (error) fail(Fault::resource, path.string(), ": cannot be written: ", error.message());
  return target;
}

}  // namespace

void check_can_write(const fs::path& path) {
  if (writes_in_place(path)) return;
  const fs::path target = followed(path), folder = target.parent_path();
  std::error_code error;
  if (fs::is_directory(target, error) || !path.has_filename())
    fail(Fault::resource, path.string(), ": cannot be written: it is a folder; give the name of a file");
  if (!fs::exists(folder, error))
    fail(Fault::resource, path.string(), ": cannot be written: there is no folder ", folder.string(),
         "; make it first");
  check_open(folder, path);
}

void check_can_make(const fs::path& folder) {
  fs::path there = followed(folder);
  std::error_code error;
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  check_open(there, folder);
}

void check_no_input(const fs::path& out, const std::vector<fs::path>& inputs) {
  std::error_code error;
  for (const fs::path& input : inputs)
    if (fs::equivalent(out, input, error))
      fail(Fault::usage, out.string(), ": is ", out == input ? "what" : text(input.string(), ", which"),
           " is read here, and nothing is written over what is read; give another name");
}

}  // namespace neurim
