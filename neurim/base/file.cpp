#include "neurim/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "neurim/base/environment.h"
#include "neurim/base/error.h"
#include "neurim/base/utf8.h"

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
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe would make us wait for its writer
  if (fd < 0)
    fail(Fault::data, path.string(), ": cannot open: ", std::strerror(errno), "; check the path and its permissions");
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

/// Where writing to `path` ends up: with symbolic links resolved, also where there is no file yet.
fs::path behind_links(const fs::path& path) {
  constexpr int kMostLinks = 40;  // as many as Linux follows
  fs::path at = path;
  std::error_code error;
  for (int links = 0; fs::is_symlink(at, error); ++links) {
    const fs::path target = fs::read_symlink(at, error);
    if (error || links == kMostLinks)
      fail(Fault::resource, path.string(),
           ": cannot follow the symbolic link: ", error ? error.message() : std::strerror(ELOOP),
           "; remove it, or give another name");
    at = at.parent_path() / target;  // an absolute target stands for itself
  }
  return at;
}

/// 0, or why not all of it was written.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

std::string_view fix_of(int reason) { return reason == ENOSPC || reason == EDQUOT ? "; free some space there" : ""; }

/// The descriptor of this process's output that the path leads to, such as /dev/stdout, or -1.
int output_at(const struct stat& info) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat own {};
    if (::fstat(fd, &own) == 0 && own.st_dev == info.st_dev && own.st_ino == info.st_ino) return fd;
  }
  return -1;
}

void write_into(const fs::path& path, std::string_view bytes) {
  struct stat info {};
  const int output = ::stat(path.c_str(), &info) == 0 ? output_at(info) : -1;
  Descriptor file(output >= 0 ? ::dup(output) : ::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  const int reason = file.fd < 0 ? errno : write_all(file.fd, bytes);
  if (reason != 0)
    fail(Fault::resource, path.string(), ": cannot write (", bytes.size(), " bytes needed): ", std::strerror(reason),
         fix_of(reason));
}

/// The number of the process that a temporary file of write_file is called after, ".NAME.PROCESS.SERIAL.tmp";
/// 0 for other files.
pid_t writer_of(const std::string& name) {
  const std::vector<std::string> parts = split(name, '.');
  if (parts.size() < 5 || !parts.front().empty() || parts.back() != "tmp") return 0;
  const auto number = [](const std::string& word, auto& out) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out);
    return error == std::errc() && end == word.data() + word.size();
  };
  pid_t process = 0;
  unsigned serial = 0;
  return number(parts[parts.size() - 3], process) && number(parts[parts.size() - 2], serial) && process > 0 ? process
                                                                                                            : 0;
}

}  // namespace

bool is_there(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none)
    fail(Fault::data, path.string(), ": cannot open: ", error.message(), "; check the path");
  return fs::exists(status);
}

bool writes_in_place(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || S_ISDIR(info.st_mode)) return false;
  return !S_ISREG(info.st_mode) || output_at(info) >= 0;
}

void move_file(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) fail(Fault::resource, to.string(), ": cannot be written: ", error.message());
}

bool make_folder(const fs::path& folder) {
  std::error_code error;
  const bool made = fs::create_directories(folder, error);
  if (error) fail(Fault::resource, folder.string(), ": cannot make the folder: ", error.message());
  return made;
}

void remove_leftovers(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const pid_t process = writer_of(at->path().filename().string());
    if (process == 0) continue;
    // In a container each process has the same number, so one of this number was not this process.
    const bool gone = process == ::getpid() || (::kill(process, 0) != 0 && errno == ESRCH);
    std::error_code ignored;
    if (gone) fs::remove(at->path(), ignored);
  }
}

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

std::string read_text(const fs::path& path) {
  std::string content = read_file(path);
  const std::string_view begin = std::string_view(content).substr(0, 2);
  if (begin == "\xFF\xFE" || begin == "\xFE\xFF" || begin.find('\0') != begin.npos)
    fail(Fault::data, path.string(),
         ": is UTF-16; save it as UTF-8: iconv -f UTF-16 -t UTF-8 OLD > NEW, or \"UTF-8\" in Windows' editors");
  std::size_t kept = 0;
  for (std::size_t at = content.size() - without_mark(content).size(); at < content.size(); ++at)
    if (content.compare(at, 2, "\r\n") != 0) content[kept++] = content[at];
  content.resize(kept);
  return content;
}

void write_file(const fs::path& path, std::string_view bytes) {
  if (writes_in_place(path)) return write_into(path, bytes);
  FileReplacement(path, bytes).replace();
}

FileReplacement::FileReplacement(const fs::path& path, std::string_view bytes)
    : path_(path), target_(behind_links(path)), size_(bytes.size()) {
  static std::atomic<unsigned> serial{0};
  temporary_ = target_.parent_path() / text(".", target_.filename().string(), ".", ::getpid(), ".", serial++, ".tmp");
  Descriptor file(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (file.fd < 0) give_up("create a temporary file beside it", errno);
  if (const int reason = write_all(file.fd, bytes); reason != 0) give_up("write", reason);
  if (::fsync(file.fd) != 0) give_up("sync", errno);  // never retried: a failed fsync may have dropped the pages
}

FileReplacement::~FileReplacement() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void FileReplacement::replace() {
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) give_up("rename into place", errno);
  temporary_.clear();
  sync_folder(target_.has_parent_path() ? target_.parent_path() : fs::path("."));
}

void FileReplacement::give_up(const char* step, int reason) const {
  ::unlink(temporary_.c_str());
  fail(Fault::resource, path_.string(), ": cannot ", step, " (", size_, " bytes needed): ", std::strerror(reason),
       "; the previous file, if any, is unchanged", fix_of(reason));
}

fs::path cache_folder() {
  if (const char* given = environment("XDG_CACHE_HOME")) return fs::path(given) / "neurim";
  if (const char* home = environment("HOME")) return fs::path(home) / ".cache" / "neurim";
  fail(Fault::resource, "there is no folder for caches: neither XDG_CACHE_HOME nor HOME says where; set one of them");
}

FileLock::FileLock(const fs::path& path, const fs::path& whole, bool make) {
  struct stat locked {
  }, named{};
  do {  // again where the file got another name between the two calls
    if (file_ >= 0) ::close(file_);
    file_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC | (make ? O_CREAT : 0), 0666);
    if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) return;
      ::close(file_);
      fail(Fault::resource, whole.string(), " is being written by another process; wait for it or choose another name");
    }
  } while (::fstat(file_, &locked) == 0 && (::stat(path.c_str(), &named) != 0 || named.st_ino != locked.st_ino));
}

FileLock::~FileLock() {
  if (file_ >= 0) ::close(file_);
}

MappedFile::MappedFile(const fs::path& path) {
  struct stat info {};
  const Descriptor file(open_for_reading(path, info));
  size_ = static_cast<std::size_t>(info.st_size);
  map(file.fd, path);
}

MappedFile::MappedFile(const fs::path& folder, std::string_view name) {
  const auto refuse = [&](std::string_view why) {
    fail(Fault::data, folder.string(), ": '", name, "' ", why, ", so it is not read; only files inside the folder are");
  };
  const fs::path path(name);
  if (name.empty() || name.find('\0') != std::string_view::npos) refuse("is no name of a file");
  if (path.is_absolute()) refuse("is an absolute path");
  Descriptor at(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY));
  struct stat info {};
  for (auto part = path.begin(); part != path.end(); ++part) {
    if (*part == "..") refuse("leads out of the folder");
    if (*part == "." || part->empty()) continue;
    const bool last = std::next(part) == path.end();
    const int next = ::openat(at.fd, part->c_str(),
                              O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (last ? 0 : O_DIRECTORY));
    if (next < 0 && (errno == ELOOP || errno == ENOTDIR)) refuse("goes through a link or a file");
    if (next < 0) fail(Fault::data, (folder / path).string(), ": cannot open: ", std::strerror(errno));
    ::close(std::exchange(at.fd, next));
  }
  if (::fstat(at.fd, &info) != 0 || !S_ISREG(info.st_mode)) refuse("is no regular file");
  if (info.st_nlink > 1) refuse("has another name too (a hard link)");
  size_ = static_cast<std::size_t>(info.st_size);
  map(at.fd, folder / path);
}

void MappedFile::map(int file, const fs::path& path) {
  if (size_ == 0) return;
  void* at = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file, 0);
  if (at == MAP_FAILED) fail(Fault::resource, path.string(), ": cannot map: ", std::strerror(errno));
  data_ = static_cast<const std::byte*>(at);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

std::shared_ptr<const fs::path> temporary_folder() {
  std::string name = (fs::temp_directory_path() / "neurim-XXXXXX").string();
  if (!::mkdtemp(name.data())) fail(Fault::resource, name, ": cannot be made: ", std::strerror(errno));
  return {new fs::path(name), [](const fs::path* folder) {
            std::error_code ignored;
            fs::remove_all(*folder, ignored);
            delete folder;
          }};
}

}  // namespace neurim
