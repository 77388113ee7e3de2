// libjpeg with C++ errors.
#pragma once
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>

#include "neurim/data/formats/exif.h"
#include "neurim/data/formats/format.h"

// clang-format off: jpeglib.h needs <cstdio> before it
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

namespace neurim {

/// libjpeg reports errors by a call that must not return; throwing through C frames is not defined
/// everywhere, so the call jumps back into `guarded`, which throws.
class LibJpeg {
 public:
  static constexpr std::string_view kFormat = "JPEG";
  static constexpr int kExifMarker = JPEG_APP0 + 1;

  LibJpeg() {
    jpeg_std_error(&errors_);
    errors_.error_exit = [](j_common_ptr info) { self(info)->stop(info); };
    errors_.emit_message = [](j_common_ptr info, int level) { self(info)->hear(info, level); };
    progress_.progress_monitor = [](j_common_ptr info) { self(info)->watch(info); };
  }

  /// Makes a decoder or encoder use this error handling.
  template <class Info>
  void attach(Info& info) {
    info.err = &errors_;
    info.client_data = this;
  }
  /// Also limits the scans of a decoder. After jpeg_create_decompress.
  void watch_scans(jpeg_decompress_struct& info) { info.progress = &progress_; }

  /// Runs `step`, which calls libjpeg and has no local variable with a destructor; throws what it reports.
  template <class Step>
  void guarded(const Step& step) {
    errors_.msg_code = 0;
    if (setjmp(back_) != 0) {
      const std::string reason = message_;
      if (errors_.msg_code == JERR_BAD_PRECISION) unsupported_image(kFormat, reason);
      bad_image(kFormat, reason);
    }
    step();
  }

 private:
  static constexpr int kMostScans = 100;  // a progressive file of more scans is made to waste time

  static LibJpeg* self(j_common_ptr info) { return static_cast<LibJpeg*>(info->client_data); }

  [[noreturn]] void stop(j_common_ptr info) {
    if (errors_.msg_code == JERR_BAD_PRECISION)
      std::snprintf(message_, sizeof message_, "it has %d bits a level, and only 8 are read", errors_.msg_parm.i[0]);
    else
      errors_.format_message(info, message_);
    std::longjmp(back_, 1);
  }

  /// A warning about the pixels means that a part of the image is missing or wrong, so it is an error; one
  /// about stray bytes between segments is not.
  void hear(j_common_ptr info, int level) {
    if (level >= 0) return;
    switch (errors_.msg_code) {
      case JWRN_EXTRANEOUS_DATA:
      case JWRN_ADOBE_XFORM:
      case JWRN_JFIF_MAJOR:
      case JWRN_BOGUS_ICC: return;
      default: stop(info);
    }
  }

  void watch(j_common_ptr info) {
    if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
    errors_.msg_code = 0;
    std::snprintf(message_, sizeof message_, "it has more than %d scans", kMostScans);
    std::longjmp(back_, 1);
  }

  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf back_{};
  char message_[JMSG_LENGTH_MAX] = {};
};

/// What the EXIF segment says, which has to be saved while the header is read.
inline int orientation_of(const jpeg_decompress_struct& info) {
  for (jpeg_saved_marker_ptr marker = info.marker_list; marker; marker = marker->next)
    if (marker->marker == LibJpeg::kExifMarker && marker->data_length > 6 &&
        std::memcmp(marker->data, "Exif\0", 6) == 0)
      return exif_orientation({reinterpret_cast<const std::byte*>(marker->data), marker->data_length});
  return 1;
}

}  // namespace neurim
