#include "neurim/data/convert.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>

#include "neurim/base/bytes.h"
#include "neurim/base/canonical_form.h"
#include "neurim/base/file.h"
#include "neurim/base/json.h"
#include "neurim/base/tfrecord.h"
#include "neurim/base/thread_pool.h"
#include "neurim/data/encode.h"
#include "neurim/data/image_files.h"
#include "neurim/data/sources/parts.h"
#include "neurim/data/spellings.h"

namespace neurim {
namespace {

constexpr std::int64_t kSamplesATime = 64;

/// A member of a tar archive: a ustar header (POSIX.1-2017, pax, "ustar Interchange Format"), the bytes, zeros
/// up to a multiple of 512.
std::string tar_member(const std::string& name, std::string_view bytes) {
  char header[512] = {};
  NEURIM_ASSERT(name.size() < 100);
  std::memcpy(header, name.data(), name.size());
  std::memcpy(header + 100, "0000644", 7);
  std::memcpy(header + 108, "0000000", 7);
  std::memcpy(header + 116, "0000000", 7);
  std::snprintf(header + 124, 12, "%011llo", static_cast<unsigned long long>(bytes.size()));
  std::memcpy(header + 136, "00000000000", 11);
  header[156] = '0';
  std::memcpy(header + 257, "ustar\00000", 8);
  std::memset(header + 148, ' ', 8);  // the checksum counts itself as blanks
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  std::snprintf(header + 148, 8, "%06o", sum);
  std::string member(header, sizeof header);
  member += bytes;
  member.resize((member.size() + 511) / 512 * 512);
  return member;
}

std::string numbered(const char* form, std::int64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, form, static_cast<int>(number));
  return text;
}

/// A sample as it is written.
struct Written {
  std::string key;  // "000000123"
  std::string_view bytes;
  std::string extension;  // with its dot
  std::int64_t label;
  std::string class_name, name;
};

std::string as_tar(const Written& sample) {
  const JsonObject json{{"label", sample.class_name}, {"class_index", sample.label}, {"file", sample.name}};
  return tar_member(sample.key + ".cls", text(sample.label)) + tar_member(sample.key + sample.extension, sample.bytes) +
         tar_member(sample.key + ".json", json.line());
}

/// tf.train.Example (tensorflow/core/example/example.proto, feature.proto): a map from names to lists.
std::string as_example(const Written& sample) {
  std::string features;
  const auto put_feature = [&](const char* name, unsigned kind, const std::string& list) {
    std::string feature, entry;
    put_bytes(feature, kind, list);  // 1: bytes_list, 3: int64_list
    put_bytes(entry, 1, name);
    put_bytes(entry, 2, feature);
    put_bytes(features, 1, entry);
  };
  const auto put_text = [&](const char* name, std::string_view value) {
    std::string list;
    put_bytes(list, 1, value);
    put_feature(name, 1, list);
  };
  put_text("image/encoded", sample.bytes);
  put_text("image/filename", sample.name);
  put_text("image/class/text", sample.class_name);
  std::string number;
  put_int(number, 1, sample.label);
  put_feature("image/class/label", 3, number);
  std::string example;
  put_bytes(example, 1, features);
  return framed(example);
}

/// What one split becomes.
class Writer {
 public:
  Writer(const fs::path& out, Split split, const ConvertOptions& options)
      : out_(out), split_(name(split)), options_(options) {}

  void add(const Written& sample) {
    if (options_.form == SetForm::folders) {
      const fs::path folder = out_ / split_ / sample.class_name;
      make_folder(folder);
      return write_file(folder / (sample.key + sample.extension), sample.bytes);
    }
    shard_ += options_.form == SetForm::tar ? as_tar(sample) : as_example(sample);
    if (++in_shard_ == options_.shard) close();
  }

  /// Ends the last shard; returns all of them. TFRecord's names say how many there are, so they come last.
  std::vector<std::string> finish() {
    if (in_shard_ > 0) close();
    if (options_.form == SetForm::tfrecord)
      for (std::size_t i = 0; i < files_.size(); ++i) {
        const std::string name = (out_ / text(split_, numbered("-%05d", static_cast<std::int64_t>(i)),
                                              numbered("-of-%05d.tfrecord", static_cast<std::int64_t>(files_.size()))))
                                     .string();
        move_file(files_[i], name);
        files_[i] = name;
      }
    return files_;
  }

 private:
  void close() {
    const bool tar = options_.form == SetForm::tar;
    if (tar) shard_.append(1024, '\0');  // two empty blocks end an archive
    const std::string number = numbered("-%06d", static_cast<std::int64_t>(files_.size()));
    files_.push_back((out_ / text(split_, number, tar ? ".tar" : ".part")).string());
    write_file(files_.back(), shard_);
    shard_.clear();
    in_shard_ = 0;
  }

  fs::path out_;
  std::string split_;
  ConvertOptions options_;
  std::string shard_;
  std::int64_t in_shard_ = 0;
  std::vector<std::string> files_;
};

/// What a thread needs.
struct Reader {
  Decoder decoder;
  Image image;
  std::vector<std::byte> buffer;

  /// The image file of a sample. Throws Error(data) where it cannot be decoded whole.
  std::string file_of(const Dataset& dataset, Split split, std::int64_t sample) {
    const StoredImage stored = dataset.read(split, sample, buffer);
    if (stored.pixels == ImageSize{}) {
      decoder.open(stored);
      decoder.read(image);
      return std::string(as_text(stored.bytes));
    }
    image.reshape(stored.pixels);
    std::memcpy(image.data(), stored.bytes.data(), stored.bytes.size());
    return encode_png(image);
  }
};

/// The image file of a sample, or why there is none.
struct Read {
  std::string file, problem;
};

/// Reads and decodes on several threads, some samples ahead of who writes them.
class ReadAhead {
 public:
  ReadAhead(const Dataset& dataset, int threads)
      : dataset_(dataset), pool_(threads), readers_(static_cast<std::size_t>(threads)) {}

  /// Of the next sample of a split, from its first one on.
  const Read& next(Split split, std::int64_t sample) {
    const std::int64_t at = sample % kSamplesATime;
    if (at == 0) fill(split, sample, std::min(kSamplesATime, dataset_.size(split) - sample));
    return read_[at];
  }

 private:
  void fill(Split split, std::int64_t first, std::int64_t count) {
    read_.assign(count, {});
    std::atomic<std::int64_t> taken{0};
    pool_.each(pool_.threads(), [&](int thread) {
      for (std::int64_t i; (i = taken++) < count;) {
        Read& to = read_[i];
        try {
          to.file = readers_[thread].file_of(dataset_, split, first + i);
        } catch (const Error& error) {
          if (error.fault() != Fault::data) throw;
          to.problem = error.what();
        }
      }
    });
  }

  const Dataset& dataset_;
  ThreadPool pool_;
  std::vector<Reader> readers_;  // one a thread
  std::vector<Read> read_;
};

/// Whether the classes stand in the order that our readers give them.
bool in_order(const std::vector<std::string>& names, SetForm form) {
  if (form == SetForm::folders || !std::all_of(names.begin(), names.end(), integer))
    return std::is_sorted(names.begin(), names.end());
  return std::is_sorted(names.begin(), names.end(),
                        [](const auto& a, const auto& b) { return *integer(a) < *integer(b); });
}

std::vector<std::string> not_carried(const Dataset& dataset, SetForm form) {
  std::vector<std::string> lost;
  if (dataset.weighted()) lost.emplace_back("the weights of the samples; a packed file (neurim data pack) keeps them");
  if (dataset.grouped())
    lost.emplace_back("the groups, so that a split cut from the result would separate them; a packed file keeps them");
  const std::vector<std::string>& names = dataset.class_names();
  std::vector<std::int64_t> counts(names.size(), 0);
  for (const Split split : kSplits) {
    const std::vector<std::int64_t> of_split = dataset.class_counts(split);
    std::transform(counts.begin(), counts.end(), of_split.begin(), counts.begin(), std::plus<>());
  }
  for (std::size_t c = 0; c < names.size(); ++c)
    if (counts[c] == 0) lost.push_back(text("the class ", names[c], ", as no image shows it; a packed file keeps it"));
  if (!in_order(names, form))
    lost.emplace_back("the order of the classes; a packed file keeps it, and so does the option classes");
  return lost;
}

/// Throws where our readers would not give back the names of the classes, which come from files that anybody may have
/// written.
void check_names(const Dataset& dataset, const std::string& out, SetForm form) {
  const std::size_t longest = form == SetForm::folders ? 255 : 4096;  // of a file's name; of a text in a record
  Spellings spellings;
  for (const std::string& name : dataset.class_names()) {
    spellings.add(name);
    const bool lost = name.size() > longest || name.empty() ||
                      (form == SetForm::folders && (name.find('/') != std::string::npos || is_hidden(name)));
    if (lost)
      fail(Fault::data, out, ": the class \"", name, "\" ",
           name.size() > longest ? "has too long a name" : "cannot be called so in a folder",
           "; rename the class (that of IDX files by labels.txt)",
           form == SetForm::folders ? ", or take to=wds or to=tfrecord" : "");
  }
  for (const std::vector<std::string>& same : spellings.several())
    fail(Fault::data, out, ": the names of two classes differ in Unicode form alone, ", with_code_points(same[0]),
         " and ", with_code_points(same[1]), "; rename one of them");
}

}  // namespace

void check_convert(const Dataset& dataset, const std::string& out, const ConvertOptions& options) {
  require(options.shard >= 1, "shard is ", options.shard, "; a shard has at least one sample");
  require(!dataset.multi_label(), out, ": a converted set has one class an image, these have any number; ",
          "pack them (neurim data pack), or copy the table with the images");
  std::error_code error;
  require(!fs::exists(out) || (fs::is_directory(out) && fs::is_empty(out, error)), out,
          ": is there and not empty; give another folder, or remove it");
  check_names(dataset, out, options.form);
}

ConvertResult convert(const Dataset& dataset, const std::string& out, const ConvertOptions& options,
                      const std::function<void(std::int64_t, std::int64_t)>& progress) {
  check_convert(dataset, out, options);
  const bool is_new = make_folder(out);
  const std::int64_t all = dataset.size();
  std::int64_t done = 0;
  ConvertResult result{.not_carried = not_carried(dataset, options.form)};
  ReadAhead ahead(dataset, options.threads);
  for (const Split split : kSplits) {
    Writer writer(out, split, options);
    for (std::int64_t i = 0; i < dataset.size(split); ++i) {
      if (progress) progress(++done, all);
      const std::string sample_name = dataset.name(split, i);
      const auto& [file, problem] = ahead.next(split, i);
      try {
        if (!problem.empty()) fail(Fault::data, problem);
        writer.add({.key = numbered("%09d", i),
                    .bytes = file,
                    .extension = std::string(extension_of(format_of_content(std::as_bytes(std::span(file))))),
                    .label = dataset.label(split, i),
                    .class_name = dataset.label_name(split, i),
                    .name = sample_name});
        ++result.samples;
      } catch (const Error& error) {
        if (error.fault() != Fault::data) throw;
        result.skipped.push_back(text(sample_name, ": ", error.what()));
      }
    }
    for (std::string& shard : writer.finish()) result.files.push_back(std::move(shard));
  }
  if (result.samples == 0) {
    std::error_code ignored;
    if (is_new) fs::remove(out, ignored);
    fail(Fault::data, out, ": nothing was written, as none of the ", all, " images can be converted",
         result.skipped.empty() ? "" : text("; ", result.skipped[0]));
  }
  return result;
}

}  // namespace neurim
