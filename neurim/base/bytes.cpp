#include "neurim/base/bytes.h"

#include <algorithm>

#include "neurim/base/error.h"

namespace neurim {

Bytes bytes_in_memory(std::span<const std::byte> memory) {
  return {memory.size(), [memory](std::uint64_t offset, std::span<std::byte> to) {
            if (offset > memory.size() || to.size() > memory.size() - offset)
              fail(Fault::data, "ends before byte ", offset + to.size());
            std::copy_n(memory.begin() + static_cast<std::ptrdiff_t>(offset), to.size(), to.begin());
          }};
}

std::vector<std::byte> bytes_at(const Bytes& file, std::uint64_t offset, std::uint64_t size) {
  if (offset > file.size || size > file.size - offset)
    fail(Fault::data, "ends before byte ", offset + size, "; it is cut off or damaged: save it again");
  std::vector<std::byte> bytes(size);
  file.read(offset, bytes);
  return bytes;
}

void put_little_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}

}  // namespace neurim
