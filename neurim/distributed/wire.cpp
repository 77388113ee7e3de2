#include "neurim/distributed/wire.h"

#include "neurim/base/bytes.h"
#include "neurim/base/error.h"
#include "neurim/base/text.h"

namespace neurim {

namespace {

constexpr std::string_view kData = "NEURIMda", kReport = "NEURIMer";
constexpr std::size_t kName = 40;  // where it begins

}  // namespace

std::string Wire::named(int rank) const { return text("rank ", rank, " (", host(rank), ")"); }

std::string Frame::written() const {
  std::string out(report ? kReport : kData);
  for (const std::uint64_t number : {operation.number, operation.bytes, size, checksum})
    put_little_endian(out, number, 8);
  out += operation.name.substr(0, kSize - kName);
  out.resize(kSize);
  return out;
}

Frame Frame::read(std::span<const std::byte> header) {
  const std::string_view bytes = as_text(header);
  const std::string_view kind = bytes.substr(0, kData.size());
  if (kind != kData && kind != kReport) fail(Fault::failure, "what came is no message of this job");
  const auto number = [&](std::size_t which) { return little(bytes, kData.size() + 8 * which, 8); };
  return {.report = kind == kReport,
          .operation = {number(0), std::string(bytes.substr(kName, bytes.find('\0', kName) - kName)), number(1)},
          .size = number(2),
          .checksum = number(3)};
}

void Frame::check(const Operation& expected, std::uint64_t most, const std::string& sender) const {
  if (operation.number != expected.number || operation.bytes != expected.bytes ||
      operation.name != expected.name.substr(0, kSize - kName))
    fail(Fault::failure, sender, " is at operation ", operation.number, ", ", operation.name, " of ", operation.bytes,
         " bytes");
  if (size > most) fail(Fault::failure, sender, " sends ", size, " bytes where ", most, " are expected");
}

std::size_t Frame::find_report(std::string_view bytes) { return bytes.find(kReport); }

}  // namespace neurim
