// The wire format of Protocol Buffers (protobuf.dev/programming-guides/encoding), as much as examples need.
#pragma once
#include <optional>
#include <string_view>

#include "neurim/data/sources/parts.h"

namespace neurim {

/// One field of a message: a number, or a part of the bytes.
struct ProtoField {
  std::uint32_t number = 0;            ///< 0: the message ended
  bool is_part = false;                ///< wire type 2; else a varint or a fixed number
  std::uint64_t value = 0;             ///< where it is no part
  std::uint64_t offset = 0, size = 0;  ///< where it is one; in bounds
};

/// The fields of the message in [at, end) of `bytes`, one after the other; parts are passed over unread.
/// Throws Error(data) where they are damaged.
class ProtoReader {
 public:
  ProtoReader(const Bytes& bytes, std::uint64_t at, std::uint64_t end) : bytes_(bytes), at_(at), end_(end) {}
  ProtoReader(const Bytes& bytes, const ProtoField& part) : ProtoReader(bytes, part.offset, part.offset + part.size) {}
  ProtoField next();
  /// The next plain varint, as packed fields hold them; none at the end.
  std::optional<std::uint64_t> next_varint();

 private:
  std::uint64_t varint();
  std::uint64_t fixed(int size);
  std::uint8_t byte();

  const Bytes& bytes_;
  std::uint64_t at_, end_;
  std::vector<std::byte> window_;  // of the bytes from window_at_ on
  std::uint64_t window_at_ = 0;
};

/// The text of a part of at most `most` bytes; "" where it is longer.
std::string text_of(const Bytes& bytes, const ProtoField& part, std::uint64_t most);

}  // namespace neurim
