// What no bytes may crash: tables; the first byte says which kind.
#include <cstddef>
#include <string_view>

#include "neurim/base/error.h"
#include "neurim/data/sources/table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    if (size == 0) return 0;
    constexpr const char* names[] = {"x.csv", "x.tsv", "x.jsonl"};
    const std::string_view content(reinterpret_cast<const char*>(data) + 1, size - 1);
    neurim::parse_table(names[data[0] % 3], content);
  } catch (const neurim::Error&) {
  }
  return 0;
}
