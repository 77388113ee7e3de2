#include "neurim/data/download.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "neurim/base/error.h"
#include "neurim/base/file.h"
#include "neurim/base/sha256.h"
#include "neurim/base/writable.h"
#include "neurim/data/fetch.h"
#include "neurim/data/sources/tar.h"

namespace neurim {
namespace {

/// A published file. The digest is of what it unpacks to, so that a mirror may have packed it anew, but that of an
/// archive is of the archive.
struct SetFile {
  const char* name;
  const char* sha256;
  std::size_t unpacked_bytes;
};

struct PublicSet {
  const char* name;
  const char* url;  // of the folder
  bool archive;     // tar.gz of which the .bin and .txt members are wanted
  std::vector<SetFile> files;
};

const std::vector<PublicSet>& sets() {
  static const std::vector<PublicSet> list{
      {"mnist",
       "https://ossci-datasets.s3.amazonaws.com/mnist/",
       false,
       {{"train-images-idx3-ubyte.gz", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db", 47040016},
        {"train-labels-idx1-ubyte.gz", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5", 60008},
        {"t10k-images-idx3-ubyte.gz", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7", 7840016},
        {"t10k-labels-idx1-ubyte.gz", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2", 10008}}},
      {"fashion-mnist",
       "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
       false,
       {{"train-images-idx3-ubyte.gz", "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888", 47040016},
        {"train-labels-idx1-ubyte.gz", kFashionTrainLabels, 60008},
        {"t10k-images-idx3-ubyte.gz", "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b", 7840016},
        {"t10k-labels-idx1-ubyte.gz", kFashionTestLabels, 10008}}},
      {"cifar10",
       "https://www.cs.toronto.edu/~kriz/",
       true,
       {{"cifar-10-binary.tar.gz", "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd", 200'000'000}}},
      {"cifar100",
       "https://www.cs.toronto.edu/~kriz/",
       true,
       {{"cifar-100-binary.tar.gz", "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec", 200'000'000}}},
  };
  return list;
}

std::string sha256_of(std::string_view bytes) {
  Sha256 sha;
  sha.add(std::as_bytes(std::span(bytes)));
  return sha.hex();
}

/// What a gzip file unpacks to; nothing where it is damaged or unpacks to more than `most` bytes.
std::optional<std::string> unpacked(const std::string& packed, std::size_t most) {
  std::string bytes(most + 1, '\0');
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  constexpr int kGzip = 16 + MAX_WBITS;
  if (inflateInit2(&stream, kGzip) != Z_OK) return {};
  const int status = inflate(&stream, Z_FINISH);
  bytes.resize(stream.total_out);
  inflateEnd(&stream);
  if (status != Z_STREAM_END || bytes.size() > most) return {};
  return bytes;
}

/// Whether the bytes of a file are the published ones.
bool is_right(const std::string& bytes, const SetFile& file, bool archive) {
  if (archive) return sha256_of(bytes) == file.sha256;
  const std::optional<std::string> content = unpacked(bytes, file.unpacked_bytes);
  return content && sha256_of(*content) == file.sha256;
}

/// The bytes of a URL.
std::string fetched(const std::string& url, const fs::path& part) {
  constexpr std::int64_t kMostBytes = std::int64_t{4} << 30;
  fetch(url, part, kMostBytes);
  std::string bytes = read_file(part);
  std::error_code ignored;
  fs::remove(part, ignored);
  return bytes;
}

/// The members of a tar.gz that hold samples and names of classes, written beside each other.
void unpack_members(const std::string& archive, const SetFile& file, const fs::path& out) {
  const std::optional<std::string> tar = unpacked(archive, file.unpacked_bytes);
  if (!tar) fail(Fault::data, file.name, ": cannot be unpacked; remove it and download again");
  const auto bytes = std::as_bytes(std::span(*tar));
  for (const TarMember& member : index_tar(bytes_in_memory(bytes)).members) {
    const std::string name = fs::path(member.name).filename().string();
    if (ends_with(name, ".bin") || ends_with(name, ".txt"))
      write_file(out / name, std::string_view(*tar).substr(member.offset, member.size));
  }
}

}  // namespace

std::vector<std::string> public_sets() {
  std::vector<std::string> names;
  for (const PublicSet& set : sets()) names.emplace_back(set.name);
  return names;
}

namespace {

const PublicSet& set_named(const std::string& name) {
  const auto set = std::find_if(sets().begin(), sets().end(), [&](const PublicSet& s) { return name == s.name; });
  if (set == sets().end()) {
    const std::string near = nearest(name, public_sets());
    fail(Fault::usage, "download: there is no set '", name, "'; ",
         near.empty() ? "" : text("did you mean '", near, "'? "), "known are ", join(public_sets(), ", "));
  }
  return *set;
}

bool is_url(const std::string& mirror) { return mirror.empty() || mirror.find("://") != std::string::npos; }

std::string origin(const PublicSet& set, const SetFile& file, const std::string& mirror) {
  if (mirror.empty()) return text(set.url, file.name);
  return is_url(mirror) ? text(mirror, ends_with(mirror, "/") ? "" : "/", file.name)
                        : (fs::path(mirror) / file.name).string();
}

}  // namespace

std::vector<std::string> check_download(const std::string& name, const std::string& out, const std::string& mirror) {
  const PublicSet& set = set_named(name);
  check_can_make(out);
  std::vector<std::string> found;
  for (const SetFile& file : set.files) {
    found.push_back(origin(set, file, mirror));
    const bool kept = !set.archive && fs::exists(fs::path(out) / file.name);
    if (!is_url(mirror) && !kept) MappedFile{found.back()};  // says why it cannot be read
  }
  return found;
}

void download(const std::string& name, const std::string& out, const std::string& mirror,
              const std::function<void(std::string_view)>& report) {
  const PublicSet& set = set_named(name);
  make_folder(out);
  for (const SetFile& file : set.files) {
    const fs::path path = fs::path(out) / file.name;
    if (!set.archive && fs::exists(path) && is_right(read_file(path), file, false)) {
      if (report) report(text(path.string(), ": is there already"));
      continue;
    }
    const std::string from = origin(set, file, mirror);
    if (report) report(text("fetching ", from));
    const std::string bytes = is_url(mirror) ? fetched(from, fs::path(out) / text(".", file.name, ".part"))
                                             : read_file(from);
    if (!is_right(bytes, file, set.archive))
      fail(Fault::data, from, ": is not the published file (its SHA-256 is another); ",
           is_url(mirror) ? "try again later or another mirror=" : "fetch it again");
    if (set.archive)
      unpack_members(bytes, file, out);
    else
      write_file(path, bytes);
  }
}

}  // namespace neurim
