#include <algorithm>
#include <cctype>

#include "neurim/data/formats/format.h"

namespace neurim {

namespace {

using namespace std::string_view_literals;

bool has_blank_third(std::string_view content) {
  return content.size() > 2 && std::isspace(static_cast<unsigned char>(content[2]));
}
bool has_small_header(std::string_view content) { return content.size() > 17 && content.substr(15, 3) == "\0\0\0"sv; }
/// Films begin so too.
bool is_still(std::string_view content) {
  const std::string_view brand = content.substr(0, 12).substr(std::min<std::size_t>(content.size(), 8));
  return brand == "mif1" || brand == "msf1" || brand.starts_with("avi") || brand.starts_with("hei") ||
         brand.starts_with("hev");
}
bool is_riff(std::string_view content) { return content.starts_with("RIFF"); }

constexpr ImageFormat kFormats[] = {
    {"JPEG", "\xFF\xD8\xFF"sv, 0, jpeg_reader},
    {"PNG", "\x89PNG\r\n\x1A\n"sv, 0, png_reader},
    {"WebP", "WEBP"sv, 8, webp_reader, is_riff},
    {"GIF", "GIF87a"sv, 0, gif_reader},
    {"GIF", "GIF89a"sv, 0, gif_reader},
    {"BMP", "BM"sv, 0, bmp_reader, has_small_header},
    {"TIFF", "II*\0"sv, 0, tiff_reader},
    {"TIFF", "MM\0*"sv, 0, tiff_reader},
    {"TIFF", "II+\0"sv, 0, tiff_reader},  // BigTIFF
    {"TIFF", "MM\0+"sv, 0, tiff_reader},
    {"AVIF or HEIC", "ftyp"sv, 4, nullptr, is_still},
    {"PNM", "P1"sv, 0, pnm_reader, has_blank_third},
    {"PNM", "P2"sv, 0, pnm_reader, has_blank_third},
    {"PNM", "P3"sv, 0, pnm_reader, has_blank_third},
    {"PNM", "P4"sv, 0, pnm_reader, has_blank_third},
    {"PNM", "P5"sv, 0, pnm_reader, has_blank_third},
    {"PNM", "P6"sv, 0, pnm_reader, has_blank_third},
    {"NPY", "\x93NUMPY"sv, 0, npy_reader},
};

}  // namespace

std::span<const ImageFormat> image_formats() { return kFormats; }

}  // namespace neurim
