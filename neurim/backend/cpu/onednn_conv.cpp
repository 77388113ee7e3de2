// Convolution and its gradients by oneDNN, one thread to a piece. A batch is cut along the images; a single
// image along the output channels. Weight gradients of the pieces are joined in fixed order by a second
// phase.
#include <algorithm>
#include <array>

#include "neurim/backend/cpu/conv_site.h"
#include "neurim/backend/cpu/onednn.h"
#include "neurim/backend/cpu/physical.h"
#include "neurim/ops/conv.h"

namespace neurim::cpu {

namespace {

using dnnl::prop_kind;

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

/// A series (…,L) as an image of one row, which oneDNN has more kernels for; anything else as it is.
Type with_rows(const Type& type) {
  if (type.shape.rank() != 3) return type;
  return {type.dtype, {type.shape[0], type.shape[1], 1, type.shape[2]}};
}

/// The options of a convolution over any number of axes, as oneDNN wants them; a series has one row.
struct Window {
  memory::dims stride, dilation, pad_begin, pad_end;
  std::int64_t groups;

  template <std::size_t N>
  explicit Window(const ConvOptions<N>& o)
      : stride(o.stride.begin(), o.stride.end()),
        dilation(o.dilation.begin(), o.dilation.end()),
        pad_begin(o.pad.begin(), o.pad.begin() + N),
        pad_end(o.pad.begin() + N, o.pad.end()),
        groups(o.groups) {
    if (N == 1) {
      stride.insert(stride.begin(), 1), dilation.insert(dilation.begin(), 1);
      pad_begin.insert(pad_begin.begin(), 0), pad_end.insert(pad_end.begin(), 0);
    }
    for (auto& step : dilation) --step;
  }
};

template <std::size_t N>
Window window_of(const Op& op, Direction direction) {
  switch (direction) {
    case Direction::forward:
      return Window(static_cast<const Conv<N>&>(op).options);
    case Direction::input_grad:
      return Window(static_cast<const ConvInputGrad<N>&>(op).options);
    default:
      return Window(static_cast<const ConvWeightGrad<N>&>(op).options);
  }
}

Window window_of(const Op& op, Direction direction, int rank) {
  if (rank == 3) return window_of<1>(op, direction);
  return rank == 4 ? window_of<2>(op, direction) : window_of<3>(op, direction);
}

/// A convolution's shapes and options as oneDNN wants them, for the batch or for a piece of it.
struct Problem {
  Direction direction;
  Type x, weight, y;
  Layout x_layout, y_layout;
  Window window;
  Epilogue epilogue;

  /// The weight as oneDNN sees it: (G,O/G,I,…) when there are groups.
  Type grouped_weight() const {
    if (window.groups == 1) return weight;
    Type grouped{weight.dtype, {window.groups, weight.shape[0] / window.groups}};
    for (int axis = 1; axis < weight.shape.rank(); ++axis) grouped.shape.push_back(weight.shape[axis]);
    return grouped;
  }
  memory::desc any_weight() const {
    const Type type = grouped_weight();
    return {memory::dims(type.shape.begin(), type.shape.end()), memory::data_type::f32,
            memory::format_tag::any};
  }
  memory::desc x_desc() const { return descriptor(x, x_layout); }
  memory::desc y_desc() const { return descriptor(y, y_layout); }

  Problem piece(std::int64_t images, std::int64_t channels) const {
    Problem part = *this;
    part.x.shape[0] = part.y.shape[0] = images;
    part.y.shape[1] = part.weight.shape[0] = channels;
    return part;
  }
};

Problem problem_of(const Site& site) {
  const Operands at = operands_of(site);
  const auto value = [&](int number) -> const Spec& { return site.values[static_cast<std::size_t>(number)]; };
  Problem problem{direction_of(site),
                  with_rows(value(at.x).type),
                  with_rows(value(at.weight).type),
                  with_rows(value(at.y).type),
                  value(at.x).layout,
                  value(at.y).layout,
                  window_of(site.op(), direction_of(site), value(at.x).type.shape.rank()),
                  {}};
  read_epilogue(site, problem.epilogue);
  return problem;
}

/// The layouts for which oneDNN has fast kernels: blocked when the channels fill whole blocks, channels last
/// for groups that do not. An image with few channels is read plain; from blocks back to such an image it has
/// plain loops only.
void choose_layouts(Problem& problem) {
  const auto fills = [](std::int64_t channels) { return channels % 16 == 0; };
  const std::int64_t in = problem.x.shape[1] / problem.window.groups,
                     out = problem.y.shape[1] / problem.window.groups;
  const bool depthwise = in == 1 && out == 1 && problem.x.shape.rank() == 4;  // of volumes: plain loops only
  const bool x_blocks = fills(problem.x.shape[1]) && (fills(in) || depthwise);
  const bool y_blocks = fills(problem.y.shape[1]) && (fills(out) || depthwise);
  const bool image = problem.window.groups == 1 && in <= 3 && problem.direction != Direction::input_grad;
  const bool blocked = y_blocks && (x_blocks || image);
  const Layout other = problem.window.groups > 1 ? Layout{Layout::channels_last} : Layout{};
  problem.x_layout = !blocked ? other : x_blocks ? kBlocked : Layout{};
  problem.y_layout = blocked ? kBlocked : other;
}

/// A primitive and the forms of what it reads besides x and y.
struct Described {
  dnnl::primitive primitive;
  memory::desc weight, scratchpad;
  bool loops;  ///< its implementation is oneDNN's plain loops, which take everything and are slow
};

template <class Primitive>
Described described_by(const typename Primitive::primitive_desc& desc, const memory::desc& weight) {
  return {Primitive(desc), weight, desc.scratchpad_desc(), starts_with(desc.impl_info_str(), "ref")};
}

/// Throws dnnl::error when oneDNN has no implementation.
Described describe(const Problem& p, const memory::desc& weight) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const memory::desc x = p.x_desc(), y = p.y_desc();
  if (p.direction == Direction::forward) {
    dnnl::post_ops after;
    if (p.epilogue.add) after.append_binary(dnnl::algorithm::binary_add, y);
    if (p.epilogue.relu) append_relu(after);
    attributes.set_post_ops(after);
    const memory::desc bias =
        p.epilogue.bias ? memory::desc({p.y.shape[1]}, memory::data_type::f32, memory::format_tag::a)
                        : memory::desc();
    const dnnl::convolution_forward::primitive_desc described(
        engine(), prop_kind::forward_inference, kDirect, x, weight, bias, y, p.window.stride,
        p.window.dilation, p.window.pad_begin, p.window.pad_end, attributes);
    return described_by<dnnl::convolution_forward>(described, described.weights_desc());
  }
  const dnnl::convolution_forward::primitive_desc hint(engine(), prop_kind::forward_training, kDirect, x,
                                                       p.any_weight(), y, p.window.stride, p.window.dilation,
                                                       p.window.pad_begin, p.window.pad_end);
  if (p.direction == Direction::input_grad) {
    const dnnl::convolution_backward_data::primitive_desc described(
        engine(), kDirect, x, weight, y, p.window.stride, p.window.dilation, p.window.pad_begin,
        p.window.pad_end, hint, attributes);
    return described_by<dnnl::convolution_backward_data>(described, described.weights_desc());
  }
  const dnnl::convolution_backward_weights::primitive_desc described(
      engine(), kDirect, x, weight, y, p.window.stride, p.window.dilation, p.window.pad_begin,
      p.window.pad_end, hint, attributes);
  return described_by<dnnl::convolution_backward_weights>(described, described.diff_weights_desc());
}

/// The arguments in the order x, weight, y, scratchpad[, bias][, residual].
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
    arguments.emplace_back(DNNL_ARG_BIAS,
                           memory::desc({p.y.shape[1]}, memory::data_type::f32, memory::format_tag::a));
  if (p.epilogue.add) arguments.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, p.y_desc());
  return arguments;
}

template <bool loops>
bool wants(Site& site) {
  for (const Spec& spec : site.values)
    if (spec.type.dtype != DType::f32) return decline(site, "takes f32 only"), false;
  Problem problem = problem_of(site);
  Epilogue epilogue;
  if (!read_epilogue(site, epilogue))
    return decline(site, "fuses add and relu behind the forward convolution only"), false;
  if (problem.x.shape.numel() == 0 || problem.y.shape.numel() == 0)
    return decline(site, "an axis is empty"), false;
  choose_layouts(problem);
  if (epilogue.add && !(problem.y_layout == kBlocked))
    return decline(site,
                   "adds to blocks of 16 channels only: in the plain order oneDNN has no fast loop for it"),
           false;
  const OneThread one;
  const Operands at = operands_of(site);
  try {
    const Described described = describe(problem, problem.any_weight());
    if (described.loops && !loops) return decline(site, "has plain loops only"), false;
    const Layout weight = packed_layout(problem.grouped_weight(), described.weight);
    for (Spec& spec : site.values)
      spec.layout = with_rows(spec.type) == problem.y ? problem.y_layout
                                                      : Layout{};  // the residual and all outputs too
    site.values[static_cast<std::size_t>(at.x)].layout = problem.x_layout;
    site.values[static_cast<std::size_t>(at.y)].layout = problem.y_layout;
    site.values[static_cast<std::size_t>(at.weight)].layout = weight;
  } catch (const dnnl::error& error) {
    return decline(site, error.what()), false;
  }
  return true;
}

/// `count` items cut into `pieces` runs of nearly equal length: where they begin, and the end.
std::vector<std::int64_t> cut(std::int64_t count, std::int64_t pieces) {
  std::vector<std::int64_t> begin;
  for (std::int64_t i = 0; i <= pieces; ++i) begin.push_back(count * i / pieces);
  return begin;
}

/// One piece of the batch or of the output channels: its primitive and offsets, in floats and for the scratch
/// in bytes.
struct Piece {
  Primitive primitive;
  std::size_t x = 0, weight = 0, y = 0, bias = 0, scratch = 0;
};

struct Convolution {
  Direction direction;
  Epilogue epilogue;
  std::vector<Piece> pieces;
  // Of weight gradients: the first piece writes the output, the others partial sums; each join adds up a
  // range.
  std::size_t weight_size = 0, partials = 0;  ///< floats; bytes of scratch before the partial sums
  std::vector<std::int64_t> ranges;

  float* weight_sum(const Args& args, std::size_t piece) const {
    if (piece == 0) return static_cast<float*>(args.out[0]);
    return reinterpret_cast<float*>(static_cast<char*>(args.scratch) + partials) + (piece - 1) * weight_size;
  }

  void join(const Args& args, std::size_t range) const {
    float* sum = weight_sum(args, 0);
    for (std::size_t p = 1; p < pieces.size(); ++p) {
      const float* added = weight_sum(args, p);
      for (std::int64_t i = ranges[range]; i < ranges[range + 1]; ++i) sum[i] += added[i];
    }
  }

  static void run(const void* self, const Args& args, int part) noexcept {
    const auto& all = *static_cast<const Convolution*>(self);
    const auto number = static_cast<std::size_t>(part);
    if (number >= all.pieces.size()) return all.join(args, number - all.pieces.size());
    const Piece& piece = all.pieces[number];
    const auto at = [](void* base, std::size_t offset) -> void* {
      return static_cast<float*>(base) + offset;
    };
    std::array<void*, 6> data{nullptr, nullptr, nullptr, static_cast<char*>(args.scratch) + piece.scratch};
    std::size_t next = 4;
    switch (all.direction) {
      case Direction::forward:
        data[0] = at(args.in[0], piece.x), data[1] = at(args.in[1], piece.weight),
        data[2] = at(args.out[0], piece.y);
        if (all.epilogue.bias) data[next++] = at(args.in[2], piece.bias);
        if (all.epilogue.add)
          data[next++] = at(args.in[static_cast<std::size_t>(all.epilogue.residual)], piece.y);
        break;
      case Direction::input_grad:
        data[0] = at(args.out[0], piece.x), data[1] = args.in[1], data[2] = at(args.in[0], piece.y);
        break;
      case Direction::weight_grad:
        data[0] = at(args.in[1], piece.x), data[1] = all.weight_sum(args, number),
        data[2] = at(args.in[0], piece.y);
        break;
    }
    piece.primitive.run(data.data());
  }
};

Launch prepare(Site& site) {
  const OneThread one;
  const Problem problem = problem_of(site);
  const Layout weight_layout = site.values[static_cast<std::size_t>(operands_of(site).weight)].layout;
  const std::int64_t images = problem.x.shape[0], channels = problem.y.shape[1];
  const bool cut_channels = problem.direction == Direction::forward && images == 1 &&
                            problem.window.groups == 1 && problem.y_layout == kBlocked &&
                            channels % (16 * site.chunks) == 0;
  const auto begin = cut(images, std::min<std::int64_t>(images, site.chunks));
  const std::int64_t slices = cut_channels ? site.chunks : 1, slice = channels / slices;
  const auto floats = [](const Type& type, const Layout& layout) {
    return bytes(type, layout) / sizeof(float);
  };
  const std::size_t x_image = floats(problem.x, problem.x_layout) / static_cast<std::size_t>(images),
                    y_image = floats(problem.y, problem.y_layout) / static_cast<std::size_t>(images),
                    weight_size = floats(problem.weight, weight_layout);
  auto all = std::make_shared<Convolution>();
  all->direction = problem.direction;
  all->epilogue = problem.epilogue;
  all->weight_size = weight_size;
  try {
    for (std::size_t i = 0; i + 1 < begin.size(); ++i)
      for (std::int64_t c = 0; c < slices; ++c) {
        const Problem part = problem.piece(begin[i + 1] - begin[i], slice);
        memory::desc weight = descriptor(problem.grouped_weight(), weight_layout);
        if (slices > 1) {
          const Shape& whole = part.weight.shape;
          weight = weight.submemory_desc(memory::dims(whole.begin(), whole.end()),
                                         memory::dims(static_cast<std::size_t>(whole.rank())));
        }
        const Described described = describe(part, weight);
        const auto image = static_cast<std::size_t>(begin[i]), channel = static_cast<std::size_t>(c);
        all->pieces.push_back({Primitive(described.primitive, arguments_of(part, described)), image * x_image,
                               channel * (weight_size / static_cast<std::size_t>(slices)),
                               image * y_image + channel * (y_image / static_cast<std::size_t>(slices)),
                               channel * static_cast<std::size_t>(slice), site.scratch});
        site.scratch += (described.scratchpad.get_size() + 63) / 64 * 64;
      }
  } catch (const dnnl::error& error) {
    return decline(site, error.what());
  }
  const int parts = static_cast<int>(all->pieces.size());
  int joins = 0;
  if (problem.direction == Direction::weight_grad && parts > 1) {
    joins = site.chunks;
    all->partials = site.scratch;
    all->ranges = cut(static_cast<std::int64_t>(weight_size), joins);
    site.scratch += static_cast<std::size_t>(parts - 1) * weight_size * sizeof(float);
  }
  return {Convolution::run, all, parts, joins};
}

}  // namespace

}  // namespace neurim::cpu

namespace neurim {

void cpu_onednn_conv() {
  for (const char* op : {"conv1d", "conv1d_input_grad", "conv1d_weight_grad", "conv2d", "conv2d_input_grad",
                         "conv2d_weight_grad", "conv3d", "conv3d_input_grad", "conv3d_weight_grad"}) {
    add({.op = op,
         .name = "onednn",
         .rank = 10,
         .prepare = cpu::prepare,
         .wants = cpu::wants<false>,
         .fuses = !ends_with(op, "_grad")});
    add({.op = op, .name = "onednn_loops", .rank = 1, .prepare = cpu::prepare, .wants = cpu::wants<true>});
  }
}

}  // namespace neurim
