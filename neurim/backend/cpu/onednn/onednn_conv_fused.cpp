// A convolution or data gradient by oneDNN, fused with a batch norm in training (see ConvNorm) or pointwise steps after
// it, and with pointwise steps before it; and a weight gradient with such steps before it. oneDNN computes a piece of
// the result at a time, small enough that piece and operand are still in the task's cache when the fused steps run.
#include <algorithm>
#include <map>
#include <optional>

#include "neurim/backend/cpu/common/conv_steps.h"
#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/backend/cpu/onednn/onednn_conv.h"
#include "neurim/backend/cpu/packing/reorder.h"

namespace neurim::cpu {

namespace {

constexpr std::int64_t kPiece = 1 << 18;  // floats of the result

/// The convolution alone, in f32.
Problem read_problem(const KernelRequest& request, const ConvPattern& pattern) {
  Problem problem = problem_of(request, pattern);
  problem.epilogue = {.bias = problem.epilogue.bias};
  problem.x_layout = exact(problem.x_layout), problem.y_layout = exact(problem.y_layout);
  return problem;
}

/// The activation that is read; for a weight gradient the convolution's input.
const Type& source(const Problem& problem) {
  return problem.direction == Direction::input_grad ? problem.y : problem.x;
}
const Layout& source_layout(const Problem& problem) {
  return problem.direction == Direction::input_grad ? problem.y_layout : problem.x_layout;
}

/// Proposes the layouts; values of the shape of the activation take its layout.
bool ask(KernelRequest& request, const ConvPattern& pattern, const Problem& problem) {
  if (!pattern.distinct) return decline(request, "takes two operands"), false;
  if (!ask_layouts(request, pattern, problem, false)) return false;
  for (TensorDesc& desc : request.values)
    if (pattern.prologue && with_rows(desc.type) == source(problem)) desc.layout = source_layout(problem);
  // oneDNN reads and writes floats. In training, where values wait in DRAM, 16-bit storage saves more than the
  // conversions cost.
  const bool trains = !pattern.constant_weight;
  for (int value = 0; trains && value < std::ssize(request.values); ++value)
    if (Layout& layout = request.values[value].layout; layout == kBlocked) layout = blocked_layout(request, value);
  return true;
}

/// Whether values of the shapes of the result and of the activation have their layouts.
bool has_layouts(const KernelRequest& request, const ConvPattern& pattern, const Problem& problem) {
  const TensorDesc& weight = request.values[pattern.weight];
  return std::all_of(request.values.begin(), request.values.end(), [&](const TensorDesc& desc) {
    if (&desc == &weight) return true;
    const Type type = with_rows(desc.type);
    if (type == problem.result()) return exact(desc.layout) == problem.result_layout();
    return !pattern.prologue || type != source(problem) || exact(desc.layout) == source_layout(problem);
  });
}

bool propose_layouts(KernelRequest& request, const ConvPattern& pattern) {
  Problem problem = read_problem(request, pattern);
  if (!takes_types(request, pattern)) return false;
  choose_layouts(problem);
  if (problem.result_layout() != kBlocked) return decline(request, "takes blocks of 16 channels"), false;
  return ask(request, pattern, problem) && FusedPrologue().read(request, pattern) &&
         FusedEpilogue().read(request, pattern);
}

/// What one call of a primitive computes: runs of images and channel blocks, and the offsets of its operands in floats.
struct Piece {
  Primitive primitive;
  std::int64_t first_image, images, first_block, blocks;
  std::int64_t begin, end;  // range of the activation
  std::size_t weight;
};

struct Region {
  Direction direction;
  int weight, bias;             // indices of arguments, or -1
  std::int64_t blocks, pixels;  // of the result
  FusedPrologue prologue;
  FusedEpilogue fused;
  std::size_t scratch = 0, room = 0,
              apart = 0;  // bytes of a task's workspace: for oneDNN, the activation, and a piece before it is rounded
  std::vector<std::vector<Piece>> pieces;  // of each task

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& own = *static_cast<const Region*>(self);
    const int tasks = static_cast<int>(own.pieces.size());
    if (task >= tasks)
      own.fused.norm->finish(args, task - tasks);
    else
      own.run_task(args, task);
  }

  std::int64_t place(std::int64_t image, std::int64_t block) const { return (image * blocks + block) * pixels * 16; }

  void run_task(const Args& args, int task) const {
    const auto at = [&](int argument, std::size_t offset) { return static_cast<float*>(args.in[argument]) + offset; };
    const ConvEpilogue epilogue = fused.begin(args, task);
    float* const results = fused.results(args);
    void* const own = args.workspace;
    auto *const made = reinterpret_cast<float*>(static_cast<char*>(own) + scratch),
                *const result = reinterpret_cast<float*>(static_cast<char*>(own) + scratch + room);
    float* from = nullptr;
    const std::vector<Piece>& all = pieces[task];
    for (std::size_t p = 0; p < all.size(); ++p) {
      const Piece& piece = all[p];
      if (p == 0 || piece.begin != all[p - 1].begin || piece.end != all[p - 1].end)
        from = prologue.floats(args, made, piece.begin, piece.end);
      float* const to = apart > 0 ? result : results + place(piece.first_image, piece.first_block);
      const bool forward = direction == Direction::forward;
      void* const data[] = {forward ? from : to, at(weight, piece.weight), forward ? to : from, own,
                            bias < 0 ? nullptr : at(bias, static_cast<std::size_t>(16 * piece.first_block))};
      piece.primitive.run(data, args.status);
      for (std::int64_t i = 0; i < piece.images; ++i) {
        const std::int64_t image = piece.first_image + i, begin = place(image, piece.first_block),
                           end = begin + piece.blocks * pixels * 16;
        float* const own_result = result + i * (end - begin);
        if (fused.rounded()) NEURIM_DISPATCH(round_elements)
        (fused.rounded(), own_result, 0, end - begin,
         reinterpret_cast<std::uint16_t*>(element(results, begin, fused.rounded())));
        fused.run(args, epilogue, piece.first_block, piece.blocks, begin, end, image == all[0].first_image, own_result);
      }
    }
  }
};

/// What one task computes of the result.
struct Share {
  std::int64_t first_image, last_image, first_block, last_block;
};

std::vector<Share> shares_of(const KernelRequest& request, Region& region, const Problem& problem) {
  std::vector<Share> shares;
  const std::int64_t images = problem.result().shape[0];
  if (!region.fused.norm && images < request.chunks && problem.cuts_channels() && region.blocks >= request.chunks) {
    const auto runs = cut_evenly(region.blocks, request.chunks);
    for (std::size_t i = 0; i + 1 < runs.size(); ++i) shares.push_back({0, images, runs[i], runs[i + 1]});
  } else {
    const auto runs = region.fused.norm ? region.fused.norm->cut(request, images)
                                        : cut_evenly(images, std::min<std::int64_t>(images, request.chunks));
    for (std::size_t i = 0; i + 1 < runs.size(); ++i) shares.push_back({runs[i], runs[i + 1], 0, region.blocks});
  }
  return shares;
}

/// Cuts a task's share into pieces of whole images, or of the channels of one.
std::vector<Piece> cut_share(const Share& share, const Region& region, const Problem& problem) {
  const std::int64_t blocks = share.last_block - share.first_block, image = blocks * region.pixels * 16,
                     slices = problem.cuts_channels()
                                  ? std::clamp<std::int64_t>((image + kPiece - 1) / kPiece, 1, blocks)
                                  : 1,
                     worth = std::max<std::int64_t>(kPiece,  // enough images to pay for reading the weights
                                                    4 * problem.weight.shape.numel()),
                     together = region.blocks == blocks && slices == 1 ? std::max<std::int64_t>(1, worth / image) : 1,
                     images = share.last_image - share.first_image;
  const auto begin = cut_evenly(images, (images + together - 1) / together), cuts = cut_evenly(blocks, slices);
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i + 1 < begin.size(); ++i)
    for (std::size_t c = 0; c + 1 < cuts.size(); ++c)
      pieces.push_back({{},
                        share.first_image + begin[i],
                        begin[i + 1] - begin[i],
                        share.first_block + cuts[c],
                        cuts[c + 1] - cuts[c],
                        0,
                        0,
                        0});
  return pieces;
}

/// Sets the elements of the activation that a piece reads: whole images or, depthwise, its blocks of one.
void set_source(Piece& piece, const Problem& problem) {
  const std::int64_t image = static_cast<std::int64_t>(bytes(source(problem), source_layout(problem)) / sizeof(float)) /
                             source(problem).shape[0];
  piece.begin = piece.first_image * image;
  piece.end = piece.begin + piece.images * image;
  const std::int64_t blocks = (source(problem).shape[1] + 15) / 16;
  if (!problem.depthwise() || piece.blocks == blocks) return;
  piece.begin += piece.first_block * (image / blocks);
  piece.end = piece.begin + piece.blocks * (image / blocks);
}

/// The calls for a problem's pieces: one primitive for each number of images and channels.
struct Calls {
  const Problem& problem;
  Layout weight_layout;
  std::size_t scratch = 0, room = 0;  // bytes for the largest: for oneDNN, and for what it reads
  std::map<std::pair<std::int64_t, std::int64_t>, Primitive> known = {};

  /// Sets what a piece computes and reads. Returns the floats of its weights, or 0 if oneDNN has plain loops only.
  /// Throws dnnl::error.
  std::size_t set(Piece& piece) {
    const std::int64_t first = 16 * piece.first_block,
                       width = std::min<std::int64_t>(first + 16 * piece.blocks, problem.result().shape[1]) - first;
    const Problem task = problem.piece(piece.images, width);
    const auto [weight, weight_begin] = problem.weight_of(weight_layout, task, first);
    Primitive& primitive = known[{piece.images, width}];
    if (!primitive) {
      const Described described = describe(task, weight);
      if (described.loops) return 0;
      scratch = std::max(scratch, whole_lines(described.scratchpad.get_size()));
      primitive = Primitive(described.primitive, arguments_of(task, described));
    }
    piece.primitive = primitive;
    piece.weight = weight_begin;
    set_source(piece, problem);
    room = std::max(room, whole_lines(static_cast<std::size_t>(piece.end - piece.begin) * sizeof(float)));
    return weight.get_size() / sizeof(float);
  }
};

constexpr const char* kLoops = "has plain loops only for a piece of it";

Launch prepare(KernelRequest& request, const ConvPattern& pattern) {
  const Creation creation;
  const Problem problem = read_problem(request, pattern);
  const Type& result = problem.result();
  if (!takes_types(request, pattern)) return {};
  if (problem.result_layout() != kBlocked || !has_layouts(request, pattern, problem))
    return decline(request, "takes blocks of 16 channels");
  const std::int64_t images = result.shape[0], channels = result.shape[1];
  auto region = std::make_shared<Region>(Region{.direction = problem.direction,
                                                .weight = request.place_in(pattern.weight),
                                                .bias = pattern.bias,
                                                .blocks = (channels + 15) / 16,
                                                .pixels = result.shape.numel() / (images * channels)});
  if (!region->prologue.read(request, pattern) || !region->fused.read(request, pattern)) return {};
  const Layout weight_layout = request.values[pattern.weight].layout;
  Calls calls{problem, weight_layout};
  try {
    for (const Share& share : shares_of(request, *region, problem))
      for (Piece& piece : region->pieces.emplace_back(cut_share(share, *region, problem)))
        if (calls.set(piece) == 0) return decline(request, kLoops);
  } catch (const dnnl::error& error) {
    return decline(request, refusal(error));
  }
  region->scratch = calls.scratch;
  if (region->prologue.makes()) region->room = calls.room;
  if (region->fused.rounds)
    for (const auto& pieces : region->pieces)
      for (const Piece& piece : pieces)
        region->apart = std::max(
            region->apart, static_cast<std::size_t>(piece.images * piece.blocks * region->pixels) * 16 * sizeof(float));
  const int tasks = static_cast<int>(region->pieces.size());
  region->fused.ask_scratch(request);
  return {Region::run,    region,
          tasks,          region->fused.reduction_tasks(),
          request.chunks, region->scratch + region->room + region->apart};
}

// --- weight gradients --------------------------------------------------------------------------------------------

/// Weight gradients: sums over pieces of the images or, depthwise, of the channels of one.
struct WeightSum {
  struct Piece : cpu::Piece {
    std::size_t dy, dy_floats, floats;  // offset and size of dy; size of the weight
    bool first;                         // of the task, for these weights
  };
  int dy;  // index of the argument
  StorageDtype dy_rounded;
  FusedPrologue prologue;
  std::size_t weight_size;  // floats
  std::size_t scratch = 0, room = 0, addend = 0,
              gradient = 0;  // bytes of a task's workspace: for oneDNN, the activation, the partial sum, and dy
  std::vector<std::vector<Piece>> pieces;
  std::vector<std::int64_t> ranges;  // of the second phase's tasks

  std::size_t own() const { return scratch + room + addend + gradient; }
  float* sum(const Args& args, std::size_t task) const {
    if (task == 0) return static_cast<float*>(args.out[0]);
    return static_cast<float*>(args.scratch) + (task - 1) * weight_size;
  }

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& all = *static_cast<const WeightSum*>(self);
    const auto number = static_cast<std::size_t>(task), tasks = all.pieces.size();
    number < tasks ? all.run_task(args, number) : all.join(args, number - tasks);
  }

  void run_task(const Args& args, std::size_t task) const {
    char* const mine = static_cast<char*>(args.workspace);
    auto *const made = reinterpret_cast<float*>(mine + scratch),
                *const added = reinterpret_cast<float*>(mine + scratch + room),
                *const floats = reinterpret_cast<float*>(mine + scratch + room + addend);
    for (const Piece& piece : pieces[task]) {
      float* const x = prologue.floats(args, made, piece.begin, piece.end);
      float* const total = sum(args, task) + piece.weight;
      float* const there = element(static_cast<float*>(args.in[dy]), static_cast<std::int64_t>(piece.dy), dy_rounded);
      float* const gradients = floats_of(there, dy_rounded, static_cast<std::int64_t>(piece.dy_floats), floats);
      void* const data[] = {x, piece.first ? total : added, gradients, mine};
      piece.primitive.run(data, args.status);
      if (!piece.first)
        for (std::size_t i = 0; i < piece.floats; ++i) total[i] += added[i];
    }
  }

  void join(const Args& args, std::size_t range) const {
    float* const total = sum(args, 0);
    for (std::size_t task = 1; task < pieces.size(); ++task) {
      const float* const added = sum(args, task);
      for (std::int64_t i = ranges[range]; i < ranges[range + 1]; ++i) total[i] += added[i];
    }
  }
};

bool propose_weight_grad_layouts(KernelRequest& request, const ConvPattern& pattern) {
  Problem problem = read_problem(request, pattern);
  if (!takes_types(request, pattern)) return false;
  if (pattern.followed) return decline(request, "takes nothing after it"), false;
  choose_layouts(problem);
  if (problem.x_layout != kBlocked || problem.y_layout != kBlocked)
    return decline(request, "takes blocks of 16 channels"), false;
  return ask(request, pattern, problem) && FusedPrologue().read(request, pattern);
}

Launch prepare_weight_grad(KernelRequest& request, const ConvPattern& pattern) {
  const Creation creation;
  const Problem problem = read_problem(request, pattern);
  if (!takes_types(request, pattern)) return {};
  const Layout weight_layout = request.values[pattern.weight].layout;
  if (problem.x_layout != kBlocked || problem.y_layout != kBlocked || !has_layouts(request, pattern, problem))
    return decline(request, "takes blocks of 16 channels");
  auto all = std::make_shared<WeightSum>();
  all->dy = request.place_in(pattern.y);
  all->dy_rounded = request.input(all->dy).layout.storage;
  if (!all->prologue.read(request, pattern)) return {};
  all->weight_size = bytes(problem.weight, weight_layout) / sizeof(float);
  const std::int64_t images = problem.x.shape[0], blocks = (problem.x.shape[1] + 15) / 16,
                     dy_blocks = (problem.y.shape[1] + 15) / 16;
  const std::int64_t x_image = static_cast<std::int64_t>(bytes(problem.x, kBlocked) / sizeof(float)) / images,
                     dy_image = static_cast<std::int64_t>(bytes(problem.y, kBlocked) / sizeof(float)) / images;
  // Depthwise, slices of an image's channels; else so many images that adding the weights costs little.
  const bool slices = problem.depthwise() && problem.cuts_channels() && x_image > kPiece;
  const std::int64_t cuts = slices ? std::min((x_image + kPiece - 1) / kPiece, blocks) : 1,
                     together = std::max<std::int64_t>(
                         1, std::max(kPiece, 4 * static_cast<std::int64_t>(all->weight_size)) / x_image);
  const auto runs = cut_evenly(images, std::min<std::int64_t>(images, request.chunks)),
             slice = cut_evenly(blocks, cuts);
  Calls calls{problem, weight_layout};
  try {
    for (std::size_t task = 0; task + 1 < runs.size(); ++task) {
      std::vector<WeightSum::Piece>& pieces = all->pieces.emplace_back();
      const std::int64_t count = runs[task + 1] - runs[task];
      const auto begin = cut_evenly(count, slices ? count : (count + together - 1) / together);
      for (std::size_t i = 0; i + 1 < begin.size(); ++i)
        for (std::size_t c = 0; c + 1 < slice.size(); ++c) {
          WeightSum::Piece& piece = pieces.emplace_back();
          piece.first_image = runs[task] + begin[i], piece.images = begin[i + 1] - begin[i];
          piece.first_block = slice[c], piece.blocks = slice[c + 1] - slice[c];
          piece.first = i == 0;
          piece.floats = calls.set(piece);
          if (piece.floats == 0) return decline(request, kLoops);
          piece.dy = piece.first_image * dy_image + (slices ? piece.first_block * (dy_image / dy_blocks) : 0);
          piece.dy_floats = slices ? piece.blocks * (dy_image / dy_blocks) : piece.images * dy_image;
          if (all->dy_rounded) all->gradient = std::max(all->gradient, piece.dy_floats * sizeof(float));
          if (!piece.first) all->addend = std::max(all->addend, whole_lines(piece.floats * sizeof(float)));
        }
    }
  } catch (const dnnl::error& error) {
    return decline(request, refusal(error));
  }
  all->scratch = calls.scratch;
  if (all->prologue.makes()) all->room = calls.room;
  const std::size_t tasks = all->pieces.size();
  request.scratch = (tasks - 1) * all->weight_size * sizeof(float);
  if (tasks > 1) all->ranges = cut_evenly(static_cast<std::int64_t>(all->weight_size), request.chunks);
  return {WeightSum::run, all, static_cast<int>(tasks), tasks > 1 ? request.chunks : 0, request.chunks, all->own()};
}

}  // namespace

}  // namespace neurim::cpu

namespace neurim {

void cpu_onednn_conv_fused() {
  using namespace cpu;
  constexpr std::string_view kName = "onednn fused";
  for (const char* op : {"conv2d", "conv2d_input_grad"})
    add_conv_kernel<prepare, propose_layouts>({.op = op, .name = kName, .fused_only = true, .prologues = true});
  add_conv_kernel<prepare_weight_grad, propose_weight_grad_layouts>(
      {.op = "conv2d_weight_grad", .name = kName, .fused_only = true, .prologues = true});
}

}  // namespace neurim
