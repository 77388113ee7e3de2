#include "neurim/data/sources/proto.h"

#include <algorithm>

#include "neurim/base/error.h"

namespace neurim {
namespace {

constexpr std::uint64_t kWindow = 256;  // a message's keys and numbers are short, and its images passed over

}  // namespace

std::uint8_t ProtoReader::byte() {
  if (at_ >= end_) fail(Fault::data, "a message is cut off at byte ", at_);
  if (at_ < window_at_ || at_ >= window_at_ + window_.size()) {
    window_.resize(std::min(kWindow, end_ - at_));
    bytes_.read(at_, window_);
    window_at_ = at_;
  }
  return std::to_integer<std::uint8_t>(window_[at_++ - window_at_]);
}

std::uint64_t ProtoReader::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const std::uint8_t part = byte();
    value |= std::uint64_t{part & 0x7Fu} << shift;
    if (part < 0x80) return value;
  }
  fail(Fault::data, "a message is damaged at byte ", at_);
}

std::uint64_t ProtoReader::fixed(int size) {
  std::uint64_t value = 0;
  for (int i = 0; i < size; ++i) value |= std::uint64_t{byte()} << (8 * i);
  return value;
}

std::optional<std::uint64_t> ProtoReader::next_varint() {
  if (at_ == end_) return {};
  return varint();
}

ProtoField ProtoReader::next() {
  ProtoField field;
  if (at_ == end_) return field;
  const std::uint64_t tag = varint();
  field.number = static_cast<std::uint32_t>(tag >> 3);
  if (field.number == 0 || tag >> 32) fail(Fault::data, "a message is damaged at byte ", at_);
  switch (tag & 7) {
    case 0: field.value = varint(); break;
    case 1: field.value = fixed(8); break;
    case 5: field.value = fixed(4); break;
    case 2:
      field.is_part = true;
      field.size = varint();
      field.offset = at_;
      if (field.size > end_ - at_) fail(Fault::data, "a message is cut off at byte ", at_);
      at_ += field.size;
      break;
    default: fail(Fault::data, "a message is damaged at byte ", at_);
  }
  return field;
}

std::string text_of(const Bytes& bytes, const ProtoField& part, std::uint64_t most) {
  if (part.size > most) return "";
  std::vector<std::byte> found(part.size);
  bytes.read(part.offset, found);
  return std::string(as_text(found));
}

}  // namespace neurim
