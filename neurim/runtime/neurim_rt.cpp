#define NEURIM_RT_BUILD
#include "neurim/runtime/neurim_rt.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "neurim/backend/reference/view.h"
#include "neurim/base/error.h"
#include "neurim/compile/plan.h"
#include "neurim/core/device.h"
#include "neurim/data/transform.h"
#include "neurim/function/image_layout.h"
#include "neurim/ops/sigmoid.h"
#include "neurim/ops/softmax.h"

namespace neurim {
void define_ops();
void add_reference_kernels();
void add_runtime_kernels();
}  // namespace neurim

using namespace neurim;

namespace {

thread_local std::string last_error;

void initialize_once() {
  [[maybe_unused]] static const bool once = [] {
    define_ops();
    add_reference_kernels();
    add_reference_kernels_for(0);
    add_runtime_kernels();
    return true;
  }();
}

/// Runs `step`, and turns what it throws into a status.
template <class Step>
neurim_status guarded(const Step& step) noexcept {
  const auto failed = [](neurim_status status, const char* why) {
    try {
      last_error = why;
    } catch (...) {
      last_error.clear();
    }
    return status;
  };
  try {
    last_error.clear();
    initialize_once();
    step();
    return NEURIM_OK;
  } catch (const Error& error) {
    const int fault = static_cast<int>(error.fault());
    return failed(fault <= NEURIM_RESOURCE ? static_cast<neurim_status>(fault) : NEURIM_FAILURE, error.what());
  } catch (const std::bad_alloc&) {
    return failed(NEURIM_RESOURCE, "out of memory");
  } catch (const std::exception& error) {
    return failed(NEURIM_FAILURE, error.what());
  } catch (...) {
    return failed(NEURIM_FAILURE, "an unknown fault");
  }
}

DType dtype_of(neurim_dtype dtype) {
  const auto number = static_cast<std::size_t>(dtype);
  require(number < kDTypes.size(), "dtype ", number, " is none of neurim_dtype");
  return kDTypes[number];
}

Type type_of(const neurim_tensor& tensor, const char* what, std::size_t index) {
  require(tensor.rank >= 0 && tensor.rank <= NEURIM_MAX_RANK, what, ' ', index, ": rank is ", tensor.rank,
          "; it is 0 to ", static_cast<int>(NEURIM_MAX_RANK));
  Type type{dtype_of(tensor.dtype), {}};
  for (int axis = 0; axis < tensor.rank; ++axis) {
    require(tensor.sizes[axis] >= 0, what, ' ', index, ": size ", axis, " is ", tensor.sizes[axis],
            "; it is at least 0");
    type.shape.push_back(tensor.sizes[axis]);
  }
  return type;
}

neurim_port port_of(const Function::Port& port) {
  neurim_port result{port.name.c_str(), static_cast<neurim_dtype>(port.type.dtype), port.type.shape.rank(), {}};
  for (int axis = 0; axis < result.rank; ++axis) {
    const Dim size = port.type.shape[axis];
    result.sizes[axis] = size.symbolic() ? -1 : static_cast<std::int64_t>(size);
  }
  return result;
}

std::int64_t bytes_of(const Type& type) { return static_cast<std::int64_t>(type.shape.numel()) * bits(type.dtype) / 8; }

/// What a model of images is told of them.
struct ImageClasses {
  Preprocess preprocess;
  std::vector<std::string> names;
  std::vector<double> thresholds;  ///< of a model of several classes an image
};

ImageClasses image_classes(const Function& function, const std::string& path) {
  ImageClasses images;
  const Metadata& metadata = function.metadata;
  try {
    images.preprocess = Preprocess::from_json(metadata.at("preprocess"));
    images.names = nlohmann::json::parse(metadata.at("class_names")).get<std::vector<std::string>>();
    if (metadata.contains("thresholds"))
      images.thresholds = nlohmann::json::parse(metadata.at("thresholds")).get<std::vector<double>>();
    const std::vector<Function::Port> outputs = function.output_ports();
    require(function.input_ports().size() == 1 && outputs.size() == 1 && outputs[0].type.shape.rank() == 2 &&
                !outputs[0].type.shape[1].symbolic(),
            "its function is no classifier's");
    const auto logits = static_cast<std::size_t>(static_cast<std::int64_t>(outputs[0].type.shape[1]));
    if (images.names.empty())
      for (std::size_t i = 0; i < logits; ++i) images.names.push_back(std::to_string(i));
    require(images.names.size() == logits, "its function gives ", logits, " numbers for ", images.names.size(),
            " classes");
    require(images.thresholds.empty() || images.thresholds.size() == logits, images.thresholds.size(),
            " thresholds for ", logits, " classes");
    return images;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    fail(Fault::data, path, ": its metadata are damaged: ", error.what(), "; use another copy");
  }
}

PlanOptions frozen() {
  PlanOptions options;
  options.freeze = true;
  return options;
}

neurim_options known_options(const neurim_options* options) {
  neurim_options known{};
  if (options) {
    require(options->size >= sizeof(std::size_t) && options->size <= sizeof known, "options: size is ", options->size,
            "; set it to sizeof(neurim_options), or use a newer library");
    std::memcpy(&known, options, options->size);
  }
  if (known.most_plans == 0) known.most_plans = 16;
  return known;
}

}  // namespace

struct neurim_session {
  neurim_session(const StateDict& file, const neurim_options& options)
      : function(given(read_function(file), options)), compiled(function.graph, frozen(), options.most_plans) {
    if (!function.metadata.contains("preprocess")) return;
    images = image_classes(function, file.path.string());
    probabilities.emplace(
        [graph = function.graph, turned = takes_channels_last(function.metadata),
         several = !images->thresholds.empty()](const Tensors& in) {
          const Tensor logits = call(graph, {turned ? channels_last(in[0]) : in[0]})[0];
          return Tensors{several ? sigmoid(logits) : softmax(logits)};
        },
        frozen(), options.most_plans);
  }

  /// The function as neurim_run takes it.
  static Function given(Function function, const neurim_options& options) {
    if (options.nhwc == 0 || takes_channels_last(function.metadata)) return function;
    return channels_last(function);
  }

  void classify(const StoredImage& image, float* to) const {
    classify([&](Decoder& decoder, const DecodeOptions& options) { decoder.open(image, options); }, to);
  }

  /// Writes the probabilities of an image, which `open` opens.
  template <class Open>
  void classify(const Open& open, float* to) const {
    require(images.has_value(), "the model has no preprocessing of images; call neurim_run");
    require(to != nullptr, "probabilities is NULL");
    const Preprocess& preprocess = images->preprocess;
    std::vector<float> pixels(preprocess.size().values());
    Decoder decoder;
    open(decoder, preprocess.decoding());
    Transform transform(preprocess);
    transform(decoder, pixels.data());
    const Type type{DType::f32, {1, preprocess.channels, preprocess.height, preprocess.width}};
    const std::vector<float> shares = (*probabilities)({Tensor::from(type, pixels.data())})[0].values<float>();
    if (std::any_of(shares.begin(), shares.end(), [](float share) { return std::isnan(share); }))
      fail(Fault::data, "the model gives NaN for the image, as numbers in between outgrow their precision");
    std::copy(shares.begin(), shares.end(), to);
  }

  Function function;
  const std::vector<Function::Port> inputs = function.input_ports(), outputs = function.output_ports();
  std::optional<ImageClasses> images;  ///< of a model of images
  mutable Compiled compiled;
  mutable std::optional<Compiled> probabilities;  ///< of such a model
};

extern "C" {

uint32_t neurim_version(void) { return NEURIM_RT_VERSION; }

const char* neurim_last_error(void) { return last_error.c_str(); }

neurim_status neurim_set_threads(int32_t count) {
  return guarded([&] { neurim::set_threads(count); });
}

neurim_status neurim_open(const char* path, const neurim_options* options, neurim_session** session) {
  if (session) *session = nullptr;
  return guarded([&] {
    require(path && session, path ? "session" : "path", " is NULL");
    *session = new neurim_session(read_state_dict(path), known_options(options));
  });
}

neurim_status neurim_open_bytes(const void* bytes, size_t count, const neurim_options* options,
                                neurim_session** session) {
  if (session) *session = nullptr;
  return guarded([&] {
    require(bytes && session, bytes ? "session" : "bytes", " is NULL");
    const std::span all(static_cast<const std::byte*>(bytes), count);
    *session = new neurim_session(read_state_dict(all, "the bytes"), known_options(options));
  });
}

void neurim_close(neurim_session* session) { delete session; }

size_t neurim_input_count(const neurim_session* session) { return session ? session->inputs.size() : 0; }
size_t neurim_output_count(const neurim_session* session) { return session ? session->outputs.size() : 0; }

static neurim_status port_at(const neurim_session* session, const std::vector<Function::Port> neurim_session::*ports,
                             size_t index, neurim_port* port) {
  return guarded([&] {
    require(session && port, session ? "port" : "session", " is NULL");
    const std::vector<Function::Port>& all = session->*ports;
    require(index < all.size(), "index is ", index, "; there are ", all.size());
    *port = port_of(all[index]);
  });
}

neurim_status neurim_input(const neurim_session* session, size_t index, neurim_port* port) {
  return port_at(session, &neurim_session::inputs, index, port);
}
neurim_status neurim_output(const neurim_session* session, size_t index, neurim_port* port) {
  return port_at(session, &neurim_session::outputs, index, port);
}

const char* neurim_metadata(const neurim_session* session, const char* key) {
  if (!session || !key) return nullptr;
  const Metadata& metadata = session->function.metadata;
  const auto found = metadata.find(key);
  return found == metadata.end() ? nullptr : found->second.c_str();
}

neurim_status neurim_run(const neurim_session* session, const neurim_tensor* inputs, size_t input_count,
                         neurim_tensor* outputs, size_t output_count) {
  return guarded([&] {
    require(session != nullptr, "session is NULL");
    require(input_count == session->inputs.size() && output_count == session->outputs.size(), "the model has ",
            session->inputs.size(), " inputs and ", session->outputs.size(), " outputs, not ", input_count, " and ",
            output_count);
    require((inputs || input_count == 0) && (outputs || output_count == 0), inputs ? "outputs" : "inputs", " is NULL");
    Types types;
    for (size_t i = 0; i < input_count; ++i) {
      types.push_back(type_of(inputs[i], "input", i));
      require(!inputs[i].data || static_cast<std::int64_t>(inputs[i].bytes) == bytes_of(types[i]), "input ", i, " has ",
              inputs[i].bytes, " bytes, ", types[i], " has ", bytes_of(types[i]));
    }
    Types wanted;
    for (const Tensor& out : session->compiled.plan_for(types).outputs()) wanted.push_back(out.type());
    bool sizes_alone = true;
    for (size_t i = 0; i < output_count; ++i) {
      neurim_tensor& out = outputs[i];
      out.dtype = static_cast<neurim_dtype>(wanted[i].dtype);
      out.rank = wanted[i].shape.rank();
      for (int axis = 0; axis < out.rank; ++axis) out.sizes[axis] = static_cast<std::int64_t>(wanted[i].shape[axis]);
      sizes_alone = sizes_alone && !out.data;
    }
    if (sizes_alone && output_count > 0) return;
    for (size_t i = 0; i < output_count; ++i)
      require(outputs[i].data && static_cast<std::int64_t>(outputs[i].bytes) >= bytes_of(wanted[i]), "output ", i,
              ": data is NULL or has ", outputs[i].bytes, " bytes; ", wanted[i], " has ", bytes_of(wanted[i]));
    Tensors in;
    for (size_t i = 0; i < input_count; ++i) {
      require(inputs[i].data || bytes_of(types[i]) == 0, "input ", i, ": data is NULL");
      in.push_back(Tensor::from(types[i], inputs[i].data));
    }
    const Tensors out = session->compiled(in);
    for (size_t i = 0; i < output_count; ++i) out[i].read(outputs[i].data);
  });
}

size_t neurim_class_count(const neurim_session* session) {
  return session && session->images ? session->images->names.size() : 0;
}

const char* neurim_class_name(const neurim_session* session, size_t index) {
  return index < neurim_class_count(session) ? session->images->names[index].c_str() : nullptr;
}

double neurim_class_threshold(const neurim_session* session, size_t index) {
  return index < neurim_class_count(session) && !session->images->thresholds.empty()
             ? session->images->thresholds[index]
             : 0;
}

neurim_status neurim_classify_file(const neurim_session* session, const char* path, float* probabilities) {
  return guarded([&] {
    require(session && path, session ? "path" : "session", " is NULL");
    naming([&] { return std::string(path); },
           [&] {
             session->classify(
                 [&](Decoder& decoder, const DecodeOptions& options) { decoder.open_file(path, options); },
                 probabilities);
           });
  });
}

neurim_status neurim_classify_bytes(const neurim_session* session, const void* bytes, size_t count,
                                    float* probabilities) {
  return guarded([&] {
    require(session && bytes, session ? "bytes" : "session", " is NULL");
    session->classify(StoredImage{{static_cast<const std::byte*>(bytes), count}}, probabilities);
  });
}

neurim_status neurim_classify_pixels(const neurim_session* session, const uint8_t* pixels, int32_t height,
                                     int32_t width, int32_t channels, float* probabilities) {
  return guarded([&] {
    require(session && pixels, session ? "pixels" : "session", " is NULL");
    require(height >= 1 && width >= 1 && channels >= 1 && channels <= kMostChannels, "pixels: the size is ", height,
            " x ", width, " x ", channels);
    const ImageSize size{height, width, channels, 8};
    session->classify(StoredImage{{reinterpret_cast<const std::byte*>(pixels), size.bytes()}, size}, probabilities);
  });
}

}  // extern "C"
