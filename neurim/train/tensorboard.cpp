#include "neurim/train/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "neurim/base/error.h"

namespace neurim {

namespace {

// CRC-32C (Castagnoli), as RFC 3720 appendix B.4 has it.
constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit) table[i] = (table[i] >> 1) ^ (table[i] & 1 ? 0x82F63B78u : 0);
  }
  return table;
}();

// TFRecord masks checksums, since a checksum over data that contains its own checksum is weak.
std::uint32_t masked_crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0u;
  for (const char byte : bytes) crc = kCrcTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFF] ^ (crc >> 8);
  return std::rotr(~crc, 15) + 0xA282EAD8u;
}

void put_little_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

// Protocol-buffer fields: a tag (number and wire type), then the value.
void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}
void put_int(std::string& out, unsigned field, std::int64_t value) {
  put_varint(out, field << 3);
  put_varint(out, static_cast<std::uint64_t>(value));
}
void put_double(std::string& out, unsigned field, double value) {
  put_varint(out, field << 3 | 1);
  put_little_endian(out, std::bit_cast<std::uint64_t>(value), 8);
}
void put_bytes(std::string& out, unsigned field, std::string_view value) {
  put_varint(out, field << 3 | 2);
  put_varint(out, value.size());
  out += value;
}
void put_float(std::string& out, unsigned field, float value) {
  put_varint(out, field << 3 | 5);
  put_little_endian(out, std::bit_cast<std::uint32_t>(value), 4);
}

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
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail(Fault::resource, folder.string(), ": cannot make the folder: ", error.message());

  char host[256] = "";
  if (::gethostname(host, sizeof host - 1) != 0 || host[0] == '\0') std::strcpy(host, "localhost");
  static std::atomic<unsigned> serial{0};
  path_ = folder / text("events.out.tfevents.", static_cast<std::int64_t>(seconds_now()), '.', host, '.',
                        ::getpid(), '.', serial++);
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

// A record is its length, the length's checksum, the message and its checksum, written at once.
void TensorBoardWriter::append_record(std::string_view event) {
  std::string record;
  put_little_endian(record, event.size(), 8);
  put_little_endian(record, masked_crc32c(record), 4);
  record += event;
  put_little_endian(record, masked_crc32c(event), 4);
  for (std::string_view left = record; !left.empty();) {
    const ssize_t written = ::write(file_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(Fault::resource, path_.string(), ": cannot write: ", std::strerror(errno));
    left.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace neurim
