// Row-tiled fusion of two or three layers, whose intermediate values stay in L2. Convolutions: 1x1, depthwise and 1x1,
// as in inverted residuals (Sandler et al., "MobileNetV2", CVPR'18), or two of these; the first may also be any
// convolution of an image. Fully connected layers with constant weights, with a layer norm before them, as in
// transformers: a row of features is a row of pixels. An image is computed in bands of rows, and rows that the next
// band reads again are kept. A task is an image, a range of its rows, or, where it has few rows and ends with a
// depthwise convolution, of its channels.
#include <algorithm>
#include <cstring>
#include <limits>

#include "neurim/backend/cpu/common/block_product.h"
#include "neurim/backend/cpu/common/conv_pattern.h"
#include "neurim/backend/cpu/common/conv_rows.h"
#include "neurim/backend/cpu/common/packed_weights.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/backend/cpu/conv/depthwise.h"
#include "neurim/backend/cpu/norm/norm.h"
#include "neurim/backend/cpu/packing/vnni_weights.h"
#include "neurim/backend/cpu/pointwise/pointwise.h"
#include "neurim/ops/conv.h"
#include "neurim/ops/layer_norm.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLanes = 16, kCache = 1 << 17;  // floats of intermediate values

/// A layer and the steps that follow it: steps [layer, end) of the request.
struct Stage {
  std::size_t layer, end;
  enum Kind : std::uint8_t { product, depthwise, norm, image } kind;
  int x, weight, bias, y;  ///< values of the request; -1: none
  std::int64_t in_channels, out_channels;
  DepthwiseShape shape;    ///< also of other layers, whose kernel is one pixel
  float eps = 0;           ///< of a norm
  StorageDtype pairs{};    ///< of products: what factors are rounded to
  StorageDtype rounded{};  ///< of the first stage: how x is stored
  StorageDtype rounds{};   ///< of the last stage: how y is stored
  Epilogue epilogue;       ///< what follows, where the kernel does it in registers; else see `steps`
  std::optional<PointwiseSteps> steps;
  ConvRows image_rows{};                ///< of an image: the band of x that some rows of y read
  std::vector<std::int64_t> taps = {};  ///< and BlockProduct::taps
  /// Of intermediate results: rows that are kept, and their offset in the workspace, in floats.
  std::int64_t most_rows = 0, place = 0;

  /// Whether it is a matrix product, whose factors may be rounded.
  bool multiplies() const { return kind == product || kind == image; }
  std::int64_t in_blocks() const { return blocks_of(in_channels); }
  std::int64_t out_blocks() const { return blocks_of(out_channels); }
  std::int64_t row_size() const { return shape.out_width * kLanes; }
  std::int64_t image_size() const {
    return (kind == image ? in_channels : in_blocks() * kLanes) * shape.height * shape.width;
  }  ///< of x
  /// Whether a depthwise convolution pads its rows first; for wide rows the copy costs more than it saves.
  bool pads() const { return kind == depthwise && (shape.kernel[1] > 3 || shape.out_width < 16); }
  /// The bias of `blocks` blocks from `block` on; `to` has zeros for the channels that are not there.
  void copy_bias(const float* all, std::int64_t block, std::int64_t blocks, float* to) const {
    std::copy_n(all + block * kLanes, std::min(blocks * kLanes, out_channels - block * kLanes), to);
  }
  /// The rows [first, last) of x that rows [first, last) of y read.
  std::int64_t first_row(std::int64_t row) const {
    return std::max<std::int64_t>(row * shape.stride[0] - shape.pad[0], 0);
  }
  std::int64_t last_row(std::int64_t row) const {
    const std::int64_t first = (row - 1) * shape.stride[0] - shape.pad[0];
    return std::clamp<std::int64_t>(first + (shape.kernel[0] - 1) * shape.dilation[0] + 1, 0, shape.height);
  }
};

const Type& type_of(const KernelRequest& request, int value) { return request.values[value].type; }

/// How often the request's steps read a value.
std::int64_t readings(const KernelRequest& request, int value) {
  std::int64_t count = 0;
  for (const Step& step : request.steps) count += std::count(step.in.begin(), step.in.end(), value);
  return count;
}

bool is_layer(const Op& op) { return op.name() == "conv2d" || op.name() == "linear" || op.name() == "layer_norm"; }

/// Reads a convolution; false with a reason in the request.
bool read_convolution(KernelRequest& request, Stage& stage) {
  const Conv2dOptions& o = static_cast<const Conv2d&>(*request.steps[stage.layer].op).options;
  const Shape &x = type_of(request, stage.x).shape, &weight = type_of(request, stage.weight).shape,
              &y = type_of(request, stage.y).shape;
  const ConvSizes sizes = sizes_of(x, weight, y, o);
  stage.in_channels = x[1], stage.out_channels = y[1];
  stage.kind = o.groups > 1 ? Stage::depthwise : stage.layer == 0 && sizes.image() ? Stage::image : Stage::product;
  stage.shape = depthwise_shape(sizes);
  if (stage.kind == Stage::image) {
    stage.image_rows = {sizes, request.storage() ? kLanes / 2 : kLanes, request.storage()},
    stage.taps = stage.image_rows.taps();
    if (!request.values[stage.weight].constant || o.dilation != std::array<std::int64_t, 2>{1, 1})
      return decline(request, "takes images with constant weights and kernels without holes"), false;
    return true;
  }
  if (o.groups > 1 ? weight[0] != o.groups || weight[1] != 1 : !sizes.pixelwise())
    return decline(request, "takes 1x1 kernels at stride 1 and depthwise ones"), false;
  return true;
}

/// Reads a fully connected layer or a norm; false with a reason in the request.
bool read_features(KernelRequest& request, Stage& stage) {
  const Shape &x = type_of(request, stage.x).shape, &weight = type_of(request, stage.weight).shape;
  if (x.rank() < 3 || x.numel() == 0) return decline(request, "takes three axes and more, none of them empty"), false;
  stage.in_channels = x[-1], stage.out_channels = weight[0];
  if (const auto* norm = dynamic_cast<const LayerNorm*>(request.steps[stage.layer].op)) {
    if (weight.rank() != 1 || stage.end != stage.layer + 1)
      return decline(request, "takes norms over the last axis, and nothing after them"), false;
    stage.kind = Stage::norm;
    stage.eps = static_cast<float>(norm->eps);
  } else {
    stage.kind = Stage::product;
    if (!request.values[stage.weight].constant) return decline(request, "takes constant weights"), false;
  }
  const Shape rows{x[0], x[-1], x.numel() / (x[0] * x[-1]), 1};
  stage.shape = depthwise_shape(sizes_of(rows, {1, 1, 1, 1}, rows, {}));
  return true;
}

/// Reads the layer of a stage; false with a reason in the request.
bool read_stage(KernelRequest& request, Stage& stage) {
  const Step& step = request.steps[stage.layer];
  stage.x = step.in[0], stage.weight = step.in[1], stage.bias = step.in.size() == 3 ? step.in[2] : -1;
  stage.y = request.steps[stage.end - 1].out[0];
  if (readings(request, stage.weight) > 1) return decline(request, "takes weights that nothing else reads"), false;
  if (!(step.op->name() == "conv2d" ? read_convolution(request, stage) : read_features(request, stage))) return false;
  if (stage.multiplies() && request.values[stage.weight].constant) stage.pairs = request.storage();
  if (!(stage.kind == Stage::image || fills_blocks(stage.in_channels)) || !fills_blocks(stage.out_channels))
    return decline(request, "takes 8 channels and more, or images"), false;
  return true;
}

/// What follows a stage, where its kernel does all of it.
std::optional<Epilogue> fused(const KernelRequest& request, const Stage& stage) {
  // A residual has the layout of the last result; intermediate results have another.
  const bool adds = stage.kind == Stage::product && stage.end == request.steps.size();
  const std::optional<Epilogue> epilogue = read_epilogue(request, stage.layer, stage.end);
  return epilogue && (adds || !epilogue->add) ? epilogue : std::nullopt;
}

/// Reads the steps after the layers in the layouts of the request; false with a reason in the request.
bool read_steps(KernelRequest& request, std::vector<Stage>& stages) {
  const auto rounded = [&](int value) { return request.values[value].layout.storage; };
  for (Stage& stage : stages) {
    if (&stage == &stages[0]) stage.rounded = rounded(stage.x);
    if (&stage == &stages.back()) stage.rounds = rounded(stage.y);
    if (const auto epilogue = fused(request, stage))
      stage.epilogue = *epilogue;
    else if (!stage.steps.emplace().read(request, stage.layer + 1, stage.end))
      return false;
  }
  return true;
}

/// Whether the kernel takes this activation in 16 bits.
bool takes_rounded(const KernelRequest& request, const std::vector<Stage>& stages, int value) {
  const Stage& last = stages.back();
  const bool all_pairs = std::all_of(stages.begin(), stages.end(),
                                     [](const Stage& stage) { return stage.pairs || !stage.multiplies(); });
  if (!all_pairs || (value == stages[0].x && !stages[0].pairs)) return false;
  return value != last.y || last.pairs || !fused(request, last);
}

/// How many tasks an image is cut into, and along which axis.
struct Cut {
  enum Among : std::uint8_t { none, rows, channels } among;
  int tasks;
};
Cut cut_of(const KernelRequest& request, const std::vector<Stage>& stages) {
  const Stage& last = stages.back();
  const int tasks = static_cast<int>((request.chunks + last.shape.images - 1) / last.shape.images);
  // After a cut between rows, both sides compute the rows that a depthwise convolution reads from each. For rows of
  // features each band reads all weights.
  const bool features = request.op().name() == "linear";
  const std::int64_t least = features     ? 32
                             : tasks == 1 ? 0
                             : onednn_takes_blocks() && stages.size() < 3
                                 ? 12
                                 : 7;  // the least rows of a task for which that pays
  if (last.shape.out_height >= tasks * least) return {Cut::rows, tasks};
  const bool by_channels = stages.size() == 2 && stages[0].kind == Stage::product && last.kind == Stage::depthwise &&
                           last.out_blocks() >= tasks;
  return {by_channels ? Cut::channels : Cut::none, tasks};
}

/// Reads the layers of the request; false with a reason in the request.
bool read_stages(KernelRequest& request, std::vector<Stage>& stages) {
  for (const TensorDesc& desc : request.values)
    if (desc.type.dtype != DType::f32) return decline(request, "takes f32 only"), false;
  std::vector<std::size_t> begin;
  for (std::size_t s = 0; s < request.steps.size(); ++s)
    if (is_layer(*request.steps[s].op)) begin.push_back(s);
  if (begin[0] != 0 || begin.size() < 2 || begin.size() > 3)
    return decline(request, "takes two or three layers"), false;
  if (request.out.size() != 1 || request.out[0] != request.steps.back().out[0])
    return decline(request, "gives the last result alone"), false;
  begin.push_back(request.steps.size());
  int depthwise = 0;
  const bool features = request.op().name() == "linear";
  for (std::size_t i = 0; i + 1 < begin.size(); ++i) {
    if (i > 0 && request.steps[begin[i]].in[0] != stages[i - 1].y)
      return decline(request, "takes each one's result as the next one's input"), false;
    Stage& stage = stages.emplace_back();
    stage.layer = begin[i], stage.end = begin[i + 1];
    if (features == (request.steps[stage.layer].op->name() == "conv2d"))
      return decline(request, "takes layers of one kind"), false;
    if (!read_stage(request, stage)) return false;
    depthwise += stage.kind == Stage::depthwise;
  }
  if (type_of(request, stages[0].x).shape.numel() == 0 || type_of(request, stages.back().y).shape.numel() == 0)
    return decline(request, "takes no empty tensors"), false;
  if (!features && (depthwise != 1 || (stages.size() == 3 && stages[1].kind != Stage::depthwise)))
    return decline(request, "takes one depthwise convolution, between others"), false;
  return cut_of(request, stages).among != Cut::none ||
         (decline(request, "takes images of more rows for each thread"), false);
}

Layout layout_of(const KernelRequest& request, const std::vector<Stage>& stages, int value) {
  const Type& type = type_of(request, value);
  for (const Stage& stage : stages)
    if (value == stage.weight)
      return stage.kind == Stage::depthwise ? depthwise_weights(type)
             : stage.kind == Stage::image   ? row_weights(type, stage.pairs)
             : stage.pairs                  ? vnni_weights(type, stage.pairs)
             : stage.kind == Stage::product ? forward_weights(type)
                                            : Layout{};
  const bool activation = std::any_of(stages.begin(), stages.end(), [&](const Stage& stage) {
    return type == type_of(request, stage.x) || type == type_of(request, stage.y);
  });
  if (!activation || (value == stages[0].x && stages[0].kind == Stage::image)) return {};
  const Layout blocks = request.op().name() == "linear" ? kFeatures : kBlocked;
  return takes_rounded(request, stages, value) ? narrowed(request.values[value], blocks) : blocks;
}

bool propose_layouts(KernelRequest& request) {
  std::vector<Stage> stages;
  if (!read_stages(request, stages)) return false;
  ask_layouts(request, layout_of, stages);
  return read_steps(request, stages);
}

/// Rows of an image's last result, or of blocks of its channels, which then are those of each layer.
struct Task {
  std::int64_t image, first_row, last_row, first_block = 0, last_block = std::numeric_limits<std::int64_t>::max();

  std::int64_t end_block(const Stage& stage) const { return std::min(last_block, stage.out_blocks()); }
  std::int64_t blocks(const Stage& stage) const { return end_block(stage) - first_block; }
};

struct Bands {
  std::vector<Stage> stages;  ///< their values are arguments
  std::int64_t rows;          ///< of the last result in a band
  std::int64_t size;          ///< floats of a task's workspace: intermediate results, and pairs for the products
  std::int64_t pairs;         ///< where the latter begins, and the padded rows of a depthwise convolution
  /// And what the last product or depthwise convolution makes, where the steps after it round that.
  std::int64_t made;
  std::vector<Task> tasks;

  /// A stage's results: of the blocks from `first` on, `block` floats apart, the rows from `base` on, of which those
  /// before `done` are computed.
  struct Result {
    float* data;
    std::int64_t base, done, block, first;
    std::int64_t at(std::int64_t number) const { return (number - first) * block; }
  };

  static void run(const void* self, const Args& args, int number) noexcept {
    const auto& own = *static_cast<const Bands*>(self);
    own.run_task(args, own.tasks[number], static_cast<float*>(args.workspace));
  }

  void run_task(const Args& args, const Task& task, float* scratch) const {
    const std::size_t count = stages.size();
    Result results[3];
    std::int64_t end[3], row = task.first_row;
    for (std::size_t i = count; i-- > 0;) {
      const Stage& stage = stages[i];
      const std::int64_t plane = stage.shape.out_height * stage.row_size();
      results[i] = i + 1 == count
                       ? Result{element(static_cast<float*>(args.out[0]), task.image * stage.out_blocks() * plane,
                                        stage.rounds),
                                0, row, plane, 0}
                       : Result{scratch + stage.place, row, row, stage.most_rows * stage.row_size(), task.first_block};
      row = stage.first_row(row);
    }
    for (row = task.first_row; row < task.last_row; row = end[count - 1]) {
      end[count - 1] = std::min(row + rows, task.last_row);
      for (std::size_t i = count - 1; i-- > 0;) end[i] = stages[i + 1].last_row(end[i + 1]);
      for (std::size_t i = 0; i < count; ++i) {
        if (i + 1 < count) keep(task, stages[i], results[i], stages[i + 1].first_row(results[i + 1].done));
        if (end[i] > results[i].done) compute(args, task, i, results, end[i], scratch);
      }
    }
  }

  /// Drops the rows before `row`.
  static void keep(const Task& task, const Stage& stage, Result& result, std::int64_t row) {
    if (row <= result.base) return;
    const std::int64_t dropped = (std::min(row, result.done) - result.base) * stage.row_size(),
                       kept = (result.done - result.base) * stage.row_size() - dropped;
    for (std::int64_t block = 0; block < task.blocks(stage) && kept > 0; ++block) {
      float* const rows = result.data + block * result.block;
      std::memmove(rows, rows + dropped, kept * sizeof(float));
    }
    result.base = row;
    result.done = std::max(result.done, row);
  }

  /// Computes a stage's rows before `last`.
  void compute(const Args& args, const Task& task, std::size_t number, Result* results, std::int64_t last,
               float* scratch) const {
    const Stage& stage = stages[number];
    Result& to = results[number];
    const std::int64_t first = to.done, in_row = stage.shape.width * kLanes, in_plane = stage.shape.height * in_row;
    const auto in = [&](int argument) { return static_cast<const float*>(args.in[argument]); };
    const Result from = number > 0 ? results[number - 1]
                                   : Result{element(const_cast<float*>(in(stage.x)), task.image * stage.image_size(),
                                                    stage.rounded),
                                            0, 0, in_plane, 0};
    const float* const weight = in(stage.weight);
    to.done = last;
    if (stage.kind == Stage::norm) {
      const NormPixels norm{last - first, stage.in_channels, from.block, to.block, true, stage.eps};
      return NEURIM_DISPATCH(norm_pixels)(norm, from.data + (first - from.base) * in_row, weight, in(stage.bias),
                                          to.data + (first - to.base) * stage.row_size());
    }
    const ConvRows& g = stage.image_rows;  // of an image
    const bool image = stage.kind == Stage::image;
    const std::int64_t words = stage.pairs ? kLanes / 2 : kLanes, pixels = (last - first) * stage.shape.out_width,
                       read = image ? g.rows(last - first) : 0;
    const std::int64_t x_block = image           ? read * g.row_size()
                                 : stage.rounded ? from.block / 2
                                 : stage.pairs   ? pixels * words
                                                 : from.block;
    const float* x = image ? scratch + pairs : element(from.data, (first - from.base) * in_row, stage.rounded);
    if (image) g.fill_image(from.data, first, read, scratch + pairs + g.in_blocks() * x_block, scratch + pairs);
    if (stage.pairs && !stage.rounded && !image) NEURIM_DISPATCH(round_to_pairs)
    (stage.pairs, x, from.block, kLanes, pixels, stage.in_channels, scratch + pairs), x = scratch + pairs;
    const bool apart = stage.rounds && stage.steps;
    const std::int64_t y_block = apart ? pixels * kLanes : to.block;
    const std::int64_t step = stage.kind == Stage::depthwise ? 1 : 2;
    for (std::int64_t block = task.first_block; block < task.end_block(stage); block += step) {
      const std::int64_t blocks = std::min(step, task.end_block(stage) - block);
      alignas(64) float biases[2 * kLanes] = {};
      if (stage.bias >= 0) stage.copy_bias(in(stage.bias), block, blocks, biases);
      float* const y = apart ? scratch + made
                             : element(to.data, to.at(block) + (first - to.base) * stage.row_size(), stage.rounds);
      // The position of the rows in the whole tensor.
      const std::int64_t plane = stage.shape.out_height * stage.row_size(),
                         place = (task.image * stage.out_blocks() + block) * plane + first * stage.row_size();
      if (stage.kind == Stage::depthwise) {
        const std::int64_t taps = stage.shape.kernel[0] * stage.shape.kernel[1] * kLanes;
        NEURIM_DISPATCH(depthwise_rows)
        (stage.shape, {}, from.data + from.at(block), from.base, weight + block * taps, biases, stage.epilogue.relu,
         first, last, stage.pads() ? scratch + pairs : nullptr, y);
      } else if (image) {
        BlockProduct product = g.product(stage.taps, read, y_block);
        product.out_channels = stage.out_channels - block * kLanes;
        const BlockEpilogue epilogue{.bias = biases, .relu = stage.epilogue.relu};
        for (std::int64_t row = 0; row < last - first; ++row) NEURIM_DISPATCH(block_product)
        (product, blocks, x + row * g.row_step() * g.row_size(), weight + block * product.weight_block, epilogue,
         y + row * stage.row_size());
      } else {
        const BlockProduct product{.rows = pixels,
                                   .in_channels = stage.in_channels,
                                   .x_block = x_block,
                                   .weight_block = stage.in_blocks() * kLanes * words,
                                   .y_block = y_block,
                                   .pairs = stage.pairs,
                                   .out_channels = stage.out_channels - block * kLanes};
        const float* const add = stage.epilogue.add
                                     ? element(in(stage.epilogue.residual), place, stage.epilogue.add_rounded)
                                     : nullptr;
        const BlockEpilogue epilogue{.bias = biases,
                                     .add = add,
                                     .relu = stage.epilogue.relu,
                                     .rounds = apart ? StorageDtype::exact : stage.rounds,
                                     .add_rounded = stage.epilogue.add_rounded};
        NEURIM_DISPATCH(block_product)
        (product, blocks, x, weight + block * product.weight_block, epilogue, y);
      }
      if (!stage.steps) continue;
      for (std::int64_t b = 0; b < blocks; ++b) {
        const std::int64_t begin = place + b * plane;
        float* const all = y + b * y_block - begin;
        stage.steps->run(args, all, apart ? static_cast<float*>(args.out[0]) : all, begin, begin + pixels * kLanes);
      }
    }
  }
};

Launch prepare(KernelRequest& request) {
  auto all = std::make_shared<Bands>();
  std::vector<Stage>& stages = all->stages;
  if (!read_stages(request, stages)) return {};
  if (!has_layouts(request, layout_of, stages)) return decline(request, "takes blocks of 16 channels");
  if (!read_steps(request, stages)) return {};
  for (Stage& stage : stages)
    for (int* value : {&stage.x, &stage.weight, &stage.bias}) *value = request.place_in(*value);
  const Cut cut = cut_of(request, stages);
  const bool by_rows = cut.among == Cut::rows;
  const std::int64_t height = stages.back().shape.out_height, blocks = stages.back().out_blocks();
  for (std::int64_t image = 0; image < stages[0].shape.images; ++image)
    for (int number = 0; number < cut.tasks; ++number) {
      const auto begin = [&](std::int64_t whole, int task) { return task_begin(whole, cut.tasks, task); };
      all->tasks.push_back(by_rows ? Task{image, begin(height, number), begin(height, number + 1)}
                                   : Task{image, 0, height, begin(blocks, number), begin(blocks, number + 1)});
    }
  const std::int64_t longest = by_rows ? (height + cut.tasks - 1) / cut.tasks : height;
  const auto blocks_of_task = [&](const Stage& stage) {
    return by_rows ? stage.out_blocks() : (blocks + cut.tasks - 1) / cut.tasks;
  };
  // As many rows as fit.
  const auto fit = [&](std::int64_t rows) {
    all->rows = rows, all->size = 0;
    for (std::size_t i = stages.size() - 1; i-- > 0;) {
      const DepthwiseShape& next = stages[i + 1].shape;
      rows = std::min((rows - 1) * next.stride[0] + (next.kernel[0] - 1) * next.dilation[0] + 1, next.height);
      stages[i].most_rows = rows;
      stages[i].place = all->size;
      all->size += blocks_of_task(stages[i]) * rows * stages[i].row_size();
    }
    all->pairs = all->size;
    std::int64_t read = 0;
    for (const Stage& stage : stages)
      if (stage.pads()) {
        const std::int64_t made = &stage == &stages.back() ? all->rows : stage.most_rows;
        const DepthwiseShape& d = stage.shape;
        read = std::max(
            read,
            depthwise_room(d, std::min((made - 1) * d.stride[0] + (d.kernel[0] - 1) * d.dilation[0] + 1, d.height)));
      } else if (stage.kind == Stage::image) {
        read = std::max(read, stage.image_rows.band_size(stage.most_rows) + stage.image_rows.line_words());
      } else if (stage.pairs)
        read = std::max(
            read, stage.in_blocks() * (&stage == &stages.back() ? all->rows : stage.most_rows) * stage.row_size() / 2);
    all->size += (read + kLanes - 1) / kLanes * kLanes;
    all->made = all->size;
    if (stages.back().rounds && stages.back().steps) all->size += 2 * all->rows * stages.back().row_size();
    return all->size <= kCache;
  };
  std::int64_t rows = longest;
  while (rows > 1 && !fit(rows)) --rows;
  const std::int64_t bands = (longest + rows - 1) / rows;
  fit((longest + bands - 1) / bands);
  if (std::any_of(stages.begin(), stages.end(), [](const Stage& stage) { return stage.pairs; }))
    request.used_dtype = request.compute_dtype;
  return {Bands::run, all, static_cast<int>(all->tasks.size()), 0, request.chunks, all->size * sizeof(float)};
}

}  // namespace

void cpu_row_tiled() {
  const auto add_as = [](std::string_view op, bool prologues, bool series) {
    add_kernel({.op = op,
                .name = "cpu row-tiled",
                .prepare = prepare,
                .propose_layouts = propose_layouts,
                .fused_only = true,
                .prologues = prologues,
                .series = series});
  };
  add_as("conv2d", false, true);
  add_as("linear", true, true);
  add_as("linear", true, false);
}

}  // namespace neurim
