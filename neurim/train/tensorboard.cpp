#include "neurim/train/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <set>
#include <system_error>

#include "neurim/base/bytes.h"
#include "neurim/base/error.h"
#include "neurim/base/tfrecord.h"
#include "neurim/hardware/machine.h"

namespace neurim {

namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Field numbers are those of tensorflow/core/util/event.proto and framework/summary.proto.
std::string new_event(std::int64_t step) {
  std::string event;
  put_double(event, 1, seconds_now());
  put_int(event, 2, step);
  return event;
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const fs::path& folder, std::optional<std::int64_t> resumed_at) {
  make_folder(folder);
  static std::atomic<unsigned> serial{0};
  path_ = folder / text("events.out.tfevents.", static_cast<std::int64_t>(seconds_now()), '.', host_name(), '.',
                        ::getpid(), '.', serial++);
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0) fail(Fault::resource, path_.string(), ": cannot create: ", std::strerror(errno));

  std::string version = new_event(0);
  put_bytes(version, 3, "brain.Event:2");
  append_record(version);
  if (resumed_at) {
    std::string start, event = new_event(*resumed_at);
    put_int(start, 1, 1);  // SessionLog.status = START
    put_bytes(event, 7, start);
    append_record(event);
  }
}

TensorBoardWriter::~TensorBoardWriter() { ::close(file_); }

void TensorBoardWriter::write(std::int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, 1, scalar.tag);
    put_float(value, 2, static_cast<float>(scalar.value));
    put_bytes(summary, 1, value);
  }
  append_summary(step, summary);
}

void TensorBoardWriter::append_summary(std::int64_t step, std::string_view summary) {
  std::string event = new_event(step);
  put_bytes(event, 5, summary);
  append_record(event);
}

void TensorBoardWriter::write_image(std::int64_t step, std::string_view tag, std::string_view bytes, int height,
                                    int width) {
  std::string image, value, summary;
  put_int(image, 1, height), put_int(image, 2, width), put_int(image, 3, 3);
  put_bytes(image, 4, bytes);
  put_bytes(value, 1, tag), put_bytes(value, 4, image);
  put_bytes(summary, 1, value);
  append_summary(step, summary);
}

void TensorBoardWriter::write_histogram(std::int64_t step, std::string_view tag, std::span<const float> values) {
  constexpr std::size_t kRanges = 30;
  if (values.empty() || !std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); })) return;
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const double low = *least, width = (static_cast<double>(*most) - low) / kRanges;
  std::array<double, kRanges> counts{};
  double sum = 0, squares = 0;
  for (const double value : values) {
    const double place = width > 0 ? (value - low) / width : 0;
    ++counts[std::min(static_cast<std::size_t>(place), kRanges - 1)];
    sum += value, squares += value * value;
  }
  std::string histogram, limits, buckets, value, summary;
  put_double(histogram, 1, low), put_double(histogram, 2, *most);
  put_double(histogram, 3, static_cast<double>(values.size()));
  put_double(histogram, 4, sum), put_double(histogram, 5, squares);
  for (std::size_t i = 0; i < kRanges; ++i) {
    put_little_endian(limits, std::bit_cast<std::uint64_t>(low + width * static_cast<double>(i + 1)), 8);
    put_little_endian(buckets, std::bit_cast<std::uint64_t>(counts[i]), 8);
  }
  put_bytes(histogram, 6, limits), put_bytes(histogram, 7, buckets);
  put_bytes(value, 1, tag), put_bytes(value, 5, histogram);
  put_bytes(summary, 1, value);
  append_summary(step, summary);
}

/// A value that a plug-in of TensorBoard reads from its metadata.
void TensorBoardWriter::write_plugin(std::string_view tag, std::string_view data) {
  std::string plugin, metadata, tensor, value, summary;
  put_bytes(plugin, 1, "hparams"), put_bytes(plugin, 2, data);
  put_bytes(metadata, 1, plugin);
  put_int(tensor, 1, 1), put_bytes(tensor, 2, ""), put_float(tensor, 5, 0);  // a scalar f32, which nobody reads
  put_bytes(value, 1, tag), put_bytes(value, 8, tensor), put_bytes(value, 9, metadata);
  put_bytes(summary, 1, value);
  append_summary(0, summary);
}

void TensorBoardWriter::write_hparams(const std::map<std::string, std::string>& options, std::string_view metric) {
  // Of tensorboard/plugins/hparams/api.proto and plugin_data.proto.
  enum { text_type = 1, bool_type = 2, number_type = 3 };
  std::string experiment, start;
  for (const auto& [name, written] : options) {
    double number = 0;
    const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), number);
    const bool is_number = error == std::errc() && end == written.data() + written.size();
    const bool is_truth = written == "true" || written == "false";
    std::string info, value, entry;
    put_bytes(info, 1, name);
    put_int(info, 4, is_number ? number_type : is_truth ? bool_type : text_type);
    put_bytes(experiment, 4, info);
    if (is_number) put_double(value, 2, number);
    if (is_truth) put_int(value, 4, written == "true");
    if (!is_number && !is_truth) put_bytes(value, 3, written);
    put_bytes(entry, 1, name), put_bytes(entry, 2, value);
    put_bytes(start, 1, entry);
  }
  std::string metric_name, metric_info, data;
  put_bytes(metric_name, 2, metric);
  put_bytes(metric_info, 1, metric_name);
  put_bytes(experiment, 5, metric_info);
  put_bytes(data, 2, experiment);
  write_plugin("_hparams_/experiment", data);
  put_double(start, 5, seconds_now());
  data.clear();
  put_bytes(data, 3, start);
  write_plugin("_hparams_/session_start_info", data);
}

void TensorBoardWriter::write_graph(const Graph& graph) {
  std::string definition;
  const auto name_of = [&](int value) {
    const int node = graph.values[static_cast<std::size_t>(value)].node;
    if (node < 0) return text("values/", value);
    const Graph::Node& made = graph.nodes[static_cast<std::size_t>(node)];
    std::string path = made.where;
    std::replace(path.begin(), path.end(), '.', '/');
    return text(path, path.empty() ? "" : "/", made.op->name(), '_', node);
  };
  std::set<int> outside;  // inputs and stored tensors
  for (const Graph::Node& node : graph.nodes) {
    std::string definition_of_node;
    put_bytes(definition_of_node, 1, name_of(node.out[0]));
    put_bytes(definition_of_node, 2, node.op->name());
    for (const int value : node.in) {
      put_bytes(definition_of_node, 3, name_of(value));
      if (graph.values[static_cast<std::size_t>(value)].node < 0) outside.insert(value);
    }
    put_bytes(definition, 1, definition_of_node);
  }
  for (const int value : outside) {
    std::string node;
    put_bytes(node, 1, name_of(value)), put_bytes(node, 2, "Placeholder");
    put_bytes(definition, 1, node);
  }
  std::string event = new_event(0);
  put_bytes(event, 4, definition);
  append_record(event);
}

// Unbuffered.
void TensorBoardWriter::append_record(std::string_view event) {
  const std::string record = framed(event);
  for (std::string_view left = record; !left.empty();) {
    const ssize_t written = ::write(file_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(Fault::resource, path_.string(), ": cannot write: ", std::strerror(errno));
    left.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace neurim
