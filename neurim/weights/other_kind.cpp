#include "neurim/weights/other_kind.h"

#include <algorithm>

#include "neurim/base/bytes.h"
#include "neurim/base/text.h"
#include "neurim/base/utf8.h"

namespace neurim {

namespace {

using namespace std::string_view_literals;

constexpr std::string_view kUnpack = "unpack it, and give the file of weights that is in it";
constexpr std::string_view kConvert =
    "weights are read from safetensors and from what torch.save writes: convert them to one of these, with the names "
    "of PyTorch's layers";
constexpr std::string_view
    kFromPyTorch = "give what it was exported from: a run folder or a weights file (.safetensors, .pth)";
constexpr std::string_view kFromScript =
    "save its tensors with PyTorch: torch.save({k: v for k, v in torch.jit.load(FILE).state_dict().items()}, WEIGHTS)";
constexpr std::string_view kDownload = "give the address of the file itself to the download, and check what it gave";
constexpr std::string_view kImage = "give a weights file (.safetensors, .pth); images are given as source= or data=";
constexpr std::string_view kOther = "give a weights file (.safetensors, .pth)";

/// What begins (or at `at` goes on) with these bytes.
struct FileKind {
  std::string_view bytes, what, fix;
  std::size_t at = 0;
};
constexpr FileKind kFileKinds[] = {
    {"\x1f\x8b"sv, "a gzip archive", kUnpack},
    {"BZh"sv, "a bzip2 archive", kUnpack},
    {"\xfd"
     "7zXZ\0"sv,
     "an xz archive", kUnpack},
    {"7z\xbc\xaf\x27\x1c"sv, "a 7z archive", kUnpack},
    {"\x28\xb5\x2f\xfd"sv, "a zstd archive", kUnpack},
    {"\x04\x22\x4d\x18"sv, "an lz4 archive", kUnpack},
    {"Rar!\x1a\x07"sv, "a rar archive", kUnpack},
    {"\x1f\x9d"sv, "an archive of compress", kUnpack},
    {"]\0\0"sv, "an lzma archive", kUnpack},
    {"ustar"sv, "a tar archive", kUnpack, 257},
    {"version https://git-lfs.github.com/spec/"sv, "a Git LFS pointer, which stands for the file in a repository",
     "get the file itself: git lfs pull"},
    {"\x89HDF\r\n\x1a\n"sv, "an HDF5 file, as Keras writes (.h5)", kConvert},
    {"TFL3"sv, "a TensorFlow Lite model", kConvert, 4},
    {"\x08\x01\x12"sv, "a TensorFlow SavedModel", kConvert},
    {"GGUF"sv, "a GGUF file", kConvert},
    {"lmgg"sv, "a GGML file", kConvert},
    {"tjgg"sv, "a GGML file", kConvert},
    {"\x93NUMPY"sv, "a NumPy array (.npy)", kConvert},
    {"\x12\x01\0\0\0\0\0\0"sv, "a file of MXNet's parameters", kConvert},
    {"\0\0\0\0\x02\0\0\0"sv, "a file of Darknet's weights", kConvert},
    {"7767517\n"sv, "an ncnn model", kFromPyTorch},
    {"ftrt"sv, "a TensorRT engine", kFromPyTorch},
    {"\x89PNG\r\n\x1a\n"sv, "a PNG image", kImage},
    {"\xff\xd8\xff"sv, "a JPEG image", kImage},
    {"GIF8"sv, "a GIF image", kImage},
    {"WEBP"sv, "a WebP image", kImage, 8},
    {"II*\0"sv, "a TIFF image", kImage},
    {"MM\0*"sv, "a TIFF image", kImage},
    {"BM"sv, "a BMP image", kImage},
    {"%PDF-"sv, "a PDF document", kOther},
    {"\x7f"
     "ELF"sv,
     "a program or library (ELF)", kOther},
    {"SQLite format 3\0"sv, "an SQLite database", kOther},
};

std::string told(std::string_view what, std::string_view fix) { return text("is ", what, "; ", fix); }

/// ONNX's ModelProto: ir_version, and after it the producer's name, the graph or the opset.
bool is_onnx(std::string_view file) {
  return file.size() > 4 && file[0] == 8 && file[1] >= 2 && file[1] <= 20 &&
         "\x12\x3a\x42"sv.find(file[2]) != std::string_view::npos;
}

/// A frozen graph: a message of nodes, each of which begins with its name.
bool is_tensorflow_graph(std::string_view file) {
  if (file.size() < 8 || file[0] != '\n') return false;
  const std::size_t name = file.substr(1, 4).find('\n');
  if (name == file.npos || name == 0 || name + 2 >= file.size()) return false;
  const std::string_view word = file.substr(name + 3, static_cast<unsigned char>(file[name + 2]));
  return !word.empty() && file.find("\x12"sv, name) != file.npos &&
         std::all_of(word.begin(), word.end(), [](unsigned char c) { return c > ' ' && c < 127; });
}

/// What a text is, whose first bytes these are.
std::string kind_of_text(std::string_view file) {
  const std::string begin = lower(file.substr(0, 4096));
  const std::size_t first = begin.find_first_not_of(" \t\r\n");
  if (first == begin.npos) return told("a file of blanks", kOther);
  const std::string_view rest = std::string_view(begin).substr(first);
  const auto says = [&](std::string_view word) { return rest.find(word) != rest.npos; };
  if (rest.front() == '<') {
    if (says("<html") || says("<!doctype html"))
      return told("a web page (HTML), not the file that it links to", kDownload);
    if (says("<net ") && says("layers")) return told("an OpenVINO model", kFromPyTorch);
    return told("an XML file, such as servers answer with where they have no such file", kDownload);
  }
  if (rest.front() == '{' || rest.front() == '[') {
    if (says("\"weight_map\""))
      return told("an index of weights", "give it by a name that ends in .index.json, beside the files that it lists");
    if (says("\"keras_version\"") || says("\"class_name\""))
      return told("a Keras model without weights (JSON)", kConvert);
    return told("a JSON text, such as a configuration or a server's answer", kOther);
  }
  return told("a text file", kOther);
}

/// Whether the first bytes are of a text. Characters may be cut at their end.
bool is_text(std::string_view file) {
  std::string_view begin = without_mark(file.substr(0, 1024));
  constexpr std::size_t kMostCut = 3;
  while (begin.size() > kMostCut) {
    if (const char32_t c = take_character(begin);
        c == kNoCharacter || (c < ' ' && c != '\t' && c != '\n' && c != '\r' && c != '\f'))
      return false;
  }
  return true;
}

}  // namespace

std::string other_kind(std::span<const std::byte> bytes) {
  const std::string_view file = as_text(bytes);
  if (file.empty()) return "is empty: it has only 0 bytes; get or save the file again";
  for (const FileKind& kind : kFileKinds)
    if (file.size() > kind.at && starts_with(file.substr(kind.at), kind.bytes)) return told(kind.what, kind.fix);
  if (is_onnx(file)) return told("an ONNX file, which Neurim writes and does not read", kFromPyTorch);
  if (is_tensorflow_graph(file)) return told("a TensorFlow graph (.pb)", kConvert);
  if (ends_with(file, "\x57\xfb\x80\x8b\x24\x75\x47\xdb"))
    return told("the index of a TensorFlow checkpoint", kConvert);
  if (file.size() > 2 && file[0] == '\x80' && file[1] >= 0 && file[1] <= 5)
    return told("a Python pickle that torch.save has not written",
                "save the tensors with PyTorch: torch.save(model.state_dict(), FILE)");
  constexpr std::size_t kLeastText = 8;
  return file.size() >= kLeastText && is_text(file) ? kind_of_text(without_mark(file)) : "";
}

std::string other_kind_of_zip(const std::vector<std::string>& members) {
  const auto any = [&](const auto& holds) { return std::any_of(members.begin(), members.end(), holds); };
  if (any([](const std::string& name) { return ends_with(name, "/constants.pkl"); }))
    return told("a TorchScript program", kFromScript);
  const auto ending = [&](std::string_view end) {
    return any([&](const std::string& name) { return ends_with(name, end); });
  };
  if (ending("model.weights.h5")) return told("a Keras model (.keras)", kConvert);
  if (ending(".mlmodel")) return told("a Core ML package", kFromPyTorch);
  if (!members.empty() && !any([](const std::string& name) { return !ends_with(name, ".npy"); }))
    return told("a NumPy archive (.npz)", kConvert);
  for (const std::string_view end : {".safetensors", ".pth", ".pt", ".th", ".bin"})
    if (ending(end)) return told("a zip archive of weights", kUnpack);
  return "";
}

}  // namespace neurim
