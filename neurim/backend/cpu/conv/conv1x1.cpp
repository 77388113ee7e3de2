// 1x1 convolutions at stride 1, their data gradients (the same with transposed weights) and fully connected layers with
// constant weights, whose rows of features are pixels: a matrix product over channels in blocks of 16, with a fused
// prologue and epilogue. A task is a range of pixels, counted through all images, or of output channels where there are
// more weights than pixels. It computes tiles: pixels whose channels stay in L2 while all weights are read.
#include <algorithm>

#include "neurim/backend/cpu/common/block_product.h"
#include "neurim/backend/cpu/common/conv_pattern.h"
#include "neurim/backend/cpu/common/conv_steps.h"
#include "neurim/backend/cpu/common/packed_weights.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/backend/cpu/packing/vnni_weights.h"
#include "neurim/ops/conv.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLanes = 16, kTile = 1 << 16;  // floats of the activation
constexpr std::int64_t kPixelsWorthScaling = 4;       // for each output channel

/// The product that runs: of x forward, of dy for the data gradient.
struct Problem {
  bool forward;
  StorageDtype pairs;  ///< what factors are rounded to
  Layout layout;       ///< of activations
  Type source, result;

  std::int64_t images() const { return source.shape[0]; }
  std::int64_t in_channels() const { return source.shape[*split_axis(layout)]; }
  std::int64_t out_channels() const { return result.shape[*split_axis(layout)]; }
  std::int64_t pixels() const { return source.shape.numel() / (images() * in_channels()); }
};

Problem problem_of(const KernelRequest& request, const ConvPattern& pattern) {
  return {.forward = pattern.direction == Direction::forward,
          .pairs = pattern.storage,
          .layout = pattern.linear ? kFeatures : kBlocked,
          .source = request.values[pattern.source()].type,
          .result = request.values[pattern.result()].type};
}

/// Null, or why the kernel leaves the request to others.
const char* against(const KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = pattern.against()) return why;
  const Shape& weight = request.values[pattern.weight].type.shape;
  if (pattern.linear && request.values[pattern.x].type.shape.rank() < 3) return "takes three axes and more";
  if (pattern.linear && !pattern.constant_weight) return "takes constant weights";
  if (!fills_blocks(weight[0]) || !fills_blocks(weight[1])) return "takes 8 channels and more";
  const bool product = pattern.linear || (pattern.sizes.pixelwise() && pattern.sizes.options.groups == 1);
  return product ? nullptr : "takes 1x1 kernels at stride 1, without groups and padding";
}

Layout weights(const Problem& problem, const Type& weight) {
  if (problem.pairs) return vnni_weights(weight, problem.pairs, !problem.forward);
  return problem.forward ? forward_weights(weight) : gradient_weights(weight);
}

Layout layout_of(const KernelRequest& request, const ConvPattern& pattern, const Problem& problem, int value) {
  if (value == pattern.weight) return weights(problem, request.values[value].type);
  return pattern.is_activation(request, value) ? blocked_layout(request, value, problem.layout) : Layout{};
}

/// Where the prologue is a product with one factor for each channel of each image, as in squeeze and excitation (Hu et
/// al., CVPR'18), and there are fewer weights than pixels, the weights are multiplied by the factors instead. Returns
/// the argument of the factors and lets the prologue read the activation directly, or returns -1.
int read_gate(const KernelRequest& request, const Problem& problem, FusedPrologue& prologue) {
  const Step& step = request.steps[0];
  if (request.anchor != 1 || step.op->name() != "mul" || !problem.forward || problem.pairs ||
      request.place_out(step.out[0]) >= 0 || problem.pixels() < kPixelsWorthScaling * problem.out_channels())
    return -1;
  const auto desc = [&](int value) -> const TensorDesc& { return request.values[value]; };
  const bool second = desc(step.in[0]).type == problem.source;
  const int x = step.in[second ? 0 : 1], gate = step.in[second ? 1 : 0];
  if (desc(x).type != problem.source || desc(x).layout != kBlocked || desc(gate).layout != Layout{} ||
      desc(gate).type.shape != Shape{problem.images(), problem.in_channels(), 1, 1})
    return -1;
  prologue = {.read_from = request.place_in(x)};
  return request.place_in(gate);
}

bool propose_layouts(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(request, pattern)) return decline(request, why), false;
  ask_layouts(request, layout_of, pattern, problem_of(request, pattern));
  FusedPrologue prologue;
  FusedEpilogue epilogue;
  return read_steps(request, pattern, prologue, epilogue);
}

struct Conv1x1 {
  int weight, bias;  // arguments, or -1
  int gate = -1;     // the argument of read_gate(), or -1
  std::int64_t in_channels, out_channels, pixels;
  StorageDtype pairs;
  bool non_temporal = false;  ///< BlockEpilogue::non_temporal
  Epilogue epilogue;          ///< what follows, where the product does it in registers; else see `after`
  FusedPrologue prologue;
  FusedEpilogue fused;
  struct Task {
    std::int64_t first_block, last_block;
    std::vector<Tile> tiles;
  };
  std::vector<Task> tasks;
  std::int64_t most_units = 0;  ///< of a tile

  std::int64_t in_blocks() const { return blocks_of(in_channels); }
  std::int64_t out_blocks() const { return blocks_of(out_channels); }

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Conv1x1*>(self);
    const int tasks = static_cast<int>(own.tasks.size());
    task < tasks ? own.run_task(args, task) : own.fused.norm->finish(args, task - tasks);
  }

  void run_task(const Args& args, int number) const {
    const Task& task = tasks[number];
    const ConvEpilogue sums = fused.begin(args, number);
    const auto in = [&](int argument) { return static_cast<const float*>(args.in[argument]); };
    float *const results = fused.results(args), *const made = static_cast<float*>(args.workspace),
                 *const room = made + apart();
    const std::int64_t words = pairs ? kLanes / 2 : kLanes, weight_block = in_blocks() * kLanes * words;
    for (const Tile& tile : task.tiles) {
      const bool rounds_x = pairs && !prologue.rounded, copied = prologue.steps || rounds_x;
      const std::int64_t x_block = (copied ? tile.units : pixels) * words,
                         plane = (fused.apart() ? tile.units : pixels) * kLanes;
      const float* const x = rounds_x ? rounded(args, tile, room) : source(args, tile, room);
      BlockProduct product{tile.units, in_channels, x_block, weight_block, plane, pairs};
      for (std::int64_t block = task.first_block; block < task.last_block; block += 2) {
        const std::int64_t blocks = std::min<std::int64_t>(2, task.last_block - block);
        product.out_channels = out_channels - block * kLanes;
        alignas(64) float biases[2 * kLanes] = {};
        if (bias >= 0)
          std::copy_n(in(bias) + block * kLanes, std::min(blocks * kLanes, out_channels - block * kLanes), biases);
        for (std::int64_t i = 0; i < tile.images; ++i) {
          const std::int64_t to = (((tile.image + i) * out_blocks() + block) * pixels + tile.unit) * kLanes;
          const float* const add = epilogue.add ? element(in(epilogue.residual), to, epilogue.add_rounded) : nullptr;
          const BlockEpilogue after{biases, add, epilogue.relu, non_temporal, fused.rounded(), epilogue.add_rounded};
          const float* weights = in(weight) + block * weight_block;
          if (gate >= 0) {
            NEURIM_DISPATCH(scale_weights)
            (weights, in(gate) + (tile.image + i) * in_channels, in_channels, blocks, weight_block, room);
            weights = room;
          }
          NEURIM_DISPATCH(block_product)
          (product, blocks, x + i * in_blocks() * x_block, weights, after,
           fused.apart() ? made : element(results, to, fused.rounded()));
          const bool first = &tile == &task.tiles[0] && i == 0;
          if (tile.units == pixels && !fused.apart())
            fused.run(args, sums, block, blocks, to, to + blocks * pixels * kLanes, first);
          else
            for (std::int64_t b = 0; b < blocks; ++b) {
              const std::int64_t at = to + b * pixels * kLanes;
              fused.run(args, sums, block + b, 1, at, at + tile.units * kLanes, first, made + b * plane);
            }
        }
      }
    }
  }

  /// Floats of the workspace for results that the epilogue reads from there.
  std::int64_t apart() const { return fused.apart() ? most_units * 2 * kLanes : 0; }

  /// The activation of a tile: in its memory, or computed into `room`.
  const float* source(const Args& args, const Tile& tile, float* room) const {
    const auto place = [&](std::int64_t image, std::int64_t block) {
      return ((image * in_blocks() + block) * pixels + tile.unit) * kLanes;
    };
    if (!prologue.steps) return prologue.activation(args, room, place(tile.image, 0), 0);
    if (tile.units == pixels)
      return prologue.activation(args, room, place(tile.image, 0), place(tile.image + tile.images, 0));
    for (std::int64_t block = 0; block < in_blocks(); ++block) {
      const std::int64_t begin = place(tile.image, block);
      prologue.activation(args, element(room, block * tile.units * kLanes, prologue.rounded), begin,
                          begin + tile.units * kLanes);
    }
    return room;
  }

  /// The same rounded to pairs, of an activation that is stored as floats.
  const float* rounded(const Args& args, const Tile& tile, float* room) const {
    const float* const x = source(args, tile, room);
    const std::int64_t x_block = pixels * kLanes, image = in_blocks() * tile.units * kLanes;
    for (std::int64_t i = 0; i < tile.images; ++i) NEURIM_DISPATCH(round_to_pairs)
    (pairs, x + i * in_blocks() * x_block, x_block, kLanes, tile.units, in_channels, room + i * image / 2);
    return room;
  }
};

Launch prepare(KernelRequest& request, const ConvPattern& pattern) {
  if (const char* why = against(request, pattern)) return decline(request, why);
  const Problem problem = problem_of(request, pattern);
  if (!has_layouts(request, layout_of, pattern, problem)) return decline(request, "takes blocks of 16 channels");
  auto all = std::make_shared<Conv1x1>(Conv1x1{.weight = request.place_in(pattern.weight),
                                               .bias = pattern.bias,
                                               .in_channels = problem.in_channels(),
                                               .out_channels = problem.out_channels(),
                                               .pixels = problem.pixels(),
                                               .pairs = problem.pairs});
  if (!read_steps(request, pattern, all->prologue, all->fused)) return {};
  all->gate = read_gate(request, problem, all->prologue);
  if (pattern.epilogue) all->epilogue = *pattern.epilogue, all->fused.steps.reset();
  all->non_temporal = all->fused.non_temporal(bytes(problem.result, problem.layout));
  const std::int64_t together = std::max<std::int64_t>(kTile / all->in_channels, 56);  // pixels
  for (const Run& run : all->fused.cut(request, problem.images(), all->pixels, 1, all->out_channels))
    all->tasks.push_back({run.first_block, run.last_block, cut_tiles(run.first, run.last, all->pixels, together)});
  std::int64_t most = 0;  // floats of a tile
  for (const auto& task : all->tasks)
    for (const Tile& tile : task.tiles) {
      most = std::max(most, tile.images * all->in_blocks() * tile.units * kLanes);
      all->most_units = std::max(all->most_units, tile.units);
    }
  const int tasks = static_cast<int>(all->tasks.size());
  const std::int64_t gated = 2 * all->in_blocks() * kLanes * kLanes;
  const std::int64_t room = all->apart() + (all->gate >= 0        ? gated
                                            : all->pairs          ? most / 2
                                            : all->prologue.steps ? most
                                                                  : 0);
  all->fused.ask_scratch(request);
  if (all->pairs) request.used_dtype = request.compute_dtype;
  return {Conv1x1::run, all, tasks, all->fused.reduction_tasks(), request.chunks, room * sizeof(float)};
}

}  // namespace

void cpu_conv1x1() {
  for (const char* op : {"conv2d", "conv2d_input_grad", "linear"})
    add_conv_kernel<prepare, propose_layouts>({.op = op, .name = "cpu 1x1", .fuses = true, .prologues = true});
}

}  // namespace neurim
