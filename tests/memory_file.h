// Files that lie in memory, for tests that open many.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <string_view>

#include "neurim/base/error.h"
#include "neurim/base/file.h"

namespace neurim {

/// A file that goes with this.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(::memfd_create("neurim-test", MFD_CLOEXEC)) {
    if (descriptor_ < 0 || ::write(descriptor_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      fail(Fault::resource, "cannot make a file in memory");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  fs::path path() const { return text("/proc/self/fd/", descriptor_); }

 private:
  int descriptor_;
};

}  // namespace neurim
