// Which files below a folder are images.
#pragma once
#include <string_view>

#include "neurim/base/file.h"

namespace neurim {

/// The format that the extension stands for, "JPEG" for a.JPG; "" where it stands for none.
std::string_view format_of_extension(const fs::path& file);

/// The usual extension of a format, ".jpg" for "JPEG".
std::string_view extension_of(std::string_view format);

/// Whether the extension is an image's, also of a format that is not read: a file that is left out in silence
/// is data lost in silence, one that cannot be decoded is reported.
inline bool is_image(const fs::path& file) { return !format_of_extension(file).empty(); }

/// Whether the first bytes are those of an image. Reads no more than these.
bool has_image_content(const fs::path& file);

/// Whether the file counts as an image: by its extension or, where that is none of an image, by its first
/// bytes.
inline bool is_image_file(const fs::path& file) { return is_image(file) || has_image_content(file); }

/// What systems and tools leave beside the user's files: names that begin with a dot, and such as __MACOSX, @eaDir,
/// $RECYCLE.BIN, System Volume Information, lost+found, __pycache__ and Thumbs.db, in small or capital letters.
bool is_hidden(const fs::path& entry);

/// Whether train or val wrote the folder: it has args.yaml and weights/, as Ultralytics' runs have too, or the files of
/// a report. The images in it are charts.
bool holds_run(const fs::path& folder);

}  // namespace neurim
