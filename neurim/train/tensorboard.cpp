#include "neurim/train/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "neurim/base/error.h"
#include "neurim/base/tfrecord.h"

namespace neurim {

namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Field numbers are those of tensorflow/core/util/event.proto and framework/summary.proto.
std::string new_event(std::int64_t step) {
  std::string event;
  put_double(event, 1, seconds_now());
  put_int(event, 2, step);
  return event;
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const fs::path& folder, std::optional<std::int64_t> resumed_at) {
  make_folder(folder);
  char host[256] = "";
  if (::gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') std::strcpy(host, "localhost");
  static std::atomic<unsigned> serial{0};
  path_ = folder / text("events.out.tfevents.", static_cast<std::int64_t>(seconds_now()), '.', host, '.', ::getpid(),
                        '.', serial++);
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0) fail(Fault::resource, path_.string(), ": cannot create: ", std::strerror(errno));

  std::string version = new_event(0);
  put_bytes(version, 3, "brain.Event:2");
  append_record(version);
  if (resumed_at) {
    std::string start, event = new_event(*resumed_at);
    put_int(start, 1, 1);  // SessionLog.status = START
    put_bytes(event, 7, start);
    append_record(event);
  }
}

TensorBoardWriter::~TensorBoardWriter() { ::close(file_); }

void TensorBoardWriter::write(std::int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, 1, scalar.tag);
    put_float(value, 2, static_cast<float>(scalar.value));
    put_bytes(summary, 1, value);
  }
  std::string event = new_event(step);
  put_bytes(event, 5, summary);
  append_record(event);
}

// Unbuffered.
void TensorBoardWriter::append_record(std::string_view event) {
  const std::string record = framed(event);
  for (std::string_view left = record; !left.empty();) {
    const ssize_t written = ::write(file_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(Fault::resource, path_.string(), ": cannot write: ", std::strerror(errno));
    left.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace neurim
