#include "neurim/base/npy.h"

#include <algorithm>
#include <charconv>

#include "neurim/base/error.h"

namespace neurim {

namespace {

constexpr std::size_t kMostAxes = 8;
constexpr std::uint64_t kMostHeader = 1 << 16;
constexpr const char* kFix = "; it is cut off or damaged: save it again";

/// What follows 'key': in the dictionary of the header.
std::string_view value_of(std::string_view header, std::string_view key) {
  const std::string quoted = text('\'', key, "':");
  const std::size_t at = header.find(quoted);
  if (at == std::string_view::npos) fail(Fault::data, "its header has no ", key, kFix);
  header.remove_prefix(at + quoted.size());
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

}  // namespace

NpyHead npy_head(const Bytes& file) {
  const std::vector<std::byte> start = bytes_at(file, 0, std::min<std::uint64_t>(file.size, 12));
  if (start.size() < 12 || !as_text(start).starts_with(kNpyMagic)) fail(Fault::data, "is no .npy file", kFix);
  const bool wide = std::to_integer<int>(start[6]) >= 2;  // version 2 has a header length of four bytes
  const std::uint64_t begin = wide ? 12 : 10, length = little(as_text(start), 8, wide ? 4 : 2);
  if (length > kMostHeader) fail(Fault::data, "its header is damaged", kFix);
  const std::vector<std::byte> bytes = bytes_at(file, begin, length);
  const std::string_view header = as_text(bytes);
  if (value_of(header, "fortran_order").starts_with("True"))
    fail(Fault::data, "is in column-major order; save numpy.ascontiguousarray of it");
  NpyHead head{.begin = begin + length};
  std::string_view descr = value_of(header, "descr");
  descr = descr.substr(0, descr.find(','));
  if (descr.size() < 2 || (descr[0] != '\'' && descr[0] != '"') || descr.back() != descr[0])
    fail(Fault::data, "holds elements of type ", descr, "; plain numbers are read");
  head.descr = descr.substr(1, descr.size() - 2);
  std::string_view shape = value_of(header, "shape");
  const std::size_t close = shape.find(')');
  if (!shape.starts_with('(') || close == std::string_view::npos) fail(Fault::data, "its shape is damaged", kFix);
  shape = shape.substr(1, close - 1);
  for (const std::string& part : split(shape, ',')) {
    const std::string word = trimmed(part);
    if (word.empty()) continue;
    std::uint64_t size = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), size);
    if (error != std::errc() || stop != word.data() + word.size() || head.shape.size() == kMostAxes || size >> 48 ||
        (size > 0 && head.elements > file.size / size))
      fail(Fault::data, "its shape (", shape, ") is of more than ", kMostAxes, " axes, or of more elements than the ",
           file.size, " bytes of the file hold", kFix);
    head.elements *= size;
    head.shape.push_back(static_cast<std::int64_t>(size));
  }
  return head;
}

}  // namespace neurim
