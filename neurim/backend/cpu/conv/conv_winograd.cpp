// Winograd convolution of 3x3 kernels at stride 1 (see conv_winograd.h): forward, with bias, residual and ReLU or with
// a batch norm in training, and both gradients. A task is a range of tiles; it transforms and multiplies batches of
// tiles whose values at all points stay in L2.
#include "neurim/backend/cpu/conv/conv_winograd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "neurim/backend/cpu/common/block_product.h"
#include "neurim/backend/cpu/common/conv_pattern.h"
#include "neurim/backend/cpu/common/interned.h"
#include "neurim/backend/cpu/common/packed_weights.h"
#include "neurim/backend/cpu/common/physical.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/backend/cpu/packing/vnni_weights.h"
#include "neurim/ops/conv.h"

namespace neurim {

namespace {

using namespace cpu;

constexpr std::int64_t kLanes = 16, kBlock = kLanes * kLanes;

// --- weights ---

/// The packed form of transformed weights: [point][O/16][I/16][16i][16o], for data gradients
/// [point][I/16][O/16][16o][16i].
struct Form {
  bool gradient;
  StorageDtype pairs;  ///< see BlockProduct
  int tile;            ///< WinogradShape::tile
  Type type;           ///< of the weights
  Layout from;         ///< the packed weights that it is transformed from

  bool operator==(const Form&) const = default;
  std::int64_t points() const { return (tile + 2) * (tile + 2); }
  std::int64_t blocks() const { return type.shape[0] / kLanes * (type.shape[1] / kLanes); }
  std::size_t bytes() const { return static_cast<std::size_t>(points() * blocks() * kBlock) * (pairs ? 2 : 4); }
  void transform(const float* packed, float* u, std::int64_t first, std::int64_t last) const {
    if (!pairs) return NEURIM_DISPATCH(winograd_weights)(tile, packed, gradient, first, last, blocks() * kBlock, u);
    alignas(64) float exact[kWinogradPoints * kBlock];
    for (std::int64_t block = first; block < last; ++block) {
      NEURIM_DISPATCH(winograd_weights)(tile, packed + block * 9 * kBlock, gradient, 0, 1, kBlock, exact);
      for (std::int64_t point = 0; point < points(); ++point) NEURIM_DISPATCH(pair_rows)
      (pairs, exact + point * kBlock, kLanes, 0, kLanes, kLanes, kLanes, u + (point * blocks() + block) * kBlock / 2);
    }
  }
};

void pack_form(const void* self, const void* plain, void* u) {
  const auto& form = *static_cast<const Form*>(self);
  std::vector<float> packed(bytes(form.type, form.from) / sizeof(float));
  pack(form.type, form.from, plain, packed.data());
  form.transform(packed.data(), static_cast<float*>(u), 0, form.blocks());
}

Layout winograd_layout(const Type& weight, bool gradient, StorageDtype pairs, int tile) {
  const Form form{gradient, pairs, tile, weight, gradient ? gradient_weights(weight) : forward_weights(weight)};
  const std::uint32_t number = register_format({.name = text("winograd ", tile, ' ', gradient ? "gradient " : "",
                                                             pairs ? name_of_pairs(pairs) + " " : "", weight),
                                                .bytes = form.bytes(),
                                                .pack = pack_form,
                                                .self = interned(form),
                                                .made_from = form.from});
  return {Layout::packed, 0, number};
}

const Form* form_of(const Layout& layout) { return interned_for<Form>(layout, pack_form); }

struct Weights {
  Form form;
  int tasks;

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Weights*>(self);
    own.form.transform(static_cast<const float*>(args.in[0]), static_cast<float*>(args.out[0]),
                       task_begin(own.form.blocks(), own.tasks, task),
                       task_begin(own.form.blocks(), own.tasks, task + 1));
  }
};

Launch prepare_weights(KernelRequest& request) {
  const Form* form = form_of(request.output(0).layout);
  if (!form || request.input(0).layout != form->from)
    return decline(request, "makes Winograd's form of packed weights only");
  const auto weights = std::make_shared<Weights>(Weights{*form, 1});
  weights->tasks = tasks_of(request, form->points() * form->blocks() * kBlock, form->blocks());
  return {Weights::run, weights, weights->tasks};
}

// --- convolutions ---

/// The convolution that runs: of x forward and for the weight gradient, of dy for the data gradient.
struct Problem {
  WinogradShape shape;
  std::int64_t images = 0;
  bool few = false;  ///< tiles: see winograd_multiply_few

  std::int64_t image_tiles() const { return shape.rows() * shape.columns(); }
  std::int64_t tiles() const { return images * image_tiles(); }
};

/// Null, or why the kernel leaves the request to others.
const char* read_problem(const KernelRequest& request, const ConvPattern& pattern, Problem& problem) {
  if (!request.winograd) return "is what the plan leaves out";
  if (!pattern.f32) return "takes f32 only";
  const ConvSizes& g = pattern.sizes;
  const Conv2dOptions& o = g.options;
  const Direction direction = pattern.direction;
  if (g.kernel[0] != 3 || g.kernel[1] != 3 || !g.at_stride_1() || o.dilation != std::array<std::int64_t, 2>{1, 1} ||
      o.groups != 1)
    return "takes 3x3 kernels at stride 1, without groups and dilation";
  if (g.out_channels % kLanes != 0 || g.in_channels % kLanes != 0) return "takes channels by 16";
  if (*std::max_element(o.pad.begin(), o.pad.end()) > 2) return "takes no padding beyond the kernel";
  const bool backwards = direction == Direction::input_grad;
  const StorageDtype pairs = direction == Direction::weight_grad ? StorageDtype::exact : pattern.storage;
  const std::int64_t out_height = backwards ? g.height : g.out_height, out_width = backwards ? g.width : g.out_width;
  problem.images = g.images;
  problem.shape = {.in_blocks = (backwards ? g.out_channels : g.in_channels) / kLanes,
                   .out_blocks = (backwards ? g.in_channels : g.out_channels) / kLanes,
                   .in_height = backwards ? g.out_height : g.height,
                   .in_width = backwards ? g.out_width : g.width,
                   .out_height = out_height,
                   .out_width = out_width,
                   .top = backwards ? 2 - o.pad[0] : o.pad[0],
                   .left = backwards ? 2 - o.pad[1] : o.pad[1],
                   .pairs = pairs};
  // Computing u costs as many instructions as multiplying at all points of three tiles. Without AVX-512 there are too
  // few registers.
  problem.few = problem.tiles() <= kFewTiles && direction == Direction::forward && !pairs && isa() == Isa::avx512 &&
                kWinogradPoints * (problem.tiles() + 3) <= 9 * problem.images * out_height * out_width;
  constexpr std::int64_t kEnough = 12;  // with fewer tiles, reading all transformed weights costs more than is saved
  if (problem.few || problem.tiles() >= kEnough) return nullptr;
  problem.shape.tile = 2;
  const bool saves = 4 * problem.shape.points() * problem.tiles() <= 3 * 9 * problem.images * out_height * out_width;
  // Weights that are not constant would be transformed in each call.
  if (direction != Direction::forward || !pattern.constant_weight || problem.tiles() < kEnough || !saves)
    return "takes more tiles";
  return nullptr;
}

/// Whether the kernel reads or writes untransformed weights.
bool lives(const ConvPattern& pattern, const Problem& problem) {
  return problem.few || pattern.direction == Direction::weight_grad;
}

/// Proposes blocked images and the form of weights above.
void choose_layouts(KernelRequest& request, const ConvPattern& pattern, const Problem& problem) {
  for (int value = 0; value < std::ssize(request.values); ++value) {
    TensorDesc& desc = request.values[value];
    desc.layout = desc.type.shape.rank() == 4 ? blocked_layout(request, value) : Layout{};
  }
  TensorDesc& weight = request.values[pattern.weight];
  weight.layout = lives(pattern, problem) ? forward_weights(weight.type)
                                          : winograd_layout(weight.type, pattern.direction == Direction::input_grad,
                                                            problem.shape.pairs, problem.shape.tile);
}

/// Whether the values have these layouts.
bool has_layouts(const KernelRequest& request, const ConvPattern& pattern, const Problem& problem) {
  const TensorDesc& weight = request.values[pattern.weight];
  const bool images = std::all_of(request.values.begin(), request.values.end(), [&](const TensorDesc& desc) {
    return &desc == &weight || desc.type.shape.rank() != 4 || exact(desc.layout) == kBlocked;
  });
  const Form* const form = form_of(weight.layout);
  return images &&
         (lives(pattern, problem) ? weight.layout == forward_weights(weight.type)
                                  : form && form->pairs == problem.shape.pairs && form->tile == problem.shape.tile);
}

/// Floats of a plane of tiles, padded so that planes of neighbouring points do not map to the same cache sets.
std::int64_t plane(std::int64_t blocks, std::int64_t tiles, StorageDtype pairs = StorageDtype::exact) {
  const std::int64_t rows = blocks * tiles, lines = pairs ? (rows + 1) / 2 : rows;
  return (lines | 1) * kLanes;
}

constexpr std::int64_t kRun = 56;         // the least tiles for which reading all weights pays
constexpr std::int64_t kShortRun = 8;     // the same where the weights stay in the cache
constexpr std::int64_t kCache = 1 << 18;  // floats of a batch

/// Work cut into tasks: ranges of tiles times slices of the output channels. A task computes batches of tiles, each of
/// which reads, or adds to, all weights of its slice. The workspace holds V and M of a batch.
struct Tiled {
  WinogradShape shape;
  bool few;
  std::vector<std::int64_t> begin;  ///< of the runs, tiles
  std::int64_t slices, batch;       ///< tiles of a batch
  std::int64_t input_plane, output_plane;

  Tiled(const Problem& problem, std::vector<std::int64_t> runs, std::int64_t cuts)
      : shape(problem.shape), few(problem.few), begin(std::move(runs)), slices(cuts) {
    std::int64_t longest = 0;
    for (std::size_t i = 0; i + 1 < begin.size(); ++i) longest = std::max(longest, begin[i + 1] - begin[i]);
    const std::int64_t fitting = std::max(kCache / (shape.points() * (shape.in_blocks + shape.out_blocks) * kLanes),
                                          kRun),
                       batches = std::max<std::int64_t>(1, (longest + fitting - 1) / fitting);
    batch = (longest + batches - 1) / batches;
    input_plane = plane(shape.in_blocks, batch, shape.pairs);
    output_plane = plane((shape.out_blocks + slices - 1) / slices, batch);
  }

  std::int64_t runs() const { return std::ssize(begin) - 1; }
  int tasks() const { return static_cast<int>(runs() * slices); }
  std::size_t own() const { return shape.points() * (input_plane + output_plane) * sizeof(float); }
  std::int64_t first_block(int task) const { return shape.out_blocks * (task % slices) / slices; }
  std::int64_t last_block(int task) const { return shape.out_blocks * (task % slices + 1) / slices; }

  template <class Visit>
  void each_batch(int task, const Visit& visit) const {
    const auto run = static_cast<std::size_t>(task / slices);
    for (std::int64_t tile = begin[run]; tile < begin[run + 1]; tile += batch)
      visit(WinogradTiles{tile, std::min(batch, begin[run + 1] - tile), input_plane, output_plane});
  }

  void convolve(int task, float* scratch, const float* x, const float* weight, ConvEpilogue after, float* y) const {
    float* const m = scratch + shape.points() * input_plane;
    const std::int64_t first = first_block(task), last = last_block(task);
    each_batch(task, [&](const WinogradTiles& tiles) {
      NEURIM_DISPATCH(winograd_input)(shape, tiles, x, scratch);
      if (few)
        NEURIM_DISPATCH(winograd_multiply_few)(shape, tiles, scratch, weight, first, last, m);
      else
        NEURIM_DISPATCH(winograd_multiply)(shape, tiles, scratch, weight, first, last, m);
      NEURIM_DISPATCH(winograd_output)(shape, tiles, m, after, first, last, y);
      after.first = false;
    });
  }
};

/// The least tiles of a range for which reading the weights pays.
std::int64_t worth_a_run(const Problem& problem) {
  const bool stay = problem.shape.points() * problem.shape.in_blocks * problem.shape.out_blocks * kBlock <= kCache;
  return stay ? kShortRun : kRun;
}

/// Cuts into as many ranges of tiles as pay, and into slices of channels for the rest of `chunks`.
Tiled cut(const Problem& problem, std::int64_t most_runs, std::int64_t chunks) {
  const std::int64_t runs = std::clamp<std::int64_t>(problem.tiles() / worth_a_run(problem), 1, most_runs),
                     slices = std::clamp<std::int64_t>(problem.shape.out_blocks / 2, 1,
                                                       std::max<std::int64_t>(chunks / runs, 1));
  std::vector<std::int64_t> begin;
  for (std::int64_t i = 0; i <= runs; ++i) begin.push_back(problem.tiles() * i / runs);
  return {problem, std::move(begin), slices};
}

const float* read(const Args& args, int number) { return static_cast<const float*>(args.in[number]); }

/// Forward, with bias, residual add and relu, and the data gradient.
struct Convolution : Tiled {
  Epilogue epilogue;
  StorageDtype rounds;  ///< ConvEpilogue::rounds

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Convolution*>(self);
    const ConvEpilogue after{.bias = own.epilogue.bias ? read(args, 2) : nullptr,
                             .add = own.epilogue.add ? read(args, own.epilogue.residual) : nullptr,
                             .rounds = own.rounds,
                             .add_rounded = own.epilogue.add_rounded,
                             .relu = own.epilogue.relu};
    own.convolve(task, static_cast<float*>(args.workspace), read(args, 0), read(args, 1), after,
                 static_cast<float*>(args.out[0]));
  }
};

/// The error that rounding V and U to 16 bits causes with these weights: the root mean square of the error relative to
/// that of the results, for the worst block of output channels and pixels of a rectified normal distribution. It is
/// measured with rounded V; rounded U causes as much again, independently.
double rounding_error(const WinogradShape& given, const std::uint16_t* u) {
  constexpr std::int64_t kTiles = 4;
  const std::int64_t tile = given.tile, points = given.points();
  WinogradShape shape{.in_blocks = given.in_blocks,
                      .out_blocks = 1,
                      .in_height = tile + 2,
                      .in_width = kTiles * tile + 2,
                      .out_height = tile,
                      .out_width = kTiles * tile,
                      .tile = given.tile};
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> x(shape.in_blocks * shape.in_height * shape.in_width * kLanes);
  for (float& pixel : x) pixel = std::max(normal(random), 0.0f);
  const std::int64_t inputs = plane(shape.in_blocks, kTiles), row = shape.in_blocks * kBlock;
  const WinogradTiles tiles{0, kTiles, inputs, kTiles * kLanes};
  std::vector<float> v[2], y[2], m(static_cast<std::size_t>(points * tiles.output_plane)),
      exact(static_cast<std::size_t>(points * row));
  for (const bool rounded : {false, true}) {
    shape.pairs = rounded ? given.pairs : StorageDtype::exact;
    v[rounded].resize(points * inputs);
    NEURIM_DISPATCH(winograd_input)(shape, tiles, x.data(), v[rounded].data());
    y[rounded].resize(tile * shape.out_width * kLanes);
  }
  double worst = 0;
  std::vector<std::uint16_t> own(exact.size());
  for (std::int64_t block = 0; block < given.out_blocks; ++block) {
    for (std::int64_t point = 0; point < points; ++point)
      std::copy_n(u + (point * given.out_blocks + block) * row, row, own.data() + point * row);
    for (std::size_t at = 0; at < own.size(); at += kBlock) unpair_block(given.pairs, &own[at], &exact[at]);
    for (const bool rounded : {false, true}) {
      shape.pairs = rounded ? given.pairs : StorageDtype::exact;
      const float* const weights = rounded ? reinterpret_cast<const float*>(own.data()) : exact.data();
      NEURIM_DISPATCH(winograd_multiply)(shape, tiles, v[rounded].data(), weights, 0, 1, m.data());
      NEURIM_DISPATCH(winograd_output)(shape, tiles, m.data(), {}, 0, 1, y[rounded].data());
    }
    double error = 0, size = 0;
    for (std::size_t i = 0; i < y[0].size(); ++i) {
      error += std::pow(double{y[1][i]} - y[0][i], 2);
      size += std::pow(double{y[0][i]}, 2);
    }
    const double share = error == 0 ? 0 : std::sqrt(2 * error / size);
    if (!(share <= worst)) worst = share;  // a NaN stays
    if (std::isnan(worst)) break;
  }
  return worst;
}

/// The most error that is accepted: five times that of a direct convolution of such factors.
constexpr double kMostError = 0.0125;

/// Whether rounding is accurate enough for these weights; false with a reason in the request.
bool passes_gate(KernelRequest& request, const ConvPattern& pattern, const Problem& problem) {
  const TensorDesc& weight = request.values[pattern.weight];
  if (!problem.shape.pairs || !weight.constant) return true;  // of weights that change nothing is known
  const void* const u = weight.known;
  if (!u) return decline(request, "takes known weights"), false;
  const double error = rounding_error(problem.shape, static_cast<const std::uint16_t*>(u));
  if (error <= kMostError) return true;  // false for NaN
  return decline(request, "would err by ", error, " of the results in ", request.compute_dtype, ", more than ",
                 kMostError),
         false;
}

bool propose_layouts(KernelRequest& request, const ConvPattern& pattern) {
  Problem problem;
  if (const char* reason = read_problem(request, pattern, problem)) return decline(request, reason), false;
  if (!pattern.epilogue) return decline(request, "fuses add and relu after the forward convolution only"), false;
  choose_layouts(request, pattern, problem);
  return true;
}

Launch prepare(KernelRequest& request, const ConvPattern& pattern) {
  Problem problem;
  if (const char* reason = read_problem(request, pattern, problem)) return decline(request, reason);
  if (!has_layouts(request, pattern, problem) || !pattern.epilogue)
    return decline(request, "takes blocked16 and weights in its own form");
  if (!passes_gate(request, pattern, problem)) return {};
  problem.shape.x_rounded = request.input(0).layout.storage;
  const auto all = std::make_shared<Convolution>(
      Convolution{cut(problem, request.tasks_for(problem.images), request.chunks), *pattern.epilogue,
                  request.output(0).layout.storage});
  if (problem.shape.pairs) request.used_dtype = request.compute_dtype;
  return {Convolution::run, all, all->tasks(), 0, request.chunks, all->own()};
}

/// With a batch norm in training (ConvNorm).
struct FusedConvolution : Tiled {
  ConvNorm norm;

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const FusedConvolution*>(self);
    if (task >= own.tasks()) return own.norm.finish(args, task - own.tasks());
    own.convolve(task, static_cast<float*>(args.workspace), own.norm.x(args), own.norm.weight(args),
                 own.norm.begin(args, task), own.norm.raw(args));
  }
};

bool propose_fused_layouts(KernelRequest& request, const ConvPattern& pattern) {
  Problem problem;
  if (const char* reason = read_problem(request, pattern, problem)) return decline(request, reason), false;
  if (!ConvNorm().read(request, pattern))
    return decline(request, "takes batch norm in training, or its gradient"), false;
  choose_layouts(request, pattern, problem);
  return true;
}

Launch prepare_fused(KernelRequest& request, const ConvPattern& pattern) {
  Problem problem;
  ConvNorm norm;
  if (const char* reason = read_problem(request, pattern, problem)) return decline(request, reason);
  if (!has_layouts(request, pattern, problem) || !norm.read(request, pattern))
    return decline(request, "takes blocked16 and weights in its own form");
  if (!passes_gate(request, pattern, problem)) return {};
  problem.shape.x_rounded = request.input(0).layout.storage;
  std::vector<std::int64_t> begin;
  const std::int64_t least = (worth_a_run(problem) + problem.image_tiles() - 1) / problem.image_tiles();
  for (const std::int64_t image : norm.cut(request, problem.images, least))
    begin.push_back(image * problem.image_tiles());
  const Tiled tiled(problem, std::move(begin), 1);
  norm.ask_scratch(request);
  const auto all = std::make_shared<FusedConvolution>(FusedConvolution{tiled, std::move(norm)});
  if (problem.shape.pairs) request.used_dtype = request.compute_dtype;
  return {FusedConvolution::run, all, all->tasks(), all->norm.reduction_tasks(), request.chunks, all->own()};
}

/// The weight gradient: each range of tiles has sums of its own, which the reduction phase adds.
struct WeightGrad : Tiled {
  int reduction_tasks;
  StorageDtype rounds;  ///< V and the gradient of M, to these

  std::int64_t sums() const { return kWinogradPoints * blocks() * kBlock; }  ///< floats of a run
  std::int64_t blocks() const { return shape.out_blocks * shape.in_blocks; }

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const WeightGrad*>(self);
    task < own.tasks() ? own.run_task(args, task) : own.join(args, task - own.tasks());
  }

  void run_task(const Args& args, int task) const {
    float* du = static_cast<float*>(args.scratch) + task / slices * sums();
    float* v = static_cast<float*>(args.workspace);
    float* dm = v + kWinogradPoints * input_plane;
    const std::int64_t first = first_block(task), last = last_block(task);
    bool add = false;
    each_batch(task, [&](const WinogradTiles& tiles) {
      NEURIM_DISPATCH(winograd_input)(shape, tiles, read(args, 1), v);
      NEURIM_DISPATCH(winograd_output_grad)(shape, tiles, read(args, 0), first, last, dm);
      NEURIM_DISPATCH(winograd_accumulate)(shape, tiles, v, dm, first, last, rounds, add, du);
      add = true;
    });
  }

  void join(const Args& args, int task) const {
    NEURIM_DISPATCH(winograd_weights_grad)
    (static_cast<const float*>(args.scratch), static_cast<int>(runs()), sums(), blocks() * kBlock,
     task_begin(blocks(), reduction_tasks, task), task_begin(blocks(), reduction_tasks, task + 1),
     static_cast<float*>(args.out[0]));
  }
};

Launch prepare_weight_grad(KernelRequest& request, const ConvPattern& pattern) {
  Problem problem;
  if (const char* reason = read_problem(request, pattern, problem)) return decline(request, reason);
  if (!has_layouts(request, pattern, problem)) return decline(request, "takes blocked16 to packed weights");
  // Blocks of weights: with more, partial sums for each range would be more memory traffic than is saved.
  constexpr std::int64_t kManyBlocks = 128;
  const std::int64_t blocks = problem.shape.in_blocks * problem.shape.out_blocks;
  problem.shape.dy_rounded = request.input(0).layout.storage, problem.shape.x_rounded = request.input(1).layout.storage;
  // Rounding reads each factor once; the product reads one factor once for each block of the other.
  const StorageDtype rounds = blocks >= 3 * (problem.shape.in_blocks + problem.shape.out_blocks) ? request.storage()
                                                                                                 : StorageDtype::exact;
  const auto all = std::make_shared<WeightGrad>(
      WeightGrad{cut(problem, blocks > kManyBlocks ? 1 : request.chunks, request.chunks), 1, rounds});
  all->reduction_tasks = static_cast<int>(std::min<std::int64_t>(blocks, request.chunks));
  request.scratch = all->runs() * all->sums() * sizeof(float);
  if (rounds) request.used_dtype = request.compute_dtype;
  return {WeightGrad::run, all, all->tasks(), all->reduction_tasks, request.chunks, all->own()};
}

}  // namespace

void cpu_conv_winograd() {
  constexpr std::string_view kName = "cpu winograd";
  cpu::add_kernel({.op = "reorder", .name = kName, .prepare = prepare_weights});
  add_conv_kernel<prepare, propose_layouts>({.op = "conv2d", .name = kName, .fuses = true});
  add_conv_kernel<prepare, propose_layouts>({.op = "conv2d_input_grad", .name = kName});
  add_conv_kernel<prepare_weight_grad, propose_layouts>({.op = "conv2d_weight_grad", .name = kName});
  for (const char* op : {"conv2d", "conv2d_input_grad"})
    add_conv_kernel<prepare_fused, propose_fused_layouts>({.op = op, .name = "cpu winograd fused", .fused_only = true});
}

}  // namespace neurim
