#include "neurim/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "neurim/base/error.h"

namespace neurim {

namespace {

struct Descriptor {
  int fd;
  explicit Descriptor(int opened) : fd(opened) {}
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  Descriptor(const Descriptor&) = delete;
};

int open_for_reading(const fs::path& path, struct stat& info) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(Fault::data, path.string(), ": cannot open: ", std::strerror(errno), "; check the path and its permissions");
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    fail(Fault::data, path.string(), ": is not a regular file");
  }
  return fd;
}

void sync_folder(const fs::path& folder) {
  Descriptor dir(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (dir.fd >= 0) ::fsync(dir.fd);
}

}  // namespace

std::string read_file(const fs::path& path) {
  struct stat info {};
  Descriptor file(open_for_reading(path, info));
  std::string bytes(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::read(file.fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(Fault::data, path.string(), ": cannot read: ", std::strerror(errno));
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

void write_file(const fs::path& path, std::string_view bytes) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  static std::atomic<unsigned> serial{0};
  const std::string temporary =
      (folder / text(".", path.filename().string(), ".", ::getpid(), ".", serial++, ".tmp")).string();
  auto give_up = [&](const char* step, int reason) {
    ::unlink(temporary.c_str());
    fail(Fault::resource, path.string(), ": cannot ", step, " (", bytes.size(), " bytes needed): ", std::strerror(reason),
         "; the previous file, if any, is unchanged");
  };
  Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.fd < 0) give_up("create a temporary file beside it", errno);
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(file.fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) give_up("write", errno);
    done += static_cast<std::size_t>(n);
  }
  if (::fsync(file.fd) != 0) give_up("sync", errno);  // never retried: a failed fsync may have dropped the pages
  if (::rename(temporary.c_str(), path.c_str()) != 0) give_up("rename into place", errno);
  sync_folder(folder);
}

MappedFile::MappedFile(const fs::path& path) {
  struct stat info {};
  Descriptor file(open_for_reading(path, info));
  size_ = static_cast<std::size_t>(info.st_size);
  if (size_ == 0) return;
  void* at = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (at == MAP_FAILED) fail(Fault::resource, path.string(), ": cannot map: ", std::strerror(errno));
  data_ = static_cast<const std::byte*>(at);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace neurim
