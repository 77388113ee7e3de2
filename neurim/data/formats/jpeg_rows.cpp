#include "neurim/data/formats/jpeg_rows.h"

#include <algorithm>
#include <cstring>

#include "neurim/base/error.h"
#include "neurim/data/formats/libjpeg.h"

namespace neurim {
namespace {

constexpr unsigned kSof0 = 0xC0, kSof2 = 0xC2, kSos = 0xDA, kRst0 = 0xD0, kRst7 = 0xD7, kEoi = 0xD9;

unsigned byte_at(std::span<const std::byte> bytes, std::size_t at) { return std::to_integer<unsigned>(bytes[at]); }

/// Both directions of libjpeg, which end with the scope.
struct Transcoder {
  LibJpeg jpeg;
  jpeg_decompress_struct in{};
  jpeg_compress_struct out{};
  unsigned char* written = nullptr;
  unsigned long size = 0;

  Transcoder() {
    jpeg.attach(in);
    jpeg.attach(out);
  }
  ~Transcoder() {
    jpeg_destroy_compress(&out);
    jpeg_destroy_decompress(&in);
    std::free(written);
  }
  Transcoder(const Transcoder&) = delete;
};

/// Calls segment(marker, where it begins, where it ends) for each segment up to the first scan; returns where that
/// begins.
template <class Segment>
std::size_t walk_header(std::span<const std::byte> bytes, const Segment& segment) {
  std::size_t at = 2;
  for (;;) {
    if (at + 4 > bytes.size() || byte_at(bytes, at) != 0xFF) bad_image(LibJpeg::kFormat, "its header is damaged");
    const unsigned marker = byte_at(bytes, at + 1);
    const std::size_t next = at + 2 + (byte_at(bytes, at + 2) << 8 | byte_at(bytes, at + 3));
    if (next > bytes.size()) bad_image(LibJpeg::kFormat, "its header is damaged");
    segment(marker, at, next);
    at = next;
    if (marker == kSos) return at;
  }
}

}  // namespace

std::string with_jpeg_rows(std::span<const std::byte> bytes, JpegRows& rows) {
  // One directory of one entry: the orientation, a 16-bit number (CIPA DC-008, 4.6.2).
  JOCTET exif[32] = {'E', 'x', 'i', 'f', 0, 0, 'I', 'I', '*', 0, 8, 0, 0, 0, 1, 0, 0x12, 1, 3, 0, 1};
  Transcoder coder;
  jvirt_barray_ptr* coefficients = nullptr;
  coder.jpeg.guarded([&] {
    jpeg_create_decompress(&coder.in);
    jpeg_create_compress(&coder.out);
    coder.jpeg.watch_scans(coder.in);
    jpeg_mem_src(&coder.in, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_save_markers(&coder.in, LibJpeg::kExifMarker, 0xFFFF);
    jpeg_read_header(&coder.in, TRUE);
    exif[24] = static_cast<JOCTET>(orientation_of(coder.in));
    // An encoder says of inks that they are inverted, also where the file did not.
    if (coder.in.jpeg_color_space != JCS_CMYK && coder.in.jpeg_color_space != JCS_YCCK)
      coefficients = jpeg_read_coefficients(&coder.in);
  });
  if (!coefficients) return "";
  try {
    coder.jpeg.guarded([&] {
      jpeg_copy_critical_parameters(&coder.in, &coder.out);
      coder.out.restart_in_rows = 1;
      coder.out.optimize_coding = TRUE;
      jpeg_mem_dest(&coder.out, &coder.written, &coder.size);
      jpeg_write_coefficients(&coder.out, coefficients);
      if (exif[24] != 1) jpeg_write_marker(&coder.out, LibJpeg::kExifMarker, exif, sizeof exif);
      jpeg_finish_compress(&coder.out);
      jpeg_finish_decompress(&coder.in);
    });
  } catch (const Error&) {  // such as sampling factors that only separate scans can have
    return "";
  }
  const std::string file(reinterpret_cast<const char*>(coder.written), coder.size);
  const auto content = std::as_bytes(std::span(file));
  rows.block_height = static_cast<std::uint32_t>(coder.out.num_components == 1 ? DCTSIZE
                                                                               : DCTSIZE * coder.out.max_v_samp_factor);
  rows.offsets.assign(1, static_cast<std::uint32_t>(walk_header(content, [](unsigned, std::size_t, std::size_t) {})));
  for (std::size_t at = rows.offsets[0]; at + 1 < content.size(); ++at) {
    if (byte_at(content, at) != 0xFF) continue;
    const unsigned marker = byte_at(content, at + 1);
    if ((marker >= kRst0 && marker <= kRst7) || marker == kEoi)
      rows.offsets.push_back(static_cast<std::uint32_t>(at + 2));
    if (marker == kEoi) break;
  }
  NEURIM_ASSERT(rows.offsets.size() == 1 + (coder.in.image_height + rows.block_height - 1) / rows.block_height);
  return file;
}

void cut_jpeg_rows(std::span<const std::byte> bytes, std::span<const std::uint32_t> offsets, std::uint32_t block_height,
                   int height, int first, int last, std::vector<std::byte>& cut) {
  const std::size_t header = offsets[0];
  const std::size_t begin = offsets[first], end = offsets[last];
  const std::size_t size = header + (end - begin);
  if (cut.size() < size) cut.resize(size);
  std::memcpy(cut.data(), bytes.data(), header);
  std::memcpy(cut.data() + header, bytes.data() + begin, end - begin);
  const int block = static_cast<int>(block_height);
  const int rows = std::min((last - first) * block, height - first * block);
  walk_header({cut.data(), header}, [&](unsigned marker, std::size_t at, std::size_t next) {
    if (marker < kSof0 || marker > kSof2 || next < at + 7) return;
    cut[at + 5] = static_cast<std::byte>(rows >> 8);
    cut[at + 6] = static_cast<std::byte>(rows & 255);
  });
  // Restart markers are counted from 0; the last one becomes the end.
  for (int i = first; i < last; ++i) {
    const std::size_t marker = offsets[static_cast<std::size_t>(i) + 1] - begin + header - 1;
    cut[marker] = static_cast<std::byte>(i + 1 == last ? kEoi : kRst0 + static_cast<unsigned>((i - first) % 8));
  }
}

}  // namespace neurim
