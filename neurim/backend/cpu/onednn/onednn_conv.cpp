// Convolution and its gradients by oneDNN, one thread for each piece. A batch is cut by images, a single image by
// output channels. A second phase adds the pieces' weight gradients in fixed order.
#include "neurim/backend/cpu/onednn/onednn_conv.h"

#include <algorithm>
#include <array>

#include "neurim/backend/cpu/common/priorities.h"
#include "neurim/backend/cpu/pointwise/pointwise.h"
#include "neurim/ops/conv.h"

namespace neurim::cpu {

namespace {

using dnnl::prop_kind;

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

template <std::size_t N>
Window window_of(const ConvOptions<N>& o) {
  Window window{{o.stride.begin(), o.stride.end()},
                {o.dilation.begin(), o.dilation.end()},
                {o.pad.begin(), o.pad.begin() + N},
                {o.pad.begin() + N, o.pad.end()},
                o.groups};
  if (N == 1) {
    window.stride.insert(window.stride.begin(), 1), window.dilation.insert(window.dilation.begin(), 1);
    window.pad_begin.insert(window.pad_begin.begin(), 0), window.pad_end.insert(window.pad_end.begin(), 0);
  }
  for (auto& step : window.dilation) --step;
  return window;
}

template <std::size_t N>
Window window_of(const Op& op, Direction direction) {
  switch (direction) {
    case Direction::forward: return window_of(static_cast<const Conv<N>&>(op).options);
    case Direction::input_grad: return window_of(static_cast<const ConvInputGrad<N>&>(op).options);
    default: return window_of(static_cast<const ConvWeightGrad<N>&>(op).options);
  }
}

Window window_of(const Op& op, Direction direction, int rank) {
  if (rank == 3) return window_of<1>(op, direction);
  return rank == 4 ? window_of<2>(op, direction) : window_of<3>(op, direction);
}

}  // namespace

Type with_rows(const Type& type) {
  if (type.shape.rank() != 3) return type;
  return {type.dtype, {type.shape[0], type.shape[1], 1, type.shape[2]}};
}

Type Problem::grouped_weight() const {
  if (window.groups == 1) return weight;
  Type grouped{weight.dtype, {window.groups, weight.shape[0] / window.groups}};
  for (int axis = 1; axis < weight.shape.rank(); ++axis) grouped.shape.push_back(weight.shape[axis]);
  return grouped;
}

memory::desc Problem::any_weight() const {
  const Type type = grouped_weight();
  return {memory::dims(type.shape.begin(), type.shape.end()), memory::data_type::f32, memory::format_tag::any};
}

Problem Problem::piece(std::int64_t images, std::int64_t channels) const {
  Problem task = *this;
  task.x.shape[0] = task.y.shape[0] = images;
  if (channels == result().shape[1]) return task;
  if (depthwise()) {
    task.x.shape[1] = task.y.shape[1] = task.weight.shape[0] = task.window.groups = channels;
  } else {
    NEURIM_ASSERT(window.groups == 1);
    const bool forward = direction == Direction::forward;
    (forward ? task.y : task.x).shape[1] = task.weight.shape[forward ? 0 : 1] = channels;
  }
  return task;
}

std::pair<memory::desc, std::size_t> Problem::weight_of(const Layout& layout, const Problem& piece,
                                                        std::int64_t first) const {
  const memory::desc whole = descriptor(grouped_weight(), layout);
  const std::int64_t channels = piece.result().shape[1];
  if (channels == result().shape[1]) return {whole, 0};
  memory::dims sizes = whole.get_dims(), begin(sizes.size());
  const std::size_t axis = window.groups > 1 || direction == Direction::forward ? 0 : 1;
  sizes[axis] = channels;
  begin[axis] = first;
  const memory::desc there = whole.submemory_desc(sizes, begin);
  const auto offset = static_cast<std::size_t>(there.get_submemory_offset());
  if (channels % 16 == 0) return {whole.submemory_desc(sizes, memory::dims(sizes.size())), offset};
  // With padding lanes in the last channel block there is no such descriptor; kernels do not check where one begins.
  const memory::desc own = describe(piece, piece.any_weight()).weight;
  if (own.get_strides() != there.get_strides() || own.get_inner_blks() != there.get_inner_blks() ||
      own.get_inner_idxs() != there.get_inner_idxs())
    throw dnnl::error(dnnl_unimplemented, "has another form of the weights for a slice of them");
  return {own, offset};
}

Problem problem_of(const KernelRequest& request, const ConvPattern& pattern) {
  const TensorDesc &x = request.values[pattern.x], &y = request.values[pattern.y];
  return {pattern.direction,
          with_rows(x.type),
          with_rows(request.values[pattern.weight].type),
          with_rows(y.type),
          x.layout,
          y.layout,
          window_of(request.op(), pattern.direction, x.type.shape.rank()),
          pattern.epilogue.value_or(Epilogue{.bias = pattern.bias >= 0})};
}

/// Whether oneDNN has only plain loops for these layouts, or nothing.
static bool loops_only(const Problem& problem) {
  const Creation creation;
  try {
    return describe(problem, problem.any_weight()).loops;
  } catch (const dnnl::error& error) {
    return refusal(error) != nullptr;
  }
}

void choose_layouts(Problem& problem) {
  const std::int64_t in = problem.x.shape[1] / problem.window.groups, out = problem.y.shape[1] / problem.window.groups;
  const bool depthwise = problem.depthwise() && problem.x.shape.rank() == 4;  // of volumes there are plain loops only
  const bool apart = problem.window.groups == 1 || depthwise;                 // groups have to fill blocks
  const bool x_blocks = fills_blocks(problem.x.shape[1]) && (apart || in % 16 == 0);
  const bool y_blocks = fills_blocks(problem.y.shape[1]) && (apart || out % 16 == 0);
  const bool image = problem.window.groups == 1 && in <= 3 && problem.direction != Direction::input_grad;
  const bool blocked = y_blocks && (x_blocks || image);
  const Layout other = problem.window.groups > 1 ? Layout{Layout::channels_last} : Layout{};
  problem.x_layout = !blocked ? other : x_blocks ? kBlocked : Layout{};
  problem.y_layout = blocked ? kBlocked : other;
  for (const Layout& next : {Layout{Layout::channels_last}, Layout{}}) {
    if (!loops_only(problem)) return;
    problem.x_layout = problem.y_layout = next;
  }
}

/// `after`: post-ops. oneDNN applies them element by element after its matrix product, at fifty times the cost of our
/// own pass.
template <class Primitive>
static Described described_by(const typename Primitive::primitive_desc& desc, const memory::desc& weight,
                              bool after = false) {
  const std::string_view name = desc.impl_info_str();
  const bool loops = starts_with(name, "ref") || (after && name.find("gemm") != name.npos);
  return {Primitive(desc), weight, desc.scratchpad_desc(), loops};
}

Described describe(const Problem& p, const memory::desc& weight) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const memory::desc x = p.x_desc(), y = p.y_desc();
  if (p.direction == Direction::forward) {
    dnnl::post_ops after;
    if (p.epilogue.add) after.append_binary(dnnl::algorithm::binary_add, y);
    if (p.epilogue.relu.on) append_relu(after);
    attributes.set_post_ops(after);
    const memory::desc bias = p.epilogue.bias
                                  ? memory::desc({p.y.shape[1]}, memory::data_type::f32, memory::format_tag::a)
                                  : memory::desc();
    const dnnl::convolution_forward::primitive_desc described(engine(), prop_kind::forward_inference, kDirect, x,
                                                              weight, bias, y, p.window.stride, p.window.dilation,
                                                              p.window.pad_begin, p.window.pad_end, attributes);
    return described_by<dnnl::convolution_forward>(described, described.weights_desc(),
                                                   p.epilogue.relu.on || p.epilogue.add);
  }
  const dnnl::convolution_forward::primitive_desc hint(engine(), prop_kind::forward_training, kDirect, x,
                                                       p.any_weight(), y, p.window.stride, p.window.dilation,
                                                       p.window.pad_begin, p.window.pad_end);
  if (p.direction == Direction::input_grad) {
    const dnnl::convolution_backward_data::primitive_desc described(engine(), kDirect, x, weight, y, p.window.stride,
                                                                    p.window.dilation, p.window.pad_begin,
                                                                    p.window.pad_end, hint, attributes);
    return described_by<dnnl::convolution_backward_data>(described, described.weights_desc());
  }
  const dnnl::convolution_backward_weights::primitive_desc described(engine(), kDirect, x, weight, y, p.window.stride,
                                                                     p.window.dilation, p.window.pad_begin,
                                                                     p.window.pad_end, hint, attributes);
  return described_by<dnnl::convolution_backward_weights>(described, described.diff_weights_desc());
}

std::vector<std::pair<int, memory::desc>> arguments_of(const Problem& p, const Described& described) {
  static constexpr int kNumbers[3][3] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                         {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
                                         {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}};
  const auto& number = kNumbers[static_cast<std::size_t>(p.direction)];
  std::vector<std::pair<int, memory::desc>> arguments{{number[0], p.x_desc()},
                                                      {number[1], described.weight},
                                                      {number[2], p.y_desc()},
                                                      {DNNL_ARG_SCRATCHPAD, described.scratchpad}};
  if (p.epilogue.bias)
    arguments.emplace_back(DNNL_ARG_BIAS, memory::desc({p.y.shape[1]}, memory::data_type::f32, memory::format_tag::a));
  if (p.epilogue.add) arguments.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, p.y_desc());
  return arguments;
}

std::vector<std::int64_t> cut_evenly(std::int64_t count, std::int64_t pieces) {
  std::vector<std::int64_t> begin;
  for (std::int64_t i = 0; i <= pieces; ++i) begin.push_back(count * i / pieces);
  return begin;
}

bool takes_types(KernelRequest& request, const ConvPattern& pattern) {
  if (!pattern.f32) return decline(request, "takes f32 only"), false;
  return !pattern.empty || (decline(request, "an axis is empty"), false);
}

bool ask_layouts(KernelRequest& request, const ConvPattern& pattern, const Problem& problem, bool loops) {
  const Creation creation;
  try {
    const Described described = describe(problem, problem.any_weight());
    if (described.loops && !loops) return decline(request, "has plain loops only"), false;
    const Layout weight = packed_layout(problem.grouped_weight(), described.weight);
    for (TensorDesc& desc : request.values)  // also the residual and all outputs
      desc.layout = with_rows(desc.type) == problem.result() ? problem.result_layout() : Layout{};
    request.values[pattern.x].layout = problem.x_layout;
    request.values[pattern.y].layout = problem.y_layout;
    request.values[pattern.weight].layout = weight;
  } catch (const dnnl::error& error) {
    return decline(request, error.what()), false;
  }
  return true;
}

namespace {

template <bool loops>
bool propose_layouts(KernelRequest& request, const ConvPattern& pattern) {
  if (!takes_types(request, pattern)) return false;
  Problem problem = problem_of(request, pattern);
  if (!pattern.epilogue ||
      pattern.epilogue->relu.most == pattern.epilogue->relu.most)  // oneDNN's upper limit turns NaN into a number
    return decline(request, "fuses add and relu after the forward convolution only"), false;
  if (!operands_apart(request))
    return decline(request, "fuses steps after a convolution of different operands only"), false;
  choose_layouts(problem);
  if (pattern.epilogue->add && !(problem.y_layout == kBlocked))
    return decline(request, "adds to blocks of 16 channels only: in the plain order oneDNN has no fast loop for it"),
           false;
  return ask_layouts(request, pattern, problem, loops);
}

/// One piece of the batch or of the output channels: its primitive, and offsets in floats.
struct Piece {
  Primitive primitive;
  std::size_t x = 0, weight = 0, y = 0, bias = 0;
};

struct Convolution {
  Direction direction;
  Epilogue epilogue;
  std::vector<Piece> pieces;
  // For weight gradients: the first piece writes the output, the others partial sums; each task of the second phase
  // adds a range.
  std::size_t weight_size = 0;  ///< floats
  std::vector<std::int64_t> ranges;

  float* weight_sum(const Args& args, std::size_t piece) const {
    if (piece == 0) return static_cast<float*>(args.out[0]);
    return static_cast<float*>(args.scratch) + (piece - 1) * weight_size;
  }

  void join(const Args& args, std::size_t range) const {
    float* sum = weight_sum(args, 0);
    for (std::size_t p = 1; p < pieces.size(); ++p) {
      const float* added = weight_sum(args, p);
      for (std::int64_t i = ranges[range]; i < ranges[range + 1]; ++i) sum[i] += added[i];
    }
  }

  static void run(const void* self, const Args& args, int task) noexcept {
    const auto& all = *static_cast<const Convolution*>(self);
    const auto number = static_cast<std::size_t>(task);
    if (number >= all.pieces.size()) return all.join(args, number - all.pieces.size());
    const Piece& piece = all.pieces[number];
    const auto at = [](void* base, std::size_t offset) -> void* { return static_cast<float*>(base) + offset; };
    std::array<void*, 6> data{nullptr, nullptr, nullptr, args.workspace};
    std::size_t next = 4;
    switch (all.direction) {
      case Direction::forward:
        data[0] = at(args.in[0], piece.x), data[1] = at(args.in[1], piece.weight), data[2] = at(args.out[0], piece.y);
        if (all.epilogue.bias) data[next++] = at(args.in[2], piece.bias);
        if (all.epilogue.add) data[next++] = at(args.in[all.epilogue.residual], piece.y);
        break;
      case Direction::input_grad:
        data[0] = at(args.out[0], piece.x), data[1] = args.in[1], data[2] = at(args.in[0], piece.y);
        break;
      case Direction::weight_grad:
        data[0] = at(args.in[1], piece.x), data[1] = all.weight_sum(args, number), data[2] = at(args.in[0], piece.y);
        break;
    }
    piece.primitive.run(data.data(), args.status);
  }
};

Launch prepare(KernelRequest& request, const ConvPattern& pattern) {
  const Creation creation;
  const Problem problem = problem_of(request, pattern);
  const Layout weight_layout = request.values[pattern.weight].layout;
  const std::int64_t images = problem.x.shape[0], channels = problem.result().shape[1];
  const bool cut_channels = problem.direction == Direction::forward && images == 1 && problem.window.groups == 1 &&
                            problem.y_layout == kBlocked;
  const auto begin = cut_evenly(images, std::min<std::int64_t>(images, request.chunks));
  const std::int64_t blocks = (channels + 15) / 16;
  const auto slices = cut_evenly(blocks, cut_channels ? std::min<std::int64_t>(blocks, request.chunks) : 1);
  const auto floats = [](const Type& type, const Layout& layout) { return bytes(type, layout) / sizeof(float); };
  const std::size_t x_image = floats(problem.x, problem.x_layout) / static_cast<std::size_t>(images),
                    y_image = floats(problem.y, problem.y_layout) / static_cast<std::size_t>(images),
                    weight_size = floats(problem.weight, weight_layout);
  auto all = std::make_shared<Convolution>();
  all->direction = problem.direction;
  all->epilogue = problem.epilogue;
  all->weight_size = weight_size;
  std::size_t own = 0;
  try {
    for (std::size_t i = 0; i + 1 < begin.size(); ++i)
      for (std::size_t c = 0; c + 1 < slices.size(); ++c) {
        const std::int64_t first = 16 * slices[c], width = std::min(16 * slices[c + 1], channels) - first;
        const Problem task = problem.piece(begin[i + 1] - begin[i], width);
        const auto [weight, weight_begin] = problem.weight_of(weight_layout, task, first);
        const Described described = describe(task, weight);
        const auto image = static_cast<std::size_t>(begin[i]), block = static_cast<std::size_t>(slices[c]);
        all->pieces.push_back({Primitive(described.primitive, arguments_of(task, described)), image * x_image,
                               weight_begin, image * y_image + block * (y_image / static_cast<std::size_t>(blocks)),
                               16 * block});
        own = std::max(own, described.scratchpad.get_size());
      }
  } catch (const dnnl::error& error) {
    return decline(request, refusal(error));
  }
  const int tasks = static_cast<int>(all->pieces.size());
  int reduction_tasks = 0;
  if (problem.direction == Direction::weight_grad && tasks > 1) {
    reduction_tasks = request.chunks;
    all->ranges = cut_evenly(static_cast<std::int64_t>(weight_size), reduction_tasks);
    request.scratch = static_cast<std::size_t>(tasks - 1) * weight_size * sizeof(float);
  }
  return {Convolution::run, all, tasks, reduction_tasks, request.chunks, own};
}

}  // namespace

}  // namespace neurim::cpu

namespace neurim {

void cpu_onednn_conv() {
  using namespace cpu;
  for (const char* op : {"conv1d", "conv1d_input_grad", "conv1d_weight_grad", "conv2d", "conv2d_input_grad",
                         "conv2d_weight_grad", "conv3d", "conv3d_input_grad", "conv3d_weight_grad"}) {
    add_conv_kernel<prepare, propose_layouts<false>>({.op = op, .name = "onednn", .fuses = !ends_with(op, "_grad")});
    add_conv_kernel<prepare, propose_layouts<true>>({.op = op, .name = "onednn_loops"});
  }
}

}  // namespace neurim
