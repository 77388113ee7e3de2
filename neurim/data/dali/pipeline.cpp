#include "neurim/data/dali/pipeline.h"

#include <dali/dali.h>
#include <dali/dali_cpp_wrappers.h>

#include <algorithm>
#include <string>

#include "neurim/base/error.h"

namespace neurim::dali {
namespace {

constexpr daliBufferPlacement_t kHost{};

/// Throws what DALI said of a call that failed.
void check(daliResult_t result) {
  if (result == DALI_SUCCESS) return;
  std::string words = daliGetLastErrorMessage();
  std::replace(words.begin(), words.end(), '\n', ' ');
  fail(Fault::failure, "loader=dali: DALI: ", words, "; use loader=neurim");
}

/// What each sample has of its own beside its file.
struct Column {
  const char* name;
  daliDataType_t type;
  std::int64_t values;  // of a sample; 0: a scalar
  const void* data;
};
std::vector<Column> columns(const Inputs& inputs, bool pads) {
  std::vector<Column> list{{"part_start", DALI_INT32, 2, inputs.part_start.data()},
                           {"part_shape", DALI_INT32, 2, inputs.part_shape.data()},
                           {"size", DALI_FLOAT, 2, inputs.size.data()},
                           {"roi_start", DALI_FLOAT, 2, inputs.roi_start.data()},
                           {"roi_end", DALI_FLOAT, 2, inputs.roi_end.data()},
                           {"mirror", DALI_INT32, 0, inputs.mirror.data()}};
  if (pads) list.push_back({"corner", DALI_INT32, 2, inputs.corner.data()});  // DALI drops an input that nothing uses
  return list;
}
constexpr const char* kFiles = "files";

void add_input(daliPipeline_h pipeline, const char* name, daliDataType_t type, int dimensions) {
  daliPipelineIODesc_t desc{};
  desc.name = name;
  desc.device = DALI_STORAGE_CPU;
  desc.dtype_present = desc.ndim_present = 1;
  desc.dtype = type;
  desc.ndim = dimensions;
  check(daliPipelineAddExternalInput(pipeline, &desc));
}

/// `shapes`: of each sample, where it is no scalar.
void feed(daliPipeline_h pipeline, const char* name, daliDataType_t type, std::size_t samples,
          const std::vector<std::int64_t>& shapes, const void* data) {
  daliTensorList_h made = nullptr;
  check(daliTensorListCreate(&made, kHost));
  const ::dali::c_api::TensorListHandle list(made);
  check(daliTensorListAttachBuffer(list, static_cast<int>(samples), shapes.empty() ? 0 : 1,
                                   shapes.empty() ? nullptr : shapes.data(), type, nullptr, const_cast<void*>(data),
                                   nullptr, {}));
  check(daliPipelineFeedInput(pipeline, name, list, nullptr, DALI_FEED_INPUT_FORCE_COPY, nullptr));
}

daliArgDesc_t argument(const char* name, std::int64_t value, daliDataType_t type) {
  daliArgDesc_t desc{.name = name, .dtype = type, .ivalue = {}};
  desc.ivalue = value;
  return desc;
}

daliArgDesc_t argument(const char* name, const char* value) {
  daliArgDesc_t desc{.name = name, .dtype = DALI_STRING, .ivalue = {}};
  desc.str = value;
  return desc;
}

template <class T>
daliArgDesc_t argument(const char* name, const std::vector<T>& values, daliDataType_t type) {
  daliArgDesc_t desc{.name = name, .dtype = type, .ivalue = {}};
  desc.size = static_cast<std::int64_t>(values.size());
  desc.arr = values.data();
  return desc;
}

/// Adds an operator of the CPU with one input and one output. `of_samples`: which arguments are columns.
void add_operator(daliPipeline_h pipeline, const char* schema, const char* input, const char* output,
                  const std::vector<daliArgDesc_t>& arguments, const std::vector<daliArgInputDesc_t>& of_samples = {}) {
  const daliIODesc_t in{input, DALI_STORAGE_CPU}, out{output, DALI_STORAGE_CPU};
  daliOperatorDesc_t desc{};
  desc.schema_name = schema;
  desc.backend = DALI_BACKEND_CPU;
  desc.num_inputs = desc.num_outputs = 1;
  desc.inputs = &in;
  desc.outputs = &out;
  desc.num_args = static_cast<int>(arguments.size());
  desc.args = arguments.data();
  desc.num_arg_inputs = static_cast<int>(of_samples.size());
  desc.arg_inputs = of_samples.data();
  check(daliPipelineAddOperator(pipeline, &desc));
}

/// A mean or a std for each channel, scaled to pixel values.
std::vector<float> values(const std::vector<double>& of_one) {
  std::vector<float> list;
  for (const double value : of_one) list.push_back(static_cast<float>(255 * value));
  return list;
}

}  // namespace

void Inputs::clear() {
  files.clear();
  file_bytes.clear();
  for (auto* list : {&part_start, &part_shape, &corner, &mirror}) list->clear();
  for (auto* list : {&size, &roi_start, &roi_end}) list->clear();
}

void Inputs::add(std::int64_t bytes, const Box& part, const Placement& placement, const Pose& pose) {
  const Box& window = placement.window;
  const auto in_part = [](int at, int in, int scaled) {
    return static_cast<float>(static_cast<double>(at) * in / scaled);
  };
  const auto y = [&](int at) { return in_part(at, part.height, placement.height); };
  const auto x = [&](int at) { return in_part(at, part.width, placement.width); };
  file_bytes.push_back(bytes);
  part_start.insert(part_start.end(), {part.left, part.top});
  part_shape.insert(part_shape.end(), {part.width, part.height});
  size.insert(size.end(), {static_cast<float>(window.height), static_cast<float>(window.width)});
  roi_start.insert(roi_start.end(), {y(window.top), x(window.left)});
  roi_end.insert(roi_end.end(), {y(window.top + window.height), x(window.left + window.width)});
  corner.insert(corner.end(), {-(placement.left + pose.right), -(placement.top + pose.down)});
  mirror.push_back(pose.mirrored);
}

Pipeline::Pipeline(const Preprocess& preprocess, bool pads, int most_samples, int threads)
    : floats_(preprocess.size().values()), pads_(pads) {
  daliPipelineParams_t params{};
  DALI_SET_PARAM(params, max_batch_size, most_samples);
  DALI_SET_PARAM(params, num_threads, threads);
  DALI_SET_PARAM(params, exec_type, DALI_EXEC_SIMPLE);
  daliPipeline_h pipeline = nullptr;
  check(daliPipelineCreate(&pipeline, &params));
  pipeline_.reset(pipeline);

  add_input(pipeline, kFiles, DALI_UINT8, 1);
  for (const Column& column : columns({}, pads_)) add_input(pipeline, column.name, column.type, column.values ? 1 : 0);
  add_operator(pipeline, "decoders__ImageSlice", kFiles, "decoded",
               {argument("adjust_orientation", preprocess.decode.exif, DALI_BOOL)},
               {{"start", "part_start"}, {"shape", "part_shape"}});
  const bool gray = preprocess.channels == 1;
  constexpr int kRgb = 0, kGray = 2;  // DALIImageType
  if (gray)
    add_operator(pipeline, "ColorSpaceConversion", "decoded", "gray",
                 {argument("image_type", kRgb, DALI_INT32), argument("output_type", kGray, DALI_INT32)});
  add_operator(pipeline, "Resize", gray ? "gray" : "decoded", "scaled", {},
               {{"size", "size"}, {"roi_start", "roi_start"}, {"roi_end", "roi_end"}});
  const std::vector<int> shape{preprocess.width, preprocess.height};
  const std::vector<float> fill{static_cast<float>(preprocess.fill)};
  if (pads_)
    add_operator(pipeline, "Slice", "scaled", "padded",
                 {argument("shape", shape, DALI_INT_VEC), argument("out_of_bounds_policy", "pad"),
                  argument("fill_values", fill, DALI_FLOAT_VEC)},
                 {{"start", "corner"}});
  const std::vector<float> mean = values(preprocess.mean), std = values(preprocess.std);
  add_operator(pipeline, "CropMirrorNormalize", pads_ ? "padded" : "scaled", "images",
               {argument("mean", mean, DALI_FLOAT_VEC), argument("std", std, DALI_FLOAT_VEC)}, {{"mirror", "mirror"}});

  daliPipelineIODesc_t output{};
  output.name = "images";
  output.device = DALI_STORAGE_CPU;
  check(daliPipelineSetOutputs(pipeline, 1, &output));
  check(daliPipelineBuild(pipeline));
}

void Pipeline::Destroy::operator()(_DALIPipeline* pipeline) const { daliPipelineDestroy(pipeline); }

void Pipeline::run(const Inputs& inputs, float* out) {
  daliPipeline_h pipeline = pipeline_.get();
  const std::size_t samples = inputs.samples();
  feed(pipeline, kFiles, DALI_UINT8, samples, inputs.file_bytes, inputs.files.data());
  for (const Column& column : columns(inputs, pads_))
    feed(pipeline, column.name, column.type, samples,
         std::vector<std::int64_t>(column.values ? samples : 0, column.values), column.data);
  check(daliPipelineRun(pipeline));

  daliPipelineOutputs_h popped = nullptr;
  check(daliPipelinePopOutputs(pipeline, &popped));
  const ::dali::c_api::PipelineOutputsHandle outputs(popped);
  daliTensorList_h first = nullptr;
  check(daliPipelineOutputsGet(outputs, &first, 0));
  const ::dali::c_api::TensorListHandle images(first);
  int count = 0, dimensions = 0;
  const std::int64_t* shape = nullptr;
  check(daliTensorListGetShape(images, &count, &dimensions, &shape));
  NEURIM_ASSERT(static_cast<std::size_t>(count) == samples && dimensions == 3 &&
                static_cast<std::size_t>(shape[0] * shape[1] * shape[2]) == floats_);
  check(daliTensorListCopyOut(images, out, kHost, nullptr, DALI_COPY_SYNC));
}

}  // namespace neurim::dali
